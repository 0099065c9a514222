"""What one run of a compiled program does on one device: FLOPs, bytes through its HBM, collectives.

A loop's body counts as often as it runs. Elementwise work counts no FLOPs: the matrix unit does
none of it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod

from .flops import flops_of
from .hlo import Array, Computation, Instruction, Module

COLLECTIVES = {
    "all-gather": "all-gather",
    "all-gather-start": "all-gather",
    "all-reduce": "all-reduce",
    "all-reduce-start": "all-reduce",
    "reduce-scatter": "reduce-scatter",
    "all-to-all": "all-to-all",
    "ragged-all-to-all": "all-to-all",
    "collective-permute": "collective-permute",
    "collective-permute-start": "collective-permute",
}
BETWEEN = "between slices"
"""What a device hands to its host for the other slices: it does not go through ICI."""
_TO_HOSTS = "_xla_megascale_transfer_type"
# They name what lies in memory already, or run other computations, which are counted themselves.
_NO_TRAFFIC = frozenset(
    (
        *("parameter", "constant", "get-tuple-element", "tuple", "bitcast", "opt-barrier"),
        *("while", "conditional", "call", "after-all", "partition-id", "replica-id"),
        *("copy-done", "slice-done", "all-gather-done", "all-reduce-done"),
        *("collective-permute-done", "async-start", "async-update", "send-done", "recv-done"),
        "async-done",
    )
)


@dataclass(frozen=True)
class Collective:
    """`bytes` is what a device sends, over all of the `count` times."""

    kind: str
    count: int
    bytes: int


@dataclass(frozen=True)
class Work:
    """Of one device and one run of the program."""

    flops: int
    hbm_bytes: int
    collectives: tuple[Collective, ...] = field(default=())


def measure(module: Module, devices: int) -> Work:
    flops = sum(times * flops_of(one, place) for times, place, one in module.ran())
    traffic = sum(
        times * _moved(one, place, module)
        for times, place, one in module.ran()
        if place.name not in module.fused and one.opcode not in _NO_TRAFFIC
    )
    return Work(flops, traffic, _collectives(module, devices))


def _collectives(module: Module, devices: int) -> tuple[Collective, ...]:
    """By kind. One inside of several computing operations is one: its channel tells. Where it goes
    on in every turn of a loop, it begins and ends outside: where it stands least often."""
    seen: dict[tuple[str, str], tuple[int, int]] = {}
    for times, place, one in module.ran():
        if one.opcode in COLLECTIVES or (one.opcode == "send" and _TO_HOSTS in one.rest):
            kind, sent = _sent(one, place, devices)
            channel = re.search(r"channel_id=(\d+)", one.rest)
            spread = channel is not None and place.name in module.fused
            key = (kind, channel[1] if channel and spread else f"{place.name}/{one.name}")
            seen[key] = min(seen.get(key, (times, times * sent)), (times, times * sent))
    totals: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for (kind, _), (times, sent) in seen.items():
        totals[kind][0] += times
        totals[kind][1] += sent
    return tuple(Collective(kind, count, sent) for kind, (count, sent) in sorted(totals.items()))


def _sent(one: Instruction, place: Computation, devices: int) -> tuple[str, int]:
    """The kind, and the bytes that a device sends in one go if nothing is sent twice."""
    kind = COLLECTIVES.get(one.opcode, BETWEEN)
    taken = sum(array.bytes for name in one.operands for array in _arrays(name, place))
    group = _group(one.rest, devices)
    if kind in ("collective-permute", BETWEEN):
        return kind, taken
    if kind == "all-gather":
        return kind, taken * (group - 1)
    share = taken * (group - 1) // group
    if kind == "all-reduce" and not place.name.startswith("all-reduce-scatter"):
        return kind, 2 * share
    return ("reduce-scatter" if kind == "all-reduce" else kind), share


def _group(rest: str, devices: int) -> int:
    """Devices that take part together."""
    if found := re.search(r"replica_groups=\{\{([\d,]+)\}", rest):
        return found[1].count(",") + 1
    if found := re.search(r"replica_groups=\[\d+,(\d+)\]", rest):
        return int(found[1])
    if found := re.search(r"replica_groups=mesh\[([^\]]*)\][^{]*\{([^}]*)\}", rest):
        sizes = dict(re.findall(r"'(\w+)'=(\d+)", found[1]))
        return prod(int(sizes[axis]) for axis in re.findall(r"'(\w+)'", found[2]))
    return devices


def _moved(one: Instruction, place: Computation, module: Module) -> int:
    """Bytes that an operation reads from HBM and writes to it."""
    if one.opcode in ("copy-start", "slice-start"):
        # What it makes names its source too.
        copy = one.arrays[one.opcode == "slice-start"]
        return copy.bytes * (not copy.fast) + copy.bytes * bool(_slow(one.operands[0], place))
    inside = module.computations.get(one.called("calls")) if one.opcode == "fusion" else None
    made = sum(array.bytes for array in one.arrays if not array.fast)
    if inside and inside.root.opcode == "dynamic-update-slice":
        made = _slow(inside.root.operands[1], inside)
    if one.opcode in ("dynamic-slice", "gather", "slice"):
        # One may be made in the chip's own memory, ahead of its use.
        return made + one.arrays[0].bytes * bool(_slow(one.operands[0], place))
    if one.opcode == "dynamic-update-slice":
        return 2 * _slow(one.operands[1], place)
    first = {name: number for number, name in reversed(list(enumerate(one.operands)))}
    return made + sum(_read(name, number, place, inside) for name, number in first.items())


def _read(name: str, number: int, place: Computation, inside: Computation | None) -> int:
    """What an operation reads of an operand: of one that is only cut out of, the cuts."""
    whole = _slow(name, place)
    if not whole or inside is None:
        return whole
    users = list(_users(inside, number))
    if users and all(user.opcode in ("dynamic-slice", "gather", "slice") for user in users):
        return min(whole, sum(array.bytes for user in users for array in user.arrays))
    if users and all(user.opcode == "dynamic-update-slice" for user in users):
        return 0
    return whole


def _users(inside: Computation, number: int) -> Iterator[Instruction]:
    """The instructions of a fused computation that take its parameter of this number."""
    names = {
        one.name
        for one in inside.instructions.values()
        if one.opcode == "parameter" and one.inner == str(number)
    }
    return (one for one in inside.instructions.values() if names & set(one.operands))


def _slow(name: str, place: Computation) -> int:
    return sum(array.bytes for array in _arrays(name, place) if not array.fast)


def _arrays(name: str, place: Computation) -> tuple[Array, ...]:
    found = place.instructions.get(name)
    return found.arrays if found else ()
