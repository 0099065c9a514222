"""The stand-in as a whole: nodes, and the pods that the scheduler binds to them."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rehearsal.kubelet.api import Api
from rehearsal.kubelet.desk import Desk
from rehearsal.kubelet.images import Image
from rehearsal.kubelet.names import Names
from rehearsal.kubelet.network import Network
from rehearsal.kubelet.nodes import Machine, Nodes
from rehearsal.kubelet.pods import GRACE_SECONDS, Pod
from rehearsal.kubelet.serving import Endpoint

Object = dict[str, Any]
ENDED = ("Succeeded", "Failed")
END_SECONDS = 30.0


class Kubelet:
    """Runs until its context ends. `images`: what can be pulled, by name as pods write it.

    Limits of memory and CPU are not enforced, seccomp and capabilities neither: a container is a
    process with the rights of its user, and only sees its image's files.
    """

    def __init__(
        self, kubeconfig: Path, network: Network, names: Names, images: dict[str, Image]
    ) -> None:
        self.api = Api(kubeconfig)
        self.desk = Desk(self.api, network, names, images, self._devices)
        self._endpoint = Endpoint(self.find)
        self.nodes = Nodes(self.api, self._endpoint.port)
        self._lock = threading.RLock()
        self._pods: dict[str, Pod] = {}
        self.known: dict[str, Object] = {}
        """All pods of the cluster, by uid, as last seen."""

    def __enter__(self) -> Kubelet:
        self.desk.names.follow(self.api)
        self.api.follow(self.api.core.list_pod_for_all_namespaces, self._heard)
        self.nodes.begin()
        return self

    def __exit__(self, *_: object) -> None:
        self.api.close()
        for pod in self.running():
            pod.crash()
        for pod in self.running():
            pod.over.wait(END_SECONDS)
        self._endpoint.close()

    def running(self, node: str = "") -> list[Pod]:
        """Pods of which something may still run, on one node or on all."""
        with self._lock:
            found = list(self._pods.values())
        return [pod for pod in found if not pod.over.is_set() and node in ("", pod.node)]

    def find(self, namespace: str, name: str) -> Pod | None:
        """The newest of this name."""
        with self._lock:
            named = [pod for pod in self._pods.values() if pod.key == (namespace, name)]
        return named[-1] if named else None

    def preempt(self, name: str, notice: float = 0.0) -> None:
        """Takes a machine away: after a notice of so many seconds, or at once."""
        if notice:
            self.nodes.warn(name)
            pods = self.running(name)
            for pod in pods:
                pod.shut_down(notice)
            for pod in pods:
                pod.told.wait(notice)
        self.lose(name)

    def lose(self, name: str) -> None:
        """The machine is gone, with all that ran on it."""
        self.nodes.silence(name)
        for pod in self.running(name):
            pod.crash()
        self.nodes.remove(name)

    def drain(self, name: str) -> None:
        """As GKE empties a node before it removes it; returns at once."""
        self.nodes.cordon(name)
        for pod in self.running(name):
            namespace, who = pod.key
            eviction = {"metadata": {"name": who, "namespace": namespace}}
            evict = self.api.core.create_namespaced_pod_eviction
            self.api.insist(evict, who, namespace, eviction)

    def _heard(self, what: str, body: Object) -> None:
        uid = body["metadata"]["uid"]
        with self._lock:
            if what == "DELETED":
                self.known.pop(uid, None)
            else:
                self.known[uid] = body
            pod = self._pods.get(uid)
            if body["spec"].get("nodeName") not in self.nodes.machines:
                return
            if pod is None and what != "DELETED":
                pod = self._pods[uid] = self._take(body)
        if pod:
            self._pass_on(pod, what, body)

    def _take(self, body: Object) -> Pod:
        pod = Pod(self.desk, body)
        if body["metadata"].get("deletionTimestamp") or body["status"].get("phase") in ENDED:
            pod.over.set()
        else:
            pod.start()
        return pod

    def _pass_on(self, pod: Pod, what: str, body: Object) -> None:
        if what == "DELETED":
            if not pod.over.is_set():
                pod.crash()
        elif body["metadata"].get("deletionTimestamp"):
            seconds = body["metadata"].get("deletionGracePeriodSeconds", GRACE_SECONDS)
            pod.delete(float(seconds))

    def _devices(self, pod: Object) -> Mapping[str, str]:
        machine: Machine | None = self.nodes.machines.get(pod["spec"]["nodeName"])
        return machine.devices if machine else {}
