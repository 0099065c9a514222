"""How far prepare is: one bar at a terminal, plain lines anywhere else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from .shards import Shard

_LINES = 10


@dataclass(frozen=True)
class Prepared:
    """`input_bytes` of `total_bytes` are read; `tokens` are written in `shards`."""

    input_bytes: int
    total_bytes: int
    tokens: int
    documents: int
    shards: int

    def plus(self, shard: Shard | None, input_bytes: int) -> Prepared:
        return Prepared(
            self.input_bytes + input_bytes,
            self.total_bytes,
            self.tokens + (shard.tokens if shard else 0),
            self.documents + (shard.documents if shard else 0),
            self.shards + (1 if shard else 0),
        )

    def __str__(self) -> str:
        return f"{self.tokens:,} tokens of {self.documents:,} documents in {self.shards:,} shards"


Report = Callable[[Prepared], None]


@contextmanager
def console_report(console: Console) -> Iterator[Report]:
    if console.is_terminal:
        with _bar(console) as report:
            yield report
    else:
        yield _lines(console)


@contextmanager
def _bar(console: Console) -> Iterator[Report]:
    columns = (
        TextColumn("prepare"),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("", total=None)

        def report(state: Prepared) -> None:
            progress.update(
                task,
                completed=state.input_bytes,
                total=state.total_bytes,
                description=f"{state.tokens:,} tokens",
            )

        yield report


def _lines(console: Console) -> Report:
    printed = 0

    def report(state: Prepared) -> None:
        nonlocal printed
        share = state.input_bytes / max(state.total_bytes, 1)
        if int(share * _LINES) > printed:
            printed = int(share * _LINES)
            console.out(f"prepare: {share:.0%} of the input, {state}", highlight=False)

    return report
