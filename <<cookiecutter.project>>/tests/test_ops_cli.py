"""`ops` as a user calls it, as far as no cloud is needed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from ops_fixtures import IMAGE, RUN_TOML

from << cookiecutter.package >>.settings import load

_RUN = ("plan", "build", "provision", "submit", "watch", "logs", "dashboard", "report", "teardown")
<% if cookiecutter.framework == "torch_xla" %>
_PROJECT = ("preflight", "status", "cost", "sweep", "doctor", "bootstrap")
<% else %>
_PROJECT = ("status", "cost", "sweep", "doctor", "bootstrap")
<% endif %>
VERBS = (*_RUN, *_PROJECT)


def ops(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "<< cookiecutter.package >>.ops.cli", *words]
    environment = {**os.environ, **variables}
    return subprocess.run(
        command, cwd=RUN_TOML.parent, env=environment, capture_output=True, text=True
    )


def test_help_names_every_verb_and_exit_code() -> None:
    done = ops("--help")
    assert done.returncode == 0
    for verb in VERBS:
        assert verb in done.stdout
    assert "8 something of ours is left over" in " ".join(done.stdout.split())


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself(verb: str) -> None:
    done = ops(verb, "--help")
    assert done.returncode == 0
    assert "--config" in done.stdout


def test_a_plan_needs_no_cloud() -> None:
    done = ops("plan", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["chips"] > 0
    assert "a chip and hour" in ops("plan").stdout or "price unknown" in ops("plan").stdout


def test_a_plan_names_the_capacity_that_is_tried() -> None:
    """Autopilot takes one kind in one zone."""
    pairs = 2 * len(load(RUN_TOML).cloud.zones)
    for mode, count in (("standard", pairs), ("autopilot", 1)):
        words = ('cloud.capacity=["spot", "on-demand"]', f"cloud.cluster_mode={mode}")
        done = ops("plan", "--json", *(part for word in words for part in ("--set", word)))
        tried = json.loads(done.stdout)["attempts"]
        assert len(tried) == count and tried[0]["capacity"].startswith("spot"), mode


def test_what_would_be_submitted_is_shown() -> None:
    done = ops("submit", "--dry-run", "--image", IMAGE, "--run", "trial")
    assert json.loads(done.stdout)["metadata"]["name"] == "trial"


def test_what_trained_here_is_told_without_a_login(tmp_path: Path) -> None:
    rows = "".join(f'{{"step": {step}, "loss": {5 - step}.0}}\n' for step in range(3))
    (tmp_path / "runs" / "trial").mkdir(parents=True)
    (tmp_path / "runs" / "trial" / "metrics.jsonl").write_text(rows, "utf-8")
    words = ("--json", "--run", "trial", "--set", f"run.storage={tmp_path / 'runs'}")
    done = ops("report", *words, GOOGLE_APPLICATION_CREDENTIALS=str(tmp_path / "none.json"))
    assert done.returncode == 0, done.stderr
    assert "without the cluster" in done.stderr and "Traceback" not in done.stderr
    (found,) = json.loads(done.stdout)["runs"]
    assert (found["step"], found["points"][-1]) == (3, [3, 3.0])
    assert (tmp_path / "runs" / "trial" / "report" / "loss.svg").exists()


@pytest.mark.parametrize(
    ("words", "code", "fragment"),
    [
        (("plan", "--set", "cloud.budget=1"), 2, "cloud.budget: there is no such key"),
        (("plan", "--run", "My Run"), 2, "run.name"),
        (("plan", "--config", "nothing.toml"), 3, "nothing.toml"),
        (("submit", "--dry-run", "--image", "train:latest"), 2, "digest"),
        (("provision", "--set", "cloud.deadline_hours=0.01", "--dry-run"), 2, "deadline_hours"),
        (("dashboard", "--port", "0"), 2, "--port"),
        (("watch", "--timeout", "nan"), 2, "no time to watch"),
        (("watch", "--timeout", "-1"), 2, "no time to watch"),
        (("watch", "--timeout", "soon"), 2, "--timeout"),
        (("sweeep",), 2, "No such command"),
    ],
)
def test_a_mistake_is_told(words: tuple[str, ...], code: int, fragment: str) -> None:
    done = ops(*words)
    assert done.returncode == code, done.stderr
    assert fragment in done.stderr
    assert "Traceback" not in done.stderr
