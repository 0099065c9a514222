"""The made Cloud Build files, from the first step to the last, in a simulated cloud."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from rehearsal.ops.building import Build
from rehearsal.ops.life import KINDS, ZONES, Life
from rehearsal.ops.pushed import REFUSES, SLOW, assert_kept, evidence, simulated_with_bucket
from rehearsal.ops.simulation import Fault
from rehearsal.ops.test_crash import assert_nothing_left
from rehearsal.ops.test_push import trained
from rehearsal.ops.test_sweep import plant

CHAIN = [
    *("sweep", "preflight", "build", "provision", "submit", "watch", "report", "teardown"),
    "end",
]
RUN = "tpu-training-0a1b2c3"


@pytest.fixture
def life() -> Iterator[Life]:
    with simulated_with_bucket() as life:
        yield life


def test_a_push_trains_and_gives_back(life: Life, tmp_path: Path) -> None:
    checkpoint = trained(str(life.folder), RUN)
    build = Build(life, tmp_path)
    assert build.end() == 0, build.text()
    assert build.begun == CHAIN
    assert f"{RUN} succeeded" in build.text() and "$" in build.text(), build.text()
    assert_kept(checkpoint)
    assert_nothing_left(life)


def test_a_step_that_is_refused_rents_nothing(life: Life, tmp_path: Path) -> None:
    build = Build(life, tmp_path, judge=REFUSES)
    assert build.end() != 0, build.text()
    assert "the step does not fit" in build.text(), build.text()
    assert build.text().count("left out: a step before failed with 2") == 4, build.text()
    assert build.judged.read_text().split() == ["preflight", "--before-renting"]
    assert life.cloud.bill() == {}
    assert_nothing_left(life)


def test_a_job_that_fails_is_told_and_cleared_up(life: Life, tmp_path: Path) -> None:
    checkpoint = trained(str(life.folder), RUN)
    life.cloud.jobs.behave("", seconds=20, ends="FAILED", message="no", log="Traceback\nboom")
    build = Build(life, tmp_path)
    assert build.end() != 0, build.text()
    assert build.begun == CHAIN, "what failed is told by the last step"
    assert "boom" in build.text() and f"run {RUN}: failed" in build.text(), build.text()
    assert evidence(life)
    assert_kept(checkpoint)
    assert_nothing_left(life)


def test_an_image_that_cannot_be_built_rents_nothing(life: Life, tmp_path: Path) -> None:
    build = Build(life, tmp_path, docker="#!/bin/sh\necho the Dockerfile is wrong; exit 1\n")
    assert build.end() != 0, build.text()
    assert build.text().count("left out: a step before failed with 6") == 3, build.text()
    assert life.cloud.bill() == {}
    assert_nothing_left(life)


def test_no_capacity_anywhere_leaves_nothing(life: Life, tmp_path: Path) -> None:
    machine = life.desk().config.hardware.slice.machine_type
    for zone, kind in itertools.product(ZONES, KINDS):
        life.cloud.capacity.set(zone, kind, machine, "stockout")
    build = Build(life, tmp_path)
    assert build.end() != 0
    assert build.text().count("left out: a step before failed with 5") == 2, build.text()
    assert_nothing_left(life)


def test_a_watch_goes_on_after_its_connection_was_away(life: Life, tmp_path: Path) -> None:
    life.cloud.jobs.behave("", seconds=2000)
    away = Fault("timeout-before", method="GET rayjobs", nth=5, times=5)
    life.cloud.faults.add(away)
    build = Build(life, tmp_path)
    assert build.end() == 0, build.text()
    assert away.times == 0
    assert_nothing_left(life)


def test_what_ended_after_the_watch_was_lost_is_taken_up_by_the_next(
    life: Life, tmp_path: Path
) -> None:
    life.cloud.jobs.behave("", seconds=100_000)
    build = Build(life, tmp_path / "push")
    build.reach("watch")
    away = Fault("unavailable", at=1, times=10**9)
    life.cloud.faults.add(away)
    assert build.end() != 0, build.text()
    assert life.cloud.ours(), "nobody could be asked whether it has ended"
    away.times = 0
    life.cloud.jobs.finish()
    life.cloud.clock.sleep(1000)
    late = Build(life, tmp_path / "watch", "watch")
    assert late.end() == 0, late.text()
    assert f"{RUN} succeeded" in late.text(), late.text()
    assert_nothing_left(life)


@pytest.mark.parametrize("step", CHAIN[2:-1])
def test_what_a_cancelled_or_lost_build_leaves_the_night_removes(
    life: Life, tmp_path: Path, step: str
) -> None:
    checkpoint = trained(str(life.folder), RUN)
    life.cloud.jobs.behave("", seconds=20 if step in ("report", "teardown") else 100_000)
    build = Build(life, tmp_path / "push", **({"docker": SLOW} if step == "build" else {}))
    build.reach(step)
    if step == "provision":
        build.wait_for_chips()
    build.cancel()
    assert build.end() != 0
    life.cloud.clock.sleep(24 * 3600)  # past every deadline of the run
    night = Build(life, tmp_path / "night", "cleanup")
    assert night.end() == 0, night.text()
    assert_kept(checkpoint)
    assert_nothing_left(life)


def test_what_expired_is_removed_before_a_push_trains(life: Life, tmp_path: Path) -> None:
    plant(life, "forgotten", **{"created-at": "1000", "expires-at": "2000"})
    build = Build(life, tmp_path)
    build.reach("build")
    assert not [name for name in life.cloud.ours() if "forgotten" in name]
    assert build.end() == 0, build.text()
    assert_nothing_left(life)
