"""From a list of capacity kinds and zones to slices that are there."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..errors import Deadline, Failure, InputError, LeftOver, NoCapacity
from .capacity import Attempt, attempts
from .desk import Desk
from .making import Making
from .owned import Owner
from .remote import Exists
from .removal import remove
from .schedule import Schedule
from .things import policies_of_run, pools_of_run


@dataclass(frozen=True)
class Provisioned:
    """The pools of a run's slices and the capacity that gave them; no pools on Autopilot."""

    run: str
    pools: tuple[str, ...]
    capacity: str
    expires_at: int


def provision(desk: Desk, plan: Schedule) -> Provisioned:
    """Makes what the slices need, or finds it there already.

    Raises NoCapacity when no kind in no zone had it, and Failure; what this call made is removed
    before it raises.
    """
    now = int(desk.clock.now())
    expires, starts = now + plan.lifetime_seconds, now + plan.starting_seconds
    owner = Owner(desk.label, desk.run, now, expires, starts)
    if _is_autopilot(desk):
        return Provisioned(
            desk.run, (), "Autopilot, once the job asks", now + plan.lifetime_seconds
        )
    ladder = _Ladder(desk, plan, owner)
    try:
        return ladder.climb()
    except Failure as failure:
        raise ladder.undone(failure) from None


class _Ladder:
    """One attempt after another, from the one that an earlier call had reached."""

    def __init__(self, desk: Desk, plan: Schedule, fresh: Owner) -> None:
        self._desk, self._plan, self._fresh = desk, plan, fresh

    def climb(self) -> Provisioned:
        found = pools_of_run(self._desk)
        whose = found[0].owner if found else self._fresh
        _check_expiry(whose, self._desk.clock.now())
        tried: list[str] = []
        for attempt in _remaining(self._desk, [pool.name for pool in found]):
            making = Making(self._desk, whose, attempt, self._plan.run_seconds)
            self._desk.say(f"trying {attempt}")
            reason = making.make()
            if not reason:
                self._check_alone(making)
                return Provisioned(whose.run, making.pools, str(attempt), whose.expires_at or 0)
            tried.append(f"{attempt}: {reason}")
            self._desk.say(tried[-1])
            making.clear()
        raise _nowhere(tried)

    def _check_alone(self, making: Making) -> None:
        """Another call of the same verb may have come by another kind of capacity."""
        others = [p.name for p in pools_of_run(self._desk) if p.name not in making.pools]
        if others:
            raise Exists(
                f"run {self._desk.run} has node pool {others[0]} too, made at the same time",
                str(self._desk.place),
                "wait for the other `ops provision`, then run this again",
            )

    def undone(self, failure: Failure) -> Failure:
        """The failure, once what this call made is gone; LeftOver where that did not work."""
        try:
            self._undo()
        except Failure as second:
            return LeftOver(
                f"{failure.what}; and what had been made could not be removed: {second.what}",
                failure.where,
                f"{failure.remedy}; then run `ops teardown`; `ops sweep` takes what has expired",
            )
        return failure

    def _undo(self) -> None:
        """An earlier call's things stay: a job may run on them."""
        things = pools_of_run(self._desk) + policies_of_run(self._desk)
        remove(self._desk, [thing for thing in things if thing.owner == self._fresh]).check()


def _remaining(desk: Desk, names: list[str]) -> list[Attempt]:
    """From the lowest attempt that a pool is there from."""
    found = [match for name in names if (match := re.search(r"-t(\d+)-s(\d+)$", name))]
    remaining = attempts(desk.config.cloud)[min((int(match[1]) for match in found), default=0) :]
    slices = max((int(match[2]) + 1 for match in found), default=1)
    if not remaining or slices > desk.config.hardware.slices:
        raise InputError(
            f"run {desk.run} has node pools that were made with other settings",
            "hardware.slices, cloud.capacity and cloud.zones in run.toml",
            "run `ops teardown`, then this again",
        )
    return remaining


def _is_autopilot(desk: Desk) -> bool:
    autopilot = desk.gke.cluster(desk.place).autopilot.enabled
    mode = "autopilot" if autopilot else "standard"
    if mode != desk.config.cloud.cluster_mode:
        raise InputError(
            f"the cluster is {mode}, run.toml says {desk.config.cloud.cluster_mode}",
            str(desk.place),
            f'set cloud.cluster_mode = "{mode}", or name another cluster',
        )
    return bool(autopilot)


def _check_expiry(who: Owner, now: float) -> None:
    if who.expires_at is None or who.expires_at <= now:
        raise Deadline(
            f"the node pools of run {who.run} have expired and are about to be removed",
            "their label expires-at",
            "run `ops teardown`, then this again",
        )


def _nowhere(tried: list[str]) -> NoCapacity:
    return NoCapacity(
        "no TPU capacity anywhere in the list:\n    " + "\n    ".join(tried),
        "cloud.capacity and cloud.zones in run.toml",
        "add a kind or a zone, choose a smaller topology, or try again later",
    )
