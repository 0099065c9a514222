"""The verbs of the whole project."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..console import show
from ..options import CONFIG, ConfigOption, JsonOption, SetOption
from . import opening, texts
from .cost import read_prices
from .opening import RunOption, SummaryOption
from .schedule import schedule

if TYPE_CHECKING:
    from .sweep import Sweep

Yes = Annotated[
    bool,
    typer.Option("--yes", envvar="OPS_YES", help="Remove what was found; without it only look."),
]
Issue = Annotated[
    bool, typer.Option("--issue", help="Tell what was found in one issue on GitHub, by `gh`.")
]


def status(
    config: ConfigOption = CONFIG,
    overrides: SetOption = [],  # noqa: B006 (typer gives each call a list of its own)
    as_json: JsonOption = False,
) -> None:
    """All runs that have something in the cloud: state, age, chips, cost so far, expiry."""
    with opening.desk(config, overrides) as desk:
        from .status import rows
        from .things import of_project

        found = of_project(desk)
        table = [asdict(row) for row in rows(desk, found, read_prices())]
    now = desk.clock.now()
    show(
        {"runs": table, "unseen": found.unseen},
        as_json,
        lambda result: texts.status_text(result, now),
    )


def cost(
    config: ConfigOption = CONFIG,
    overrides: SetOption = [],  # noqa: B006
    run: RunOption = "",
    as_json: JsonOption = False,
) -> None:
    """What the run may cost at most, and what it has cost, in chips x hours and money."""
    with opening.desk(config, overrides, run) as desk:
        from .ledger import entries
        from .ledger import read as read_ledger
        from .things import of_run

        prices = read_prices()
        found = of_run(desk)
        if found.faults:
            raise found.faults[0]
        now = entries(desk, found.things, prices)
        begun = {entry.created_at for entry in now}
        past = [entry for entry in read_ledger(desk, desk.run) if entry.created_at not in begun]
        estimate = texts.plan(desk.config, schedule(desk.config, prices), prices)
    result = {"estimate": estimate, "entries": [asdict(entry) for entry in [*past, *now]]}
    show(result, as_json, texts.cost_text)


def sweep(
    config: ConfigOption = CONFIG,
    overrides: SetOption = [],  # noqa: B006
    yes: Yes = False,
    summary: SummaryOption = None,
    issue: Issue = False,
    as_json: JsonOption = False,
) -> None:
    """Find what is forgotten, in all clusters and locations: expired, failed, without a living run.

    Only things with this project's labels are ever touched. Exit code 8: something of ours stays,
    or its fate is unclear.
    """
    with opening.desk(config, overrides) as desk:
        from .ledger import pool_costs
        from .summaries import sweep_markdown
        from .sweep import look
        from .sweep import sweep as work

        seen = look(desk)
        spent = pool_costs(desk, [item.thing for item in seen.judgements], read_prices())
        done = work(desk, seen, read_prices()) if yes else seen
    result = texts.sweep(done, spent)
    _tell(done, sweep_markdown(result, desk.clock.now()), summary, issue)
    show(result, as_json, texts.sweep_text)
    if failure := done.failure():
        raise failure


def _tell(done: Sweep, text: str, summary: Path | None, issue: bool) -> None:
    """What is found to be in order is no matter for an issue."""
    from .issue import tell
    from .summaries import append

    append(summary, text)
    if issue and (done.those("remove") or done.failure()):
        tell(text)
