"""What the stand-in needs of this machine, and what it takes off it again."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from rehearsal.plane.binaries import CannotRehearse

PREFIX = "rtk"
"""Of all interfaces, namespaces and folders that the stand-in makes."""
BRIDGE = f"{PREFIX}0"
LOCK = Path(tempfile.gettempdir()) / f"{PREFIX}.lock"
SCRATCH, SHARED = Path(tempfile.gettempdir()), Path("/dev/shm")  # noqa: S108 (memory is meant)
TOOLS = ("ip", "nsenter", "setpriv")
LOOKS, LOOK_SECONDS = 200, 0.05


def check() -> None:
    """Raises CannotRehearse with what is missing."""
    if os.geteuid() != 0:
        raise CannotRehearse("pods need network and mount namespaces, which only root can make")
    if missing := [tool for tool in TOOLS if shutil.which(tool) is None]:
        raise CannotRehearse(f"pods need {', '.join(missing)} (packages iproute2, util-linux)")
    if not SHARED.is_dir():
        raise CannotRehearse(f"there is no {SHARED} for volumes in memory")


def lock() -> int:
    """Waits until no other rehearsal has the bridge; whoever holds the descriptor has it."""
    held = os.open(LOCK, os.O_CREAT | os.O_RDWR, 0o600)
    fcntl.flock(held, fcntl.LOCK_EX)
    return held


def ip(*words: str) -> str:
    done = subprocess.run(["ip", *words], capture_output=True, text=True)
    if done.returncode:
        raise CannotRehearse(f"ip {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


def clear() -> None:
    """Ends and removes whatever a rehearsal left, also one that was killed."""
    names = [name for name in _namespaces() if name.startswith(PREFIX)]
    for name in names:
        end(name)
        remove(name)
    for line in ip("-oneline", "link", "show").splitlines():
        name = line.split(": ")[1].partition("@")[0]
        if name.startswith(PREFIX):
            remove(name)
    for place in (SCRATCH, SHARED):
        for folder in place.glob(f"{PREFIX}-*"):
            shutil.rmtree(folder)


def remove(name: str) -> None:
    """A namespace and its interface, whatever there still is of them: it may be just going."""
    subprocess.run(["ip", "link", "delete", name], capture_output=True)
    subprocess.run(["ip", "netns", "delete", name], capture_output=True)


def end(namespace: str) -> None:
    """Kills all that runs in a network namespace, and waits until it is gone."""
    for _ in range(LOOKS):
        # It may be gone already; then nothing runs in it.
        looked = subprocess.run(["ip", "netns", "pids", namespace], capture_output=True, text=True)
        pids = looked.stdout.split()
        if not pids:
            return
        for pid in pids:
            kill(int(pid), signal.SIGKILL)
        time.sleep(LOOK_SECONDS)
    raise CannotRehearse(f"processes {', '.join(pids)} in {namespace} do not end")


def kill(pid: int, sign: signal.Signals) -> bool:
    """False where there was nobody any more."""
    try:
        os.kill(pid, sign)
    except ProcessLookupError:
        return False
    return True


def _namespaces() -> list[str]:
    return [line.split()[0] for line in ip("netns", "list").splitlines() if line]
