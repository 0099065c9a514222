"""One component as a process of its own, that never outlives the tests."""

from __future__ import annotations

import os
import signal
import ssl
import subprocess
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path

PATIENCE_SECONDS = 120.0
BETWEEN_LOOKS_SECONDS = 0.05
LOOK_SECONDS = 5
# The kernel ends it with the thread that started it, even where that was killed.
WITH_PARENT = ("setpriv", "--pdeathsig", "KILL", "--")
OWN_HOSTS = ("unshare", "--mount", "--", "sh", "-c")
BIND_HOSTS = 'mount --bind "$0" /etc/hosts && exec "$@"'


@dataclass(frozen=True)
class Component:
    """`health` answers 200 once it is ready; `hosts` is what it has for /etc/hosts."""

    name: str
    command: tuple[str, ...]
    health: str
    hosts: Path | None = None


class Process:
    """Start it from a thread that lives as long as it shall; it may be started again."""

    def __init__(self, component: Component, log: Path, authority: Path) -> None:
        self.component, self.log = component, log
        trust = ssl.create_default_context(cafile=str(authority))
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=trust)
        )
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        if self.running:
            return
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command(), stdout=log, stderr=log, env=_direct(), start_new_session=True
            )

    def stop(self, sign: signal.Signals = signal.SIGTERM) -> None:
        """Ends it with all that it started; what does not heed the signal is killed."""
        if self._process is None:
            return
        _signal(self._process.pid, sign)
        try:
            self._process.wait(PATIENCE_SECONDS / 4)
        except subprocess.TimeoutExpired:
            _signal(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._process = None

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        assert self._process is not None, f"{self.component.name} was never started"
        return self._process.pid

    def wait(self) -> None:
        """Until it is healthy. Raises RuntimeError with its last lines where that never comes."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not self.healthy():
            if not self.running or time.monotonic() > deadline:
                tail = "\n".join(self.log.read_text(errors="replace").splitlines()[-30:])
                raise RuntimeError(f"{self.component.name} is not healthy:\n{tail}")
            time.sleep(BETWEEN_LOOKS_SECONDS)

    def healthy(self) -> bool:
        try:
            with self._opener.open(self.component.health, timeout=LOOK_SECONDS):
                return True
        except OSError:
            return False

    def _command(self) -> list[str]:
        if self.component.hosts is None:
            return [*WITH_PARENT, *self.component.command]
        bound = (*OWN_HOSTS, BIND_HOSTS, str(self.component.hosts))
        return [*WITH_PARENT, *bound, *self.component.command]


def _signal(group: int, sign: signal.Signals) -> None:
    try:
        os.killpg(group, sign)
    except ProcessLookupError:
        return  # it has ended by itself


def _direct() -> dict[str, str]:
    """No proxy stands between the components."""
    return {key: value for key, value in os.environ.items() if not key.lower().endswith("_proxy")}
