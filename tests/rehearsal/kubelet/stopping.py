"""When a pod has to end, and why."""

from __future__ import annotations

import threading
import time
from typing import Any

Object = dict[str, Any]


class Stopping:
    """One for each pod. A later wish may only shorten the time."""

    def __init__(self) -> None:
        self._event, self._end = threading.Event(), float("inf")
        self.status: Object = {}
        """What the pod's status says of it in the end, beside its containers' own."""
        self.at_once = False

    def begin(self, seconds: float, status: Object | None = None) -> None:
        self._end = min(self._end, time.monotonic() + seconds)
        self.status = self.status or status or {}
        self._event.set()

    def crash(self) -> None:
        """As when the machine is gone: no hook, no signal, no word."""
        self.at_once = True
        self.begin(0)

    def begun(self) -> bool:
        return self._event.is_set()

    def wait(self, seconds: float | None = None) -> bool:
        return self._event.wait(seconds)

    def left(self) -> float:
        return max(0.0, self._end - time.monotonic())

    def allow(self, seconds: float) -> None:
        """The end is not nearer than this."""
        if not self.at_once:
            self._end = max(self._end, time.monotonic() + seconds)
