"""What a failed run leaves to be read: saved to the bucket before its objects are removed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ..errors import Failure
from . import storage
from .desk import Desk
from .kube import Kube
from .reasons import concerning
from .things import Thing

Object = dict[str, Any]


def folder(desk: Desk, job: Thing) -> str:
    """Named by the RayJob's identity: the same failure saved twice lies there once."""
    uid = job.body["metadata"].get("uid", "unknown")
    return f"{desk.config.run.storage.rstrip('/')}/{job.owner.run}/failures/{uid}"


def save(desk: Desk, job: Thing) -> None:
    """Writes a RayJob, its pods, events and logs to its folder.

    Raises Refused where the bucket cannot be written, Failure.
    """
    for name, text in _files(desk.kube(job.place), job.body):
        storage.write(f"{folder(desk, job)}/{name}", text)


def _files(kube: Kube, rayjob: Object) -> Iterator[tuple[str, str]]:
    name = rayjob["metadata"]["name"]
    cluster = (rayjob.get("status") or {}).get("rayClusterName") or name
    pods = kube.pods(f"job-name={name}") + kube.pods(f"ray.io/cluster={cluster}")
    yield "rayjob.json", _json(rayjob)
    yield "pods.json", _json(pods)
    yield "events.json", _json(concerning(kube.events(), [name, cluster]))
    for pod in pods:
        pod_name = pod["metadata"]["name"]
        yield f"{pod_name}.log", _log(kube, pod_name)


def _log(kube: Kube, pod: str) -> str:
    try:
        return kube.log(pod)
    except Failure as failure:
        return f"this log could not be read: {failure.what}\n"


def _json(found: Any) -> str:
    return json.dumps(found, indent=1, sort_keys=True) + "\n"
