"""A full disk, missing rights, several storages: one clear message, and nothing half done."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from checkpoint_fixtures import (
    KINDS,
    all_well,
    assert_holds,
    at_each_call,
    failure_of,
    filled,
    open_store,
    run_ranks,
    save,
    state_at,
    strays,
    visible,
)

from << cookiecutter.package >>.checkpoint import CheckpointStore, Group
from << cookiecutter.package >>.errors import Failure, InputError, Refused

GROWS = {"mkdir", "create", "write", "replace"}  # what a full disk refuses, again and again
ENDINGS: dict[str, Callable[[CheckpointStore], None]] = {
    "save": lambda store: save(store, 4),
    "wait": CheckpointStore.wait,
    "close": CheckpointStore.close,
}


def full_from(first: int) -> tuple[Callable[[str, int], None], list[int]]:
    """A disk that is full from the given call on, and the calls that were made."""
    calls: list[int] = []

    def before(name: str, number: int) -> None:
        calls.append(number)
        if (number >= first and name in GROWS) or (number == first and name == "fsync"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    return before, calls


def outcome(work: Callable[[], None]) -> Failure | None:
    try:
        work()
    except Failure as failure:
        return failure
    return None


def test_a_disk_full_at_every_call(tmp_path: Path) -> None:
    for first in range(1, 1000):
        root = tmp_path / str(first)
        filled(root, range(1, 3))
        store = open_store(root)
        assert_holds(store.restore(), 2)
        before, calls = full_from(first)
        with at_each_call(before):
            save(store, 3)
            failure = outcome(store.wait)
        if failure is None:
            assert visible(root)[-1] == 3
        else:
            assert isinstance(failure, Refused)
            assert "full" in failure.what
            assert failure.where.startswith(str(root))
            assert (visible(root), strays(root)) == ([1, 2], [])
            assert_holds(open_store(root).restore(), 2)
        save(store, 3)  # there is room again
        save(store, 4)
        store.close()
        assert (visible(root), strays(root)) == ([3, 4], [])
        if first > len(calls):
            break
    assert first > 27, "three files, nine calls each"


@pytest.mark.parametrize("ending", ENDINGS.values(), ids=ENDINGS.keys())
@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOSPC, "is full"),
        (errno.EDQUOT, "is full"),
        (errno.EACCES, "no right"),
        (errno.EROFS, "no right"),
        (errno.ENOENT, "is not there"),
        (errno.EIO, "failed"),
    ],
)
def test_the_failure_comes_with_the_next_call(
    tmp_path: Path, ending: Callable[[CheckpointStore], None], number: int, words: str
) -> None:
    store = open_store(tmp_path)
    store.restore()

    def before(name: str, count: int) -> None:
        if name == "write":
            raise OSError(number, os.strerror(number))

    with at_each_call(before):
        save(store, 3)
        with pytest.raises(Failure, match=words) as caught:
            ending(store)
    assert isinstance(caught.value, Refused) == (number != errno.EIO)
    assert os.strerror(number) in caught.value.what
    assert caught.value.remedy
    store.close()  # told once
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def full_for_rank_1(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Rank 1 of 2 cannot write its tensors until there is room."""
    room = threading.Event()
    write = os.write

    def limited(descriptor: int, data: memoryview) -> int:
        path = Path(f"/proc/self/fd/{descriptor}").resolve().name
        if path.startswith("shard-00001-of-00002.000.safetensors") and not room.is_set():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(descriptor, data)

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", limited)
        yield room


def test_a_rank_with_a_full_disk_stops_rank_0_at_once(
    tmp_path: Path, full_for_rank_1: threading.Event
) -> None:
    """Rank 0 would wait for that rank's shard, here for so long that the test would never end."""

    def work(group: Group) -> None:
        store = open_store(tmp_path, group, patience=10_000)
        store.restore()
        save(store, 1, group.rank, 2)
        store.close()

    zero, one = (failure_of(result) for result in run_ranks(2, work))
    assert isinstance(one, Refused)
    assert "shard-00001-of-00002 was not written" in zero.what
    assert "full" in zero.what
    assert visible(tmp_path) == []
    assert list(tmp_path.glob("*/*.tmp")) == [], "room for the word to rank 0, among others"
    full_for_rank_1.set()
    filled(tmp_path, range(1, 3), world=2)
    assert (visible(tmp_path), strays(tmp_path)) == ([1, 2], [])


def test_after_a_failure_the_ranks_begin_anew(
    tmp_path: Path, full_for_rank_1: threading.Event
) -> None:
    """The shard that one rank did write must not become a part of another try."""

    def work(group: Group) -> None:
        store = open_store(tmp_path, group)
        store.restore()
        save(store, 1, group.rank, 2)
        with pytest.raises(Failure, match="full"):
            store.wait()
        with pytest.raises(RuntimeError, match=r"restore\(\) comes before save"):
            save(store, 1, group.rank, 2)
        group.agree(True)
        full_for_rank_1.set()
        assert store.restore() is None
        for step in (1, 2):
            save(store, step, group.rank, 2)
        store.close()

    all_well(run_ranks(2, work))
    assert (visible(tmp_path), strays(tmp_path)) == ([1, 2], [])
    for checkpoint in all_well(run_ranks(2, lambda group: open_store(tmp_path, group).restore())):
        assert_holds(checkpoint, 2)


def test_a_rank_whose_before_fails_stops_rank_0_at_once(tmp_path: Path) -> None:
    def refuse() -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    def work(group: Group) -> None:
        store = open_store(tmp_path, group, patience=10_000)
        store.restore()
        state = state_at(1, group.rank, 2)
        store.save(1, state, {}, before=refuse if group.rank == 1 else lambda: None)
        store.close()

    zero, one = (failure_of(result) for result in run_ranks(2, work))
    assert isinstance(one, Refused)
    assert "shard-00001-of-00002 was not written" in zero.what
    assert visible(tmp_path) == []


def test_restore_tells_the_failure_of_the_save_before(tmp_path: Path) -> None:
    def work(group: Group) -> None:
        store = open_store(tmp_path, group, patience=0.1)
        store.restore()
        if group.rank == 0:
            save(store, 1, 0, 2)
        store.restore()

    zero, one = (failure_of(result) for result in run_ranks(2, work))
    assert "shard-00001-of-00002.json" in zero.what
    assert "another rank" in one.what


def test_a_failed_step_that_could_not_be_removed_is_saved_again(tmp_path: Path) -> None:
    """The second try writes to the same folder, which must not be taken for litter of the first."""
    store = open_store(tmp_path)
    store.restore()

    def before(name: str, number: int) -> None:
        if name in {"unlink", "replace"}:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    with at_each_call(before):
        save(store, 1)
        with pytest.raises(Refused, match="no right"):
            store.wait()
    assert strays(tmp_path) != []
    save(store, 1)
    store.close()
    assert (visible(tmp_path), strays(tmp_path)) == ([1], [])
    assert_holds(open_store(tmp_path).restore(), 1)


def test_old_checkpoints_that_cannot_be_removed_stop_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    filled(tmp_path, range(1, 3))
    store = open_store(tmp_path)
    store.restore()

    def before(name: str, number: int) -> None:
        if name == "unlink":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    with at_each_call(before):
        save(store, 3)
        store.wait()
    assert visible(tmp_path) == [1, 2, 3]
    assert "could not remove" in caplog.text
    save(store, 4)
    store.close()
    assert visible(tmp_path) == [3, 4]


def test_probe_leaves_nothing(tmp_path: Path) -> None:
    all_well(run_ranks(3, lambda group: open_store(tmp_path, group).probe()))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("call", ["create", "write", "replace", "unlink"])
def test_probe_without_rights(tmp_path: Path, call: str) -> None:
    assert call in KINDS

    def before(name: str, number: int) -> None:
        if name == call:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    with at_each_call(before), pytest.raises(Refused, match="no right") as caught:
        open_store(tmp_path).probe()
    assert str(tmp_path) in caught.value.where
    assert "[run] storage" in caught.value.remedy


def test_probe_where_there_can_be_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Refused, match="is not there"):
        open_store(tmp_path / "file" / "checkpoints").probe()


def test_probe_with_a_folder_of_each_machine_s_own(tmp_path: Path) -> None:
    def work(group: Group) -> None:
        open_store(tmp_path / str(group.rank), group).probe()

    zero, one = (failure_of(result) for result in run_ranks(2, work))
    assert isinstance(one, Refused)
    assert "not one storage, but several" in one.what
    assert "another rank" in zero.what
    assert strays(tmp_path / "0") == strays(tmp_path / "1") == []


def test_a_killed_probe_is_tidied_up(tmp_path: Path) -> None:
    (tmp_path / "probe-0123abcd-0").write_text("")
    (tmp_path / "probe-0123abcd-1.tmp").write_text("")
    (tmp_path / "probe-of-mine").write_text("")
    open_store(tmp_path).restore()
    assert [path.name for path in tmp_path.iterdir()] == ["probe-of-mine"]


def test_an_address_that_nothing_can_read() -> None:
    with pytest.raises(InputError, match="no way to store checkpoints there"):
        open_store("nowhere://bucket/runs").probe()
