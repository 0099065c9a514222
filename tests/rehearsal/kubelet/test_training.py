"""What happens to a run that trains: pods are lost, machines are taken, its time is over."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from rehearsal.kubelet.images import EXTRA, WORK, Image
from rehearsal.kubelet.living import RUN, SMALL, Living, built, living
from rehearsal.kubelet.world import World
from rehearsal.ops.life import IMAGE
from rehearsal.running import losses, train

CPU = {"hardware_accelerator": "cpu"}
SHORT_STEPS, LONG_STEPS = int(str(SMALL["train.steps"])), 120
LONG = {**CPU, "train_steps": LONG_STEPS, "checkpoint_every": 10, "checkpoint_keep": 99}
"""Long enough to be disturbed, and to show that it went on."""
RUN_SECONDS = 900
Undisturbed = Callable[[int], Sequence[float]]
SLICES = {"one of four hosts": ("v5e", "4x4", 1), "two of two hosts": ("v5p", "2x2x2", 2)}


def begin(life: Living) -> None:
    life.ops.run("provision")
    life.ops.run("submit", "--image", IMAGE)


def trained(life: Living, step: int) -> None:
    """Until a checkpoint of this step or a later one is complete."""
    life.until(lambda: bool(life.checkpoints()) and life.checkpoints()[-1] >= step)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    """The losses of so many steps in one process on this machine, with nothing in between."""

    @cache
    def losses_of(steps: int) -> Sequence[float]:
        folder = tmp_path_factory.mktemp("alone")
        own = {"train.steps": steps, "checkpoint.every": steps, "hardware.accelerator": "cpu"}
        text = {"data.input": Path(os.environ["PROJECT"]).resolve() / "README.md"}
        places = {"run.storage": folder / "runs", "data.shards": folder / "data"}
        values = {**SMALL, **own, **text, **places, "hardware.placement": "any"}
        words = [word for key, value in values.items() for word in ("--set", f"{key}={value}")]
        # As Ray has it in the pods: more threads add up in another order.
        train(folder / "log", "--local", "--in-process", *words, OMP_NUM_THREADS="1")
        return losses(folder / "runs")

    return losses_of


@pytest.mark.parametrize("shape", SLICES.values(), ids=SLICES)
def test_hosts_train_as_one_process_does(
    world: World, tmp_path: Path, undisturbed: Undisturbed, shape: tuple[str, str, int]
) -> None:
    generation, topology, slices = shape
    hardware = {"hardware_generation": generation, "hardware_topology": topology}
    with living(world, tmp_path, **CPU, **hardware, hardware_slices=slices) as life:
        begin(life)
        life.until(lambda: len(life.pods("worker")) == 4)
        assert len({pod.node for pod in life.pods("worker")}) == 4
        assert life.watch(RUN_SECONDS)["status"] == "SUCCEEDED"
        found = life.losses()
        life.give_back()
    assert found == pytest.approx(undisturbed(SHORT_STEPS), rel=2e-3)


def test_a_run_goes_on_through_what_happens_around_it(
    world: World, tmp_path: Path, undisturbed: Undisturbed
) -> None:
    """A worker is killed, the operator begins anew, the token of the watch expires."""
    with living(world, tmp_path, **LONG) as life:
        begin(life)
        trained(life, 10)
        (worker,) = life.pods("worker")
        life.lose(worker)
        life.until(lambda: life.pods("worker") not in ([], [worker]))
        trained(life, 40)
        world.plane.stop("operator")
        life.cloud.expire_token()
        process = life.ops.begin("watch", "--json", "--timeout", str(RUN_SECONDS / 60))
        trained(life, 60)
        life.cloud.expire_token()
        world.plane.start("operator")
        _, told = process.communicate(timeout=RUN_SECONDS)
        assert process.returncode == 0, told + life.told()
        assert "Traceback" not in told
        found = life.losses()
        life.give_back()
    assert found == undisturbed(LONG_STEPS)


Disturb = Callable[[Living], None]


def succeeded(
    world: World, folder: Path, disturb: Disturb, **settings: object
) -> tuple[Sequence[float], bool]:
    """The losses of a run that is disturbed after its twentieth step and succeeds, and whether its
    Ray cluster is still the first one."""
    with living(world, folder, **{**LONG, **settings}) as life:
        begin(life)
        trained(life, 20)
        clusters = life.objects("rayclusters")
        disturb(life)
        assert life.watch(RUN_SECONDS)["status"] == "SUCCEEDED", life.told()
        same, found = life.objects("rayclusters") == clusters, life.losses()
        life.give_back()
    return found, same


@pytest.mark.parametrize("notice", [10.0, 0.0], ids=["with notice", "without"])
def test_a_spot_slice_is_taken_and_the_run_goes_on(
    world: World, tmp_path: Path, undisturbed: Undisturbed, notice: float
) -> None:
    def take(life: Living) -> None:
        (pool,) = life.cluster.pools
        life.cloud.take(life.cluster, pool, notice)
        kept = life.checkpoints()
        assert kept[-1] < LONG_STEPS, "it was over before its machine was"
        assert bool([step for step in kept if step % 10]) == bool(notice)

    found, same = succeeded(world, tmp_path, take, cloud_capacity='["spot"]')
    assert same and found == undisturbed(LONG_STEPS)


def test_a_lost_head_is_replaced_within_the_job(
    world: World, tmp_path: Path, undisturbed: Undisturbed
) -> None:
    found, same = succeeded(world, tmp_path, lambda life: life.lose(*life.pods("head")))
    assert same and found == undisturbed(LONG_STEPS)


def test_a_job_that_failed_is_begun_again_on_a_new_cluster(
    world: World, tmp_path: Path, undisturbed: Undisturbed
) -> None:
    def kill_driver(life: Living) -> None:
        """Its command is the job's entrypoint."""
        subprocess.run(["pkill", "-KILL", "--full", "bin/train --set run.name="], check=True)

    found, same = succeeded(world, tmp_path, kill_driver, cloud_retries=1)
    assert not same and found == undisturbed(LONG_STEPS)


def test_a_job_that_fails_keeps_what_it_left(world: World, tmp_path: Path) -> None:
    with living(world, tmp_path, **CPU, data_input="/nowhere/*.txt") as life:
        begin(life)
        told = life.ops.run("watch", "--timeout", "10", code=6)
        assert "/nowhere/*.txt" in told
        life.ops.run("teardown")
        kept = {Path(name).name for name in life.bucket.names(f"{RUN}/failures/")}
        assert {"events.json", "pods.json", "rayjob.json"} < kept
        assert any("head" in name and name.endswith(".log") for name in kept), kept
        life.give_back()


def without_train(life: Living, folder: Path) -> Image:
    """An image in which the project is not installed; Ray is."""
    place = folder / "bin"
    place.mkdir(parents=True)
    for name in ("ray", "python"):
        (place / name).write_text(f'#!/bin/sh\nexec {sys.prefix}/bin/{name} "$@"\n')
        (place / name).chmod(0o755)
    image = built(folder, life.bucket)
    path = f"{WORK}/bin:/usr/local/bin:/usr/bin:/bin:{EXTRA}"
    return replace(image, variables={**image.variables, "PATH": path})


def test_an_entrypoint_that_is_not_in_the_image_is_named(world: World, tmp_path: Path) -> None:
    with living(world, tmp_path, **CPU) as life:
        world.kubelet.desk.images[IMAGE] = without_train(life, tmp_path / "image")
        begin(life)
        told = life.ops.run("watch", "--timeout", "10", code=6)
        assert "train: not found" in told, told
        life.give_back()


def test_a_deadline_ends_the_job_and_keeps_a_checkpoint(world: World, tmp_path: Path) -> None:
    with living(world, tmp_path, **LONG) as life:
        begin(life)
        trained(life, 10)
        life.amend(activeDeadlineSeconds=1)
        assert "time is over" in life.ops.run("watch", "--timeout", "5", code=7)
        kept = life.checkpoints()
        assert kept and kept[-1] >= 10
        life.give_back()
