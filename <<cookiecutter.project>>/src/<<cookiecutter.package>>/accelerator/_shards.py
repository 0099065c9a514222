"""What of a tensor lies on this host, as a checkpoint keeps it."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from ..checkpoint import Entry, Piece


def entry(tensor: Tensor) -> Entry:
    """The shards of this host. Of replicas only the first is saved, by the host that has it."""
    from torch_xla.distributed.spmd import XLAShardedTensor

    shards = XLAShardedTensor(tensor).local_shards
    pieces = tuple(
        Piece(_offset(shard.indices, tensor.dim()), _unpadded(shard))
        for shard in shards
        if shard.replica_id == 0
    )
    return Entry(tuple(tensor.shape), pieces)


def _unpadded(shard: Any) -> Tensor:
    """The shard without the padding that uneven cuts leave."""
    if not isinstance(shard.indices, list):
        return shard.data
    return shard.data[tuple(slice(0, index.stop - index.start) for index in shard.indices)]


def _offset(indices: object, dimensions: int) -> tuple[int, ...]:
    """Where a shard begins; a replicated one is Ellipsis, hence whole."""
    if isinstance(indices, list):
        return tuple(int(index.start or 0) for index in indices)
    return (0,) * dimensions
