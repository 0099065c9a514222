"""The made workflows on the real runner of `act`, from event to end, in a simulated cloud."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from rehearsal.ops.acting import Push
from rehearsal.ops.life import KINDS, ZONES, Life
from rehearsal.ops.pushed import (
    ASKS,
    REFUSES,
    SLOW,
    assert_kept,
    evidence,
    simulated_with_bucket,
)
from rehearsal.ops.simulation import Fault
from rehearsal.ops.test_crash import assert_nothing_left
from rehearsal.ops.test_push import GH, stand_in, trained
from rehearsal.ops.test_sweep import plant

CHAIN = ("build", "provision", "submit", "watch", "report", "teardown")
RUN = "tpu-training-1"


@pytest.fixture
def life() -> Iterator[Life]:
    with simulated_with_bucket() as life:
        yield life


def test_a_push_trains_and_gives_back(life: Life, tmp_path: Path) -> None:
    checkpoint = trained(str(life.folder), RUN)
    push = Push(life, tmp_path)
    assert push.end() == 0, push.text()
    order = [push.text().index(f"Run Main ops {verb}") for verb in CHAIN]
    assert order == sorted(order)
    for words in (f"## Run {RUN}: succeeded", "xychart-beta", "goes on from its", "$"):
        assert words in push.text(), push.text()
    assert push.judged.read_text().split()[:2] == ["true", "--summary"], "asked before it rents"
    assert_kept(checkpoint)
    assert_nothing_left(life)


def test_a_step_that_is_refused_rents_nothing(life: Life, tmp_path: Path) -> None:
    push = Push(life, tmp_path, judge=REFUSES)
    assert push.end() != 0
    assert "Job 'preflight' failed" in push.text(), push.text()
    for verb in ("provision", "submit", "watch", "report"):
        assert f"Main ops {verb}" not in push.text(), push.text()
    assert "Main ops teardown --if-ended" in push.text(), push.text()
    assert life.cloud.bill() == {}
    assert_nothing_left(life)


def test_a_push_may_rent_without_a_verdict(life: Life, tmp_path: Path) -> None:
    life.overrides.append("preflight.before_renting=false")
    push = Push(life, tmp_path, judge=ASKS)
    assert push.end() == 0, push.text()
    assert "not compiled before it rents" in push.text(), push.text()
    assert f"## Run {RUN}: succeeded" in push.text(), push.text()
    assert_nothing_left(life)


def test_a_job_that_fails_is_told_and_cleared_up(life: Life, tmp_path: Path) -> None:
    checkpoint = trained(str(life.folder), RUN)
    life.cloud.jobs.behave("", seconds=20, ends="FAILED", message="no", log="Traceback\nboom")
    push = Push(life, tmp_path)
    assert push.end() != 0, push.text()
    assert "boom" in push.text() and "exit status 6" in push.text(), push.text()
    assert f"## Run {RUN}: failed" in push.text(), push.text()
    assert evidence(life)
    assert_kept(checkpoint)
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


def test_a_watch_goes_on_after_its_connection_was_away(life: Life, tmp_path: Path) -> None:
    life.cloud.jobs.behave("", seconds=2000)
    away = Fault("timeout-before", method="GET rayjobs", nth=5, times=5)
    life.cloud.faults.add(away)
    push = Push(life, tmp_path)
    assert push.end() == 0, push.text()
    assert away.times == 0 and f"## Run {RUN}: succeeded" in push.text(), push.text()
    assert_nothing_left(life)


def test_a_watch_that_loses_its_connection_for_good_is_taken_up_by_the_next(
    life: Life, tmp_path: Path
) -> None:
    life.cloud.jobs.behave("", seconds=100_000)
    checkpoint = trained(str(life.folder), RUN)
    push = Push(life, tmp_path / "push")
    push.reach("watch")
    away = Fault("unavailable", at=1, times=10**9)
    life.cloud.faults.add(away)
    assert push.end() != 0, push.text()
    assert life.cloud.ours(), "nobody could be asked whether it has ended"
    away.times = 0
    life.cloud.jobs.finish()
    life.cloud.clock.sleep(1000)
    late = Push(life, tmp_path / "watch", event="schedule", workflow="watch")
    assert late.end() == 0, late.text()
    assert f"## Run {RUN}: succeeded" in late.text(), late.text()
    assert_kept(checkpoint)
    assert_nothing_left(life)


@pytest.mark.parametrize("job", CHAIN)
def test_a_cancel_ends_the_run(life: Life, tmp_path: Path, job: str) -> None:
    life.cloud.jobs.behave("", seconds=20 if job in ("report", "teardown") else 100_000)
    push = Push(life, tmp_path, **({"docker": SLOW} if job == "build" else {}))
    push.reach(job)
    if job == "provision":
        push.wait_for_chips()
    push.cancel()
    # A teardown is not cancelled: its steps run whatever happened.
    assert push.end() != 0 or job == "teardown", push.text()
    assert "ops teardown" in push.text(), push.text()
    assert_nothing_left(life)


@pytest.mark.parametrize("job", CHAIN)
def test_what_a_lost_runner_leaves_the_night_removes(life: Life, tmp_path: Path, job: str) -> None:
    checkpoint = trained(str(life.folder), RUN)
    log = stand_in(tmp_path, "gh", GH)
    life.cloud.jobs.behave("", seconds=20 if job in ("report", "teardown") else 100_000)
    push = Push(life, tmp_path / "push", **({"docker": SLOW} if job == "build" else {}))
    push.reach(job)
    if job == "provision":
        push.wait_for_chips()
    push.kill()
    assert push.end() != 0
    life.cloud.clock.sleep(24 * 3600)  # past every deadline of the run
    left = life.cloud.ours()
    night = Push(life, tmp_path / "night", event="schedule", workflow="cleanup")
    assert night.end() == 0, night.text()
    assert ('"issue"' in log.read_text()) == bool(left), "an issue tells what was found"
    assert_kept(checkpoint)
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


def test_the_watch_leaves_a_living_run_alone(life: Life, tmp_path: Path) -> None:
    life.cloud.jobs.behave("", seconds=100_000)
    life.provision()
    life.submit()
    push = Push(life, tmp_path, event="schedule", workflow="watch")
    assert push.end() == 0, push.text()
    for words in ("goes on by itself", "still running", "still alive"):
        assert words in push.text(), push.text()
    life.teardown()
    assert_nothing_left(life)
