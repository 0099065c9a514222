"""A pod's status, made of what its containers say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rehearsal.kubelet.api import stamp
from rehearsal.kubelet.network import HOST, Address
from rehearsal.kubelet.runner import Runner

Object = dict[str, Any]


def phase(first: Sequence[Runner], main: Sequence[Runner]) -> str:
    """Pending, Running, Succeeded or Failed."""
    if any(one.over and one.code != 0 for one in first):
        return "Failed"
    if all(one.over for one in main):
        return "Succeeded" if all(one.code == 0 for one in main) else "Failed"
    begun = all(one.over or one.restarts or "waiting" not in one.state for one in main)
    return "Running" if begun else "Pending"


def status(pod: Object, at: Address, first: Sequence[Runner], main: Sequence[Runner]) -> Object:
    ready = all(one.ready for one in main)
    found = phase(first, main)
    return {
        "phase": found,
        "hostIP": HOST,
        "hostIPs": [{"ip": HOST}],
        "podIP": at.ip,
        "podIPs": [{"ip": at.ip}],
        "conditions": [
            _condition(pod, "PodReadyToStartContainers", found in ("Pending", "Running")),
            _condition(pod, "Initialized", all(one.over and one.code == 0 for one in first)),
            _condition(pod, "ContainersReady", ready),
            _condition(pod, "Ready", ready),
        ],
        "initContainerStatuses": [one.status() for one in first],
        "containerStatuses": [one.status() for one in main],
    }


def _condition(pod: Object, kind: str, holds: bool) -> Object:
    """With the time of the change, where it is one."""
    known = {one["type"]: one for one in pod.get("status", {}).get("conditions") or ()}
    value = "True" if holds else "False"
    if known.get(kind, {}).get("status") == value:
        return dict(known[kind])
    return {"type": kind, "status": value, "lastTransitionTime": stamp()}
