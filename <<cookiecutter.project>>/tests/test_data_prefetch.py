"""The background thread: as far ahead as asked, never longer alive than its reader."""

from __future__ import annotations

import gc
import threading
import time

import pytest

from << cookiecutter.package >>.data import Prefetch


def prefetch_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "prefetch"]


def test_items_come_in_order_and_then_the_thread_ends() -> None:
    items = Prefetch(lambda n: n * n, range(3, 50), 4)
    assert list(items) == [n * n for n in range(3, 50)]
    assert not prefetch_threads()
    assert list(items) == []


def test_nothing_to_do() -> None:
    assert list(Prefetch(lambda n: n, range(5, 5), 4)) == []
    assert not prefetch_threads()


@pytest.mark.parametrize("depth", [1, 4])
def test_it_stays_so_far_ahead_and_no_farther(depth: int) -> None:
    last, taken, ahead = 99, 0, []

    def make(number: int) -> int:
        ahead.append(number - taken)
        return number

    for item in Prefetch(make, range(last + 1), depth):
        # `depth` wait in the queue, one in the thread's hand.
        while len(ahead) - 1 < min(item + depth + 1, last):
            time.sleep(0)
        taken = item + 1
    assert max(ahead) == depth + 1


def test_a_fault_comes_at_its_item_and_ends_the_thread() -> None:
    def make(number: int) -> int:
        if number == 3:
            raise ZeroDivisionError("at three")
        return number

    items = Prefetch(make, range(10), 2)
    assert [next(items) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ZeroDivisionError, match="at three"):
        next(items)
    assert not prefetch_threads()
    assert list(items) == []


def test_a_reader_that_stops_early_closes_it() -> None:
    items = Prefetch(lambda n: n, range(10**9), 2)
    assert next(items) == 0
    items.close()
    items.close()
    assert not prefetch_threads()
    assert list(items) == []


def test_a_reader_that_drops_it_closes_it() -> None:
    items = Prefetch(lambda n: n, range(10**9), 2)
    next(items)
    assert prefetch_threads()
    del items
    gc.collect()
    assert not prefetch_threads()


def test_closing_waits_for_the_item_in_the_making() -> None:
    begun, finish = threading.Event(), threading.Event()

    def make(number: int) -> int:
        begun.set()
        finish.wait()
        return number

    items = Prefetch(make, range(10), 1)
    begun.wait()
    closing = threading.Thread(target=items.close)
    closing.start()
    closing.join(timeout=0.1)
    assert closing.is_alive()
    finish.set()
    closing.join()
    assert not prefetch_threads()
