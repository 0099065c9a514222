"""A generated project's command as a process that can be watched, and killed part by part."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

PROJECT = Path(os.environ.get("PROJECT", "."))
PACKAGE = os.environ.get("PACKAGE", "tpu_training")
MARK = "REHEARSAL_MARK"
PATIENCE_SECONDS = 300.0

SMALL = {
    "data.input": "stdlib",
    "train.steps": 24,
    "train.warmup_steps": 2,
    "checkpoint.every": 4,
}


def settings(storage: str, data: Path, **changed: object) -> list[str]:
    """--set words of a small run; `hardware_workers=2` stands for hardware.workers=2."""
    own = {key.replace("_", ".", 1): value for key, value in changed.items()}
    values = {**SMALL, "run.storage": storage, "data.shards": data, **own}
    return [word for key, value in values.items() for word in ("--set", f"{key}={value}")]


class Training:
    """`python -m PACKAGE.train ...`, in a session of its own; its processes carry a mark."""

    def __init__(self, log: Path, *words: str, **environment: str) -> None:
        self.mark = uuid.uuid4().hex
        self.log = log
        self._file = log.open("a")
        self.process = subprocess.Popen(
            [sys.executable, "-m", f"{PACKAGE}.train", *words],
            cwd=PROJECT,
            stdout=self._file,
            stderr=subprocess.STDOUT,
            env={**os.environ, MARK: self.mark, **environment},
            start_new_session=True,
        )

    def wait(self) -> int:
        code = self.process.wait(timeout=PATIENCE_SECONDS)
        self._file.close()
        return code

    def until(self, condition: Callable[[], bool]) -> None:
        """Polls as fast as it can: the moments that matter are short."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not condition():
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.001)

    def kill(self, part: str) -> None:
        """SIGKILL for the driver, or for all processes of ours whose title holds `part`."""
        pids = [self.process.pid] if part == "driver" else list(self.pids(part))
        assert pids, f"no {part} is running"
        for pid in pids:
            os.kill(pid, signal.SIGKILL)

    def pids(self, part: str = "") -> Iterator[int]:
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit() and self._is_ours(folder) and part in _title(folder):
                yield int(folder.name)

    def clear(self) -> None:
        """Ends what a killed run left running."""
        for pid in self.pids():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue

    def _is_ours(self, folder: Path) -> bool:
        try:
            return f"{MARK}={self.mark}".encode() in (folder / "environ").read_bytes()
        except OSError:
            return False


def _title(folder: Path) -> str:
    try:
        return (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def train(log: Path, *words: str, **environment: str) -> str:
    """A run to its end; what it printed."""
    running = Training(log, *words, **environment)
    code = running.wait()
    assert code == 0, log.read_text()
    return log.read_text()


def rows(storage: Path) -> list[Mapping[str, Any]]:
    """The whole rows of the run's metrics so far."""
    lines = [line for path in storage.glob("*/metrics.jsonl") for line in path.open()]
    return [json.loads(line) for line in lines if line.endswith("}\n")]


def losses(storage: Path) -> list[float]:
    found = rows(storage)
    assert [row["step"] for row in found] == list(range(len(found)))
    return [row["loss"] for row in found]


def incomplete(storage: Path) -> list[Path]:
    """Checkpoints that are being written, or never were to the end."""
    folders = storage.glob("*/checkpoints/step-*")
    return [folder for folder in folders if not (folder / "checkpoint.json").exists()]
