"""The verb that judges the step before anything is rented."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..config import Config
from ..console import show
from ..errors import Failure, InputError, NotFound, Refused
from ..options import CONFIG, ConfigOption, JsonOption, SetOption
from . import opening, preflight_cases
from .clock import WallClock
from .cost import Prices, read_prices
from .opening import SummaryOption
from .voice import Voice

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SIGNALLED = 128
"""With the number of a signal it is the exit code after it, as shells know it."""
KINDS = (".png", ".svg")

if TYPE_CHECKING:
    from ..preflight.study import Study
    from ..preflight.verdict import Verdict

CompareOption = Annotated[
    list[str],
    typer.Option(
        "--compare",
        metavar="GENERATION:TOPOLOGY",
        help="Judge this slice too: v6e:2x2. Repeatable.",
    ),
]
PictureOption = Annotated[
    Path | None,
    typer.Option("--picture", metavar="FILE.png", help="Draw HBM, bound and cost of each slice."),
]
BeforeRentingOption = Annotated[
    bool,
    typer.Option(
        "--before-renting",
        envvar="OPS_BEFORE_RENTING",
        help="As a push asks: `preflight.before_renting = false` and a v4 are excused.",
    ),
]
FreshOption = Annotated[
    bool, typer.Option("--fresh", help="Compile again what was compiled before.")
]
WholeOption = Annotated[
    bool,
    typer.Option(
        "--whole",
        help="Compile every layer of a deep model, also where 2 and 4 and the line on are enough.",
    ),
]


def preflight(
    config: ConfigOption = CONFIG,
    overrides: SetOption = [],  # noqa: B006 (typer gives each call a list of its own)
    compare: CompareOption = [],  # noqa: B006
    picture: PictureOption = None,
    summary: SummaryOption = None,
    whole: WholeOption = False,
    fresh: FreshOption = False,
    before_renting: BeforeRentingOption = False,
    as_json: JsonOption = False,
) -> None:
    """Compile the training step of run.toml with the TPU's own compiler, without a TPU.

    Says whether the step lowers and fits a chip's HBM, what fills it, how long a step takes **at
    least** and what bounds it. Where it does not fit, settings that do are looked for with the
    compiler. The first call installs the compiler; a result is kept and told at once the next time.

    *ops preflight --compare v6e:2x2 --compare v5p:2x2x1 --picture slices.png*

    Exit codes: 0 the step of run.toml compiles, fits and keeps the limits of [preflight], or is
    excused; 2 it does not, or a setting is wrong; 3 torch_xla is not installed; 4 the compiler
    cannot be installed, or a file not written; 6 the compiler broke off; 129, 130 or 143
    interrupted: what it compiled is kept.
    """
    _writable(summary, picture)
    with _told(summary):
        if before_renting and (why := preflight_cases.excused(config, overrides)):
            return _let_pass(why, summary, as_json)
        with _study(whole, fresh) as study:
            prices = read_prices()
            cases = [preflight_cases.own(config, overrides)]
            cases += [preflight_cases.compared(config, overrides, other) for other in compare]
            # A slice that is named twice is judged and shown once.
            verdicts = [_judge(study, case, prices) for case in dict.fromkeys(cases)]
            result = _result(verdicts, prices) | {"remedies": _remedies(study, verdicts[0])}
        from . import preflight_texts

        show(result, as_json, preflight_texts.text)
        _keep(result, summary, picture)
        if failure := _failure(verdicts[0], result["remedies"]):
            raise failure


def _let_pass(why: str, summary: Path | None, as_json: bool) -> None:
    from . import preflight_texts
    from .summaries import append

    show({"excused": why}, as_json, preflight_texts.excused)
    append(summary, preflight_texts.excused({"excused": why}))


@contextmanager
def _told(summary: Path | None) -> Iterator[None]:
    """What makes the command fail stands in the summary too."""
    from . import preflight_texts
    from .summaries import append

    try:
        yield
    except Failure as failure:
        append(summary, preflight_texts.failed(failure))
        raise


@contextmanager
def _study(whole: bool, fresh: bool) -> Iterator[Study]:
    from ..preflight.faults import available

    # First: where torch_xla is missing, so may be what the study itself needs.
    available()
    from ..preflight.study import Study

    voice = Voice(WallClock().now)
    _end_cleanly()
    try:
        yield Study(voice, whole, fresh)
    except KeyboardInterrupt:
        voice("interrupted; what was compiled is kept")
        raise typer.Exit(opening.INTERRUPTED) from None
    finally:
        voice.done()


def _end_cleanly() -> None:
    """The first signal ends the compiler and removes its files, and no other one cuts that short.
    Under nohup a terminal that is closed goes on to end nothing."""
    heeded = [one for one in SIGNALS if signal.getsignal(one) is not signal.SIG_IGN]

    def end(number: int, frame: object) -> None:
        for one in heeded:
            signal.signal(one, signal.SIG_IGN)
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        sys.exit(SIGNALLED + number)

    for one in heeded:
        signal.signal(one, end)


def _judge(study: Study, config: Config, prices: Prices) -> Verdict:
    from ..preflight.study import vocabulary
    from ..preflight.verdict import verdict

    return verdict(config, study.figures(config), vocabulary(config), _price(config, prices))


def _price(config: Config, prices: Prices) -> Any:
    """Of the first kind of capacity; another generation may be sold in another region only."""
    from ..preflight.verdict import Price
    from ..slices import GENERATIONS

    kind = config.cloud.capacity[0].partition(":")[0]
    generation = config.hardware.generation
    elsewhere = GENERATIONS[generation].default_zone.rpartition("-")[0]
    for region in (config.cloud.region, elsewhere):
        if price := prices.find(generation, region, kind):
            return Price(f"{kind} in {region}", price.usd, price.exact)
    return None


def _remedies(study: Study, own: Verdict) -> list[dict[str, Any]]:
    from ..preflight.remedies import remedies

    if own.figures.fits:
        return []
    return [asdict(one) for one in remedies(own.config, own.figures, study.estimate, study.say)]


def _result(verdicts: Sequence[Verdict], prices: Prices) -> dict[str, Any]:
    from ..preflight.study import vocabulary
    from ..preflight.verdict import as_dict

    own = verdicts[0].config
    return {
        "model": own.model.preset,
        "parameters": verdicts[0].parameters,
        "tokens_per_step": own.train.tokens_per_step,
        "sequence_length": own.train.sequence_length,
        "accumulation": own.train.accumulation,
        "vocabulary": vocabulary(own),
        "limits": asdict(own.preflight),
        "slices": [as_dict(one) for one in verdicts],
        "prices_checked": prices.checked.isoformat(),
    }


def _writable(summary: Path | None, picture: Path | None) -> None:
    """Before minutes of compiling: the files at the end of it can be written."""
    for option, file in (("--summary", summary), ("--picture", picture)):
        if file and not file.absolute().parent.is_dir():
            raise NotFound(
                "there is no such folder", str(file.parent), f"make it, or name another {option}"
            )
        if file and (
            file.is_dir() or not os.access(file if file.exists() else file.parent, os.W_OK)
        ):
            raise Refused("it cannot be written", str(file), f"name another {option}")
    if picture and picture.suffix.lower() not in KINDS:
        raise InputError(
            f"a picture of the kind {picture.suffix or 'without an ending'} cannot be drawn",
            str(picture),
            f"name a file that ends in {' or '.join(KINDS)}",
        )


def _keep(result: dict[str, Any], summary: Path | None, picture: Path | None) -> None:
    from . import preflight_texts
    from .summaries import append

    append(summary, preflight_texts.markdown(result))
    if picture:
        from .preflight_picture import draw

        draw(result, picture)


def _failure(own: Verdict, found: list[dict[str, Any]]) -> InputError | None:
    from ..preflight.verdict import exceeded, too_large

    if own.figures.fits:
        return exceeded(own)
    return too_large(own, [" ".join(one["settings"]) for one in found if one["fits"]])
