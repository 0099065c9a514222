"""Items made ahead of their use, by one background thread that never outlives its reader."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from queue import Empty, Queue
from types import TracebackType
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class _Item(Generic[T]):
    value: T


@dataclass(frozen=True)
class _End:
    error: BaseException | None


class Prefetch(Iterator[T]):
    """Yields `make(number)` for every number, at most `depth` of them ahead.

    What `make` raises, `next()` raises. The thread ends with the last item, with `close()`, and
    when the iterator is dropped.
    """

    def __init__(self, make: Callable[[int], T], numbers: range, depth: int) -> None:
        self._queue: Queue[_Item[T] | _End] = Queue(max(depth, 1))
        stop = threading.Event()
        # The thread must not know the iterator: a reference would keep a dropped one alive.
        arguments = (make, numbers, self._queue, stop)
        thread = threading.Thread(target=_fill, args=arguments, daemon=True, name="prefetch")
        self._finish = weakref.finalize(self, _end, self._queue, stop, thread)
        thread.start()

    def __next__(self) -> T:
        if not self._finish.alive:
            raise StopIteration
        item = self._queue.get()
        if isinstance(item, _End):
            self.close()
            raise item.error or StopIteration
        return item.value

    def close(self) -> None:
        self._finish()

    def __enter__(self) -> Prefetch[T]:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _fill(
    make: Callable[[int], T],
    numbers: range,
    queue: Queue[_Item[T] | _End],
    stop: threading.Event,
) -> None:
    error: BaseException | None = None
    try:
        for number in numbers:
            queue.put(_Item(make(number)))
            if stop.is_set():
                return
    except BaseException as raised:  # the reader raises it
        error = raised
    queue.put(_End(error))


def _end(queue: Queue[_Item[T] | _End], stop: threading.Event, thread: threading.Thread) -> None:
    stop.set()
    while thread.is_alive():
        # Room in the queue lets a thread that waits in put() see the stop.
        try:
            queue.get_nowait()
        except Empty:
            thread.join(timeout=0.01)
