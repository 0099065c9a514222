"""A 4x4 v5e slice of four hosts, simulated with Ray alone and reserved by Ray's own means."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
from ray.cluster_utils import Cluster

from rehearsal.running import Training, losses, rows, settings, train

HOSTS, STEPS = 4, 24
ON_SLICE = {
    "hardware_accelerator": "cpu",
    "hardware_placement": "slice",
    "hardware_generation": "v5e",
    "hardware_topology": "4x4",
}


def add_slice(cluster: Any, name: str) -> list[Any]:
    """Four hosts as GKE and its webhook present them to Ray."""
    return [cluster.add_node(wait=False, **host(name, number)) for number in range(HOSTS)]


def host(name: str, number: int) -> dict[str, Any]:
    head = {"TPU-v5litepod-16-head": 1.0} if number == 0 else {}
    return {
        "num_cpus": 1,
        "object_store_memory": 10**8,
        "resources": {"TPU": 4.0, "accelerator_type:TPU-V5LITEPOD": 1.0, **head},
        "labels": {
            "ray.io/tpu-slice-name": name,
            "ray.io/tpu-worker-id": str(number),
            "ray.io/tpu-topology": "4x4",
            "ray.io/tpu-pod-type": "v5litepod-16",
            "ray.io/accelerator-type": "TPU-V5LITEPOD",
        },
        "env_vars": {
            "TPU_NAME": name,
            "TPU_WORKER_ID": str(number),
            "TPU_TOPOLOGY": "4x4",
            "TPU_ACCELERATOR_TYPE": "v5litepod-16",
        },
    }


@pytest.fixture
def cluster() -> Iterator[Any]:
    running = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False}
    )
    try:
        yield running
    finally:
        ray.shutdown()
        running.shutdown()


def test_training_goes_on_when_a_host_of_its_slice_is_lost(
    tmp_path: Path, data: Path, cluster: Any
) -> None:
    hosts = add_slice(cluster, "slice-a")
    words = settings(str(tmp_path / "runs"), data, **ON_SLICE)
    running = Training(tmp_path / "log", *words, RAY_ADDRESS=cluster.address)
    running.until(lambda: len(rows(tmp_path / "runs")) >= 10)
    cluster.remove_node(hosts[2], allow_graceful=False)
    for lost in (hosts[0], hosts[1], hosts[3]):
        cluster.remove_node(lost, allow_graceful=False)
    add_slice(cluster, "slice-b")
    assert running.wait() == 0, (tmp_path / "log").read_text()
    log = (tmp_path / "log").read_text()
    assert log.count(f"Started training worker group of size {HOSTS}") == 2, log
    alone = {**ON_SLICE, "hardware_placement": "any"}
    train(tmp_path / "alone.log", "--local", *settings(str(tmp_path / "alone"), data, **alone))
    assert losses(tmp_path / "runs") == pytest.approx(losses(tmp_path / "alone"), rel=2e-3)
