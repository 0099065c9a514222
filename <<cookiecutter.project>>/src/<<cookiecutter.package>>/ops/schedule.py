"""When a run ends at the latest: its deadline, or the hour at which its budget is spent."""

from __future__ import annotations

from dataclasses import dataclass

from ..config import Config
from ..errors import InputError
from .capacity import attempts
from .cost import Cost, Prices

HOUR = 3600
OVERHEAD_SECONDS = 1800
"""Chips that wait for the job to be submitted, and idle ones after it: part of the budget."""
CLEANUP_SECONDS = 1800
"""What teardown may take before the sweep counts the run's things as forgotten."""
SHORTEST_RUN_SECONDS = 300
_KEYS = {"budget": "budget_usd", "deadline": "deadline_hours"}


@dataclass(frozen=True)
class Schedule:
    """Seconds that a run's job may take from its submission, all `tries` together, and what sets
    them: `by` is "deadline" or "budget". `most` is what the run's chips cost at most."""

    run_seconds: int
    by: str
    waiting_seconds: int
    most: Cost
    tries: int = 1

    @property
    def try_seconds(self) -> int:
        """KubeRay counts a job's time anew with each try."""
        return self.run_seconds // self.tries

    @property
    def starting_seconds(self) -> int:
        """From `ops provision` to the moment at which the job must have begun."""
        return self.waiting_seconds + OVERHEAD_SECONDS

    @property
    def lifetime_seconds(self) -> int:
        """From `ops provision` to the moment at which the sweep takes what is left."""
        return self.starting_seconds + self.run_seconds + CLEANUP_SECONDS


def schedule(config: Config, prices: Prices) -> Schedule:
    """Raises InputError where the budget is spent before a job can begin."""
    plan = unchecked(config, prices)
    if plan.tries > 1 and plan.by == "budget":
        hours = f"{config.cloud.deadline_hours:g} h"
        raise InputError(
            f"cloud.budget_usd does not pay {plan.tries} tries of {hours}",
            "run.toml",
            f"it pays {plan.try_seconds / HOUR:.1f} h each: raise it, or lower cloud.retries or "
            "cloud.deadline_hours",
        )
    if plan.try_seconds < SHORTEST_RUN_SECONDS:
        chips = config.hardware.slice.chips * config.hardware.slices
        raise InputError(
            f"cloud.{_KEYS[plan.by]} leaves a run of {chips} chips less than "
            f"{SHORTEST_RUN_SECONDS // 60} minutes beside what its start and end may take",
            "run.toml",
            "raise cloud.budget_usd or cloud.deadline_hours, or choose a smaller topology",
        )
    return plan


def unchecked(config: Config, prices: Prices) -> Schedule:
    """The same without a refusal: what leaves no time at all leaves a second."""
    cloud, hardware = config.cloud, config.hardware
    chips = hardware.slice.chips * hardware.slices
    usd = _dearest(config, prices)
    tries = cloud.retries + 1
    limits = [(cloud.deadline_hours * HOUR * tries, "deadline")]
    waiting = len(attempts(cloud)) * cloud.attempt_minutes * 60
    # A fixed pool stands until it is removed, an autoscaled one goes when it is idle.
    around = OVERHEAD_SECONDS + (cloud.pools == "fixed") * (waiting + CLEANUP_SECONDS)
    if usd is not None:
        limits.append((cloud.budget_usd / (usd * chips) * HOUR - around, "budget"))
    seconds, by = min(limits)
    seconds = max(tries, seconds)
    chip_hours = (seconds + around) / HOUR * chips
    most = Cost(chip_hours, None if usd is None else chip_hours * usd, exact=False)
    return Schedule(int(seconds), by, int(waiting), most, tries)


def _dearest(config: Config, prices: Prices) -> float | None:
    """Dollars for a chip and hour of the dearest kind; None where one has no known price."""
    kinds = {attempt.kind for attempt in attempts(config.cloud)}
    generation, region = config.hardware.generation, config.cloud.region
    found = [prices.find(generation, region, kind) for kind in kinds]
    known = [price.usd for price in found if price is not None]
    return max(known) if len(known) == len(found) else None
