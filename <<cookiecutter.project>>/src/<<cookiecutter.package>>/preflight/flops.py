"""FLOPs of matrix products, from the shapes that the compiled program multiplies."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import prod

from .hlo import Array, Computation, Instruction

LONG = 4_000_000
"""Pairs of positions beyond which a convolution is not looked at one by one."""


def flops_of(one: Instruction, place: Computation) -> int:
    if one.opcode not in ("dot", "convolution"):
        return 0
    left, right = (place.instructions[name].arrays[0] for name in one.operands[:2])
    if one.opcode == "dot":
        cut = _numbers(one.rest, "lhs_contracting_dims")
        return 2 * prod(one.arrays[0].shape) * prod(left.shape[side] for side in cut)
    return _convolution(one, left, right)


def _convolution(one: Instruction, left: Array, right: Array) -> int:
    """The compiler writes matrix products as convolutions whose windows reach over padding and
    holes; only what is neither is multiplied."""
    labels = re.search(r"dim_labels=(\w+)_(\w+)->(\w+)", one.rest)
    if labels is None:
        return 0
    lefts, rights, outs = labels[1], labels[2], labels[3]
    pairs = 1
    for number in sorted(mark for mark in lefts if mark.isdigit()):
        sizes = (left.shape[lefts.index(number)], right.shape[rights.index(number)])
        made = one.arrays[0].shape[outs.index(number)]
        pairs *= _hits(*sizes, made, _window(one.rest, int(number)))
    batch = one.arrays[0].shape[outs.index("b")]
    features = one.arrays[0].shape[outs.index("f")]
    grouped = re.search(r"batch_group_count=(\d+)", one.rest)
    share = int(grouped[1]) if grouped else 1
    return 2 * pairs * batch * features * right.shape[rights.index("i")] // share


@dataclass(frozen=True)
class _Window:
    stride: int
    low: int
    spread: int  # of the left side: holes between its values
    reach: int  # of the right side


def _window(rest: str, number: int) -> _Window:
    text = re.search(r"window=\{([^}]*)\}", rest)
    words = dict(word.split("=", 1) for word in text[1].split()) if text else {}

    def of(key: str, default: str) -> str:
        return words[key].split("x")[number] if key in words else default

    return _Window(
        int(of("stride", "1")),
        int(of("pad", "0_0").split("_")[0]),
        int(of("lhs_dilate", "1")),
        int(of("rhs_dilate", "1")),
    )


def _hits(left: int, right: int, made: int, window: _Window) -> int:
    """How many (output, kernel) positions meet a value of the left side along one dimension."""
    if made * right > LONG:
        return made * right  # a real convolution over so long a side has hardly any padding
    reached = (
        out * window.stride - window.low + kernel * window.reach
        for out in range(made)
        for kernel in range(right)
    )
    last = (left - 1) * window.spread
    return sum(0 <= place <= last and place % window.spread == 0 for place in reached)


def _numbers(rest: str, key: str) -> list[int]:
    found = re.search(rf"{key}=\{{([\d,]*)\}}", rest)
    return [int(word) for word in found[1].split(",") if word] if found else []
