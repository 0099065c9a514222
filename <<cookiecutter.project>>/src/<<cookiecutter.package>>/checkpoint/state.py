"""What is saved: named tensors, cut into pieces that the processes of a run hold between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, TypeVar

import torch

T = TypeVar("T")
JSON: TypeAlias = bool | int | float | str | Sequence["JSON"] | Mapping[str, "JSON"] | None
# What the safetensors format can hold, under its names.
DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U64": torch.uint64,
    "U32": torch.uint32,
    "U16": torch.uint16,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}


@dataclass(frozen=True, eq=False)
class Piece:
    """A box of a tensor: `data` (on the CPU, contiguous) begins at `offset` of the whole."""

    offset: tuple[int, ...]
    data: torch.Tensor


@dataclass(frozen=True, eq=False)
class Entry:
    """A tensor of the whole run's `shape`, and the pieces of it that this process writes.

    The pieces of all processes together cover the tensor, each element once.
    """

    shape: tuple[int, ...]
    pieces: tuple[Piece, ...]

    @classmethod
    def whole(cls, data: torch.Tensor) -> Entry:
        """A tensor that this process writes alone."""
        return cls(tuple(data.shape), (Piece((0,) * data.dim(), data),))


State: TypeAlias = Mapping[str, Entry]


class Group(Protocol):
    """The processes of a run, as far as a checkpoint needs them to agree."""

    @property
    def rank(self) -> int: ...

    @property
    def world(self) -> int: ...

    def agree(self, ok: bool) -> bool:
        """True on all ranks when it is true on all of them."""

    def share(self, value: T) -> T:
        """The value that rank 0 holds."""


def check(state: State) -> None:
    """ValueError for what cannot be written: a fault of the program, and cheap to see at once."""
    for name, entry in state.items():
        if not name or name == "__metadata__":
            raise ValueError(f"{name!r} cannot be the name of a tensor in a checkpoint")
        for piece in entry.pieces:
            _check_piece(name, entry.shape, piece)
        if len({(piece.offset, piece.data.shape) for piece in entry.pieces}) < len(entry.pieces):
            raise ValueError(f"{name}: two pieces of the same shape begin at the same place")


def _check_piece(name: str, shape: tuple[int, ...], piece: Piece) -> None:
    if piece.data.dtype not in NAMES:
        raise ValueError(f"{name}: the safetensors format has no {piece.data.dtype}")
    where = f"{name}: piece of shape {tuple(piece.data.shape)} at {piece.offset}"
    if piece.data.device.type != "cpu" or not piece.data.is_contiguous():
        raise ValueError(f"{where} must be on the CPU and contiguous")
    if not len(piece.offset) == piece.data.dim() == len(shape):
        raise ValueError(f"{where} has not the dimensions of the whole, {shape}")
    for offset, extent, whole in zip(piece.offset, piece.data.shape, shape, strict=True):
        if offset < 0 or offset + extent > whole:
            raise ValueError(f"{where} reaches beyond the whole, {shape}")
