"""The order of samples: a random permutation for every epoch, without holding any of them.

A Feistel network permutes the numbers below a power of four; an output that lies outside of the
samples goes through again until it lies inside (cycle walking), which keeps it a bijection. See
Black and Rogaway, "Ciphers with Arbitrary Finite Domains", 2002.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import InputError

_ROUNDS = 8
# The finalizer of splitmix64 (Steele, Lea, Flood, 2014): every input bit reaches every output bit.
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
# Below 64 places a Feistel network has too few keys that differ.
_SMALLEST_HALF = 3


class Sampler:
    """Which sample stands at which place of an endless run over `total` samples.

    The answer depends on `total`, `seed` and the place alone, so a run goes on anywhere at once.
    """

    def __init__(self, total: int, seed: int) -> None:
        if total < 1 or seed < 0:
            what = f"{total} samples with seed {seed} cannot be put in order"
            raise InputError(what, "run.toml, [run] seed", "give 0 or more, and some data")
        self.total, self.seed = total, seed
        half = max(_SMALLEST_HALF, -(-(total - 1).bit_length() // 2))
        self._half = np.uint64(half)
        self._low = np.uint64(2**half - 1)

    def __getitem__(self, places: ArrayLike) -> NDArray[np.int64]:
        """Sample numbers, in the shape of `places` (counted from 0 over all epochs)."""
        wanted = np.asarray(places, dtype=np.int64)
        epochs, offsets = np.divmod(np.atleast_1d(wanted), self.total)
        samples = np.empty_like(offsets)
        for epoch in np.unique(epochs):
            chosen = epochs == epoch
            samples[chosen] = self._permute(offsets[chosen].astype(np.uint64), int(epoch))
        return samples.reshape(wanted.shape)

    def _permute(self, values: NDArray[np.uint64], epoch: int) -> NDArray[np.uint64]:
        sequence = np.random.SeedSequence(self.seed, spawn_key=(epoch,))
        keys = sequence.generate_state(_ROUNDS, np.uint64).astype(np.uint64)
        values = self._encrypt(values, keys)
        while (outside := values >= self.total).any():
            values[outside] = self._encrypt(values[outside], keys)
        return values

    def _encrypt(self, values: NDArray[np.uint64], keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
        left, right = values >> self._half, values & self._low
        for key in keys:
            mixed = right ^ key
            mixed = (mixed ^ (mixed >> np.uint64(30))) * _MIX_1
            mixed = (mixed ^ (mixed >> np.uint64(27))) * _MIX_2
            left, right = right, left ^ ((mixed ^ (mixed >> np.uint64(31))) & self._low)
        return left * (self._low + np.uint64(1)) + right
