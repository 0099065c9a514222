"""Nodes that go, with and without a word, and an API server that is away."""

from __future__ import annotations

import time

from rehearsal.kubelet import Machine
from rehearsal.kubelet.asking import NODE, TRAP, Cluster


def test_a_node_that_is_told_to_go(cluster: Cluster) -> None:
    """Its pods fail within the notice; its object goes."""
    kubelet = cluster.world.kubelet
    kubelet.nodes.add(Machine("node-b", NODE.capacity, {"which": "b"}))
    chosen = {"nodeSelector": {"which": "b"}}
    name = cluster.create("warned", "bash", "-c", TRAP, **chosen)
    cluster.until_phase(name, "Running")
    cluster.until(lambda: cluster.log(name) == "up\n")
    kubelet.preempt("node-b", notice=20)
    status = cluster.status(name)
    assert (status["phase"], status["reason"]) == ("Failed", "Terminated")
    assert "node-b" not in [node.metadata.name for node in cluster.core.list_node().items]


def test_a_node_that_is_gone_at_once(cluster: Cluster) -> None:
    """Nobody tells of its pods; Kubernetes takes them away for want of a node."""
    kubelet = cluster.world.kubelet
    kubelet.nodes.add(Machine("node-c", NODE.capacity, {"which": "c"}))
    name = cluster.create("lost", "bash", "-c", TRAP, nodeSelector={"which": "c"})
    cluster.until_phase(name, "Running")
    cluster.until(lambda: cluster.log(name) == "up\n")
    pod = kubelet.find("default", name)
    kubelet.preempt("node-c")
    runner = pod.runner("") if pod else None
    assert runner and b"term" not in b"".join(runner.logs[-1].lines())
    cluster.until(lambda: cluster.gone(name))


def test_the_api_server_may_be_away(cluster: Cluster) -> None:
    """What happens meanwhile is told when it is back."""
    name = cluster.create("meanwhile", "bash", "-c", "sleep 3; exit 4")
    cluster.until_phase(name, "Running")
    cluster.world.plane.stop("apiserver")
    time.sleep(5)
    cluster.world.plane.start("apiserver")
    status = cluster.until_phase(name, "Failed")
    assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 4
