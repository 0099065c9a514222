"""The text of a compiled program: its computations, and how often a run of it does each."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from pathlib import Path

BYTES = {
    **dict.fromkeys(("pred", "s4", "u4", "s8", "u8", "f8e4m3fn", "f8e5m2"), 1),
    **dict.fromkeys(("s16", "u16", "bf16", "f16"), 2),
    **dict.fromkeys(("s32", "u32", "f32"), 4),
    **dict.fromkeys(("s64", "u64", "f64", "c64"), 8),
    "c128": 16,
}
_ARRAY = re.compile(r"\b([a-z][a-z0-9]*)\[([0-9,]*)\](?:\{([^{}]*)\})?")
_HEAD = re.compile(r"^(ENTRY )?%?([\w.\-]+) \(.*\{$")
_INSTRUCTION = re.compile(r"^\s+(ROOT )?%?([\w.\-]+) = ")
_OPCODE = re.compile(r"\s*([a-z][\w\-]*)\(")
_NAME = re.compile(r"%([\w.\-]+)")
_INDEX = re.compile(r"\bindex=(\d+)")
_SEVERAL = {"conditional": "branch_computations", "custom-call": "called_computations"}
"""Operations that run other computations, and where those are listed: a collective that is done by
sparse cores is in the computation of a call."""
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"\}')


@dataclass(frozen=True)
class Array:
    """`fast`: in a memory of the chip other than its HBM."""

    kind: str
    shape: tuple[int, ...]
    fast: bool

    @property
    def bytes(self) -> int:
        return BYTES.get(self.kind, 0) * prod(self.shape)


@dataclass(frozen=True)
class Instruction:
    """`arrays` are what it makes, `operands` the names of what it takes. `inner` is the text in its
    parentheses, `rest` the one behind them."""

    name: str
    opcode: str
    arrays: tuple[Array, ...]
    operands: tuple[str, ...]
    inner: str
    rest: str
    root: bool

    def called(self, key: str) -> str:
        """The computation named after `key=`, or nothing."""
        found = re.search(rf"\b{key}=%?([\w.\-]+)", self.rest)
        return found[1] if found else ""


@dataclass
class Computation:
    name: str
    instructions: dict[str, Instruction] = field(default_factory=dict)

    @property
    def root(self) -> Instruction:
        return next(one for one in self.instructions.values() if one.root)


@dataclass
class Module:
    """`fused` marks a computation whose values never leave the operation that calls it."""

    computations: dict[str, Computation]
    entry: str

    @cached_property
    def runs(self) -> dict[str, int]:
        """Computation -> how often one run of the program does it."""
        counts: dict[str, int] = defaultdict(int)
        self._count(self.entry, 1, counts)
        return dict(counts)

    @cached_property
    def fused(self) -> frozenset[str]:
        """Computations inside of another's operation, whose values have no place in memory."""
        outer = [one for _, one in self.all() if one.opcode in ("fusion", "custom-call")]
        begun = [called for one in outer for called, _ in _calls(one, self)]
        found: set[str] = set()
        while begun:
            name = begun.pop()
            if name in self.computations and name not in found:
                found.add(name)
                inside = self.computations[name].instructions.values()
                begun += [called for one in inside for called, _ in _calls(one, self)]
        return frozenset(found)

    def all(self) -> Iterator[tuple[str, Instruction]]:
        for name, computation in self.computations.items():
            for one in computation.instructions.values():
                yield name, one

    def ran(self) -> Iterator[tuple[int, Computation, Instruction]]:
        """Each instruction that runs, and how often."""
        for name, times in self.runs.items():
            for one in self.computations[name].instructions.values():
                yield times, self.computations[name], one

    def _count(self, name: str, times: int, counts: dict[str, int]) -> None:
        if name not in self.computations:
            return
        counts[name] += times
        for one in self.computations[name].instructions.values():
            for called, more in _calls(one, self):
                self._count(called, times * more, counts)


def text_in(folder: Path) -> str:
    """What the compiler wrote of its program. Raises FileNotFoundError where it wrote nothing."""
    for file in folder.glob("*.after_optimizations.txt"):
        return file.read_text("utf-8")
    raise FileNotFoundError(f"the compiler wrote no program into {folder}")


def parse(text: str) -> Module:
    """Raises ValueError where it is no program."""
    computations, entry, current = {}, "", Computation("")
    for line in text.splitlines():
        if head := _HEAD.match(line):
            current = computations[head[2]] = Computation(head[2])
            entry = head[2] if head[1] else entry
        elif (found := _INSTRUCTION.match(line)) and (one := _instruction(line, found)):
            current.instructions[one.name] = one
    if not entry:
        raise ValueError("the text has no ENTRY computation")
    return Module(computations, entry)


def arrays(text: str) -> tuple[Array, ...]:
    """The arrays of a type, those of a tuple one after the other."""
    return tuple(
        Array(kind, tuple(int(side) for side in sides.split(",") if side), _fast(layout))
        for kind, sides, layout in _ARRAY.findall(text)
    )


def _fast(layout: str) -> bool:
    return bool(re.search(r"S\([1-9]", layout))


def _instruction(line: str, found: re.Match[str]) -> Instruction | None:
    begin = found.end()
    end = _closing(line, begin) if line[begin] == "(" else line.find(" ", begin)
    opcode = _OPCODE.match(line, end)
    if opcode is None:
        return None
    last = _closing(line, opcode.end() - 1)
    inner = line[opcode.end() : last - 1]
    operands = tuple(_NAME.findall(inner))
    made = arrays(line[begin:end])
    return Instruction(found[2], opcode[1], made, operands, inner, line[last:], bool(found[1]))


def _closing(line: str, begin: int) -> int:
    """One past the parenthesis that closes the one at `begin`."""
    depth = 0
    for place in range(begin, len(line)):
        depth += {"(": 1, ")": -1}.get(line[place], 0)
        if depth == 0:
            return place + 1
    return len(line)


def _calls(one: Instruction, module: Module) -> Iterator[tuple[str, int]]:
    """The computations that an instruction runs, and how often each."""
    if one.opcode == "while":
        yield one.called("body"), _trips(one, module)
    elif one.opcode in ("fusion", "call", "async-start"):
        yield one.called("calls") or one.called("to_apply"), 1
    elif one.opcode in _SEVERAL:
        listed = re.search(rf"{_SEVERAL[one.opcode]}=\{{([^}}]*)\}}", one.rest)
        yield from ((name, 1) for name in _NAME.findall(listed[1] if listed else ""))


def _trips(one: Instruction, module: Module) -> int:
    """The compiler's own count, or how often the counter steps from zero to the constant that the
    condition compares with."""
    if found := _TRIPS.search(one.rest):
        return int(found[1])
    condition = module.computations.get(one.called("condition"), Computation(""))
    constants = [one for one in condition.instructions.values() if one.opcode == "constant"]
    numbers = [int(one.inner) for one in constants if one.inner.isdigit()]
    return -(-max(numbers, default=1) // _step(one, condition, module))


def _step(one: Instruction, condition: Computation, module: Module) -> int:
    """What a turn of a loop adds to its counter: the compiler may do several in one."""
    body = module.computations.get(one.called("body"), Computation(""))
    counters = [_INDEX.search(one.rest) for one in condition.instructions.values()]
    places = [int(found[1]) for found in counters if found]
    if not places or not body.instructions:
        return 1
    made = body.instructions.get(body.root.operands[places[0]])
    taken = [body.instructions.get(name) for name in made.operands] if made else []
    added = [part.inner for part in taken if part and part.opcode == "constant"]
    return int(added[0]) if made and made.opcode == "add" and added else 1
