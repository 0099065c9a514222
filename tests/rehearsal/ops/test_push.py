"""The verbs that workflows call around a run, as processes: build, report, `--all`, summaries."""

from __future__ import annotations

import json
import os
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import fsspec
import pytest

from rehearsal.ops.life import IMAGE, Life, part, simulated
from rehearsal.ops.test_command import JOB_SECONDS, LONG, RATE, Shell
from rehearsal.ops.test_crash import assert_nothing_left
from rehearsal.ops.test_sweep import plant

RUN = "tpu-training"
DIGEST = f"sha256:{'a' * 64}"
DOCKER = """#!{python}
import json, sys
from pathlib import Path
words = sys.argv[1:]
token = sys.stdin.read() if words[0] == "login" else ""
with Path({log!r}).open("a") as file:
    file.write(json.dumps([words, token]) + "\\n")
if words[:2] == ["buildx", "inspect"]:
    sys.exit(1)
if "--metadata-file" in words:
    digest = {{"containerimage.digest": {digest!r}}}
    Path(words[words.index("--metadata-file") + 1]).write_text(json.dumps(digest))
"""
GH = """#!{python}
import json, sys
from pathlib import Path
log = Path({log!r})
told = log.read_text().splitlines() if log.exists() else []
log.write_text("\\n".join([*told, json.dumps(sys.argv[1:])]))
if sys.argv[2] == "list":
    known = [{{"number": 7, "title": "The nightly clean-up found something"}}]
    print(json.dumps(known if any("create" in line for line in told) else []))
"""


@pytest.fixture
def life(tmp_path: Path) -> Any:
    with simulated(tmp_path, *LONG) as life:
        life.cloud.jobs.behave("", seconds=JOB_SECONDS)
        life.cloud.run(RATE)
        yield life


def trained(storage: str, run: str = RUN, steps: int = 50) -> str:
    """What a training leaves in the bucket: the path of its newest checkpoint."""
    files, place = fsspec.core.url_to_fs(f"{storage}/{run}")
    checkpoint = f"{place}/checkpoints/step-00000050-0a0b0c0d"
    progress = {"began": 1.0, "productive_seconds": 5.0}
    content = {"content": {"step": 50, "progress": progress}, "sha256": ""}
    rows = [
        {"step": n, "loss": 5 - n / 50, "tokens_per_second": 1000.0 + n, "mfu": 0.4}
        for n in range(steps)
    ]
    lines = "".join(f"{json.dumps(row)}\n" for row in rows)
    files.makedirs(checkpoint, exist_ok=True)
    files.pipe_file(f"{checkpoint}/checkpoint.json", json.dumps(content).encode())
    files.pipe_file(f"{place}/metrics.jsonl", (lines + '{"step": 5').encode())
    return checkpoint


def stand_in(folder: Path, name: str, text: str) -> Path:
    """A program of this name on the PATH of the processes; its calls are kept in a file."""
    log, place = folder / f"{name}.log", folder / "bin"
    place.mkdir(exist_ok=True)
    (place / name).write_text(text.format(python=sys.executable, log=str(log), digest=DIGEST))
    (place / name).chmod(0o755)
    os.environ["PATH"] = f"{place}:{os.environ['PATH']}"
    return log


def test_a_report_tells_what_a_run_did_and_cost(life: Life, tmp_path: Path) -> None:
    ops, summary = Shell(life, tmp_path), tmp_path / "summary.md"
    assert "none yet" in ops.run("report", "--summary", str(summary)), "before anything is there"
    ops.run("provision")
    ops.run("submit", "--image", IMAGE)
    trained(str(tmp_path))
    assert ops.json("report")["runs"][0]["state"] == "still running"
    life.cloud.jobs.finish()
    life.watch()
    (found,) = ops.json("report", "--summary", str(summary))["runs"]
    assert (found["state"], found["step"], found["chips"]) == ("succeeded", 50, 4)
    assert found["tokens_per_second"] == pytest.approx(1025)
    assert found["usd"] > 0 and found["seconds"] > 0
    assert found["checkpoint"].endswith("step-00000050-0a0b0c0d")
    assert (tmp_path / RUN / "report" / "loss.svg").read_text().startswith("<?xml")
    text = summary.read_text()
    for words in (f"## Run {RUN}: succeeded", "xychart-beta", "MFU | 40.0%", "goes on from its"):
        assert words in text, text
    ops.run("teardown")
    assert ops.json("report")["runs"][0]["usd"] >= found["usd"], "from the ledger"
    assert_nothing_left(life)


def test_a_run_that_outlives_its_workflow_is_handed_over(life: Life, tmp_path: Path) -> None:
    ops = Shell(life, tmp_path)
    assert ops.json("watch", "--all")["runs"] == []
    life.provision()
    life.submit()
    assert "goes on by itself" in ops.run("watch", "--timeout", "0", code=7)
    assert ops.json("watch", "--timeout", "0", "--hand-over")["alive"]
    assert ops.json("watch", "--all", "--timeout", "0", "--hand-over")["runs"][0]["alive"]
    assert "--if-ended" in ops.run("teardown", "--all", code=2)
    life.teardown()
    assert_nothing_left(life)


def everyone(life: Life, work: Any) -> list[str]:
    """What `--all` gives to `work`, by this process: it has the simulated clock."""
    names: list[str] = []

    def noted(desk: Any) -> Any:
        names.append(desk.run)
        return work(desk)

    part("ops.runs").each(life.desk(), True, noted)
    return names


def test_an_ended_run_is_left_to_its_own_workflow_for_a_while(tmp_path: Path) -> None:
    with simulated(tmp_path) as life:
        life.provision()
        life.submit()
        assert everyone(life, print) == [RUN]
        life.watch()
        assert everyone(life, print) == [], "its own workflow reports and tears down"
        life.cloud.clock.sleep(1000)
        tear = part("ops.teardown").teardown
        assert everyone(life, lambda desk: tear(desk, life.prices)) == [RUN]
        assert_nothing_left(life)


def test_one_run_s_fault_hinders_no_other(tmp_path: Path) -> None:
    with simulated(tmp_path) as life:
        for name in ("first", "second"):
            life.overrides.append(f"run.name={name}")
            life.provision()
            life.submit()
        seen: list[str] = []

        def work(desk: Any) -> None:
            seen.append(desk.run)
            raise part("errors").Failure("no", desk.run, "none")

        with pytest.raises(part("errors").Failure, match="first"):
            everyone(life, work)
        assert seen == ["first", "second"]


def test_an_image_is_named_by_the_digest_that_docker_tells(life: Life, tmp_path: Path) -> None:
    log, output = stand_in(tmp_path, "docker", DOCKER), tmp_path / "output"
    ops, project = Shell(life, tmp_path), tmp_path / "project"
    project.mkdir()
    settings = Path(os.environ["PROJECT"]) / "run.toml"
    (project / "run.toml").write_text(settings.read_text())
    words = ("build", "--config", str(project / "run.toml"))
    assert "no Dockerfile" in ops.run(*words, code=3)
    (project / "Dockerfile").write_text("FROM scratch\n")
    image = ops.json(*words, "--output", str(output))["image"]
    assert image == f"us-central1-docker.pkg.dev/my-gcp-project/{RUN}/train@{DIGEST}"
    assert output.read_text() == f"IMAGE={image}\n"
    calls = [json.loads(line) for line in log.read_text().splitlines()]
    assert [words[:2] for words, _ in calls[1:]] == [
        ["buildx", "inspect"],
        ["buildx", "create"],
        ["buildx", "build"],
    ]
    build = calls[-1][0]
    tags = {tag for word, tag in pairwise(build) if word == "--tag"}
    # k8s/ names `latest`, which nobody else pushes.
    assert tags == {f"{image.partition('@')[0]}:{tag}" for tag in (RUN, "latest")}
    assert calls[0][1] and calls[0][1] not in json.dumps(calls[0][0]), "a token is no argument"


def test_what_a_sweep_found_is_told_in_one_issue(life: Life, tmp_path: Path) -> None:
    log, summary = stand_in(tmp_path, "gh", GH), tmp_path / "summary.md"
    ops = Shell(life, tmp_path)
    ops.run("sweep", "--yes", "--issue", "--summary", str(summary))
    assert "Nothing of this project" in summary.read_text() and not log.exists()
    for name in ("first", "second"):
        plant(life, name, **{"created-at": "1000", "expires-at": "2000"})
        ops.run("sweep", "--yes", "--issue", "--summary", str(summary))
    calls = [json.loads(line)[:2] for line in log.read_text().splitlines()]
    assert calls == [
        ["issue", "list"],
        ["issue", "create"],
        ["issue", "list"],
        ["issue", "comment"],
    ]
    assert "expired" in summary.read_text() and "$" in summary.read_text()
    assert_nothing_left(life)
