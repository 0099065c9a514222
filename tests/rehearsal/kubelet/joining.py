"""A cluster of the simulated GKE with a real Kubernetes: pools are nodes, waiting pods grow them.

Takes the place of the simulation's own `Kubernetes`.
"""

from __future__ import annotations

import queue
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from google.cloud.container_v1 import types
from kubernetes import client

from rehearsal.kubelet import environment
from rehearsal.kubelet.kubelet import ENDED, Kubelet
from rehearsal.kubelet.nodes import Machine
from rehearsal.kubelet.shapes import host, machine
from rehearsal.ops.simulation.nodes import Node, Pool

Object = dict[str, Any]
Pools = Callable[[], Mapping[str, Pool]]


class Joined:
    """`pools` are the cluster's own, as the simulation has them just now."""

    def __init__(self, kubelet: Kubelet, catalog: Any, pools: Pools) -> None:
        self._kubelet, self._catalog, self._pools = kubelet, catalog, pools
        self.store = Objects(kubelet)
        self._there: set[str] = set()
        self._drained: set[str] = set()
        # The simulation waits for nobody: what takes a request is done beside it.
        self._work: queue.Queue[Callable[[], None]] = queue.Queue()
        threading.Thread(target=self._do, daemon=True).start()
        self._work.put(lambda: kubelet.nodes.add(host()))

    def tick(self, now: float) -> None:
        wanted = {name_of(node): (pool, node) for pool in self._all() for node in pool.nodes}
        used = self._used()
        for name, (pool, node) in wanted.items():
            node.pod = used.get(name, "")
            if name not in self._there:
                self._add(machine(self._catalog, pool, name))
            if pool.asked.status == types.NodePool.Status.STOPPING and name not in self._drained:
                self._drained.add(name)
                self._later(self._kubelet.drain, name)
        for name in self._there - set(wanted):
            self._later(self._kubelet.lose, name)
        self._there = set(wanted)

    def chips(self) -> Counter[str]:
        """Those that Autopilot rents; here all stand in pools."""
        return Counter()

    def waiting(self) -> Iterator[tuple[str, dict[str, str], int]]:
        """Pods that want chips and have no node: name, selector, chips."""
        for pod in list(self._kubelet.known.values()):
            wanted, spec = _chips(pod), pod["spec"]
            going = pod["metadata"].get("deletionTimestamp")
            if wanted and not spec.get("nodeName") and not going:
                yield pod["metadata"]["name"], spec.get("nodeSelector") or {}, wanted

    def place(self, pod: str, node: str) -> None:
        """The real scheduler does it, as soon as it sees the node."""

    def lose(self, pod: str) -> None:
        """It goes with its node, which the next tick finds missing."""

    def event(self, about: str, reason: str, message: str) -> None:
        """The autoscaler's word on a pod."""
        for pod in list(self._kubelet.known.values()):
            if pod["metadata"]["name"] == about:
                self._later(self._kubelet.desk.events.say, pod, reason, message)

    def nodes(self, pool: str) -> list[str]:
        """Names of a pool's nodes."""
        return [name_of(node) for node in self._pools()[pool].nodes]

    def _all(self) -> list[Pool]:
        return list(self._pools().values())

    def _used(self) -> dict[str, str]:
        """The pods with chips, by their nodes."""
        return {
            pod["spec"]["nodeName"]: pod["metadata"]["name"]
            for pod in list(self._kubelet.known.values())
            if _chips(pod) and pod["spec"].get("nodeName") and pod["status"]["phase"] not in ENDED
        }

    def _add(self, machine: Machine) -> None:
        self._later(self._kubelet.nodes.add, machine)

    def _later(self, call: Callable[..., None], *words: Any) -> None:
        self._work.put(lambda: call(*words))

    def _do(self) -> None:
        while True:
            self._work.get()()


class Objects:
    """What `Simulation.ours` looks through."""

    def __init__(self, kubelet: Kubelet) -> None:
        self._kubelet = kubelet
        self._custom = client.CustomObjectsApi(kubelet.api.client)

    def all(self, plural: str) -> list[Object]:
        if plural == "pods":
            return list(self._kubelet.known.values())
        listing = self._custom.list_cluster_custom_object
        answer = self._kubelet.api.insist(listing, "ray.io", "v1", plural)
        return list(answer["items"]) if answer else []


def name_of(node: Node) -> str:
    """Another one at each birth: pods of the machine before it are not taken for its own."""
    return f"gke-{node.name}-{int(node.born) % 10**6:06d}"


def _chips(pod: Object) -> int:
    return sum(environment.chips(one) for one in pod["spec"]["containers"])
