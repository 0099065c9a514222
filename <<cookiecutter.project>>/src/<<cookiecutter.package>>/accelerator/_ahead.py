"""Reading a model's state: values that are asked for soon are read while others are placed."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

from torch import Tensor

from ._base import MOMENTS, Reader

AT_ONCE = 8
"""Tensors that a host reads, or holds, beside the one that is being placed."""

Part = tuple[str, tuple[int, ...], tuple[int, ...]]
"""name, offset, shape"""


def state(parameters: Iterable[Part]) -> list[Part]:
    """Parameters, and then each one's moments, as an accelerator asks for them."""
    parts = list(parameters)
    moments = [
        (f"optimizer.{name}.{key}", offset, shape)
        for name, offset, shape in parts
        for key in MOMENTS
    ]
    return [*((f"model.{name}", offset, shape) for name, offset, shape in parts), *moments]


@contextmanager
def ahead(read: Reader, wanted: Iterable[Part]) -> Iterator[Reader]:
    """A reader for those of `wanted` in their order; it reads others when they are asked for."""
    rest, under_way = iter(wanted), deque[tuple[Part, Future[Tensor]]]()
    with ThreadPoolExecutor(AT_ONCE, "read-ahead") as pool:

        def begin() -> None:
            if part := next(rest, None):
                under_way.append((part, pool.submit(read, *part)))

        def take(name: str, offset: tuple[int, ...], shape: tuple[int, ...]) -> Tensor:
            if not under_way or under_way[0][0] != (name, offset, shape):
                return read(name, offset, shape)
            begin()
            return under_way.popleft()[1].result()

        for _ in range(AT_ONCE):
            begin()
        try:
            yield take
        finally:
            pool.shutdown(cancel_futures=True)
