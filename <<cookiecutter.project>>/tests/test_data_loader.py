"""Batches: which windows they hold, and that only the data, the seed and the step decide."""

from __future__ import annotations

import resource
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from data_fixtures import make_shards, shard_files

from << cookiecutter.package >>.data import Batch, TokenBatches, read_index
from << cookiecutter.package >>.errors import InputError

LENGTHS = (1000, 7, 8, 9, 0, 4001, 350)
SEQUENCE = 8
Open = Callable[..., TokenBatches]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    make_shards(tmp_path / "shards", *LENGTHS)
    return tmp_path / "shards"


@pytest.fixture
def open_batches(root: Path) -> Open:
    def open_(**changes: int) -> TokenBatches:
        settings: dict[str, Any] = {"sequence_length": SEQUENCE, "batch_size": 8, "seed": 1}
        settings |= changes
        return TokenBatches(str(root), **settings)

    return open_


def windows() -> list[tuple[int, ...]]:
    """All windows there are, cut out without the loader."""
    found = []
    begin = 0
    for length in LENGTHS:
        for start in range(0, length - SEQUENCE, SEQUENCE):
            found.append(tuple(range(begin + start, begin + start + SEQUENCE + 1)))
        begin += length
    return found


def rows(batches: list[Batch]) -> list[tuple[int, ...]]:
    return [tuple(row) for batch in batches for row in batch.tolist()]


def test_an_epoch_holds_every_window_of_every_shard_once(open_batches: Open) -> None:
    expected = sorted(windows())
    batches = open_batches()
    assert batches.samples == len(expected)
    steps = [batches.batch(step) for step in range(len(expected))]  # 8 epochs, as a step has 8
    seen = rows(steps)
    for epoch in range(8):
        assert sorted(seen[epoch * len(expected) : (epoch + 1) * len(expected)]) == expected
    assert seen[: len(expected)] != seen[len(expected) : 2 * len(expected)]


def test_a_batch_is_int32_and_its_own(open_batches: Open) -> None:
    batches = open_batches()
    first = batches.batch(0)
    assert first.dtype == np.int32
    assert first.shape == (8, SEQUENCE + 1)
    first[:] = -1
    assert batches.batch(0).min() >= 0


def test_a_batch_depends_on_seed_and_step_alone(open_batches: Open) -> None:
    through = list(open_batches().iterate(0, 300))
    for step in (0, 1, 77, 299):
        assert np.array_equal(open_batches().batch(step), through[step])
    resumed = list(open_batches().iterate(123, 300))
    assert np.array_equal(resumed, through[123:])
    assert not np.array_equal(open_batches(seed=2).batch(0), through[0])


@pytest.mark.parametrize("world", [1, 2, 4, 8])
def test_ranks_share_the_same_global_batch(open_batches: Open, world: int) -> None:
    whole = open_batches()
    ranks = [open_batches(rank=rank, world=world) for rank in range(world)]
    for step in (0, 5, 200):
        parts = [rank.batch(step) for rank in ranks]
        assert all(len(part) == 8 // world for part in parts)
        assert np.array_equal(np.concatenate(parts), whole.batch(step))


def test_small_ids_are_read_from_two_bytes(tmp_path: Path) -> None:
    (shard,) = make_shards(tmp_path / "s", 65_000, dtype="uint16")
    batches = TokenBatches(
        read_index(str(tmp_path / "s")), sequence_length=64_999, batch_size=1, seed=0
    )
    assert np.array_equal(batches.batch(0)[0], shard)


def test_more_shards_than_file_descriptors(tmp_path: Path) -> None:
    make_shards(tmp_path / "s", *[9] * 600)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (400, limits[1]))
    try:
        batches = TokenBatches(str(tmp_path / "s"), sequence_length=8, batch_size=600, seed=0)
        assert len(np.unique(batches.batch(0)[:, 0])) == 600
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


WRONG = [
    ({"batch_size": 6, "world": 4}, "cannot be shared evenly by 4"),
    ({"batch_size": 0}, "batch_size is 0"),
    ({"sequence_length": 0}, "sequence_length 0"),
    ({"rank": 2, "world": 2}, "rank 2 of 2"),
    ({"sequence_length": 4001}, "sequence_length 4001 does not fit"),
    ({"batch_size": 5000}, "one batch takes 5000"),
    ({"seed": -1}, "seed -1"),
]


@pytest.mark.parametrize(("changes", "what"), WRONG)
def test_what_does_not_fit_is_told(open_batches: Open, changes: dict[str, int], what: str) -> None:
    with pytest.raises(InputError, match=what):
        open_batches(**changes)


def test_the_longest_sequence_is_named_and_works(open_batches: Open) -> None:
    with pytest.raises(InputError) as caught:
        open_batches(sequence_length=9999)
    assert "4000" in caught.value.remedy
    assert open_batches(sequence_length=4000, batch_size=1).batch(0).shape == (1, 4001)


def test_a_truncated_shard_is_told_at_once_at_every_length(root: Path, open_batches: Open) -> None:
    path = shard_files(root)[1]
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(InputError, match=f"{path.name} has {length} bytes, not {len(whole)}"):
            open_batches()


def test_a_missing_shard_is_told_at_once(root: Path, open_batches: Open) -> None:
    path = shard_files(root)[5]
    path.unlink()
    with pytest.raises(InputError, match=f"{path.name} is missing"):
        open_batches()


def test_damaged_shards_give_no_batch(root: Path, open_batches: Open) -> None:
    path = shard_files(root)[5]
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with open_batches() as batches, pytest.raises(InputError, match="is damaged") as caught:
        for _ in batches.iterate(0, 100):
            pass
    assert path.name in str(caught.value)
    assert str(path) == caught.value.where


def test_no_thread_outlives_the_batches(open_batches: Open) -> None:
    before = set(threading.enumerate())
    with open_batches() as batches:
        stopped_early = batches.iterate(0, 10**9)
        next(stopped_early)
        unread = batches.iterate(5, 10**9)
        next(batches.iterate(0, 3))
        assert set(threading.enumerate()) > before
    assert set(threading.enumerate()) == before
    assert list(unread) == []
