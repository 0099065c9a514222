"""Names of services and pods, kept in hosts files that are mounted where they are needed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rehearsal.kubelet.api import Api
from rehearsal.kubelet.network import HOST

Object = dict[str, Any]
BASE = f"127.0.0.1 localhost\n{HOST} host.rehearsal\n"
ZONE = "svc.cluster.local"
SERVICE = "kubernetes.io/service-name"
NAMESPACE = "default"
"""The namespace whose services are found by their bare names: one file serves all pods."""


class Names:
    """A service's name leads straight to its pods: there is no proxy for cluster addresses.

    `file` is for who is no pod; a pod has one of its own, with its hostname in it.
    """

    def __init__(self, file: Path) -> None:
        self.file, self._lock = file, threading.Lock()
        self._pods: dict[str, tuple[str, str]] = {}
        self._slices: dict[str, Object] = {}
        _create(file)

    def follow(self, api: Api) -> None:
        api.follow(api.discovery.list_endpoint_slice_for_all_namespaces, self._heard)

    def add(self, pod: str, ip: str, hostname: str = "") -> None:
        """A pod knows its own name from the start. Other pods may have the same hostname."""
        with self._lock:
            self._pods[pod] = ip, hostname
            if not self.of(pod).exists():
                _create(self.of(pod))
            self._write()

    def of(self, pod: str) -> Path:
        """The hosts file of this pod."""
        return self.file.with_name(f"{self.file.name}-{pod}")

    def remove(self, pod: str) -> None:
        with self._lock:
            self._pods.pop(pod, None)
            self.of(pod).unlink(missing_ok=True)
            self._write()

    def _heard(self, what: str, found: Object) -> None:
        with self._lock:
            uid = found["metadata"]["uid"]
            if what == "DELETED":
                self._slices.pop(uid, None)
            else:
                self._slices[uid] = found
            self._write()

    def _write(self) -> None:
        lines = [f"{ip} {name}\n" for name, (ip, _) in self._pods.items()]
        for found in self._slices.values():
            lines += [f"{ip} {' '.join(names)}\n" for ip, names in _entries(found)]
        shared = "".join(lines)
        _fill(self.file, BASE + shared)
        for name, (ip, hostname) in self._pods.items():
            own = f"{ip} {hostname}\n" if hostname else ""
            _fill(self.of(name), BASE + own + shared)


def _fill(place: Path, text: str) -> None:
    """In place: the file is mounted by what it is, not by its name."""
    content = text.encode()
    if content != place.read_bytes():
        with place.open("r+b", buffering=0) as file:
            file.write(content)
            file.truncate()


def _create(file: Path) -> None:
    file.write_text(BASE)
    file.chmod(0o644)


def _entries(found: Object) -> Iterator[tuple[str, list[str]]]:
    """Addresses of an EndpointSlice that are ready, each with all its names."""
    namespace = found["metadata"]["namespace"]
    service = (found["metadata"].get("labels") or {}).get(SERVICE, "")
    for endpoint in (found.get("endpoints") or ()) if service else ():
        if (endpoint.get("conditions") or {}).get("ready") is False:
            continue
        names = _forms(service, namespace)
        if endpoint.get("hostname"):
            names += _forms(f"{endpoint['hostname']}.{service}", namespace)
        for ip in endpoint["addresses"]:
            yield ip, names


def _forms(name: str, namespace: str) -> list[str]:
    forms = [f"{name}.{namespace}.{ZONE}", f"{name}.{namespace}.svc", f"{name}.{namespace}"]
    return [*forms, name] if namespace == NAMESPACE else forms
