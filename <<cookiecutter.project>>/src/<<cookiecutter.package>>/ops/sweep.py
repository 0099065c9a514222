"""Finding what is forgotten: expired, failed, or without a living run; and removing it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..errors import Failure, LeftOver
from .cost import Prices
from .desk import Desk
from .gke import Status
from .ledger import write_down
from .removal import Removal, remove
from .teardown import save_evidence
from .things import Found, Thing, of_project

Fate = Literal["keep", "remove", "unclear"]


@dataclass(frozen=True)
class Judgement:
    """What becomes of a thing, and why."""

    thing: Thing
    fate: Fate
    reason: str


@dataclass(frozen=True)
class Sweep:
    """`removed` is None for a sweep that only looked."""

    judgements: tuple[Judgement, ...]
    unseen: tuple[str, ...]
    removed: Removal | None = None
    lost: tuple[Failure, ...] = ()

    def those(self, fate: Fate) -> list[Judgement]:
        return [judgement for judgement in self.judgements if judgement.fate == fate]

    def failure(self) -> Failure | None:
        """What survived, is unclear or could not be looked at; None where all is well."""
        unclear = [f"{item.thing}: {item.reason}" for item in self.those("unclear")]
        stayed = [str(thing) for thing in self.removed.stayed] if self.removed else []
        if stayed or unclear or self.unseen:
            faults = [fault.what for fault in self.removed.faults] if self.removed else []
            return LeftOver(
                "\n    ".join(["not all is well:", *stayed, *unclear, *self.unseen, *faults]),
                "what carries this project's labels",
                "remove by hand what is named, or mend what hinders and sweep again",
            )
        return self.lost[0] if self.lost else None


def look(desk: Desk) -> Sweep:
    """Judges everything of this project in all clusters and locations. Raises Failure."""
    found = of_project(desk)
    judge = _Judge(found, desk.clock.now())
    return Sweep(tuple(judge(thing) for thing in found.things), tuple(found.unseen))


def sweep(desk: Desk, seen: Sweep, prices: Prices) -> Sweep:
    """Removes what was judged so, after failed runs' evidence and costs were written down."""
    things = [judgement.thing for judgement in seen.those("remove")]
    saved = save_evidence(desk, things)
    write_down(desk, things, prices)
    lost = tuple(failure for failure in saved.values() if failure is not None)
    return Sweep(seen.judgements, seen.unseen, remove(desk, things), lost)


class _Judge:
    """What is forgotten, and what is not, by all that was found."""

    def __init__(self, found: Found, now: float) -> None:
        self._now, self._blind = now, found.blind
        self._living = {thing.owner.run for thing in found.things if self._lives(thing)}

    def __call__(self, thing: Thing) -> Judgement:
        return Judgement(thing, *self._fate(thing))

    def _fate(self, thing: Thing) -> tuple[Fate, str]:
        created, expires = thing.owner.created_at, thing.owner.expires_at
        if created is None or expires is None:
            return "unclear", "its label created-at or expires-at is missing or no number"
        if expires <= self._now:
            return "remove", f"expired {(self._now - expires) / 60:.0f} minutes ago"
        if thing.kind == "pool" and thing.state == Status.ERROR.name:
            return "remove", "failed, and holds its name"
        if thing.owner.run in self._living:
            return "keep", "its run is alive"
        if thing.place in self._blind:
            return "unclear", "its cluster does not say whether its run is alive"
        if (thing.owner.starts_by or expires) > self._now:
            return "keep", "its run may be starting"
        return "remove", "no living run"

    def _lives(self, thing: Thing) -> bool:
        return thing.living and (thing.owner.expires_at or 0) > self._now
