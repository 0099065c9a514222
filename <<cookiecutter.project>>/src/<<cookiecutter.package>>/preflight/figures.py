"""What the compiler found out about a step on one device, as numbers that add up."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from .hlo import Module, parse, text_in
from .program import BETWEEN, Collective, Work, measure

UNITS = {"B": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_SIZE = r"\(([\d.]+)([BKMGT])B?\)"
_EXCEEDS = re.compile(rf"{_SIZE} exceeds available HBM {_SIZE}")
DEPTHS = (2, 4)
"""Numbers of layers through which the line of a deep model is drawn."""
KINDS = {"model": "parameters", "optimizer": "optimizer", "gradient": "gradients"}

Memory = dict[str, float]


@dataclass(frozen=True)
class Figures:
    """Of one device and one step.

    `memory` says what the largest of the step's programs keeps in HBM, by what it is for, and
    `limit` how much of it a program may have. `needed` is the compiler's own figure where it
    refused; then nothing else is known.
    `collectives` is kind -> (count, bytes sent).
    """

    limit: Annotated[float, Field(gt=0)]
    memory: Memory = field(default_factory=dict)
    needed: float | None = None
    flops: float = 0.0
    hbm_bytes: float = 0.0
    collectives: dict[str, tuple[float, float]] = field(default_factory=dict)
    depths: tuple[int, ...] = ()
    compile_seconds: float = 0.0

    @property
    def used(self) -> float:
        return sum(self.memory.values()) if self.needed is None else self.needed

    @property
    def share(self) -> float:
        return self.used / self.limit

    @property
    def fits(self) -> bool:
        return self.needed is None and self.used <= self.limit

    @property
    def sent_bytes(self) -> float:
        """Over ICI."""
        return sum(sent for kind, (_, sent) in self.collectives.items() if kind != BETWEEN)


class NotCompiled(Exception):
    """The compiler refused a program for another reason than its size; `args` has its words."""


def refusal(message: str) -> tuple[float, float] | None:
    """Bytes wanted and bytes there, of the compiler's message about memory."""
    found = _EXCEEDS.search(message)
    if found is None:
        return None
    return float(found[1]) * UNITS[found[2]], float(found[3]) * UNITS[found[4]]


def read(folder: Path, devices: int, counts: Mapping[str, int]) -> Figures:
    """`counts` says how often a step runs each program. Raises NotCompiled."""
    result = json.loads((folder / "compiled.json").read_text("utf-8"))
    limit = refusal(result["limit"])
    if limit is None:
        raise NotCompiled(result["limit"] or "the compiler does not tell how much memory there is")
    figures, largest = Figures(limit[1]), Memory()
    code = 0.0
    for program in result["programs"]:
        if "refused" in program:
            return _refused(program["refused"], limit[1])
        module = parse(text_in(folder / program["name"]))
        memory = _memory(module, program)
        largest = max(largest, memory, key=lambda one: sum(one.values()))
        code += program["code_bytes"]
        work = measure(module, devices)
        figures = _add(figures, work, counts[program["name"]], program)
    return replace(figures, memory=largest | {"code": code})


def _refused(message: str, limit: float) -> Figures:
    wanted = refusal(message)
    if wanted is None:
        raise NotCompiled(message)
    return Figures(limit, needed=wanted[0])


def _add(figures: Figures, work: Work, count: int, program: Mapping[str, Any]) -> Figures:
    return replace(
        figures,
        compile_seconds=figures.compile_seconds + program["seconds"],
        flops=figures.flops + count * work.flops,
        hbm_bytes=figures.hbm_bytes + count * work.hbm_bytes,
        collectives=_joined(figures.collectives, work.collectives, count),
    )


def _joined(
    before: Mapping[str, tuple[float, float]], more: tuple[Collective, ...], count: int
) -> dict[str, tuple[float, float]]:
    joined = dict(before)
    for one in more:
        times, sent = joined.get(one.kind, (0.0, 0.0))
        joined[one.kind] = (times + count * one.count, sent + count * one.bytes)
    return joined


def _memory(module: Module, program: Mapping[str, Any]) -> Memory:
    """By purpose. What the layouts of arguments add is counted as "other"."""
    memory = _arguments(module, program["arguments"])
    taken = program["argument_bytes"] + program["output_bytes"]
    memory["other"] = memory.get("other", 0.0) + taken - sum(memory.values())
    return memory | {"temporary": program["temporary_bytes"]}


def _arguments(module: Module, names: Sequence[str]) -> Memory:
    entry = module.computations[module.entry].instructions.values()
    places = {int(one.inner): one for one in entry if one.opcode == "parameter"}
    memory: Memory = defaultdict(float)
    for number, name in enumerate(names):
        kind = KINDS.get(name.partition(".")[0], "other")
        memory[kind] += sum(array.bytes for array in places[number].arrays)
    return dict(memory)


def line(low: Figures, high: Figures, layers: int) -> Figures:
    """The figures of `layers` equal layers, from those of two smaller numbers of them."""
    (a,), (b,) = low.depths, high.depths
    step = (layers - b) / (b - a)

    def on(x: float, y: float) -> float:
        return y + (y - x) * step

    if high.needed is not None or low.needed is not None:
        # A refusal names one figure, all that the program wanted.
        needed = max(on(low.used, high.used), high.used)
        return Figures(high.limit, needed=needed, depths=(a, b))
    kinds = low.collectives.keys() | high.collectives.keys()
    none = (0.0, 0.0)
    pairs = {
        kind: (low.collectives.get(kind, none), high.collectives.get(kind, none)) for kind in kinds
    }
    return Figures(
        high.limit,
        # What falls from one depth to the next is no line, and a deeper model takes no less.
        {
            key: max(on(low.memory.get(key, 0.0), value), value)
            for key, value in high.memory.items()
        },
        flops=on(low.flops, high.flops),
        hbm_bytes=on(low.hbm_bytes, high.hbm_bytes),
        collectives={
            kind: (on(x[0], y[0]), on(x[1], y[1])) for kind, (x, y) in sorted(pairs.items())
        },
        depths=(a, b),
        compile_seconds=low.compile_seconds + high.compile_seconds,
    )
