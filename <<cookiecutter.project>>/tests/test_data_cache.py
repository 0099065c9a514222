"""Remote shards: fetched once a host, verified, and never half there."""

from __future__ import annotations

import json
import multiprocessing
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
from data_fixtures import Faults, contents, faulty_disk, make_shards

from << cookiecutter.package >>.data import TokenBatches
from << cookiecutter.package >>.errors import Failure, InputError, Refused

LENGTHS = (3000, 500, 800, 9)
REMOTE = "memory://bucket/shards"


@pytest.fixture
def local(tmp_path: Path) -> Path:
    make_shards(tmp_path / "local", *LENGTHS)
    return tmp_path / "local"


@pytest.fixture
def remote(local: Path) -> Iterator[fsspec.AbstractFileSystem]:
    memory = fsspec.filesystem("memory")
    memory.put(str(local), "/bucket/shards", recursive=True)
    yield memory
    memory.rm("/bucket", recursive=True)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def faults(tmp_path: Path) -> Iterator[Faults]:
    (tmp_path / "control").mkdir()
    with faulty_disk(tmp_path / "control") as faults:
        yield faults


def batches(root: str | Path, cache: Path, **changes: int) -> TokenBatches:
    settings: dict[str, Any] = {"sequence_length": 8, "batch_size": 16, "seed": 0} | changes
    return TokenBatches(str(root), cache_dir=str(cache), **settings)


def cached(cache: Path) -> list[Path]:
    return sorted(cache.glob("*.bin"))


def clean(cache: Path) -> bool:
    """Nothing but whole shards and the empty files that are locked."""
    return all(path.suffix == ".bin" or not path.stat().st_size for path in cache.iterdir())


def name_of(remote: fsspec.AbstractFileSystem, number: int) -> str:
    index = json.loads(remote.cat_file("/bucket/shards/index.json"))
    return str(index["shards"][number]["name"])


@pytest.mark.parametrize("chunk", [1, 999, 1000, 2**24])
def test_remote_batches_equal_local_ones(
    local: Path,
    remote: fsspec.AbstractFileSystem,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    chunk: int,
) -> None:
    monkeypatch.setattr("<< cookiecutter.package >>.data.cache._CHUNK", chunk)
    with batches(local, cache) as here, batches(REMOTE, cache) as there:
        for step, batch in enumerate(there.iterate(0, 60)):
            assert np.array_equal(batch, here.batch(step))
    assert clean(cache)


def test_what_was_fetched_is_not_fetched_again(
    remote: fsspec.AbstractFileSystem, cache: Path
) -> None:
    with batches(REMOTE, cache) as first:
        whole = list(first.iterate(0, 60))
    for number in range(len(LENGTHS)):
        size = remote.size(f"/bucket/shards/{name_of(remote, number)}")
        remote.pipe_file(f"/bucket/shards/{name_of(remote, number)}", b"?" * size)
    with batches(REMOTE, cache) as second:
        assert np.array_equal(list(second.iterate(0, 60)), whole)


def test_only_what_a_short_run_needs_is_fetched(
    remote: fsspec.AbstractFileSystem, cache: Path
) -> None:
    with batches(REMOTE, cache, batch_size=1) as few:
        assert len(list(few.iterate(0, 1))) == 1
    assert len(cached(cache)) == 1


def test_iterating_fetches_ahead_in_the_background(
    remote: fsspec.AbstractFileSystem, cache: Path
) -> None:
    with batches(REMOTE, cache, batch_size=1) as all_of_them:
        all_of_them.iterate(0, 10**9)
        while len(cached(cache)) < len(LENGTHS):
            threading.Event().wait(0.001)


def test_closing_waits_for_what_is_being_fetched(
    remote: fsspec.AbstractFileSystem, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, finish = threading.Event(), threading.Event()
    plain, last = remote.cat_file, name_of(remote, 3)

    def slow(path: str, *args: Any, **kwargs: Any) -> Any:
        if path.endswith(last):  # its one window is in none of the first batches
            begun.set()
            finish.wait()
        return plain(path, *args, **kwargs)

    before = set(threading.enumerate())
    fetching = batches(REMOTE, cache, batch_size=1)
    monkeypatch.setattr(remote, "cat_file", slow)
    unread = fetching.iterate(0, 10**9)
    begun.wait()
    closing = threading.Thread(target=fetching.close)
    closing.start()
    closing.join(timeout=0.1)
    assert closing.is_alive()
    finish.set()
    closing.join()
    assert set(threading.enumerate()) == before
    assert list(unread) == []
    assert clean(cache)


def test_a_wrong_checksum_is_told_and_nothing_is_kept(
    remote: fsspec.AbstractFileSystem, cache: Path
) -> None:
    name = name_of(remote, 0)
    damaged = bytearray(remote.cat_file(f"/bucket/shards/{name}"))
    damaged[100] ^= 4
    remote.pipe_file(f"/bucket/shards/{name}", bytes(damaged))
    with batches(REMOTE, cache) as faulty, pytest.raises(InputError) as caught:
        list(faulty.iterate(0, 60))
    assert name in caught.value.what
    found, expected = caught.value.what.split("sha256 ")[1].split(", not ")
    assert len(found) == len(expected) == 64 and name.split("-")[3][:12] == expected[:12]
    assert caught.value.where == f"memory:///bucket/shards/{name}"
    assert clean(cache) and not list(cache.glob(f"{expected}.bin"))


def test_a_shard_that_vanishes_is_told(remote: fsspec.AbstractFileSystem, cache: Path) -> None:
    with batches(REMOTE, cache) as faulty:
        remote.rm_file(f"/bucket/shards/{name_of(remote, 0)}")
        with pytest.raises(Refused, match=name_of(remote, 0).replace(".", "[.]")):
            list(faulty.iterate(0, 60))
    assert clean(cache)


def test_a_truncated_cache_is_fetched_again(remote: fsspec.AbstractFileSystem, cache: Path) -> None:
    with batches(REMOTE, cache) as first:
        whole = list(first.iterate(0, 60))
    before = contents(cache)
    for path in cached(cache):
        path.write_bytes(path.read_bytes()[:-1])
    with batches(REMOTE, cache) as second:
        assert np.array_equal(list(second.iterate(0, 60)), whole)
    assert contents(cache) == before


def test_a_full_disk_at_any_write_is_told_and_leaves_nothing(
    remote: fsspec.AbstractFileSystem, tmp_path: Path, faults: Faults
) -> None:
    for write in range(1, 100):
        cache = tmp_path / f"{write}"
        faults.arm(cache, write)
        try:
            with batches(REMOTE, cache) as full:
                list(full.iterate(0, 60))
        except Refused as refused:
            assert "No space left" in refused.what and "space" in refused.remedy
            assert str(cache) in refused.where
            assert not cache.exists() or clean(cache)
        else:
            break
    # A directory, and for each shard: open, write, fsync, rename.
    assert write > 4 * len(LENGTHS)


def test_a_disk_that_is_too_small_is_told_before_fetching(
    remote: fsspec.AbstractFileSystem, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(cache.parent)._replace(free=4 * sum(LENGTHS) - 1)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with pytest.raises(Refused, match=f"need {4 * sum(LENGTHS):,} bytes") as caught:
        batches(REMOTE, cache)
    assert caught.value.where == str(cache)


def test_a_file_in_place_of_the_cache_is_told(
    remote: fsspec.AbstractFileSystem, cache: Path
) -> None:
    cache.write_text("mine")
    with pytest.raises(Refused, match="make the cache"):
        batches(REMOTE, cache)
    assert cache.read_text() == "mine"


def fetch_in_a_process(cache: Path, together: Any, results: Any) -> None:
    fetched: list[str] = []
    memory = fsspec.filesystem("memory")
    plain = memory.cat_file

    def counted(path: str, *args: Any, **kwargs: Any) -> Any:
        fetched.append(path)
        time.sleep(0.02)  # long enough for the others to want the same shard
        return plain(path, *args, **kwargs)

    memory.cat_file = counted
    try:
        with batches(REMOTE, cache) as mine:
            together.wait()
            total = int(sum(batch.sum() for batch in mine.iterate(0, 60)))
        results.put((total, len([path for path in fetched if path.endswith(".bin")])))
    except Failure as failure:
        results.put((str(failure), 0))


def test_processes_of_a_host_fetch_each_shard_once(
    remote: fsspec.AbstractFileSystem, cache: Path
) -> None:
    # Forked, as each process needs a copy of the storage that is in this one's memory.
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    together = context.Barrier(4)
    workers = [
        context.Process(target=fetch_in_a_process, args=(cache, together, results))
        for _ in range(4)
    ]
    for worker in workers:
        worker.start()
    totals, fetches = zip(*[results.get() for _ in workers], strict=True)
    for worker in workers:
        worker.join()
    assert len(set(totals)) == 1
    assert sum(fetches) == len(LENGTHS)
    assert clean(cache)
