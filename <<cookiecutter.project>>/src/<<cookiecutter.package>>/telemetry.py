"""What a run tells: metrics of each step, phases by name. Nothing here stalls the device."""

from __future__ import annotations

import json
import logging
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

from .metrics import METRICS, read_rows
from .mirror import Mirror

log = logging.getLogger(__name__)

LAG = 2
"""A step's loss is read this many steps later, when the device has long gone on to the next."""


class Sink(Protocol):
    """Takes the metrics of one step."""

    def write(self, row: Mapping[str, Any]) -> None: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Pending:
    """A step that the device may still be working on."""

    step: int
    loss: Tensor
    norm: Tensor
    learning_rate: float
    waited: float
    """Seconds that the loop waited for this step's data."""


class Phases:
    """Seconds spent under a name."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.add(name, time.perf_counter() - start)

    def add(self, name: str, seconds: float) -> None:
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds


class Telemetry:
    """Reads each step's tensors `LAG` steps late and hands the row to the sinks.

    `tokens` are those of one step over all devices; `flops` those of one token; `peak` is what all
    chips together can do in a second, or None where that is not known. `earlier` is what the
    checkpoint that the run goes on from kept of `progress`.
    """

    def __init__(
        self,
        sinks: list[Sink],
        tokens: int,
        flops: int,
        peak: float | None,
        earlier: Mapping[str, Any],
    ) -> None:
        self._sinks, self._tokens, self._flops, self._peak = sinks, tokens, flops, peak
        self._pending: deque[tuple[Pending, float]] = deque()
        self._mark = time.perf_counter()
        self._began: float = earlier.get("began", time.time())
        self._productive: float = earlier.get("productive_seconds", 0.0)
        self._steady = [0, 0.0]
        self.rows: list[dict[str, Any]] = []

    def step(self, pending: Pending) -> None:
        """Takes a step just handed to the device, and waits for the one `LAG` before it.

        That wait holds the loop to the device's pace; the time between two calls is a step's time.
        """
        while len(self._pending) >= LAG:
            self._read()
        self._pending.append((pending, self._lap()))

    def flush(self) -> None:
        """Waits for all steps that are under way."""
        while self._pending:
            self._read()
        self._count(0, self._lap())

    def skip(self) -> None:
        """What passed since the last step was no part of a step."""
        self._lap()

    def close(self) -> None:
        for sink in self._sinks:
            sink.close()

    def progress(self) -> dict[str, float]:
        """What a checkpoint keeps, so that goodput counts what was lost between attempts."""
        return {"began": self._began, "productive_seconds": self._productive}

    @property
    def goodput(self) -> float:
        """Share of the run's wall time, over all its attempts, spent in steps that it kept."""
        return self._productive / max(time.time() - self._began, 1e-9)

    @property
    def tokens_per_second(self) -> float | None:
        """Of this attempt, without its first step, which compiles; None before the second."""
        steps, seconds = self._steady
        return steps * self._tokens / seconds if steps and seconds else None

    def mfu(self, tokens_per_second: float | None) -> float | None:
        if not (self._peak and tokens_per_second):
            return None
        return tokens_per_second * self._flops / self._peak

    def _lap(self) -> float:
        before, self._mark = self._mark, time.perf_counter()
        return self._mark - before

    def _count(self, steps: int, seconds: float) -> None:
        if self.rows:
            self._steady = [self._steady[0] + steps, self._steady[1] + seconds]
            self._productive += seconds

    def _read(self) -> None:
        pending, seconds = self._pending.popleft()
        loss, norm = float(pending.loss.item()), float(pending.norm.item())
        self._count(1, seconds)
        rate = self._tokens / seconds
        row = {
            "step": pending.step,
            "loss": loss,
            "grad_norm": norm,
            "learning_rate": pending.learning_rate,
            "seconds": seconds,
            "data_seconds": pending.waited,
            "tokens_per_second": rate,
            "mfu": self.mfu(rate),
        }
        self.rows.append(row)
        for sink in self._sinks:
            sink.write(row)


class JsonLines:
    """metrics.jsonl: one row a step; a run that goes on drops the rows after its checkpoint."""

    NAME = METRICS

    def __init__(self, mirror: Mirror, start: int) -> None:
        mirror.pull(self.NAME)
        path = mirror.folder / self.NAME
        kept = (
            [row for row in read_rows(path.read_text()) if row["step"] < start]
            if path.exists()
            else []
        )
        # Line buffered: a killed run leaves whole rows.
        self._file = path.open("w", buffering=1, encoding="utf-8")
        for row in kept:
            self.write(row)

    def write(self, row: Mapping[str, Any]) -> None:
        self._file.write(json.dumps(row) + "\n")

    def close(self) -> None:
        self._file.close()


class TensorBoard:
    """Scalars for TensorBoard; a run that goes on purges what came after its checkpoint."""

    def __init__(self, mirror: Mirror, start: int) -> None:
        from tensorboardX import SummaryWriter

        self._writer = SummaryWriter(str(mirror.folder / "tensorboard"), purge_step=start)

    def write(self, row: Mapping[str, Any]) -> None:
        for name, value in row.items():
            if name != "step" and value is not None:
                self._writer.add_scalar(name, value, row["step"])

    def close(self) -> None:
        self._writer.close()


class Lines:
    """A line every so many steps, for logs."""

    def __init__(self, every: int, start: int, steps: int) -> None:
        self._every, self._start, self._steps = every, start, steps

    def write(self, row: Mapping[str, Any]) -> None:
        step = row["step"] + 1
        if step == self._start + 1 or step % self._every == 0 or step == self._steps:
            log.info(describe(row, self._steps))

    def close(self) -> None:
        """Nothing is held back."""


def describe(row: Mapping[str, Any], steps: int) -> str:
    rate = f"{row['tokens_per_second']:,.0f} tokens/s"
    text = f"step {row['step'] + 1}/{steps}  loss {row['loss']:.4f}  {rate}"
    return text if row["mfu"] is None else f"{text}  MFU {row['mfu']:.1%}"


class Bar:
    """A progress bar, for a person at a terminal."""

    def __init__(self, start: int, steps: int) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        self._bar = Progress(TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
        self._steps = steps
        self._task = self._bar.add_task("first step: compiling", total=steps, completed=start)
        self._bar.start()

    def write(self, row: Mapping[str, Any]) -> None:
        text = describe(row, self._steps)
        self._bar.update(self._task, completed=row["step"] + 1, description=text)

    def close(self) -> None:
        self._bar.stop()
