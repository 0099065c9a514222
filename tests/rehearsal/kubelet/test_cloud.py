"""Pools of the simulated GKE are nodes of the real cluster: they grow, are taken away, and go."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rehearsal.kubelet import Image
from rehearsal.kubelet.living import clouded
from rehearsal.kubelet.world import World
from rehearsal.ops.life import Life

Object = dict[str, Any]
PATIENCE_SECONDS = 120.0
HOST_NODE = "gke-default-pool-0"
SLICE = {
    "cloud.google.com/gke-tpu-accelerator": "tpu-v5-lite-podslice",
    "cloud.google.com/gke-tpu-topology": "4x4",
}
TRAP = "trap 'echo term; exit 7' TERM; echo up; while true; do sleep 0.1; done"


def until(condition: Callable[[], bool], told: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < end, told()
        time.sleep(0.2)


def names(world: World, kind: str) -> set[str]:
    return {found["metadata"]["name"] for found in world.plane.objects(kind)}


def create(world: World, name: str) -> None:
    """A pod that wants a host of the slice."""
    container = {
        "name": "main",
        "image": "python",
        "command": ["bash", "-c", TRAP],
        "resources": {"limits": {"google.com/tpu": "4"}},
    }
    spec = {
        "restartPolicy": "Never",
        "containers": [container],
        "nodeSelector": SLICE,
        "tolerations": [{"operator": "Exists"}],
    }
    world.kubelet.api.core.create_namespaced_pod(
        "default", {"metadata": {"name": name}, "spec": spec}
    )


def test_a_slice_grows_as_a_whole_is_taken_and_is_removed(world: World, tmp_path: Path) -> None:
    world.kubelet.desk.images["python"] = Image(Path(sys.prefix))
    pods = {f"host-{number}" for number in range(4)}

    def phases() -> dict[str, str]:
        found = world.plane.objects("pods")
        return {pod["metadata"]["name"]: pod["status"]["phase"] for pod in found}

    def told() -> object:
        return world.plane.kubectl("describe", "pods,nodes").stdout

    with clouded(world) as (cloud, cluster):
        kinds = ('cloud.capacity=["flex-start"]', 'cloud.zones=["us-central1-a"]')
        life = Life(cloud, tmp_path, *kinds, "hardware.topology=4x4")
        life.provision()
        (pool,) = cluster.pools
        until(lambda: names(world, "nodes") == {HOST_NODE}, told)
        for name in pods:
            create(world, name)
        until(lambda: phases() == dict.fromkeys(pods, "Running"), told)
        hosts = {pod["spec"]["nodeName"] for pod in world.plane.objects("pods")}
        assert len(hosts) == 4 and names(world, "nodes") == hosts | {HOST_NODE}
        assert cloud.burning() == {"tpu-training": 16}
        cloud.take(cluster, pool, notice=20)
        reasons = [pod["status"].get("reason") for pod in world.plane.objects("pods")]
        assert reasons == ["Terminated"] * 4
        until(lambda: names(world, "nodes") == {HOST_NODE}, told)
        create(world, "next")
        until(lambda: phases().get("next") == "Running", told)
        life.teardown()
        until(lambda: names(world, "nodes") == {HOST_NODE}, told)
        assert cloud.ours() == []
