"""Objects of a Kubernetes API: apply, get, list, delete with what belongs to them."""

from __future__ import annotations

import copy
import itertools
from datetime import UTC, datetime
from typing import Any

from rehearsal.ops.simulation.refusal import Refusal

Object = dict[str, Any]
RAYJOB_FIELDS = {
    "activeDeadlineSeconds",
    "backoffLimit",
    "entrypoint",
    "entrypointNumCpus",
    "entrypointResources",
    "jobId",
    "metadata",
    "preRunningDeadlineSeconds",
    "rayClusterSpec",
    "runtimeEnvYAML",
    "shutdownAfterJobFinishes",
    "submissionMode",
    "submitterConfig",
    "submitterPodTemplate",
    "suspend",
    "ttlSecondsAfterFinished",
}


class Store:
    """By plural and name; one namespace."""

    def __init__(self) -> None:
        self._objects: dict[str, dict[str, Object]] = {}
        self._numbers = itertools.count(1)

    def all(self, plural: str) -> list[Object]:
        return list(self._objects.get(plural, {}).values())

    def find(self, plural: str, name: str) -> Object | None:
        return self._objects.get(plural, {}).get(name)

    def get(self, plural: str, name: str) -> Object:
        found = self.find(plural, name)
        if found is None:
            raise Refusal(404, f'{plural} "{name}" not found')
        return found

    def create(self, plural: str, name: str, body: Object, now: float) -> Object:
        """With strict fields."""
        if plural == "rayjobs":
            _check_rayjob(body)
        if self.find(plural, name):
            raise Refusal(409, f'{plural}.ray.io "{name}" already exists')
        return self.put(plural, name, body, now)

    def apply(self, plural: str, name: str, body: Object, now: float, manager: str) -> Object:
        """Server-side apply, as far as one manager needs it."""
        known = self.find(plural, name)
        if known is None:
            return self._managed(self.put(plural, name, body, now), manager)
        if known["metadata"].get("managedFields") != [{"manager": manager}]:
            raise Refusal(
                409, f'Apply failed with 1 conflict: conflict with another manager of "{name}"'
            )
        known["spec"] = copy.deepcopy(body["spec"])
        known["metadata"]["labels"] = dict(body["metadata"].get("labels") or {})
        return known

    def _managed(self, made: Object, manager: str) -> Object:
        made["metadata"]["managedFields"] = [{"manager": manager}]
        return made

    def put(self, plural: str, name: str, body: Object, now: float) -> Object:
        made = copy.deepcopy(body)
        number = next(self._numbers)
        made.setdefault("metadata", {}).setdefault("namespace", "default")
        made["metadata"].update(
            name=name,
            uid=f"00000000-0000-0000-0000-{number:012d}",
            resourceVersion=str(number),
            creationTimestamp=stamp(now),
        )
        self._objects.setdefault(plural, {})[name] = made
        return made

    def delete(self, plural: str, name: str, namespace: str = "default", uid: str = "") -> None:
        """With all that names it as its owner."""
        gone = self.get(plural, name)
        if gone["metadata"]["namespace"] != namespace:
            raise Refusal(404, f'{plural} "{name}" not found in {namespace}')
        if uid and gone["metadata"]["uid"] != uid:
            raise Refusal(409, f"Precondition failed: UID in precondition: {uid}")
        del self._objects[plural][name]
        for kind, objects in list(self._objects.items()):
            for found in list(objects.values()):
                owners = found["metadata"].get("ownerReferences") or ()
                if found["metadata"]["name"] in objects and any(
                    owner["uid"] == gone["metadata"]["uid"] for owner in owners
                ):
                    self.delete(kind, found["metadata"]["name"])


def selected(objects: list[Object], selector: str) -> list[Object]:
    wanted = dict(part.split("=", 1) for part in selector.split(",") if part)
    return [
        found
        for found in objects
        if wanted.items() <= (found["metadata"].get("labels") or {}).items()
    ]


def stamp(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _check_rayjob(body: Object) -> None:
    if unknown := set(body["spec"]) - RAYJOB_FIELDS:
        raise Refusal(400, f'strict decoding error: unknown field "{min(unknown)}"')
    if len(body["metadata"]["name"]) > 47:
        raise Refusal(400, "RayJob name must be at most 47 characters")
    for group in body["spec"]["rayClusterSpec"]["workerGroupSpecs"]:
        if group["numOfHosts"] < 1:
            raise Refusal(400, 'admission webhook "kuberay-tpu-webhook": numOfHosts must be set')
