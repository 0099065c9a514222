"""The chain of a Cloud Build file, step by step as it runs there, with a stand-in for `ops`."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from baking import Oven

OPS = """#!/bin/sh
echo "$1 IMAGE=$IMAGE" >> "$LOG"
if [ "$1" = build ]; then echo "IMAGE=r/n@sha256:0" >> outputs.env; fi
if [ "$1" = "$FAILS" ] && [ "$CODE" = 137 ]; then kill -9 $PPID; fi
if [ "$1" = "$FAILS" ]; then exit "$CODE"; fi
"""


class Builder:
    """Runs steps in order: a failing one ends the build, unless it may fail."""

    def __init__(self, project: Path) -> None:
        self.project, self.log = project, project / "called.log"
        for environment in ("ops", "preflight"):
            program = project / ".nox" / environment / "bin" / "ops"
            program.parent.mkdir(parents=True)
            program.write_text(OPS)
            program.chmod(0o755)

    def run(self, name: str, fails: str = "", code: int = 0) -> tuple[int, list[str]]:
        self.log.write_text("")
        variables = {"LOG": str(self.log), "FAILS": fails, "CODE": str(code)}
        ended = self._steps(name, {"PATH": os.environ["PATH"], **variables})
        return ended, self.log.read_text().splitlines()

    def _steps(self, name: str, variables: dict[str, str]) -> int:
        steps: list[dict[str, Any]] = yaml.safe_load(
            (self.project / f"cloudbuild/{name}.yaml").read_text("utf-8")
        )["steps"]
        for step in steps:
            if step["args"][0] != "cloudbuild/chain.sh":
                continue
            words = [step["entrypoint"], *step["args"]]
            done = subprocess.run(words, cwd=self.project, env=variables, capture_output=True)
            if done.returncode and not step.get("allowFailure"):
                return done.returncode
        return 0


@pytest.fixture
def builder(oven: Oven, tmp_path: Path) -> Builder:
    return Builder(oven.bake(tmp_path))


def verbs(lines: list[str]) -> list[str]:
    return [line.split()[0] for line in lines]


def test_a_push_ends_well_and_hands_the_image_on(builder: Builder) -> None:
    code, lines = builder.run("train")
    assert code == 0
    assert verbs(lines) == [
        *("sweep", "preflight", "build", "provision", "submit", "watch", "report", "teardown"),
    ]
    assert lines[4] == "submit IMAGE=r/n@sha256:0"


@pytest.mark.parametrize(
    ("fails", "code", "left_out"),
    [
        ("preflight", 2, {"build", "provision", "submit", "watch"}),
        ("preflight", 137, {"build", "provision", "submit", "watch"}),  # killed, chain and all
        ("build", 6, {"provision", "submit", "watch"}),
        ("provision", 5, {"submit", "watch"}),
        ("submit", 2, {"watch"}),
        ("watch", 6, set()),
        ("report", 4, set()),
        ("teardown", 8, set()),
    ],
)
def test_a_failure_is_kept_to_the_end(
    builder: Builder, fails: str, code: int, left_out: set[str]
) -> None:
    ended, lines = builder.run("train", fails, code)
    assert ended == code
    everything = {"sweep", "preflight", "build", "provision", "submit", "watch", "report"}
    assert set(verbs(lines)) == (everything | {"teardown"}) - left_out


def test_what_cannot_be_cleared_up_before_stops_no_push(builder: Builder) -> None:
    ended, lines = builder.run("train", "sweep", 8)
    assert ended == 0
    assert "teardown" in verbs(lines)


@pytest.mark.parametrize(("name", "verb"), [("watch", "watch"), ("cleanup", "sweep")])
def test_a_schedule_tells_what_went_wrong(builder: Builder, name: str, verb: str) -> None:
    ended, lines = builder.run(name, verb, 6)
    assert ended == 6
    assert len(lines) == {"watch": 3, "cleanup": 1}[name]
