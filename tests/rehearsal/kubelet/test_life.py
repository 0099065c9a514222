"""A whole life with nothing simulated above the machines: rented, trained for real, given back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rehearsal.kubelet.living import built, living
from rehearsal.kubelet.world import World
from rehearsal.ops.acting import Push
from rehearsal.ops.life import IMAGE
from rehearsal.ops.pushed import ASKS
from rehearsal.ops.test_push import DIGEST

RUN_SECONDS = 1500


def test_the_default_project_lives(world: World, tmp_path: Path) -> None:
    with living(world, tmp_path, hardware_virtual_devices=4) as life:
        (pool,) = life.ops.json("provision")["pools"]
        assert pool in life.cluster.pools
        assert life.ops.json("submit", "--image", IMAGE)["new"]
        assert life.watch(RUN_SECONDS)["status"] == "SUCCEEDED"
        assert "step 12/12" in life.ops.run("logs")
        startup = dict(life.ops.json("report")["runs"][0]["startup"])
        assert {"pods", "job", "workers", "device", "first_step"} <= startup.keys()
        assert sum(startup.values()) < RUN_SECONDS
        removed = life.ops.json("teardown")["removed"]
        assert any(pool in name for name in removed)
        life.assert_nothing_left()


def test_a_push_trains(world: World, tmp_path: Path) -> None:
    """train.yml as GitHub's runner takes it, the TPU's own compiler before the slice; only Docker,
    the login and GitHub's cache are stand-ins."""
    with living(world, tmp_path, hardware_virtual_devices=4) as life:
        me: Any = life
        push = Push(me, tmp_path / "push", judge=ASKS, rate=1.0)
        image = f"{IMAGE.partition('@')[0]}@{DIGEST}"
        world.kubelet.desk.images[image] = built(push.root, life.bucket)
        assert push.end(RUN_SECONDS) == 0, push.text() + life.told()
        for words in (
            "| v5e 2x2 | 4 | yes |",
            "step 12/12",
            "## Run tpu-training-1: succeeded",
            "xychart-beta",
        ):
            assert words in push.text(), push.text()
        assert life.checkpoints("runs/tpu-training-1")[-1] == 12
        life.assert_nothing_left()
