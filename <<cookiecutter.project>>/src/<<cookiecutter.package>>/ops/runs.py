"""All runs at once: what `--all` means."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any

from ..errors import Failure
from .desk import Desk
from .job import job_of
from .things import Thing, of_project

SETTLED_SECONDS = 900
"""How long an ended run is left to the workflow that started it: that one sees the end, reports and
tears down, and must not find its run gone in between."""


def each(desk: Desk, everyone: bool, work: Callable[[Desk], Any]) -> list[Any]:
    """`work` for the run of the settings, or for every run; one's fault hinders no other.

    Raises the first Failure after all had their turn.
    """
    results: list[Any] = []
    faults: list[Failure] = []
    for one in _all(desk) if everyone else [desk]:
        try:
            results.append(work(one))
        except Failure as fault:
            if not everyone:
                raise
            faults.append(fault)
            desk.say(f"run {one.run}: {fault}")
    if faults:
        raise faults[0]
    return results


def followed(things: Iterable[Thing], place: Any, now: float) -> list[str]:
    """Runs whose job is alive, or ended long enough ago that nobody else follows it."""
    jobs = [thing for thing in things if thing.kind == "rayjobs" and thing.place == place]
    return sorted({job.owner.run for job in jobs if job.living or _settled(job, now)})


def ended_at(body: dict[str, Any]) -> float | None:
    """When a RayJob ended, by its own word."""
    return _time(body, "endTime") if job_of(body).ended else None


def started_at(body: dict[str, Any]) -> float | None:
    return _time(body, "startTime")


def moment(text: Any) -> float | None:
    """A time as Kubernetes writes it, in seconds; None where it is none."""
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() if text else None
    except (AttributeError, ValueError):
        return None


def _all(desk: Desk) -> Iterator[Desk]:
    found = of_project(desk)
    for text in found.unseen:
        desk.say(f"could not be looked at: {text}")
    for name in followed(found.things, desk.place, desk.clock.now()):
        run = replace(desk.config.run, name=name)
        yield Desk(replace(desk.config, run=run), desk.say, desk.clock, desk.credentials)


def _settled(job: Thing, now: float) -> bool:
    ended = ended_at(job.body)
    return ended is None or ended + SETTLED_SECONDS <= now


def _time(body: dict[str, Any], key: str) -> float | None:
    return moment((body.get("status") or {}).get(key))
