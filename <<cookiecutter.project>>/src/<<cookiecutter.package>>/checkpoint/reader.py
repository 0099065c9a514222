"""A checkpoint, read back in any sharding."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod
from typing import Any

import torch

from ..errors import NotFound
from .faults import Broken, as_failure
from .files import Files
from .format import memory
from .manifest import Located, Saved

COVER = 32 * 2**20  # bytes read at most around a box that is not contiguous in its file


@dataclass(frozen=True)
class Checkpoint:
    """A complete checkpoint whose files were verified. Nothing of it is held in memory.

    Several threads may read at once, which pays where each request takes its time.
    """

    step: int
    progress: dict[str, Any]
    path: str
    _files: Files = field(repr=False)
    _folder: str = field(repr=False)
    _tensors: dict[str, Saved] = field(repr=False)

    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self._tensors))

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of the whole tensor. NotFound when there is none of that name."""
        return self._saved(name).shape

    def dtype(self, name: str) -> torch.dtype:
        return self._saved(name).dtype

    def read(self, name: str) -> torch.Tensor:
        """The whole tensor, on the CPU."""
        shape = self.shape(name)
        return self.read_slice(name, (0,) * len(shape), shape)

    def read_slice(
        self, name: str, offset: tuple[int, ...], shape: tuple[int, ...]
    ) -> torch.Tensor:
        """The box of `shape` at `offset` of the whole, on the CPU, from the bytes it needs."""
        saved = self._saved(name)
        if not _within(offset, shape, saved.shape):
            raise ValueError(f"{name}: no box of {shape} at {offset} in the whole, {saved.shape}")
        into = torch.empty(shape, dtype=saved.dtype)
        try:
            for piece in saved.pieces:
                self._read_piece(piece, offset, into)
        except (OSError, Broken) as error:
            raise as_failure(error, self.path) from error
        return into

    def _saved(self, name: str) -> Saved:
        if name not in self._tensors:
            raise NotFound(
                f"the checkpoint holds no tensor {name!r}",
                self.path,
                f"it holds {len(self._tensors)}, such as {', '.join(self.names()[:3])}; run the "
                "version of the project that wrote it, or give [run] name another name",
            )
        return self._tensors[name]

    def _read_piece(self, piece: Located, offset: tuple[int, ...], into: torch.Tensor) -> None:
        """Copies the part of a piece that lies in the box at `offset` into the box."""
        low = [max(a, b) for a, b in zip(piece.offset, offset, strict=True)]
        ends = zip(piece.offset, piece.shape, offset, into.shape, strict=True)
        high = [min(a + m, b + n) for a, m, b, n in ends]
        if any(a >= b for a, b in zip(low, high, strict=True)):
            return
        target = into
        for dim, (a, b, start) in enumerate(zip(low, high, offset, strict=True)):
            target = target.narrow(dim, a - start, b - a)
        box = [a - start for a, start in zip(low, piece.offset, strict=True)]
        self._read_box(piece, box, target)

    def _read_box(self, piece: Located, box: list[int], target: torch.Tensor) -> None:
        """Fills `target` from the box of its shape at `box` of the piece."""
        strides = _strides(piece.shape)
        width = target.element_size()
        first = sum(a * stride for a, stride in zip(box, strides, strict=True))
        extents = zip(target.shape, strides, strict=True)
        count = 1 + sum((extent - 1) * stride for extent, stride in extents)
        name, begin = f"{self._folder}/{piece.file}", piece.begin + first * width
        if count == target.numel() and target.is_contiguous():
            self._files.read_into(name, begin, memory(target))
        elif count * width <= COVER:
            cover = torch.empty(count, dtype=target.dtype)
            self._files.read_into(name, begin, memory(cover))
            target.copy_(cover.as_strided(target.shape, strides))
        else:
            for moved, part in _parts(box, target, strides, COVER // width):
                self._read_box(piece, moved, part)


def _parts(
    box: list[int], target: torch.Tensor, strides: tuple[int, ...], limit: int
) -> Iterator[tuple[list[int], torch.Tensor]]:
    """A box cut along its first dimension that is longer than one, `limit` elements a part."""
    dim = next(i for i, extent in enumerate(target.shape) if extent > 1)
    step = max(1, limit // strides[dim])
    for start in range(0, target.shape[dim], step):
        moved = [a + start if i == dim else a for i, a in enumerate(box)]
        yield moved, target.narrow(dim, start, min(step, target.shape[dim] - start))


def _strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(prod(shape[i + 1 :]) for i in range(len(shape)))


def _within(offset: tuple[int, ...], shape: tuple[int, ...], whole: tuple[int, ...]) -> bool:
    return len(offset) == len(shape) == len(whole) and all(
        a >= 0 and n >= 0 and a + n <= m for a, n, m in zip(offset, shape, whole, strict=True)
    )
