"""What a push needs around a run: its image before, its report after."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..console import show
from ..options import CONFIG, ConfigOption, JsonOption, SetOption
from . import opening, texts
from .cost import read_prices
from .opening import AllOption, RunOption, SummaryOption

if TYPE_CHECKING:
    from .desk import Desk

Output = Annotated[
    Path | None,
    typer.Option("--output", metavar="FILE", help="Also append IMAGE=... to this file."),
]


def build(
    config: ConfigOption = CONFIG,
    overrides: SetOption = [],  # noqa: B006 (typer gives each call a list of its own)
    run: RunOption = "",
    output: Output = None,
    as_json: JsonOption = False,
) -> None:
    """Build the Dockerfile beside run.toml, push it to the registry, tell its digest."""
    with opening.desk(config, overrides, run) as desk:
        from .image import build as work
        from .summaries import append

        result = asdict(work(desk, config.absolute().parent))
        append(output, f"IMAGE={result['image']}")
    show(result, as_json, texts.built_text)


def report(
    config: ConfigOption = CONFIG,
    overrides: SetOption = [],  # noqa: B006
    run: RunOption = "",
    everyone: AllOption = False,
    summary: SummaryOption = None,
    as_json: JsonOption = False,
) -> None:
    """Tell what the run achieved and cost; a picture of its loss goes to its folder.

    *ops report --set run.storage=runs* tells of what `train --local` did on this machine.
    """
    with opening.desk(config, overrides, run) as desk:
        from .runs import each

        results = each(desk, everyone, lambda one: _report(one, summary))
    show({"runs": results}, as_json, texts.report_text)


def _report(desk: Desk, summary: Path | None) -> dict[str, Any]:
    from . import storage
    from .report import gather
    from .summaries import append, picture, run_markdown, run_rows

    found = gather(desk, read_prices())
    append(summary, run_markdown(found))
    if found.points:
        storage.write(found.picture, picture(found))
    return {**asdict(found), "rows": run_rows(found)}
