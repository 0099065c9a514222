"""Pods with nobody to bind them: made from their description, told to nobody."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from rehearsal.kubelet.desk import Desk
from rehearsal.kubelet.pods import Pod

Object = dict[str, Any]
PATIENCE_SECONDS = 60.0
IMAGE = "python"


class Heard:
    """An API server that takes everything; what was sent is kept."""

    def __init__(self) -> None:
        self.statuses: list[Object] = []
        self.events: list[Object] = []
        self.removed: list[str] = []

    core = property(lambda self: self)

    def insist(self, call: Callable[..., Any], *words: Any, **options: Any) -> Any:
        return call(*words, **options)

    def patch_namespaced_pod_status(self, name: str, where: str, body: Object, **_: Any) -> Object:
        self.statuses.append(body["status"])
        return body

    def create_namespaced_event(self, where: str, body: Object) -> Object:
        self.events.append(body)
        return body

    def patch_namespaced_event(self, name: str, where: str, body: Object) -> Object:
        self.events.append(body)
        return body

    def delete_namespaced_pod(self, name: str, where: str, **_: Any) -> Object:
        self.removed.append(name)
        return {}

    def reasons(self, kind: str = "Warning") -> list[str]:
        return [event["reason"] for event in self.events if event["type"] == kind]


def body(name: str, *command: str, policy: str = "Never", **more: Any) -> Object:
    container = {"name": "main", "image": IMAGE, "command": list(command), **more}
    spec = {"nodeName": "here", "restartPolicy": policy, "containers": [container]}
    named = {"name": name, "namespace": "default", "uid": name, "labels": {"kind": "test"}}
    return {"metadata": named, "spec": spec, "status": {}}


def run(desk: Desk, body: Object) -> Pod:
    """To its end."""
    pod = Pod(desk, body)
    pod.start()
    assert pod.over.wait(PATIENCE_SECONDS)
    return pod


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def said(pod: Pod, run: int = -1) -> str:
    runner = pod.runner("")
    assert runner is not None
    return b"".join(runner.logs[run].lines()).decode()


def running(pod: Pod) -> bool:
    runner = pod.runner("")
    return bool(runner and "running" in runner.state)
