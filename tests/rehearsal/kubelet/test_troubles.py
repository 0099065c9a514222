"""What a person is told when a run cannot start, and that nothing of it stays: no Ray is needed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rehearsal.kubelet.living import Living, living
from rehearsal.kubelet.world import World
from rehearsal.ops.life import IMAGE, part

PATIENCE_SECONDS = 300.0
MISSING = IMAGE.replace("0" * 64, "f" * 64)
"""Nobody pushed it."""


@pytest.fixture
def life(world: World, tmp_path: Path) -> Iterator[Living]:
    with living(world, tmp_path) as life:
        yield life


def begin(life: Living, *words: str) -> None:
    life.ops.run("provision", *words)
    life.ops.run("submit", "--image", MISSING, *words)


def watched(life: Living, seconds: int, code: int = 7) -> str:
    return life.ops.run("watch", "--timeout", str(seconds / 60), code=code)


def test_an_image_that_nobody_pushed(life: Living) -> None:
    begin(life)
    life.until(lambda: "ImagePullBackOff" in life.told())
    assert "the image cannot be pulled" in watched(life, 20)
    life.give_back()


def test_a_teardown_in_the_middle_of_the_start(life: Living) -> None:
    begin(life)
    life.until(lambda: bool(life.objects("pods")))
    life.ops.run("teardown")
    life.assert_nothing_left()


def test_the_webhook_is_down_and_comes_back(life: Living) -> None:
    life.ops.run("provision")
    life.world.plane.stop("webhook")
    try:
        life.ops.run("submit", "--image", MISSING)
        assert "failed calling webhook" in watched(life, 30)
        assert life.objects("pods") == []
    finally:
        life.world.plane.start("webhook")
    life.until(lambda: len(life.objects("pods")) == 2)
    life.give_back()


def test_the_operator_is_away_while_a_job_is_made(life: Living) -> None:
    life.world.plane.stop("operator")
    try:
        begin(life)
        assert "still PENDING" in watched(life, 10) or life.objects("rayclusters") == []
    finally:
        life.world.plane.start("operator")
    life.until(lambda: len(life.objects("pods")) == 2)
    life.give_back()


def test_the_api_server_is_away_for_a_while(life: Living) -> None:
    begin(life)
    life.until(lambda: len(life.objects("pods")) == 2)
    process = life.ops.begin("watch", "--timeout", "1.5")
    time.sleep(5)
    life.world.plane.stop("apiserver")
    time.sleep(20)
    life.world.plane.start("apiserver")
    _, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 7 and "goes on by itself" in err, err
    life.give_back()


def test_two_runs_on_one_cluster(life: Living) -> None:
    for name in ("first", "second"):
        begin(life, "--run", name)
    life.until(lambda: len(life.objects("pods")) == 4)
    life.ops.run("teardown", "--run", "first")
    assert life.objects("rayjobs") == ["second"]
    assert {pool.split("-")[0] for pool in life.cluster.pools} == {"second"}
    life.ops.run("teardown", "--run", "second")
    life.give_back()


def test_no_capacity_makes_nothing_in_the_cluster(life: Living) -> None:
    machine = part("slices").find("v5e", "2x2").machine_type
    for kind in ("on-demand", "spot"):
        life.cloud.capacity.set("us-central1-a", kind, machine, "stockout")
    assert "us-central1-a" in life.ops.run("provision", code=5)
    life.give_back()


def test_no_capacity_until_the_time_to_begin_is_over(world: World, tmp_path: Path) -> None:
    with living(world, tmp_path, cloud_capacity='["flex-start"]') as life:
        machine = part("slices").find("v5e", "2x2").machine_type
        life.cloud.capacity.set("us-central1-a", "flex-start", machine, "queue")
        begin(life)
        life.until(lambda: len(life.objects("pods")) == 2)
        life.amend(preRunningDeadlineSeconds=15)
        assert "pods wait for their TPU nodes" in watched(life, 120, code=5)
        life.give_back()
