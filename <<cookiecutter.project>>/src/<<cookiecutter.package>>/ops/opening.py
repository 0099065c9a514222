"""How a verb begins: settings read, clients ready, a voice for what takes its time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..config import Config
from ..settings import load

if TYPE_CHECKING:
    from .desk import Desk

RunOption = Annotated[
    str,
    typer.Option(
        "--run", envvar="OPS_RUN", help="The run's name; run.name of run.toml if not given."
    ),
]
ImageOption = Annotated[
    str,
    typer.Option("--image", envvar="IMAGE", help="The image by digest: REGISTRY/NAME@sha256:..."),
]
AllOption = Annotated[
    bool, typer.Option("--all", help="Each run whose job is alive, or ended a while ago.")
]
SummaryOption = Annotated[
    Path | None,
    typer.Option("--summary", metavar="FILE", help="Also append it to this file, as Markdown."),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Say what would be done, and change nothing.")
]

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells know it: 128 + SIGINT."""


def settings(config: Path, overrides: Sequence[str], run: str = "") -> Config:
    """run.toml with `--set` and `--run` laid over it. Raises InputError, NotFound."""
    return load(config, [*overrides, *([f"run.name={run}"] if run else [])])


@contextmanager
def desk(config: Path, overrides: Sequence[str], run: str = "") -> Iterator[Desk]:
    found = settings(config, overrides, run)
    # Google's and Kubernetes' clients take a second to load: a wrong setting is told before.
    from .clock import WallClock
    from .desk import Desk
    from .voice import Voice

    clock = WallClock()
    voice = Voice(clock.now)
    try:
        yield Desk(found, voice, clock)
    except KeyboardInterrupt:
        voice("interrupted; the same command goes on, `ops teardown` removes what was begun")
        raise typer.Exit(INTERRUPTED) from None
    finally:
        voice.done()
