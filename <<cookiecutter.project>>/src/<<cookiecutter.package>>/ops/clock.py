"""Time as the verbs see it; tests put one of their own in its place."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Protocol


class Clock(Protocol):
    """Seconds since the epoch, and waiting."""

    def now(self) -> float: ...

    def sleep(self, seconds: float) -> None: ...


class WallClock:
    """The machine's own."""

    def now(self) -> float:
        return time.time()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


def rounds(clock: Clock, every: float, limit: float) -> Iterator[float]:
    """The seconds waited so far, now and after each pause of `every`, until `limit` is over."""
    began = clock.now()
    while True:
        waited = clock.now() - began
        yield waited
        if waited >= limit:
            return
        clock.sleep(min(every, limit - waited))
