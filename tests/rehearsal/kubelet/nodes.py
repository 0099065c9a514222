"""Machines as Kubernetes sees them: registered, alive, warned and gone."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from rehearsal.kubelet.api import STRATEGIC, Api, stamp
from rehearsal.kubelet.network import HOST

Object = dict[str, Any]
VERSION = "v1.34.1-gke.3084001"
LEASES, LEASE_SECONDS, BEAT_SECONDS = "kube-node-lease", 40, 4.0
GOING = {"key": "cloud.google.com/impending-node-termination", "effect": "NoSchedule"}
"""GKE's taint on a node that was told that it has to go."""


@dataclass(frozen=True)
class Machine:
    """What a node is; `devices` are the variables that its device plugin gives containers."""

    name: str
    capacity: Mapping[str, str]
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[Object] = ()
    devices: Mapping[str, str] = field(default_factory=dict)


class Nodes:
    """Those of this stand-in; `port` is where their kubelet answers."""

    def __init__(self, api: Api, port: int) -> None:
        self._api, self._port, self._lock = api, port, threading.Lock()
        self.machines: dict[str, Machine] = {}
        self._silent: set[str] = set()

    def begin(self) -> None:
        threading.Thread(target=self._beat, daemon=True).start()

    def add(self, machine: Machine) -> None:
        """Ready from here on."""
        with self._lock:
            self.machines[machine.name] = machine
            self._silent.discard(machine.name)
        self._api.insist(self._api.core.create_node, _node(machine))
        self._report(machine, _ready(True, "kubelet is posting ready status"))
        self._renew(machine.name)

    def warn(self, name: str) -> None:
        """The notice: nothing new comes here any more."""
        machine = self.machines[name]
        self._taint(name, GOING)
        self._report(machine, _ready(False, "node is shutting down"))

    def cordon(self, name: str) -> None:
        self._patch(name, {"spec": {"unschedulable": True}})

    def silence(self, name: str) -> None:
        """The machine is gone, and so is its kubelet."""
        with self._lock:
            self._silent.add(name)

    def remove(self, name: str) -> None:
        """The object goes, as GKE removes it when the machine is gone."""
        with self._lock:
            self.machines.pop(name, None)
        self._api.insist(self._api.core.delete_node, name)

    def _report(self, machine: Machine, ready: Object) -> None:
        status = {
            "capacity": dict(machine.capacity),
            "allocatable": dict(machine.capacity),
            "conditions": [ready],
            "addresses": [{"type": "InternalIP", "address": HOST}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": self._port}},
            "nodeInfo": _info(machine),
        }
        options = {"_content_type": STRATEGIC}
        patch = self._api.core.patch_node_status
        self._api.insist(patch, machine.name, {"status": status}, **options)

    def _taint(self, name: str, taint: Object) -> None:
        self._patch(name, {"spec": {"taints": [taint]}})

    def _patch(self, name: str, body: Object) -> None:
        self._api.insist(self._api.core.patch_node, name, body, _content_type=STRATEGIC)

    def _beat(self) -> None:
        while not self._api.until(BEAT_SECONDS):
            with self._lock:
                alive = set(self.machines) - self._silent
            for name in alive:
                self._renew(name)

    def _renew(self, name: str) -> None:
        leases = self._api.coordination
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {"holderIdentity": name, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": now}
        body = {"metadata": {"name": name, "namespace": LEASES}, "spec": spec}
        words = (name, LEASES, body)
        found = self._api.insist(leases.patch_namespaced_lease, *words, _content_type=STRATEGIC)
        if found is None:
            self._api.insist(leases.create_namespaced_lease, LEASES, body)


def _node(machine: Machine) -> Object:
    return {
        "metadata": {
            "name": machine.name,
            "labels": {
                "kubernetes.io/hostname": machine.name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                **machine.labels,
            },
        },
        "spec": {
            "taints": [dict(taint) for taint in machine.taints],
            "providerID": f"rehearsal://{machine.name}",
        },
    }


def _ready(holds: bool, message: str) -> Object:
    return {
        "type": "Ready",
        "status": "True" if holds else "False",
        "reason": "KubeletReady" if holds else "KubeletNotReady",
        "message": message,
        "lastHeartbeatTime": stamp(),
        "lastTransitionTime": stamp(),
    }


def _info(machine: Machine) -> Object:
    told = ("architecture", "bootID", "kernelVersion", "machineID", "operatingSystem", "osImage")
    return {
        **dict.fromkeys(told, "rehearsal"),
        "systemUUID": machine.name,
        "containerRuntimeVersion": "rehearsal://1",
        "kubeletVersion": VERSION,
        "kubeProxyVersion": "",
    }
