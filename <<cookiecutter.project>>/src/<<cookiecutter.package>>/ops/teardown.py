"""Removing all of a run: its job, its Ray clusters, its node pools, its policies, in that order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..errors import Failure
from . import evidence
from .cost import Prices
from .desk import Desk
from .job import job_of
from .ledger import write_down
from .removal import left_over, remove
from .things import Found, Thing, of_run

PASSES = 3


@dataclass(frozen=True)
class Torn:
    """What was removed, and where a failed run's evidence lies."""

    run: str
    removed: tuple[str, ...]
    evidence: tuple[str, ...]


def teardown(desk: Desk, prices: Prices) -> Torn:
    """Removes what the run has, and looks whether it is gone; what was refused is tried again.

    Raises LeftOver where something stays; else a Failure where a failed run's evidence is lost or
    something could not be looked at.
    """
    removed: dict[str, None] = {}
    saved: dict[str, Failure | None] = {}
    faults: list[Failure] = []
    found = of_run(desk)
    for _ in range(PASSES):
        removed |= dict.fromkeys(map(str, found.things))
        saved |= save_evidence(desk, found.things)
        write_down(desk, found.things, prices)
        faults = [*found.faults, *remove(desk, found.things).faults]
        found = of_run(desk)
        if not found.things and not found.faults:
            break
    if found.things:
        raise left_over(found.things, [*faults, *found.faults])
    for fault in [*found.faults, *saved.values()]:
        if fault is not None:
            raise fault
    return Torn(desk.run, tuple(removed), tuple(saved))


def alive(found: Found) -> bool:
    """Whether a job has not ended; a cluster that could not be looked at counts as alive."""
    return bool(found.blind) or any(thing.living for thing in found.things)


def save_evidence(desk: Desk, things: Iterable[Thing]) -> dict[str, Failure | None]:
    """Saves what failed jobs leave to be read, before they go: each folder, or what hindered it."""
    saved: dict[str, Failure | None] = {}
    for thing in things:
        if thing.kind == "rayjobs" and _failed(thing):
            folder = evidence.folder(desk, thing)
            try:
                evidence.save(desk, thing)
                saved[folder] = None
            except Failure as failure:
                saved[folder] = failure
            desk.say(f"what the failed run left to read: {saved[folder] or folder}")
    return saved


def _failed(thing: Thing) -> bool:
    job = job_of(thing.body)
    return job.ended and not job.succeeded
