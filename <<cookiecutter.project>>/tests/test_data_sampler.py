"""The order of samples: a permutation an epoch, the same for ever, that looks like chance."""

from __future__ import annotations

import numpy as np
import pytest

from << cookiecutter.package >>.data import Sampler
from << cookiecutter.package >>.errors import InputError

TOTALS = [*range(1, 130), 255, 256, 257, 1000, 1023, 1024, 1025, 4095, 4096, 4097, 65_537, 300_007]


def epoch(total: int, seed: int, number: int = 0) -> np.ndarray:
    return Sampler(total, seed)[np.arange(number * total, (number + 1) * total)]


@pytest.mark.parametrize("seed", [0, 7, 2**40])
def test_each_epoch_takes_every_sample_once(seed: int) -> None:
    for total in TOTALS:
        for number in (0, 1, 5):
            assert np.array_equal(np.sort(epoch(total, seed, number)), np.arange(total)), total


def test_an_answer_depends_on_the_place_alone() -> None:
    sampler = Sampler(1000, 3)
    places = np.random.default_rng(0).integers(0, 10_000, size=(5, 40))
    together = sampler[places]
    assert together.shape == places.shape
    for place, sample in zip(places.ravel(), together.ravel(), strict=True):
        assert sampler[int(place)] == sample


def test_a_far_place_costs_no_memory_and_no_walk_there() -> None:
    sampler = Sampler(10**12, 1)
    samples = sampler[np.arange(10**17, 10**17 + 1000)]
    assert len(np.unique(samples)) == 1000
    assert samples.min() >= 0 and samples.max() < 10**12


def test_the_order_never_changes_between_versions() -> None:
    # A run that goes on with a newer version of this code must see the same batches.
    assert Sampler(10, 0)[np.arange(10)].tolist() == [2, 0, 7, 5, 1, 3, 9, 8, 6, 4]
    # The fourth place begins the second epoch.
    later = Sampler(1_000_003, 42)[np.arange(1_000_000, 1_000_006)].tolist()
    assert later == [590472, 678345, 421550, 925793, 613687, 631277]


def test_epochs_and_seeds_differ() -> None:
    orders = {tuple(epoch(50, seed, number)) for seed in range(10) for number in range(10)}
    assert len(orders) == 100


def test_neighbours_land_anywhere() -> None:
    total = 20_000
    order = epoch(total, 5)
    # Bounds at four standard deviations of a random permutation's statistics.
    correlation = np.corrcoef(order[:-1], order[1:])[0, 1]
    assert abs(correlation) < 4 / np.sqrt(total)
    counts = np.histogram2d(np.arange(total), order, bins=20)[0]
    expected = total / 400
    chi_squared = float(((counts - expected) ** 2 / expected).sum())
    freedom = 19 * 19
    assert abs(chi_squared - freedom) < 4 * np.sqrt(2 * freedom)
    assert np.count_nonzero(order == np.arange(total)) < 8


def test_small_epochs_start_with_any_sample() -> None:
    firsts = np.bincount([int(Sampler(6, seed)[0]) for seed in range(600)], minlength=6)
    assert firsts.min() > 60 and firsts.max() < 140


@pytest.mark.parametrize(("total", "seed"), [(0, 0), (-1, 0), (5, -1)])
def test_what_cannot_be_ordered_is_told(total: int, seed: int) -> None:
    with pytest.raises(InputError, match="cannot be put in order"):
        Sampler(total, seed)
