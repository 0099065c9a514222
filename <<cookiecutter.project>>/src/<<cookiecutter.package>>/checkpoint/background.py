"""One piece of work at a time beside the caller."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Background:
    """Runs work in a thread of its own and raises to whoever waits what the work raised.

    The thread is a daemon: a run that dies does not linger for a write that is not yet visible.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def start(self, work: Callable[[], None]) -> None:
        """Waits for the work before, raises its error, and returns once the new work runs."""
        self.wait()
        self._thread = threading.Thread(
            target=self._run, args=(work,), name=self._name, daemon=True
        )
        self._thread.start()

    def wait(self, seconds: float | None = None) -> bool:
        """False when the work still goes on after `seconds`; raises once what it raised."""
        if self._thread is not None:
            self._thread.join(seconds)
            if self._thread.is_alive():
                return False
        self._thread = None
        error, self._error = self._error, None
        if error is not None:
            raise error
        return True

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # whatever it is belongs to the thread that waits
            self._error = error
