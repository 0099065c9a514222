"""A pod that has to go tells Ray, and waits for what runs on it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
import ray
from ray.cluster_utils import Cluster

from << cookiecutter.package >>.drain import drain, main

WAIT_SECONDS = 60.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A head without CPUs; its start takes most of the time."""
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    ray.init(address=made.address, logging_level="error")
    yield made
    ray.shutdown()
    made.shutdown()


@pytest.fixture
def node(cluster: Any) -> Iterator[Any]:
    """A worker beside the head, on the same machine and so with the same address."""
    made = cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    yield made
    cluster.remove_node(made, allow_graceful=False)


def living() -> int:
    return sum(node["Alive"] for node in ray.nodes())


def test_an_idle_node_goes_at_once(cluster: Any, node: Any) -> None:
    begun = time.monotonic()
    assert drain(cluster.address, node.node_ip_address, WAIT_SECONDS)
    assert time.monotonic() - begun < WAIT_SECONDS
    assert living() == 1


def test_what_runs_there_is_waited_for_until_the_time_is_over(cluster: Any, node: Any) -> None:
    work = ray.remote(lambda: time.sleep(WAIT_SECONDS)).options(num_cpus=1).remote()
    ray.wait([work], timeout=3)
    begun = time.monotonic()
    assert drain(cluster.address, node.node_ip_address, 5)
    assert 4 < time.monotonic() - begun < 15


def test_a_node_that_ray_does_not_know_is_not_waited_for(cluster: Any, node: Any) -> None:
    assert not drain(cluster.address, "192.0.2.1", WAIT_SECONDS)
    assert living() == 2


@pytest.mark.parametrize("address", ["127.0.0.1:1", "127.0.0.1", "127.0.0.1:"])
def test_where_the_head_went_first_there_is_nobody_to_tell(address: str) -> None:
    begun = time.monotonic()
    assert not drain(address, "127.0.0.1", WAIT_SECONDS)
    assert time.monotonic() - begun < 10


def test_outside_a_pod_the_command_says_what_it_lacks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["drain", "5"])
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    monkeypatch.delenv("POD_IP", raising=False)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "POD_IP" in capsys.readouterr().err
