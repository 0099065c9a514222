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

from .state import NAMES, State

Bytes: TypeAlias = bytes | bytearray | memoryview
BLOCK = 4 * 2**20  # handed to the storage at a time; copying that much holds the GIL about 1 ms


@dataclass(frozen=True)
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


def plan(state: State) -> Layout:
    """Where each piece will lie. Wide elements go first, so that every tensor is aligned."""
    pieces = [(name, entry, piece) for name, entry in state.items() for piece in entry.pieces]
    pieces.sort(key=lambda each: (-each[2].data.element_size(), each[0], each[2].offset))
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    index: dict[str, Any] = {}
    end = 0
    for name, entry, piece in pieces:
        shape, dtype = list(piece.data.shape), NAMES[piece.data.dtype]
        begin, end = end, end + piece.data.numel() * piece.data.element_size()
        key = _key(name, entry.shape, piece.offset, shape)
        if key in header:
            raise ValueError(f"{name} has two pieces of shape {shape} at {piece.offset}")
        header[key] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
        tensor = index.setdefault(name, {"dtype": dtype, "shape": list(entry.shape), "pieces": []})
        tensor["pieces"].append({"offset": list(piece.offset), "shape": shape, "begin": begin})
    return _laid_out(header, index, tuple(piece.data for _, _, piece in pieces), end)


def _laid_out(
    header: dict[str, Any], index: dict[str, Any], tensors: tuple[torch.Tensor, ...], end: int
) -> Layout:
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    head = len(text).to_bytes(8, "little") + text
    for tensor in index.values():
        for piece in tensor["pieces"]:
            piece["begin"] += len(head)
    return Layout(head, tensors, index, len(head) + end)


def _key(name: str, whole: tuple[int, ...], offset: tuple[int, ...], shape: list[int]) -> str:
    """The name in the file: a tensor that is whole keeps its own, for any reader of the format."""
    if list(whole) == shape:
        return name
    return name + "[" + ",".join(f"{o}:{o + n}" for o, n in zip(offset, shape, strict=True)) + "]"
