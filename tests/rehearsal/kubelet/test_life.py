"""A whole life with nothing simulated above the machines: rented, trained for real, given back."""

from __future__ import annotations

import time
from pathlib import Path

from rehearsal.kubelet.living import Living, living
from rehearsal.kubelet.world import World
from rehearsal.ops.life import IMAGE

RUN_SECONDS, GONE_SECONDS = 1500, 120
POLL_SECONDS = 1.0


def until_gone(life: Living, kind: str) -> None:
    end = time.monotonic() + GONE_SECONDS
    while life.objects(kind):
        assert time.monotonic() < end, life.told()
        time.sleep(POLL_SECONDS)


def test_the_default_project_lives(world: World, tmp_path: Path) -> None:
    with living(world, tmp_path, hardware_virtual_devices=4) as life:
        (pool,) = life.ops.json("provision")["pools"]
        assert pool in life.cluster.pools
        assert life.ops.json("submit", "--image", IMAGE)["new"]
        assert life.watch(RUN_SECONDS)["status"] == "SUCCEEDED"
        assert "step 12/12" in life.ops.run("logs")
        removed = life.ops.json("teardown")["removed"]
        assert any(pool in name for name in removed)
        for kind in ("rayjobs", "rayclusters", "pods"):
            until_gone(life, kind)
        assert life.cloud.ours() == []
        assert life.objects("nodes") == ["gke-default-pool-0"]
