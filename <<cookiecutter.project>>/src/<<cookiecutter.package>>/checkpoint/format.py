"""The safetensors layout, written straight from the tensors' own memory.

8 bytes with the length of the header, the header (JSON), then the bytes of the tensors without a
gap: https://huggingface.co/docs/safetensors/index#format. The library itself would first build the
whole file in memory, a second copy of the state.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

from .state import NAMES, Piece, State

Bytes: TypeAlias = bytes | bytearray | memoryview
BLOCK = 4 * 2**20  # handed to the storage at a time; copying that much holds the GIL about 1 ms
PART = 256 * 2**20  # bytes of one file; an upload that breaks off is sent again from its beginning


@dataclass(frozen=True, eq=False)
class Named:
    """A piece with its tensor's name and whole shape."""

    name: str
    whole: tuple[int, ...]
    piece: Piece

    @property
    def size(self) -> int:
        return self.piece.data.numel() * self.piece.data.element_size()


@dataclass(frozen=True, eq=False)
class Layout:
    """One file before it is written: `index` says where each piece of which tensor will lie."""

    head: bytes
    tensors: tuple[torch.Tensor, ...]
    index: dict[str, Any]
    size: int

    def blocks(self) -> Iterator[Bytes]:
        """The file's bytes in order: large tensors as views of their memory, small ones joined."""
        joined = bytearray(self.head)
        for tensor in self.tensors:
            data = memory(tensor)
            if len(data) < BLOCK // 4:
                joined += data
                data = data[:0]
            if joined and (data or len(joined) >= BLOCK):
                yield joined
                joined = bytearray()
            for start in range(0, len(data), BLOCK):
                yield data[start : start + BLOCK]
        if joined:
            yield joined


def memory(tensor: torch.Tensor) -> memoryview:
    """The bytes of a contiguous CPU tensor, not copied."""
    return tensor.detach().reshape(-1).view(torch.uint8).numpy().data


def plan(state: State) -> list[Layout]:
    """The files to write, about PART bytes each; wide elements first, so that all are aligned."""
    named = [
        Named(name, entry.shape, piece) for name, entry in state.items() for piece in entry.pieces
    ]
    named.sort(key=lambda each: (-each.piece.data.element_size(), each.name, each.piece.offset))
    files: list[list[Named]] = []
    filled = 0
    for each in named:
        if not files or filled + each.size > PART:
            files.append([])
            filled = 0
        files[-1].append(each)
        filled += each.size
    return [_lay_out(file) for file in files]


def _lay_out(pieces: list[Named]) -> Layout:
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    index: dict[str, Any] = {}
    end = 0
    for each in pieces:
        shape, offset = list(each.piece.data.shape), each.piece.offset
        dtype = NAMES[each.piece.data.dtype]
        begin, end = end, end + each.size
        described = {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
        header[_key(each.name, each.whole, offset, shape)] = described
        new = {"dtype": dtype, "shape": list(each.whole), "pieces": []}
        tensor = index.setdefault(each.name, new)
        tensor["pieces"].append({"offset": list(offset), "shape": shape, "begin": begin})
    head = _head(header)
    for tensor in index.values():
        for piece in tensor["pieces"]:
            piece["begin"] += len(head)
    return Layout(head, tuple(each.piece.data for each in pieces), index, len(head) + end)


def _head(header: dict[str, Any]) -> bytes:
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def _key(name: str, whole: tuple[int, ...], offset: tuple[int, ...], shape: list[int]) -> str:
    """The name in the file: a tensor that is whole keeps its own, for any reader of the format."""
    if list(whole) == shape:
        return name
    return name + "[" + ",".join(f"{o}:{o + n}" for o, n in zip(offset, shape, strict=True)) + "]"
