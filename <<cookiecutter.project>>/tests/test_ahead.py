"""Values are read ahead, in the order in which they are asked for, and never too many."""

from __future__ import annotations

import threading

import pytest
import torch
from torch import Tensor

from << cookiecutter.package >>.accelerator._ahead import AT_ONCE, Part, ahead, state
from << cookiecutter.package >>.errors import Failure

PARTS: list[Part] = state([(str(number), (0,), (number + 1,)) for number in range(3 * AT_ONCE)])
SECONDS = 10


class Source:
    """Answers nothing before `together` requests are under way at the same time."""

    def __init__(self, together: int = 1) -> None:
        self.asked: list[str] = []
        self._gate = threading.Barrier(together) if together > 1 else None

    def __call__(self, name: str, offset: tuple[int, ...], shape: tuple[int, ...]) -> Tensor:
        self.asked.append(name)
        if self._gate:
            self._gate.wait(SECONDS)
        return torch.full(shape, float(shape[0]))


def test_each_value_is_what_was_asked_for() -> None:
    source = Source()
    with ahead(source, PARTS) as read:
        for name, offset, shape in PARTS:
            assert read(name, offset, shape).tolist() == [float(shape[0])] * shape[0]
    assert sorted(source.asked) == sorted(name for name, _, _ in PARTS)


def test_several_are_read_at_the_same_time() -> None:
    """Else the barrier breaks."""
    with ahead(Source(AT_ONCE), PARTS) as read:
        for part in PARTS[:AT_ONCE]:
            read(*part)


def test_a_host_holds_no_more_than_those_at_once() -> None:
    source = Source()
    with ahead(source, PARTS) as read:
        read(*PARTS[0])
    assert len(source.asked) <= AT_ONCE + 1


def test_what_was_not_announced_is_read_when_it_is_asked_for() -> None:
    with ahead(Source(), PARTS) as read:
        assert read("optimizer.0.step", (), (2,)).tolist() == [2.0, 2.0]
        assert read(*PARTS[0]).tolist() == [1.0]


def test_a_fault_is_told_where_its_value_is_asked_for() -> None:
    def broken(name: str, offset: tuple[int, ...], shape: tuple[int, ...]) -> Tensor:
        if name == "model.1":
            raise Failure("cannot be read", name, "look")
        return torch.zeros(shape)

    with ahead(broken, PARTS) as read:
        read(*PARTS[0])
        with pytest.raises(Failure, match="cannot be read"):
            read(*PARTS[1])
