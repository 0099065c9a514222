"""All runs of the project that have something in the cloud."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .cost import Prices
from .desk import Desk
from .ledger import entries
from .things import Found, Thing


@dataclass(frozen=True)
class Row:
    """One run. Times are seconds since the epoch; `usd` is None where a price is unknown."""

    run: str
    state: str
    chips: int
    created_at: int | None
    expires_at: int | None
    usd: float | None
    things: tuple[str, ...]


def rows(desk: Desk, found: Found, prices: Prices) -> list[Row]:
    runs = sorted({thing.owner.run for thing in found.things})
    return [_row(desk, run, _of(found.things, run), prices) for run in runs]


def _row(desk: Desk, run: str, things: list[Thing], prices: Prices) -> Row:
    kept = entries(desk, things, prices)
    owner = things[0].owner
    unknown = any(entry.usd is None for entry in kept)
    return Row(
        run=run,
        state=_state(things),
        chips=sum(entry.chips for entry in kept),
        created_at=owner.created_at,
        expires_at=owner.expires_at,
        usd=None if unknown else sum(entry.usd or 0 for entry in kept),
        things=tuple(map(str, things)),
    )


def _state(things: list[Thing]) -> str:
    """The job's, or that of the pools where there is no job."""
    for kind in ("rayjobs", "rayclusters", "pool"):
        states = sorted({thing.state for thing in things if thing.kind == kind})
        if states:
            return ("" if kind == "rayjobs" else "no job, ") + ", ".join(states)
    return "only a workload policy"


def _of(things: Iterable[Thing], run: str) -> list[Thing]:
    return [thing for thing in things if thing.owner.run == run]
