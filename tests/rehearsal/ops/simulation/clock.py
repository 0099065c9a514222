"""Time that passes only when somebody sleeps; the world moves with it."""

from __future__ import annotations

import threading
from collections.abc import Callable

STEP_SECONDS = 5.0


class Clock:
    """Seconds since the epoch. `tick` is called with the length of each step."""

    def __init__(self, start: float, tick: Callable[[float], None], lock: threading.RLock) -> None:
        self._now, self._tick, self._lock = start, tick, lock

    def now(self) -> float:
        return self._now

    def sleep(self, seconds: float) -> None:
        with self._lock:
            end = self._now + seconds
            while self._now < end:
                step = min(STEP_SECONDS, end - self._now)
                self._now += step
                self._tick(step)
