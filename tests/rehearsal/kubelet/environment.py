"""A container's variables, command and volumes, worked out of its pod as a kubelet does."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rehearsal.kubelet.images import Bind

Object = dict[str, Any]
_REFERENCE = re.compile(r"\$(?:\$|\(([^()\s]+)\))")
_KEYED = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]")
EMPTY = ("emptyDir", "projected")
"""Volumes that begin as an empty folder. A service account's token is projected, and none of the
programs in the pods asks the API server for anything."""


class ConfigError(Exception):
    """What this stand-in cannot give a container, or nobody could."""


def expanded(text: str, known: Mapping[str, str]) -> str:
    """`$(NAME)` is replaced where the name is known; `$$` is a dollar sign."""

    def value(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        return known.get(match[1], match[0])

    return _REFERENCE.sub(value, text)


def check(container: Object) -> None:
    """Raises ConfigError for what would silently not happen."""
    hooks = container.get("lifecycle") or {}
    if "postStart" in hooks or "httpGet" in (hooks.get("preStop") or {}):
        raise ConfigError("of the hooks only preStop with exec or sleep is known here")
    for kind in ("startup", "readiness", "liveness"):
        if "grpc" in (container.get(f"{kind}Probe") or {}):
            raise ConfigError("probes by gRPC are not known here")


def variables(pod: Object, container: Object, first: Mapping[str, str], place: Object) -> Object:
    """`first` and then the container's own; `place` has the pod's podIP and hostIP."""
    if container.get("envFrom"):
        raise ConfigError("envFrom is not known to this stand-in")
    found = dict(first)
    for entry in container.get("env") or ():
        found[entry["name"]] = _value(pod, entry, found, place)
    return found


def command(container: Object, known: Mapping[str, str]) -> list[str]:
    words = [*(container.get("command") or ()), *(container.get("args") or ())]
    if not container.get("command"):
        raise ConfigError("no command specified: the image has none here")
    return [expanded(word, known) for word in words]


def binds(pod: Object, container: Object, folder: Path, memory: Path) -> list[Bind]:
    """The volumes of a container; their folders are made when first asked for."""
    volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes") or ()}
    found = []
    for mount in container.get("volumeMounts") or ():
        volume = volumes[mount["name"]]
        if not any(kind in volume for kind in EMPTY) or mount.get("subPath"):
            raise ConfigError(f'volume "{mount["name"]}": only whole emptyDirs are known here')
        in_memory = (volume.get("emptyDir") or {}).get("medium") == "Memory"
        place = (memory if in_memory else folder) / f"volume-{mount['name']}"
        place.mkdir(parents=True, exist_ok=True)
        place.chmod(0o777)
        kind = "read" if mount.get("readOnly") else "write"
        found.append((os.fspath(place), mount["mountPath"].rstrip("/"), kind))
    return found


def user(pod: Object, container: Object, default: int) -> int:
    own = container.get("securityContext") or {}
    shared = pod["spec"].get("securityContext") or {}
    found = own.get("runAsUser", shared.get("runAsUser", default))
    if found == 0 and own.get("runAsNonRoot", shared.get("runAsNonRoot")):
        raise ConfigError("container has runAsNonRoot and image will run as root")
    return int(found)


def chips(container: Object) -> int:
    limits = (container.get("resources") or {}).get("limits") or {}
    return int(limits.get("google.com/tpu", 0))


def _value(pod: Object, entry: Object, known: Mapping[str, str], place: Object) -> str:
    source = entry.get("valueFrom")
    if source is None:
        return expanded(entry.get("value") or "", known)
    if "fieldRef" not in source:
        raise ConfigError(f"variable {entry['name']}: only fieldRef is known here")
    return _field(pod, source["fieldRef"]["fieldPath"], place)


def _field(pod: Object, path: str, place: Object) -> str:
    if match := _KEYED.fullmatch(path):
        return str((pod["metadata"].get(match[1]) or {}).get(match[2], ""))
    fields: dict[str, Callable[[], str]] = {
        "metadata.name": lambda: pod["metadata"]["name"],
        "metadata.namespace": lambda: pod["metadata"]["namespace"],
        "metadata.uid": lambda: pod["metadata"]["uid"],
        "spec.nodeName": lambda: pod["spec"]["nodeName"],
        "spec.serviceAccountName": lambda: pod["spec"]["serviceAccountName"],
        "status.podIP": lambda: place["podIP"],
        "status.podIPs": lambda: place["podIP"],
        "status.hostIP": lambda: place["hostIP"],
        "status.hostIPs": lambda: place["hostIP"],
    }
    if path not in fields:
        raise ConfigError(f"field {path} is not known here")
    return fields[path]()
