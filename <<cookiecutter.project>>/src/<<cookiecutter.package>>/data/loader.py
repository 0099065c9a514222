"""Batches of token windows, the same for any number of processes and from any step on."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from .cache import ShardFiles, default_cache
from .prefetch import Prefetch
from .sampler import Sampler
from .shards import Index, read_index

Batch = NDArray[np.int32]
# Samples that are looked at to find out which shards are needed first.
_HORIZON = 65_536


class TokenBatches:
    """The training data of one process.

    A sample is a window of `sequence_length` + 1 tokens: inputs and, one on, targets. Windows
    overlap by that one token and lie within one shard; the end of a shard that fills no window is
    unused. Step `s` takes the places from `s * batch_size` on in an endless run over shuffled
    epochs.

    Raises InputError: batch_size or sequence_length do not fit the data or the processes; a shard
    is missing or truncated. Refused: the cache has no room for remote shards.
    """

    def __init__(
        self,
        index: Index | str,
        *,
        sequence_length: int,
        batch_size: int,
        seed: int,
        rank: int = 0,
        world: int = 1,
        cache_dir: str | None = None,
        prefetch: int = 4,
    ) -> None:
        """`index` may be the directory of the shards. `batch_size` counts sequences over all
        `world` processes; `prefetch` batches are made ahead."""
        _check_batch(batch_size, sequence_length, rank, world)
        index = read_index(index) if isinstance(index, str) else index
        self.index, self.batch_size, self.sequence_length = index, batch_size, sequence_length
        windows = [max(shard.tokens - 1, 0) // sequence_length for shard in index.shards]
        self._ends = np.cumsum(windows, dtype=np.int64)
        self._starts = self._ends - np.array(windows, dtype=np.int64)
        self.samples = int(self._ends[-1]) if windows else 0
        _check_samples(index, self.samples, batch_size, sequence_length)
        self._sampler = Sampler(self.samples, seed)
        share = batch_size // world
        self._rows = np.arange(rank * share, (rank + 1) * share, dtype=np.int64)
        self._prefetch = prefetch
        self._files = ShardFiles(index, Path(cache_dir) if cache_dir else default_cache())
        self._running: weakref.WeakSet[Prefetch[Batch]] = weakref.WeakSet()

    def batch(self, step: int) -> Batch:
        """int32 [batch_size / world, sequence_length + 1]: this process's rows of the step's batch.

        Depends on the data, `seed` and `step` alone. Raises InputError for a damaged shard, Refused
        where one cannot be fetched.
        """
        samples = self._sampler[step * self.batch_size + self._rows]
        shards = self._shards_of(samples)
        offsets = (samples - self._starts[shards]) * self.sequence_length
        batch = np.empty((len(samples), self.sequence_length + 1), np.int32)
        for row, shard, offset in zip(batch, shards.tolist(), offsets.tolist(), strict=True):
            row[:] = self._files.open(shard)[offset : offset + len(row)]
        return batch

    def iterate(self, start_step: int, stop_step: int) -> Prefetch[Batch]:
        """The batches of `start_step` up to, not including, `stop_step`, made in the background.

        Fetching starts with the call. What fails in the background is raised by `next()`. Close the
        iterator, or this, to end its thread early.
        """
        self._files.fetch_ahead(self._order_of_need(start_step, stop_step))
        batches = Prefetch(self.batch, range(start_step, stop_step), self._prefetch)
        self._running.add(batches)
        return batches

    def close(self) -> None:
        """Ends all background threads."""
        self._files.close()
        for batches in list(self._running):
            batches.close()

    def __enter__(self) -> TokenBatches:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _shards_of(self, samples: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.searchsorted(self._ends, samples, side="right").astype(np.int64)

    def _order_of_need(self, start_step: int, stop_step: int) -> Iterator[int]:
        """Shards by first use; a run that ends within the horizon needs no others."""
        seen = min(stop_step, start_step + max(_HORIZON // len(self._rows), 1))
        steps = np.arange(start_step, seen, dtype=np.int64)
        places = (steps[:, None] * self.batch_size + self._rows).ravel()
        needed = dict.fromkeys(self._shards_of(self._sampler[places]).tolist())
        yield from needed
        if seen < stop_step:
            filled = np.flatnonzero(self._ends > self._starts).tolist()
            yield from (shard for shard in filled if shard not in needed)


def _check_batch(batch_size: int, sequence_length: int, rank: int, world: int) -> None:
    if min(batch_size, sequence_length) < 1:
        what = f"batch_size is {batch_size}, sequence_length {sequence_length}"
        raise InputError(what, "run.toml, [train]", "both are 1 or more")
    if not 0 <= rank < world:
        raise InputError(f"rank {rank} of {world} processes", "TokenBatches", "count ranks from 0")
    if batch_size % world:
        what = f"batch_size {batch_size} cannot be shared evenly by {world} processes"
        raise InputError(what, "run.toml, [train] batch_size", f"give a multiple of {world}")


def _check_samples(index: Index, samples: int, batch_size: int, sequence_length: int) -> None:
    longest = max((shard.tokens for shard in index.shards), default=0)
    if not samples:
        what = (
            f"sequence_length {sequence_length} does not fit: shards have up to {longest:,} tokens"
        )
        remedy = f"lower [train] sequence_length to {max(longest - 1, 1)}, or prepare more text"
        raise InputError(what, index.root, remedy)
    if samples < batch_size:
        what = f"{index.tokens:,} tokens make {samples} windows, one batch takes {batch_size}"
        remedy = "prepare more text, or lower [train] batch_size or sequence_length"
        raise InputError(what, index.root, remedy)
