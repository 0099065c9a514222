"""The made train.yml on the real runner of `act`, from a push to the end, in a simulated cloud.

The login and Docker are stand-ins; the workflow, `ops` and the protocols are not.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rehearsal.ops.life import KINDS, PACKAGE, ZONES, Life, simulated
from rehearsal.ops.test_command import heed_interrupts, login
from rehearsal.ops.test_crash import assert_nothing_left
from rehearsal.ops.test_push import DOCKER, GH, stand_in
from rehearsal.ops.test_sweep import plant

RATE = 120.0
PATIENCE_SECONDS = 400
ACTION = """name: ops
description: stand-in
inputs:
  provider: {description: none, required: true}
  account: {description: none, required: true}
runs:
  using: composite
  steps:
    - run: "true"
      shell: bash
"""

ACT = Path(sys.executable).with_name("act")
"""Beside Python, where the package installs it: nothing else puts it on PATH."""


class Push:
    """A push to main of a made project, or another event, run by act in a copy of it."""

    def __init__(
        self,
        life: Life,
        folder: Path,
        docker: str = DOCKER,
        event: str = "push",
        workflow: str = "train",
    ) -> None:
        self.project, self.folder = folder / "project", folder
        folder.mkdir(exist_ok=True)
        leave = shutil.ignore_patterns(".nox", ".git", "__pycache__", ".*_cache")
        shutil.copytree(os.environ["PROJECT"], self.project, ignore=leave)
        (self.project / ".github/actions/ops/action.yml").write_text(ACTION)
        (self.project / "Dockerfile").write_text("FROM scratch\n")
        self._settle(life)
        stand_in(folder, "docker", docker)
        stand_in(folder, "ops", f'#!/bin/sh\nexec {sys.executable} -m {PACKAGE}.ops.cli "$@"\n')
        told = {"ref": "refs/heads/main", "repository": {"fork": False}}
        (folder / "event.json").write_text(json.dumps(told))
        self._git("init", "--quiet", "--initial-branch=main")
        self._git("add", "--all")
        self._git("-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "--quiet", "-m", "x")
        self.process = self._begin(life, event, workflow)

    def _settle(self, life: Life) -> None:
        """run.toml as a user would have edited it."""
        file = self.project / "run.toml"
        lines = file.read_text().splitlines()
        for override in life.overrides:
            key, _, value = override.partition("=")
            section, name = key.split(".")
            start = lines.index(f"[{section}]")
            number = next(n for n, line in enumerate(lines) if n > start and line.startswith(name))
            lines[number] = f"{name} = {value if value[0] in '[0123456789' else json.dumps(value)}"
        file.write_text("\n".join(lines) + "\n")

    def _git(self, *words: str) -> None:
        subprocess.run(["git", *words], cwd=self.project, check=True)

    def _begin(self, life: Life, event: str, workflow: str) -> subprocess.Popen[str]:
        kept = ("PATH", "PYTHONPATH", "LANG")
        passed = ("CLOUDSDK_", "GOOGLE_")
        environment = {k: v for k, v in os.environ.items() if k in kept or k.startswith(passed)}
        environment |= {
            "HOME": str(self.folder),
            "GOOGLE_APPLICATION_CREDENTIALS": login(self.folder, life.cloud.url),
        }
        options = ("--no-cache-server", "--rm", "--action-cache-path", str(self.folder / "cache"))
        variables = ("--var", "WORKLOAD_IDENTITY_PROVIDER=p", "--var", "SERVICE_ACCOUNT=a")
        self.log = self.folder / "act.log"
        return subprocess.Popen(
            [
                *(str(ACT), event, "-W", f".github/workflows/{workflow}.yml"),
                *("-P", "ubuntu-24.04=-self-hosted", "-e", str(self.folder / "event.json")),
                *options,
                *variables,
            ],
            cwd=self.project,
            env=environment,
            stdout=self.log.open("w"),
            stderr=subprocess.STDOUT,
            text=True,
            preexec_fn=heed_interrupts,
        )

    def wait_for(self, words: str) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while words not in self.log.read_text():
            assert self.process.poll() is None and time.monotonic() < deadline, self.text()
            time.sleep(0.1)

    def end(self) -> int:
        return self.process.wait(PATIENCE_SECONDS)

    def text(self) -> str:
        return self.log.read_text()


@pytest.fixture
def life(tmp_path: Path) -> Iterator[Life]:
    with simulated(tmp_path / "bucket") as life:
        life.cloud.run(RATE)
        yield life


def test_a_push_trains_and_gives_back(life: Life, tmp_path: Path) -> None:
    push = Push(life, tmp_path)
    assert push.end() == 0, push.text()
    order = [push.text().index(f"Run Main ops {verb}") for verb in ("build", "provision", "submit")]
    assert order == sorted(order)
    assert "succeeded" in push.text()
    assert_nothing_left(life)


def test_a_job_that_fails_is_told_and_cleared_up(life: Life, tmp_path: Path) -> None:
    life.cloud.jobs.behave("", seconds=20, ends="FAILED", message="no", log="Traceback\nboom")
    push = Push(life, tmp_path)
    assert push.end() != 0, push.text()
    assert "boom" in push.text() and "exit status 6" in push.text(), push.text()
    assert list((tmp_path / "bucket").rglob("failures/*/rayjob.json"))
    assert_nothing_left(life)


def test_an_image_that_cannot_be_built_rents_nothing(life: Life, tmp_path: Path) -> None:
    push = Push(life, tmp_path, docker="#!/bin/sh\necho the Dockerfile is wrong; exit 1\n")
    assert push.end() != 0
    assert "exit status 6" in push.text() and "Main ops provision" not in push.text(), push.text()
    assert life.cloud.bill() == {}
    assert_nothing_left(life)


def test_no_capacity_anywhere_leaves_nothing(life: Life, tmp_path: Path) -> None:
    machine = life.desk().config.hardware.slice.machine_type
    for zone, kind in itertools.product(ZONES, KINDS):
        life.cloud.capacity.set(zone, kind, machine, "stockout")
    push = Push(life, tmp_path)
    assert push.end() != 0
    assert "exit status 5" in push.text() and "Main ops submit" not in push.text(), push.text()
    assert "ops teardown --if-ended" in push.text()
    assert_nothing_left(life)


@pytest.mark.parametrize("job", ["provision", "submit", "watch"])
def test_a_cancel_ends_the_run(life: Life, tmp_path: Path, job: str) -> None:
    life.cloud.jobs.behave("", seconds=100_000)
    push = Push(life, tmp_path)
    push.wait_for(f"Main ops {job}")
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not life.cloud.ours():
        assert time.monotonic() < deadline, push.text()
        time.sleep(0.1)
    push.process.send_signal(signal.SIGINT)
    assert push.end() != 0, push.text()
    assert "ops teardown" in push.text(), push.text()
    assert_nothing_left(life)


def test_the_night_removes_what_is_forgotten_and_by_hand_it_looks(
    life: Life, tmp_path: Path
) -> None:
    log = stand_in(tmp_path, "gh", GH)
    plant(life, "forgotten", **{"created-at": "1000", "expires-at": "2000"})
    push = Push(life, tmp_path / "by-hand", event="workflow_dispatch", workflow="cleanup")
    assert push.end() == 0, push.text()
    assert life.cloud.ours(), push.text()
    push = Push(life, tmp_path / "night", event="schedule", workflow="cleanup")
    assert push.end() == 0, push.text()
    assert json.loads(log.read_text().splitlines()[-1])[:2] == ["issue", "comment"]
    assert_nothing_left(life)


def test_the_watch_leaves_a_living_run_alone(tmp_path: Path) -> None:
    with simulated(tmp_path / "bucket") as life:
        life.cloud.jobs.behave("", seconds=100_000)
        life.provision()
        life.submit()
        life.cloud.run(1.0)  # it looks for a minute: faster, and the run's deadline would pass
        push = Push(life, tmp_path, event="schedule", workflow="watch")
        assert push.end() == 0, push.text()
        for words in ("goes on by itself", "still running", "still alive"):
            assert words in push.text(), push.text()
        life.teardown()
        assert_nothing_left(life)
