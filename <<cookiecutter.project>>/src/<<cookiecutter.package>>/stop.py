"""Signals and notices that ask a run to save, or to end; all workers act at the same step."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType

from .group import Answer, Group

SAVE, END, POLL = 1, 2, 4
POLL_SECONDS = 2.0

_asked = {SAVE: threading.Event(), END: threading.Event()}


def ask_to_save() -> None:
    """This machine may soon go away: save, and go on for as long as it stays."""
    _asked[SAVE].set()


def ask_to_end() -> None:
    """Save, and end in good order."""
    _asked[END].set()


def on_signals(ask: Callable[[], None], *numbers: signal.Signals) -> None:
    """Calls `ask` at the first of these signals; a second one does what it did before.

    Must run in the process's main thread: Python delivers signals there.
    """
    for number in numbers:
        before = signal.getsignal(number)

        def handle(received: int, frame: FrameType | None, before: object = before) -> None:
            signal.signal(received, before)  # type: ignore[arg-type]
            ask()

        signal.signal(number, handle)


@dataclass(frozen=True)
class Decision:
    """What all workers do after this step."""

    save: bool
    end: bool


class Stop:
    """Asks the others while the device computes, and decides a step later, so that nobody waits.

    `notice` tells whether the machine of some worker is about to be taken; all workers must call it
    the same number of times, hence only when worker 0 says so. `wanted` is worker 0's look at what
    the driver wants.
    """

    def __init__(
        self, group: Group, notice: Callable[[], bool], wanted: Callable[[], bool]
    ) -> None:
        self._group, self._notice, self._wanted = group, notice, wanted
        self._answer: Answer | None = None
        self._polled = time.monotonic()
        self._noticed = False

    def decide(self) -> Decision:
        bits = self._answer.result() if self._answer else 0
        save = bool(bits & SAVE)
        if bits & POLL and not self._noticed and self._notice():
            self._noticed = save = True
        self._answer = self._group.any_later(self._bits())
        return Decision(save, bool(bits & END))

    def _bits(self) -> int:
        bits = 0
        if _asked[SAVE].is_set():
            _asked[SAVE].clear()
            bits |= SAVE
        if _asked[END].is_set():
            bits |= END
        if self._group.rank == 0 and time.monotonic() - self._polled > POLL_SECONDS:
            self._polled = time.monotonic()
            bits |= POLL | (END if self._wanted() else 0)
        return bits
