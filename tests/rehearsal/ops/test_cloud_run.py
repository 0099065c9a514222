"""The real run of the nightly workflow, here in the simulated cloud."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rehearsal.ops.life import KINDS, ZONES, Life
from rehearsal.ops.pushed import Project, simulated_with_bucket
from rehearsal.ops.test_crash import assert_nothing_left
from rehearsal.ops.test_doctor import install, pytestmark

__all__ = ["pytestmark"]  # it begins with `ops doctor`

TOOL = Path(__file__).parents[3] / "tools" / "cloud_run.py"


@pytest.fixture
def life() -> Iterator[Life]:
    with simulated_with_bucket() as life:
        install(life)
        yield life


def run(life: Life, folder: Path) -> subprocess.CompletedProcess[str]:
    project = Project(life, folder)
    words = (sys.executable, str(TOOL), str(project.root), str(folder / "bin" / "ops"))
    return subprocess.run(words, env=project.environment(), capture_output=True, text=True)


def test_it_trains_and_gives_everything_back(life: Life, tmp_path: Path) -> None:
    done = run(life, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "tpu-training succeeded" in done.stdout
    assert_nothing_left(life)


def test_the_first_fault_is_the_exit_code_and_all_is_given_back(life: Life, tmp_path: Path) -> None:
    life.cloud.jobs.behave("", seconds=20, ends="FAILED", message="no")
    done = run(life, tmp_path)
    assert done.returncode == 6, done.stdout + done.stderr
    assert "== ops report" not in done.stdout and "== ops teardown" in done.stdout
    assert_nothing_left(life)


def test_without_capacity_nothing_is_left(life: Life, tmp_path: Path) -> None:
    machine = life.desk().config.hardware.slice.machine_type
    for zone, kind in itertools.product(ZONES, KINDS):
        life.cloud.capacity.set(zone, kind, machine, "stockout")
    assert run(life, tmp_path).returncode == 5
    assert_nothing_left(life)
