"""A made project as its user pushes it, in a folder of its own, for the runners of both CI systems.

The login and Docker are stand-ins; the workflows, `ops`, the bucket and the protocols are not.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import fsspec

from rehearsal.gcs import applied, emulator
from rehearsal.ops.life import PACKAGE, Life, simulated
from rehearsal.ops.test_command import login
from rehearsal.ops.test_push import DOCKER, stand_in

HURRIED = Path(__file__).with_name("hurried.py")
PATIENCE_SECONDS = 400
RATE = 120.0
LONG = ("cloud.deadline_hours=20", "cloud.budget_usd=10000")
"""Longer than a slow machine takes to cancel a job."""

PASSED = (
    "PATH",
    "PYTHONPATH",
    "LANG",
    "STORAGE_EMULATOR_HOST",
    "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT",
)
"""What a runner's processes have of the test's; gcloud's variables stand for its configuration."""

PASSES = '#!/bin/sh\necho "$OPS_BEFORE_RENTING $*" >> {log}\n'
REFUSES = f"{PASSES}echo 'the step does not fit'; exit 2\n"
"""In the place of the TPU's compiler, whom the project's own tests ask."""

KEPT = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
ASKS = f'#!/bin/sh\nXDG_CACHE_HOME={KEPT} exec ops preflight "$@"\n'
"""The compiler itself, from where it is kept."""

SLOW = "#!/bin/sh\nsleep 1000\n"
"""A Docker that never ends, so that its job can be cancelled."""

MARK = "REHEARSED_PUSH"
"""Tells the processes of one push from all others."""


@contextmanager
def simulated_with_bucket() -> Iterator[Life]:
    """A cloud whose bucket is the real emulator's; `RATE` simulated seconds pass in each one."""
    with (
        emulator() as storage,
        applied(storage.environment),
        simulated(f"gs://{storage.bucket}/runs", *LONG) as life,
    ):
        os.environ["CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE"] = f"{storage.url}/storage/v1/"
        life.cloud.run(RATE)
        yield life


class Project:
    """`folder` gets the project, the stand-ins, the login, and the log of what runs there."""

    def __init__(
        self,
        life: Life,
        folder: Path,
        docker: str = DOCKER,
        judge: str = PASSES,
        rate: float = RATE,
    ) -> None:
        self.life, self.folder, self.root = life, folder, folder / "project"
        self.log = folder / "run.log"
        folder.mkdir(exist_ok=True)
        leave = shutil.ignore_patterns(".nox", ".git", "__pycache__", ".*_cache")
        shutil.copytree(os.environ["PROJECT"], self.root, ignore=leave)
        (self.root / "Dockerfile").write_text("FROM scratch\n")
        self._settle()
        stand_in(folder, "docker", docker)
        self.judged = stand_in(folder, "judge", judge)
        hurried = (sys.executable, HURRIED, PACKAGE, life.cloud.url, rate)
        stand_in(folder, "ops", f'#!/bin/sh\nexec {" ".join(map(str, hurried))} "$@"\n')

    def _settle(self) -> None:
        """run.toml as a user would have edited it."""
        file = self.root / "run.toml"
        lines = file.read_text().splitlines()
        for override in self.life.overrides:
            key, _, value = override.partition("=")
            section, name = key.split(".")
            start = lines.index(f"[{section}]")
            number = next(n for n, line in enumerate(lines) if n > start and line.startswith(name))
            bare = value[0] in "[0123456789" or value in ("true", "false")
            lines[number] = f"{name} = {value if bare else json.dumps(value)}"
        file.write_text("\n".join(lines) + "\n")

    def environment(self, **more: str) -> dict[str, str]:
        passed = {
            name: value
            for name, value in os.environ.items()
            if name in PASSED or name.startswith(("CLOUDSDK_", "GOOGLE_"))
        }
        account = login(self.folder, self.life.cloud.url)
        mine = {"HOME": str(self.folder), "GOOGLE_APPLICATION_CREDENTIALS": account}
        mine[MARK] = str(self.folder)
        return {**passed, **mine, **more}

    def text(self) -> str:
        return self.log.read_text()


class Pushed(Project, ABC):
    """What a runner makes of the project."""

    def wait_for_chips(self) -> None:
        """Waits until something is rented."""
        self._wait(lambda: bool(self.life.cloud.ours()))

    def _wait(self, reached: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not reached():
            assert not self.ended() and time.monotonic() < deadline, self.text()
            time.sleep(0.05)

    @abstractmethod
    def ended(self) -> bool:
        """Whether what was pushed runs no more."""

    def kill(self) -> None:
        """The machine that runs it is lost: every process of it, at once."""
        while processes := list(living(f"{MARK}={self.folder}")):
            for process in processes:
                with_no_regard(process)


def living(mark: str) -> Iterator[int]:
    """Processes that have this variable."""
    for place in Path("/proc").glob("[0-9]*"):
        try:
            variables = (place / "environ").read_bytes().split(b"\0")
            state = (place / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue  # it has ended meanwhile
        if mark.encode() in variables and state != "Z":
            yield int(place.name)


def with_no_regard(process: int) -> None:
    try:
        os.kill(process, signal.SIGKILL)
    except ProcessLookupError:
        return  # it has ended meanwhile


def assert_kept(checkpoint: str) -> None:
    assert fsspec.filesystem("gs").exists(f"gs://{checkpoint}/checkpoint.json")


def evidence(life: Life) -> list[str]:
    """What was kept of failed runs."""
    found: list[str] = fsspec.filesystem("gs").glob(f"{life.folder}/*/failures/*/rayjob.json")
    return found
