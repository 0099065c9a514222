"""The command `ops` as a person and a workflow call it: processes, exit codes, JSON, a login."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from rehearsal.ops.life import IMAGE, PACKAGE, Life, simulated
from rehearsal.ops.test_crash import assert_nothing_left
from rehearsal.ops.test_sweep import plant

RATE = 120.0
# Longer than a slow machine takes between two commands: the test ends the job itself.
JOB_SECONDS = 10**7
LONG = ("cloud.deadline_hours=200", "cloud.budget_usd=10000")
PATIENCE_SECONDS = 300


def login(folder: Path, url: str) -> str:
    """A login by Workload Identity Federation, as in CI; the simulation gives out its tokens."""
    (folder / "subject").write_text("a token of the CI system")
    account = {
        "type": "external_account",
        "audience": "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p",
        "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
        "token_url": f"{url}/token",
        "credential_source": {"file": str(folder / "subject")},
    }
    path = folder / "account.json"
    path.write_text(json.dumps(account))
    return str(path)


def heed_interrupts() -> None:
    """What a shell runs in the background ignores them, and so would all that it starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Shell:
    """`ops VERB ...` in a project's folder, logged in to the simulated cloud."""

    def __init__(self, life: Life, folder: Path) -> None:
        self._sets = [word for text in life.overrides for word in ("--set", text)]
        self._environment = {
            **os.environ,
            "GOOGLE_APPLICATION_CREDENTIALS": login(folder, life.cloud.url),
        }

    def begin(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", f"{PACKAGE}.ops.cli", words[0], *self._sets, *words[1:]],
            cwd=os.environ["PROJECT"],
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=heed_interrupts,
        )

    def run(self, *words: str, code: int = 0) -> str:
        process = self.begin(*words)
        out, err = process.communicate(timeout=PATIENCE_SECONDS)
        assert process.returncode == code, err
        assert "Traceback" not in err
        return out + err if code else out

    def json(self, *words: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.run(*words, "--json"))
        return found


@pytest.fixture
def life(tmp_path: Path) -> Any:
    with simulated(tmp_path, *LONG) as life:
        life.cloud.jobs.behave("", seconds=JOB_SECONDS)
        life.cloud.run(RATE)
        yield life


def test_a_whole_life(life: Life, tmp_path: Path) -> None:
    ops = Shell(life, tmp_path)
    assert ops.json("plan")["chips"] == 4
    assert ops.json("status")["runs"] == []
    (pool,) = ops.json("provision")["pools"]
    assert ops.json("provision")["pools"] == [pool], "a second call changes nothing"
    assert ops.json("submit", "--image", IMAGE)["new"]
    assert not ops.json("submit", "--image", IMAGE)["new"]
    (row,) = ops.json("status")["runs"]
    assert row["chips"] == 4 and row["usd"] > 0
    assert ops.json("teardown", "--if-ended")["alive"]
    life.cloud.jobs.finish()
    assert ops.json("watch")["status"] == "SUCCEEDED"
    assert "step 2" in ops.run("logs")
    assert len(ops.json("teardown", "--dry-run")["would_remove"]) >= 2
    assert any(pool in name for name in ops.json("teardown")["removed"])
    assert ops.json("teardown")["removed"] == [], "a second call finds nothing"
    (entry,) = ops.json("cost")["entries"]
    assert entry["chips"] == 4 and entry["usd"] > 0
    assert_nothing_left(life)


def test_a_dry_run_asks_nobody(life: Life, tmp_path: Path) -> None:
    ops = Shell(life, tmp_path)
    assert "at most $" in ops.run("provision", "--dry-run")
    manifest = json.loads(ops.run("submit", "--dry-run", "--image", IMAGE))
    assert manifest["kind"] == "RayJob"
    assert life.cloud.calls == []


def provisioning(life: Life, ops: Shell) -> subprocess.Popen[str]:
    """`ops provision`, once it has asked for a node pool."""
    process = ops.begin("provision")
    deadline = time.monotonic() + PATIENCE_SECONDS
    while "CreateNodePool" not in [call.method for call in life.cloud.calls]:
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.01)
    return process


def test_sigkill_while_provisioning_and_the_same_command_again(life: Life, tmp_path: Path) -> None:
    ops = Shell(life, tmp_path)
    process = provisioning(life, ops)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert len(ops.json("provision")["pools"]) == 1
    ops.run("teardown")
    assert_nothing_left(life)


def test_an_interrupted_command_says_how_to_go_on(life: Life, tmp_path: Path) -> None:
    ops = Shell(life, tmp_path)
    process = provisioning(life, ops)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 130
    assert "ops teardown" in err and "Traceback" not in err


def test_a_person_s_mistakes_are_told_in_words(life: Life, tmp_path: Path) -> None:
    ops = Shell(life, tmp_path)
    assert "ops provision" in ops.run("submit", "--image", IMAGE, code=2)
    assert "digest" in ops.run("submit", "--image", "train:latest", code=2)
    assert "ops submit" in ops.run("watch", code=3)
    assert "no zone of us-central1" in ops.run("plan", "--set", 'cloud.zones=["x-1"]', code=2)
    assert "check the names in [cloud]" in ops.run("provision", "--set", "cloud.cluster=no", code=3)
    assert life.cloud.ours() == []


def test_the_sweep_asks_before_it_takes(life: Life, tmp_path: Path) -> None:
    ops = Shell(life, tmp_path)
    plant(life, "forgotten", **{"created-at": "1000", "expires-at": "2000"})
    seen = ops.json("sweep")
    assert [item["fate"] for item in seen["looked_at"]] == ["remove"]
    assert life.cloud.ours()
    assert len(ops.json("sweep", "--yes")["removed"]) == 1
    assert_nothing_left(life)


def test_no_login_is_told(life: Life, tmp_path: Path) -> None:
    ops = Shell(life, tmp_path)
    ops._environment["GOOGLE_APPLICATION_CREDENTIALS"] = str(tmp_path / "nothing.json")
    told = ops.run("status", code=4)
    assert "GOOGLE_APPLICATION_CREDENTIALS = " in told and "nothing.json" in told
    for words in (("teardown",), ("teardown", "--if-ended"), ("teardown", "--dry-run"), ("cost",)):
        assert "no login" in ops.run(*words, code=4), words


@pytest.mark.parametrize("text", ["", "no JSON", "[]", '"s"', '{"type": "impersonated"}', "{}"])
def test_a_broken_login_file_is_told(life: Life, tmp_path: Path, text: str) -> None:
    ops = Shell(life, tmp_path)
    Path(ops._environment["GOOGLE_APPLICATION_CREDENTIALS"]).write_text(text)
    assert "let the variable name a right file" in ops.run("status", code=4)
