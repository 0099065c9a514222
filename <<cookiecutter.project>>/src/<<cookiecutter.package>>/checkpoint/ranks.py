"""What all ranks do together. A rank that fails must not leave the others waiting for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ..errors import Failure
from .faults import as_failure
from .state import Group

T = TypeVar("T")


def together(group: Group, where: str, work: Callable[[], T]) -> T:
    """Runs `work` on every rank and returns this rank's result; if one rank fails, all raise."""
    try:
        value = work()
    except Exception as error:
        group.agree(False)
        failure = as_failure(error, where)
        raise failure from (error if failure is not error else error.__cause__)
    if not group.agree(True):
        raise Failure(
            "another rank of this run could not use the checkpoints",
            where,
            "see that rank's own message; the trouble may be of its machine alone",
        )
    return value


def from_rank_0(group: Group, where: str, work: Callable[[], T]) -> T:
    """Runs `work` on rank 0; all ranks get its result, or raise its failure."""
    value: T | None = None
    failure: Failure | None = None
    if group.rank == 0:
        try:
            value = work()
        except Exception as error:
            failure = as_failure(error, where)
    value, failure = group.share((value, failure))
    if failure is not None:
        raise failure
    return value  # type: ignore[return-value]  # None only where T allows it
