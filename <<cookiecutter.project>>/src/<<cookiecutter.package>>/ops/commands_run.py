"""The verbs of one run."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from ..console import show
from ..errors import InputError
from ..options import CONFIG, ConfigOption, JsonOption, SetOption
from . import opening, texts
from .cost import read_prices
from .opening import AllOption, DryRun, ImageOption, RunOption
from .schedule import schedule

if TYPE_CHECKING:
    from .desk import Desk

FOREVER_MINUTES = 60 * 24 * 365


def _minutes(value: float) -> float:
    # Written so that "nan", which is a number to Python, is refused too.
    if not 0 <= value <= FOREVER_MINUTES:
        raise typer.BadParameter(
            f"{value:g} is no time to watch; give minutes, from 0 to {FOREVER_MINUTES}"
        )
    return value


Timeout = Annotated[
    float,
    typer.Option(
        "--timeout",
        metavar="MINUTES",
        callback=_minutes,
        help="Stop watching then; the job goes on.",
    ),
]
IfEnded = Annotated[
    bool, typer.Option("--if-ended", help="Leave a run alone whose job has not ended.")
]
HandOver = Annotated[
    bool,
    typer.Option("--hand-over", help="A job that still runs after --timeout is no fault: exit 0."),
]
Port = Annotated[int, typer.Option("--port", min=1, max=65535, help="The port on this machine.")]


def plan(
    config: ConfigOption = CONFIG,
    overrides: SetOption = [],  # noqa: B006 (typer gives each call a list of its own)
    run: RunOption = "",
    as_json: JsonOption = False,
) -> None:
    """What would be rented, for how long, and what it costs at most. Asks nobody."""
    found = opening.settings(config, overrides, run)
    prices = read_prices()
    show(texts.plan(found, schedule(found, prices), prices), as_json, texts.plan_text)


def provision(
    config: ConfigOption = CONFIG,
    overrides: SetOption = [],  # noqa: B006
    run: RunOption = "",
    dry_run: DryRun = False,
    as_json: JsonOption = False,
) -> None:
    """Make the node pools of the run's slices: each kind of capacity in each zone, in order.

    The same command again goes on where it was, and changes nothing once the slices are there.
    """
    if dry_run:
        return plan(config, overrides, run, as_json)
    with opening.desk(config, overrides, run) as desk:
        from .provision import provision as work

        result = asdict(work(desk, schedule(desk.config, read_prices())))
    return show(result, as_json, texts.provisioned_text)


def submit(
    image: ImageOption,
    config: ConfigOption = CONFIG,
    overrides: SetOption = [],  # noqa: B006
    run: RunOption = "",
    dry_run: DryRun = False,
    as_json: JsonOption = False,
) -> None:
    """Start the run's job and return at once; `--set` reaches the training too.

    The same run name again is the same run: nothing is started twice.
    """
    with opening.desk(config, overrides, run) as desk:
        from .submit import submit as work
        from .submit import would_submit

        when = schedule(desk.config, read_prices())
        if dry_run:
            return show(would_submit(desk, image, when, overrides), True, str)
        result = asdict(work(desk, image, when, overrides))
    return show(result, as_json, texts.submitted_text)


def watch(
    config: ConfigOption = CONFIG,
    overrides: SetOption = [],  # noqa: B006
    run: RunOption = "",
    timeout: Timeout = FOREVER_MINUTES,
    hand_over: HandOver = False,
    everyone: AllOption = False,
    as_json: JsonOption = False,
) -> None:
    """Follow the run's job: state, what its pods wait for, its log. Ends with the job's exit code.

    A lost connection or an expired login ends nothing: neither the job nor, for an hour, this.
    """
    with opening.desk(config, overrides, run) as desk:
        from .runs import each

        found = each(desk, everyone, lambda one: _watch(one, timeout * 60, hand_over))
    show({"runs": found} if everyone else found[0], as_json, texts.watched_text)


def _watch(desk: Desk, seconds: float, hand_over: bool) -> dict[str, object]:
    from .watch import StillRunning, Watch, verdict

    following = Watch(desk)
    try:
        job = following.follow(seconds)
    except StillRunning:
        if not hand_over:
            raise
        return {"run": desk.run, "alive": True}
    if failure := verdict(job, following.waits_for):
        raise failure
    return {"run": desk.run, **asdict(job)}


def logs(
    config: ConfigOption = CONFIG,
    overrides: SetOption = [],  # noqa: B006
    run: RunOption = "",
) -> None:
    """Print the log of the run's job as it is now; `ops watch` follows it."""
    with opening.desk(config, overrides, run) as desk:
        from .watch import log_of

        print(log_of(desk), end="")


def dashboard(
    config: ConfigOption = CONFIG,
    overrides: SetOption = [],  # noqa: B006
    run: RunOption = "",
    port: Port = 8265,
) -> None:
    """Bring Ray's dashboard of the run to this machine; the connection is made again when lost."""
    with opening.desk(config, overrides, run) as desk:
        from .dashboard import forward

        forward(desk, port)


def teardown(
    config: ConfigOption = CONFIG,
    overrides: SetOption = [],  # noqa: B006
    run: RunOption = "",
    if_ended: IfEnded = False,
    everyone: AllOption = False,
    dry_run: DryRun = False,
    as_json: JsonOption = False,
) -> None:
    """Remove all of the run: job, Ray cluster, node pools, policies; then look whether it is gone.

    What a failed run leaves to be read (pods, events, logs) goes to the bucket before. Checkpoints
    stay.
    """
    with opening.desk(config, overrides, run) as desk:
        from .runs import each

        if everyone and not if_ended:
            raise InputError(
                "--all would end runs that are alive", "the command line", "add --if-ended"
            )
        found = each(desk, everyone, lambda one: _teardown(one, if_ended, dry_run))
    show({"runs": found} if everyone else found[0], as_json, texts.torn_text)


def _teardown(desk: Desk, if_ended: bool, dry_run: bool) -> dict[str, object]:
    from .teardown import alive, teardown
    from .things import of_run

    found = of_run(desk) if if_ended or dry_run else None
    if found and found.faults:
        raise found.faults[0]
    if found and if_ended and alive(found):
        return {"run": desk.run, "alive": True, "removed": [], "evidence": []}
    if found and dry_run:
        return {"run": desk.run, "would_remove": [str(thing) for thing in found.things]}
    return asdict(teardown(desk, read_prices()))
