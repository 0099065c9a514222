"""Several ranks: any sharding is read back as any other; retention; who waits for whom."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from itertools import product
from pathlib import Path

import pytest
import torch
from checkpoint_fixtures import (
    all_well,
    assert_holds,
    cut,
    failure_of,
    filled,
    open_store,
    run_ranks,
    same_bits,
    save,
    tensors_at,
    visible,
)

from << cookiecutter.package >>.checkpoint import Checkpoint, Entry, Group, Piece, reader
from << cookiecutter.package >>.checkpoint.files import LocalFiles


@pytest.fixture(params=[2**25, 48], ids=["covers whole boxes", "covers 48 bytes"])
def cover(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "COVER", request.param)


@pytest.mark.usefixtures("cover")
@pytest.mark.parametrize("world", [1, 8])
def test_saved_by_4_read_by_others(tmp_path: Path, world: int) -> None:
    filled(tmp_path, range(1, 3), world=4)

    def work(group: Group) -> None:
        checkpoint = open_store(tmp_path, group).restore()
        assert_holds(checkpoint, 2)
        assert checkpoint is not None
        for name, data in tensors_at(2).items():
            for dim in range(data.dim()):
                mine = cut(data, dim, group.rank, world)
                read = checkpoint.read_slice(name, mine.offset, tuple(mine.data.shape))
                assert same_bits(read, mine.data), (name, dim)

    all_well(run_ranks(world, work))


def test_saved_by_4_goes_on_with_8_and_with_1(tmp_path: Path) -> None:
    filled(tmp_path, range(1, 2), world=4)
    filled(tmp_path, range(2, 3), world=8)
    filled(tmp_path, range(3, 4), world=1)
    assert visible(tmp_path) == [2, 3]
    assert_holds(open_store(tmp_path).restore(), 3)


@pytest.mark.usefixtures("cover")
def test_every_box_of_a_tensor_in_a_grid_of_pieces(tmp_path: Path) -> None:
    """All 2,100 boxes of a 6 x 4 x 4 tensor that 2 ranks hold in 2 x 2 x 2 uneven pieces."""
    whole = torch.arange(96, dtype=torch.int32).reshape(6, 4, 4)
    spans = [(0, 4), (4, 6)], [(0, 1), (1, 4)], [(0, 3), (3, 4)]

    def work(group: Group) -> None:
        boxes = list(product(*spans))[group.rank :: 2]
        pieces = tuple(
            Piece(
                tuple(a for a, _ in box),
                whole[tuple(slice(a, b) for a, b in box)].contiguous(),
            )
            for box in boxes
        )
        store = open_store(tmp_path, group)
        store.restore()
        store.save(1, {"x": Entry((6, 4, 4), pieces)}, {})
        store.close()

    all_well(run_ranks(2, work))
    checkpoint = open_store(tmp_path).restore()
    assert checkpoint is not None
    ranges = [[(a, b) for a in range(n) for b in range(a + 1, n + 1)] for n in whole.shape]
    for box in product(*ranges):
        expected = whole[tuple(slice(a, b) for a, b in box)]
        offset, shape = tuple(a for a, _ in box), tuple(b - a for a, b in box)
        assert torch.equal(checkpoint.read_slice("x", offset, shape), expected), box


@pytest.mark.parametrize(
    ("offset", "shape"), [((0, 0), (17, 24)), ((-1, 0), (2, 2)), ((0,), (16,)), ((16, 0), (1, 1))]
)
def test_a_box_outside_the_tensor(
    tmp_path: Path, offset: tuple[int, ...], shape: tuple[int, ...]
) -> None:
    filled(tmp_path, range(1, 2))
    checkpoint = open_store(tmp_path).restore()
    assert checkpoint is not None
    with pytest.raises(ValueError, match="weight: no box of"):
        checkpoint.read_slice("weight", offset, shape)


def test_a_slice_reads_only_what_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(tmp_path, range(1, 2), world=4)
    checkpoint = open_store(tmp_path).restore()
    assert checkpoint is not None
    taken = []
    read_into = LocalFiles.read_into

    def counted(files: LocalFiles, name: str, start: int, view: memoryview) -> None:
        taken.append((name.partition("/")[2], len(view)))
        read_into(files, name, start, view)

    monkeypatch.setattr(LocalFiles, "read_into", counted)
    checkpoint.read_slice("weight", (6, 0), (4, 24))  # rows of 24 floats, 4 to a rank
    half = 2 * 24 * 4
    assert taken == [
        ("shard-00001-of-00004.000.safetensors", half),
        ("shard-00002-of-00004.000.safetensors", half),
    ]


def test_ranks_share_the_reading_of_the_shards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(tmp_path, range(1, 2), world=4)
    digested = []
    digest = LocalFiles.digest

    def counted(files: LocalFiles, name: str, size: int) -> str:
        digested.append(name.partition("/")[2])
        return digest(files, name, size)

    monkeypatch.setattr(LocalFiles, "digest", counted)
    found = all_well(run_ranks(2, lambda group: open_store(tmp_path, group).restore()))
    assert sorted(digested) == [f"shard-{rank:05d}-of-00004.000.safetensors" for rank in range(4)]
    first, second = (each.path for each in found if isinstance(each, Checkpoint))
    assert first == second


@pytest.mark.parametrize("keep", [1, 2, 3])
def test_retention(tmp_path: Path, keep: int) -> None:
    store = open_store(tmp_path, keep=keep)
    store.restore()
    for step in range(1, 6):
        save(store, step)
        store.wait()
        assert visible(tmp_path) == list(range(max(1, step - keep + 1), step + 1))
    assert len(list(tmp_path.iterdir())) == keep


def test_a_larger_keep_of_an_earlier_run(tmp_path: Path) -> None:
    filled(tmp_path, range(1, 6), keep=5)
    store = open_store(tmp_path, keep=2)
    assert_holds(store.restore(), 5)
    assert visible(tmp_path) == [1, 2, 3, 4, 5]
    save(store, 6)
    store.close()
    assert visible(tmp_path) == [5, 6]


def test_steps_are_ordered_as_numbers(tmp_path: Path) -> None:
    store = open_store(tmp_path, keep=2)
    store.restore()
    steps = (99_999_999, 100_000_000, 100_000_001)
    for step in steps:
        store.save(step, {"x": Entry.whole(torch.tensor(step))}, {})
    store.close()
    assert visible(tmp_path) == list(steps[1:])
    restored = open_store(tmp_path).restore()
    assert restored is not None
    assert restored.step == steps[-1]


def test_ranks_that_disagree_about_a_tensor(tmp_path: Path) -> None:
    def work(group: Group) -> None:
        store = open_store(tmp_path, group)
        store.restore()
        data = torch.zeros(2, 2 + group.rank)
        store.save(1, {"x": Entry((4, 2 + group.rank), (Piece((2 * group.rank, 0), data),))}, {})
        store.close()

    failure = failure_of(run_ranks(2, work)[0])
    assert "disagree about the dtype or shape of x" in failure.what
    assert visible(tmp_path) == []


def test_a_rank_that_never_saves(tmp_path: Path) -> None:
    def work(group: Group) -> None:
        store = open_store(tmp_path, group, patience=0.1)
        store.restore()
        if group.rank == 0:
            save(store, 1, 0, 2)
            store.close()

    failure = failure_of(run_ranks(2, work)[0])
    assert "shard-00001-of-00002.json" in failure.what
    assert "look at the log of that rank" in failure.remedy
    assert visible(tmp_path) == []


def test_a_file_renamed_while_rank_0_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other ranks' temporary files come and go between a listing and a look at their sizes."""
    filled(tmp_path, range(1, 2), world=2)
    scandir = os.scandir

    def listed_then_gone(path: str) -> AbstractContextManager[list[os.DirEntry[str]]]:
        with scandir(path) as entries:
            listed = list(entries)
        for entry in listed:
            if entry.name.endswith(".tmp"):
                os.unlink(entry.path)
        return nullcontext(listed)

    monkeypatch.setattr(os, "scandir", listed_then_gone)
    for folder in [tmp_path, *tmp_path.iterdir()]:
        (folder / "shard-00001-of-00002.json.tmp").write_text("")
    assert all_well(run_ranks(2, lambda group: open_store(tmp_path, group).restore()))
