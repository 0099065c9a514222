"""The pods' network: a bridge on this machine, and a namespace with an address for each pod."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path

from rehearsal.kubelet import machine

HOST = "10.77.0.1"
"""This machine as the pods see it: the API server and the buckets are here."""
MASK = 16
PODS = 250


@dataclass(frozen=True)
class Address:
    """A pod's place in the network."""

    namespace: str
    ip: str

    @property
    def file(self) -> str:
        return f"/run/netns/{self.namespace}"


class Network:
    """One at a time on a machine: a second one waits. Raises CannotRehearse.

    A process beside this one takes everything away when this one ends, however it ends.
    """

    def __init__(self) -> None:
        machine.check()
        self._lock = machine.lock()
        try:
            machine.clear()
            self._guard = _guard(self._lock)
            machine.ip("link", "add", machine.BRIDGE, "type", "bridge")
            machine.ip("address", "add", f"{HOST}/{MASK}", "dev", machine.BRIDGE)
            machine.ip("link", "set", machine.BRIDGE, "up")
        finally:
            os.close(self._lock)
        self.folder = Path(tempfile.mkdtemp(prefix=f"{machine.PREFIX}-", dir=machine.SCRATCH))
        self.memory = Path(tempfile.mkdtemp(prefix=f"{machine.PREFIX}-", dir=machine.SHARED))
        # Folders of pods lie in them, and these run as several users.
        self.folder.chmod(0o755)
        self.memory.chmod(0o755)
        self._numbers, self._turn = itertools.count(1), threading.Lock()

    def __enter__(self) -> Network:
        return self

    def __exit__(self, *_: object) -> None:
        if self._guard.stdin:
            self._guard.stdin.close()
        self._guard.wait()

    def attach(self) -> Address:
        """A new namespace; no address is given twice."""
        with self._turn:
            number = next(self._numbers)
        name = f"{machine.PREFIX}-{number}"
        at = Address(name, f"10.77.{1 + number // PODS}.{1 + number % PODS}")
        machine.ip("netns", "add", name)
        machine.ip("link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
        machine.ip("link", "set", name, "master", machine.BRIDGE, "up")
        machine.ip("-n", name, "link", "set", "lo", "up")
        machine.ip("-n", name, "address", "add", f"{at.ip}/{MASK}", "dev", "eth0")
        machine.ip("-n", name, "link", "set", "eth0", "up")
        # Ray looks at the way out to learn its own address; nothing answers there.
        machine.ip("-n", name, "route", "add", "default", "via", HOST)
        # A metadata server that only keeps silent would be waited for.
        machine.ip("-n", name, "route", "add", "unreachable", "169.254.0.0/16")
        return at

    def detach(self, at: Address) -> None:
        """Ends what still runs there."""
        machine.end(at.namespace)
        machine.remove(at.namespace)


def _guard(lock: int) -> subprocess.Popen[bytes]:
    """Has the lock from now on, so that the next rehearsal begins after the cleaning."""
    return subprocess.Popen(
        [sys.executable, "-m", "rehearsal.kubelet.guard"],
        stdin=subprocess.PIPE,
        pass_fds=[lock],
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
