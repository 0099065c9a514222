"""What tests ask of a rehearsed cluster's API."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from rehearsal.kubelet import Machine
from rehearsal.kubelet.world import World

Object = dict[str, Any]
PATIENCE_SECONDS = 120.0
NODE = Machine("node-a", {"cpu": "8", "memory": "16Gi", "pods": "110"})
TRAP = "trap 'cat /tmp/hook; echo term; exit 7' TERM; echo up; while true; do sleep 0.1; done"
"""A program that says what it meets, and leaves when it is asked to."""


class Cluster:
    """One namespace, by a few words."""

    def __init__(self, world: World) -> None:
        self.world, self.core = world, world.kubelet.api.core

    def create(self, name: str, *command: str, **spec: Any) -> str:
        container = {"name": "main", "image": "python", "command": list(command)}
        container |= spec.pop("container", {})
        labels = spec.pop("labels", {})
        body = {
            "metadata": {"name": name, "labels": labels},
            "spec": {"restartPolicy": "Never", "containers": [container], **spec},
        }
        self.core.create_namespaced_pod("default", body)
        return name

    def status(self, name: str) -> Object:
        found = self.core.read_namespaced_pod(name, "default")
        plain: Object = self.world.kubelet.api.plain(found)["status"]
        return plain

    def until(self, condition: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENCE_SECONDS
        while not condition():
            assert time.monotonic() < end, self.world.plane.kubectl("describe", "pods").stdout
            time.sleep(0.1)

    def until_phase(self, name: str, phase: str) -> Object:
        self.until(lambda: self.status(name)["phase"] == phase)
        return self.status(name)

    def log(self, name: str, **options: Any) -> str:
        return str(self.core.read_namespaced_pod_log(name, "default", **options))

    def warnings(self, name: str) -> list[tuple[str, str]]:
        events = self.core.list_namespaced_event("default").items
        mine = [event for event in events if event.involved_object.name == name]
        return [(event.reason, event.message) for event in mine if event.type == "Warning"]

    def gone(self, name: str) -> bool:
        pods = self.core.list_namespaced_pod("default").items
        return name not in [pod.metadata.name for pod in pods]
