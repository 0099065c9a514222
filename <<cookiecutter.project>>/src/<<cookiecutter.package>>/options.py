"""Options that more than one command takes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

CONFIG = Path("run.toml")

ConfigOption = Annotated[Path, typer.Option("--config", help="The file of settings.")]
SetOption = Annotated[
    list[str],
    typer.Option(
        "--set",
        envvar="OPS_SET",
        metavar="KEY=VALUE",
        help="Override a setting: --set train.steps=500",
    ),
]
LocalOption = Annotated[
    bool,
    typer.Option(
        "--local", help="Work here: virtual CPU devices for the chips, files beside run.toml."
    ),
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Check the settings, say what would run, change nothing.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
