"""Faults on demand: at the call of a number, or at the nth call of a method."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal, get_args

Kind = Literal[
    "unavailable",
    "unavailable-after",
    "timeout-before",
    "timeout-after",
    "denied",
    "unauthenticated",
    "exhausted",
    "broken",
    "empty",
]
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True)
class Call:
    """A request that arrived; `number` counts from one."""

    number: int
    method: str
    path: str
    at: float


@dataclass
class Fault:
    """`times` calls are hit, from the call number `at` or the `nth` call of `method` on."""

    kind: Kind
    at: int = 0
    method: str = ""
    nth: int = 1
    times: int = 1


class Faults:
    def __init__(self) -> None:
        self._waiting: list[Fault] = []
        self._seen: Counter[str] = Counter()
        self.struck: list[Call] = []

    def add(self, fault: Fault) -> None:
        self._seen[fault.method] = 0
        self._waiting.append(fault)

    def strike(self, call: Call) -> Kind | None:
        self._seen[call.method] += 1
        for fault in self._waiting:
            if fault.times and self._hits(fault, call):
                fault.times -= 1
                self.struck.append(call)
                return fault.kind
        return None

    def _hits(self, fault: Fault, call: Call) -> bool:
        if fault.at:
            return call.number >= fault.at
        return fault.method == call.method and self._seen[call.method] >= fault.nth
