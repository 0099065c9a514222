"""One run of a container: a process in namespaces of its own, its output, and its end."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections import ChainMap
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rehearsal.kubelet import machine
from rehearsal.kubelet.images import Bind, Image
from rehearsal.kubelet.logs import Log
from rehearsal.plane.binaries import CannotRehearse

ENTER = Path(__file__).with_name("enter.py")
WRITABLE = {"/tmp": 0o1777, "/var/tmp": 0o1777, "/run": 0o755, "/root": 0o755}  # noqa: S108
TIMED_OUT = 124


@dataclass(frozen=True)
class Launch:
    """All that a run is made of; `network` is the file of the pod's namespace."""

    command: Sequence[str]
    environment: Mapping[str, str]
    image: Image
    network: str
    hostname: str
    binds: Sequence[Bind] = ()
    directory: str = "/"
    user: int = 0
    chips: int = 0


class StartError(Exception):
    """The command could not be begun; in a runtime's words."""


class Container:
    """Raises StartError where the command cannot begin; else it runs from here on."""

    def __init__(self, launch: Launch, folder: Path, log: Log) -> None:
        self.launch, self._folder = launch, folder
        reader, writer = os.pipe()
        spec = folder / "spec.json"
        spec.write_text(json.dumps(self._spec()))
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(ENTER), str(spec), str(writer)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=[writer],
            start_new_session=True,
        )
        os.close(writer)
        self._pump = threading.Thread(target=log.take, args=(self._process.stdout,), daemon=True)
        self._pump.start()
        with os.fdopen(reader) as answers:
            told = ChainMap(*map(json.loads, answers))
        if "refusal" in told or "first" not in told:
            raise StartError(told.get("refusal") or f"the runtime ended with {self.wait()}")
        self._first = int(told["first"])

    def wait(self) -> int:
        """The exit code; all that it wrote is in the log by then."""
        code = self._process.wait()
        self._pump.join()
        return code

    def wait_for(self, seconds: float) -> bool:
        """False if it still runs."""
        try:
            self._process.wait(max(0.0, seconds))
        except subprocess.TimeoutExpired:
            return False
        return True

    def signal(self, sign: signal.Signals) -> None:
        """To the first process, as a runtime does it; SIGKILL ends the others with it."""
        if self._process.poll() is None:
            machine.kill(self._first, sign)

    def execute(self, command: Sequence[str], seconds: float) -> tuple[int, str]:
        """Runs a command inside; its exit code and output."""
        process = subprocess.Popen(
            [*self._inside(), *command],
            env=dict(self.launch.environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=max(0.0, seconds))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            return TIMED_OUT, f"command timed out after {seconds:.0f} s: {output}"
        return process.returncode, output

    def _inside(self) -> list[str]:
        user, root = str(self.launch.user), f"/proc/{self._first}/root"
        spaces = ("--mount", "--uts", "--ipc", "--net", "--pid", f"--root={root}")
        where = [_tool("nsenter"), f"--target={self._first}", *spaces]
        where.append(f"--wd={root}{self.launch.directory}")
        return [*where, "setpriv", "--reuid", user, "--regid", user, "--clear-groups", "--"]

    def _spec(self) -> dict[str, object]:
        launch, image = self.launch, self.launch.image
        told = {key: value for key, value in asdict(launch).items() if key != "image"}
        root = self._folder / "root"
        root.mkdir(exist_ok=True)
        return {
            **told,
            "binds": [*self._scratch(), *image.binds(), *launch.binds],
            "links": list(image.links()),
            "files": list(image.files()),
            "root": str(root),
        }

    def _scratch(self) -> list[Bind]:
        """What the image's users may write to, empty again at each start."""
        places = {**WRITABLE, "/home/ray": 0o755}
        found = []
        for place, mode in places.items():
            folder = self._folder / "scratch" / place.strip("/").replace("/", "-")
            if folder.exists():
                shutil.rmtree(folder)
            folder.mkdir(parents=True)
            folder.chmod(mode)
            if place.startswith("/home"):
                os.chown(folder, 1000, 1000)
            found.append((str(folder), place, "write"))
        return found


def _tool(name: str) -> str:
    """By its whole path: the container's PATH is not ours."""
    found = shutil.which(name)
    if found is None:
        raise CannotRehearse(f"pods need {name} (package util-linux)")
    return found
