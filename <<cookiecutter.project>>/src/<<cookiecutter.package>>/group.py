"""How the workers of a run agree on something: over gloo, never over the devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from .errors import Failure

T = TypeVar("T")


class Agreed(Exception):
    """A fault of one worker that all workers know of, so that all of them end, at once."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure)
        self.failure = failure


class Group:
    """All workers of a run; a worker without a process group is a group of one."""

    def __init__(self) -> None:
        together = dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1
        self.rank: int = dist.get_rank() if together else 0
        self.world: int = dist.get_world_size() if together else 1
        # A group of its own: the default one may speak NCCL, which needs device tensors.
        self._gloo = dist.new_group(backend="gloo") if together else None

    def agree(self, ok: bool) -> bool:
        """True on all workers when it is true on all of them."""
        return self.any(not ok) == 0

    def any(self, bits: int) -> int:
        """The bits (63 at most) that some worker has set, the same answer on all of them."""
        return self.any_later(bits).result()

    def any_later(self, bits: int) -> Answer:
        """Like `any`, but waits only when the result is asked for."""
        if self._gloo is None:
            return Answer(torch.tensor([bits]), None)
        tensor = torch.tensor([int(bits)], dtype=torch.int64)
        return Answer(tensor, dist.all_reduce(tensor, dist.ReduceOp.BOR, self._gloo, async_op=True))

    def share(self, value: Any) -> Any:
        """The value that worker 0 holds."""
        if self._gloo is None:
            return value
        box = [value]
        dist.broadcast_object_list(box, src=0, group=self._gloo)
        return box[0]

    def together(self, work: Callable[[], T]) -> T:
        """Does `work` on all workers; raises Agreed on all of them when it fails on one."""
        try:
            result, failure = work(), None
        except Failure as error:
            failure = error
        found = [failure]
        if self._gloo is not None:
            found = [None] * self.world
            dist.all_gather_object(found, failure, group=self._gloo)
        for failure in filter(None, found):
            raise Agreed(failure) from None
        return result


class Answer:
    """An agreement under way."""

    def __init__(self, tensor: torch.Tensor, work: dist.Work | None) -> None:
        self._tensor, self._work = tensor, work

    def result(self) -> int:
        if self._work is not None:
            self._work.wait()
        return int(self._tensor.item())
