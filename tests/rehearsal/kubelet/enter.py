"""Begins a container: `python enter.py SPEC PIPE`, standard library only.

Makes the namespaces and the root that the container sees, and becomes its command. Told through
PIPE, a line of JSON each, in either order: the number of the container's first process, and why it
could not begin, if so.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import shutil
import signal
import socket
import sys
from pathlib import Path
from typing import Any

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x00020000, 0x04000000, 0x08000000
CLONE_NEWPID, CLONE_NEWNET = 0x20000000, 0x40000000
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 32, 4096, 16384, 1 << 18
PR_SET_PDEATHSIG = 1
CANNOT_START = 128
OPEN_FILES = 1 << 20  # as containerd allows them
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
LIBC = ctypes.CDLL(None, use_errno=True)
Spec = dict[str, Any]


def main() -> None:
    spec: Spec = json.loads(Path(sys.argv[1]).read_text())
    pipe = int(sys.argv[2])
    os.set_inheritable(pipe, False)
    with Path(spec["network"]).open() as network:
        _checked(LIBC.setns(network.fileno(), CLONE_NEWNET), spec["network"])
    apart = CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWPID
    _checked(LIBC.unshare(apart), "unshare")
    child = os.fork()
    if child == 0:
        _become(spec, pipe)
    _tell(pipe, first=child)
    os.close(pipe)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    os._exit(code if code >= 0 else 128 - code)


def _become(spec: Spec, pipe: int) -> None:
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    try:
        socket.sethostname(spec["hostname"])
        _make_root(spec)
        # A machine that is itself a sandbox may forbid it; then its own limit holds.
        with contextlib.suppress(ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES, OPEN_FILES))
        os.setgroups([])
        os.setgid(spec["user"])
        os.setuid(spec["user"])
        os.chdir(spec["directory"])
        os.execve(_found(spec), spec["command"], spec["environment"])  # noqa: S606
    except Exception as error:
        _tell(pipe, refusal=str(error))
    os._exit(CANNOT_START)


def _tell(pipe: int, **answer: object) -> None:
    """In one write: parent and child share the pipe."""
    os.write(pipe, f"{json.dumps(answer)}\n".encode())


def _found(spec: Spec) -> str:
    name: str = spec["command"][0]
    found = shutil.which(name, path=spec["environment"]["PATH"])
    if found is None:
        raise OSError(f'exec: "{name}": executable file not found in $PATH')
    return found


def _make_root(spec: Spec) -> None:
    root = Path(spec["root"])
    # What is mounted here must not be seen outside.
    _mount("none", Path("/"), "", MS_REC | MS_PRIVATE)
    _mount("tmpfs", root, "tmpfs", 0, "mode=755")
    for source, target, kind in spec["binds"]:
        _bind(Path(source), root / target.lstrip("/"), kind)
    for target, source in spec["links"]:
        _parent(root / target.lstrip("/")).symlink_to(source)
    for target, text in spec["files"]:
        _parent(root / target.lstrip("/")).write_text(text)
    _make_devices(root, spec["chips"])
    (root / "proc").mkdir()
    _mount("proc", root / "proc", "proc")
    os.chroot(root)
    os.chdir("/")


def _make_devices(root: Path, chips: int) -> None:
    for name in DEVICES:
        _bind(Path("/dev", name), root / "dev" / name, "write")
    (root / "dev" / "fd").symlink_to("/proc/self/fd")
    for number in range(chips):
        # Only counted: nothing here opens a chip.
        (root / "dev" / f"accel{number}").touch()
    shared = root / "dev" / "shm"
    if not shared.exists():
        shared.mkdir()
        # As small as a container's is where no volume is mounted on it.
        _mount("tmpfs", shared, "tmpfs", 0, "size=64m,mode=1777")


def _bind(source: Path, target: Path, kind: str) -> None:
    if source.is_dir():
        target.mkdir(parents=True, exist_ok=True)
    else:
        _parent(target).touch()
    _mount(str(source), target, "", MS_BIND | MS_REC)
    if kind == "read":
        _mount("none", target, "", MS_BIND | MS_REMOUNT | MS_RDONLY)


def _parent(target: Path) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    return target


def _mount(source: str, target: Path, kind: str, flags: int = 0, options: str = "") -> None:
    words = (source.encode(), str(target).encode(), kind.encode(), flags, options.encode())
    _checked(LIBC.mount(*words), f"{source} on {target}")


def _checked(result: int, what: str) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)


if __name__ == "__main__":
    main()
