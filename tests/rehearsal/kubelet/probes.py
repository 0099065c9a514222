"""Startup, readiness and liveness probes of one run of a container."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Callable
from typing import Any

from rehearsal.kubelet.containers import Container

Object = dict[str, Any]
Told = Callable[[str, bool, str], None]
KINDS = ("startup", "readiness", "liveness")
REFUSED = 400


class Probes:
    """Calls `told` with the kind, whether it holds, and what was seen, when either changes sides.

    A container without a startup probe has started, one without a readiness probe is ready.
    """

    def __init__(self, spec: Object, container: Container, ip: str, told: Told) -> None:
        self._spec, self._container, self._ip, self._told = spec, container, ip, told
        self._over, self._started = threading.Event(), threading.Event()
        asked = [kind for kind in KINDS if spec.get(f"{kind}Probe")]
        if "startup" not in asked:
            self._started.set()
            told("startup", True, "")
        if "readiness" not in asked and self._started.is_set():
            told("readiness", True, "")
        for kind in asked:
            threading.Thread(target=self._watch, args=(kind,), daemon=True).start()

    def end(self) -> None:
        self._over.set()
        self._started.set()

    def _watch(self, kind: str) -> None:
        if kind != "startup":
            self._started.wait()
        probe = self._spec[f"{kind}Probe"]
        self._over.wait(probe.get("initialDelaySeconds") or 0)
        good = bad = 0
        while not self._over.is_set():
            ok, seen = self._ask(probe)
            good, bad = (good + 1, 0) if ok else (0, bad + 1)
            if self._over.is_set():
                return
            if ok and good == (probe.get("successThreshold") or 1):
                self._told(kind, True, seen)
                if kind == "startup":
                    return self._begin()
            elif not ok:
                self._told(f"{kind}-seen", False, seen)
                if bad == (probe.get("failureThreshold") or 3):
                    self._told(kind, False, seen)
            self._over.wait(probe.get("periodSeconds") or 10)
        return None

    def _begin(self) -> None:
        self._started.set()
        if not self._spec.get("readinessProbe"):
            self._told("readiness", True, "")

    def _ask(self, probe: Object) -> tuple[bool, str]:
        seconds = float(probe.get("timeoutSeconds") or 1)
        if "exec" in probe:
            code, output = self._container.execute(probe["exec"]["command"], seconds)
            return code == 0, output.strip()
        if "httpGet" in probe:
            return self._get(probe["httpGet"], seconds)
        return self._connect(probe["tcpSocket"], seconds)

    def _get(self, asked: Object, seconds: float) -> tuple[bool, str]:
        host, port = asked.get("host") or self._ip, self._port(asked["port"])
        connection = http.client.HTTPConnection(host, port, timeout=seconds)
        try:
            connection.request("GET", asked.get("path") or "/")
            status = connection.getresponse().status
        except (OSError, http.client.HTTPException) as error:
            return False, f"Get http://{host}:{port}: {error}"
        finally:
            connection.close()
        return status < REFUSED, f"HTTP probe failed with statuscode: {status}"

    def _connect(self, asked: Object, seconds: float) -> tuple[bool, str]:
        where = (asked.get("host") or self._ip, self._port(asked["port"]))
        try:
            socket.create_connection(where, timeout=seconds).close()
        except OSError as error:
            return False, f"dial tcp {where[0]}:{where[1]}: {error}"
        return True, ""

    def _port(self, asked: int | str) -> int:
        if isinstance(asked, int):
            return asked
        ports = {each.get("name"): each["containerPort"] for each in self._spec.get("ports") or ()}
        return int(ports[asked])
