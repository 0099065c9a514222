"""Work beside the caller, in daemon threads: a run that dies does not linger for them."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


class Background:
    """Runs one work at a time in a thread and raises to whoever waits what the work raised."""

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

    def outcome(self) -> BaseException | None:
        """What the work raised, once it has ended."""
        try:
            self.wait()
        except BaseException as error:
            return error
        return None

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # whatever it is belongs to the thread that waits
            self._error = error


def run_all(works: Sequence[Callable[[], T]], at_once: int) -> list[T]:
    """The results in order. After an error no further work begins, and the error is raised."""
    results: dict[int, T] = {}
    queue = deque(enumerate(works))

    def worker() -> None:
        while queue:
            try:
                index, work = queue.popleft()
            except IndexError:  # another worker was faster
                return
            try:
                results[index] = work()
            except BaseException:
                queue.clear()
                raise

    workers = [Background("checkpoint-part") for _ in range(min(at_once, len(works)))]
    for each in workers:
        each.start(worker)
    errors = [error for each in workers if (error := each.outcome()) is not None]
    if errors:
        raise errors[0]
    return [results[index] for index in range(len(works))]
