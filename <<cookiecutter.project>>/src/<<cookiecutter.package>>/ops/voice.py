"""What is told while something takes its time: a spinner at a terminal, lines elsewhere."""

from __future__ import annotations

import re
from collections.abc import Callable

from rich.console import Console
from rich.status import Status

QUIET_SECONDS = 60


class Voice:
    """Says what is waited for, on stderr. The same thing again, but for its figures, moves the
    spinner; where there is none it is said once a minute. `kept` is False for what nobody wants to
    read afterwards: then there is only the spinner."""

    def __init__(
        self, now: Callable[[], float], console: Console | None = None, kept: bool = True
    ) -> None:
        self._kept = kept
        self._console = console or Console(stderr=True, highlight=False, soft_wrap=True)
        self._now, self._last, self._said_at = now, "", float("-inf")
        self._status: Status | None = None

    def __call__(self, text: str) -> None:
        shape = re.sub(r"[0-9]+", "#", text)
        known, self._last = shape == self._last, shape
        if self._console.is_terminal:
            return self._spin(text, known)
        if self._kept and (not known or self._now() - self._said_at >= QUIET_SECONDS):
            self._said_at = self._now()
            self._console.print(text, markup=False)
        return None

    def done(self) -> None:
        if self._status is not None:
            self._status.stop()

    def _spin(self, text: str, known: bool) -> None:
        if self._status is None:
            self._status = self._console.status("")
            self._status.start()
        if self._kept and not known:
            self._console.print(text, markup=False)
        self._status.update(text)
