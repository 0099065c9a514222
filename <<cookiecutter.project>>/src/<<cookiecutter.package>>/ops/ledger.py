"""What runs cost: so far, and once they are gone from what was written down before."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from pydantic import TypeAdapter, ValidationError

from ..errors import Failure
from ..slices import machine
from . import storage
from .cost import Cost, Prices
from .desk import Desk
from .things import Thing, chips_of

HOUR = 3600


@dataclass(frozen=True)
class Entry:
    """The node pools that a run had from one `ops provision` on.

    `chip_hours` counts every chip from then on: an upper bound, for machines come later and an idle
    pool scales to zero.
    """

    run: str
    created_at: int
    seen_at: int
    chips: int
    chip_hours: float
    usd: float | None

    @property
    def cost(self) -> Cost:
        return Cost(self.chip_hours, self.usd, exact=False)


def entries(desk: Desk, things: Iterable[Thing], prices: Prices) -> list[Entry]:
    """One for each run and beginning among these things."""
    pools: dict[tuple[str, int], list[Thing]] = {}
    for thing in things:
        if thing.kind == "pool" and thing.owner.created_at is not None:
            pools.setdefault((thing.owner.run, thing.owner.created_at), []).append(thing)
    now = int(desk.clock.now())
    return [_entry(desk, key, group, now, prices) for key, group in pools.items()]


def pool_costs(desk: Desk, things: Iterable[Thing], prices: Prices) -> dict[str, Entry]:
    """What each node pool cost until now, by the pool's text."""
    pools = [thing for thing in things if thing.kind == "pool"]
    return {str(pool): entry for pool in pools for entry in entries(desk, [pool], prices)}


def write_down(desk: Desk, things: Iterable[Thing], prices: Prices) -> None:
    """Keeps what these things cost in their runs' folders, before they go. A fault is told."""
    for entry in entries(desk, things, prices):
        path = f"{_folder(desk, entry.run)}/{entry.created_at}.json"
        try:
            storage.write(path, json.dumps(asdict(entry)))
        except Failure as failure:
            spent = f"{entry.cost}, {entry.chip_hours:.1f} chip-hours"
            desk.say(f"the cost of run {entry.run}, {spent}, {failure.what}")


def read(desk: Desk, run: str) -> list[Entry]:
    """What was kept of a run, oldest first. Raises Refused."""
    found = (_parsed(desk, text) for text in storage.read_all(f"{_folder(desk, run)}/*.json"))
    return sorted((entry for entry in found if entry), key=lambda entry: entry.created_at)


def _parsed(desk: Desk, text: str) -> Entry | None:
    try:
        return TypeAdapter(Entry).validate_json(text)
    except ValidationError:
        desk.say("a file of costs in the bucket could not be read, and is left out")
        return None


def _entry(desk: Desk, key: tuple[str, int], pools: list[Thing], now: int, prices: Prices) -> Entry:
    hours = max(0, now - key[1]) / HOUR
    chips = sum(chips_of(pool.body) for pool in pools)
    usd: float | None = 0.0
    for pool in pools:
        cost = _cost(desk, pool, hours, prices)
        usd = None if usd is None or cost.usd is None else usd + cost.usd
    return Entry(key[0], key[1], now, chips, hours * chips, usd)


def _cost(desk: Desk, pool: Thing, hours: float, prices: Prices) -> Cost:
    config = pool.body.config
    kind = "spot" if config.spot else "flex-start" if config.flex_start else "on-demand"
    chip_hours = hours * chips_of(pool.body)
    if not chip_hours:
        return Cost(0, 0, exact=False)
    generation = machine(config.machine_type).generation
    return prices.cost(generation, desk.config.cloud.region, kind, chip_hours)


def _folder(desk: Desk, run: str) -> str:
    return f"{desk.config.run.storage.rstrip('/')}/{run}/costs"
