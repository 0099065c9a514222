"""A process killed at any moment of a save loses nothing that was complete, and leaves no litter.

Child processes run a whole life of a store and are killed by SIGKILL just before, just after, or in
the middle of one filesystem call; each call is tried in turn.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import tempfile
import traceback
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
from checkpoint_fixtures import (
    KINDS,
    PairRank,
    all_well,
    assert_holds,
    at_each_call,
    die,
    filled,
    lacking,
    open_store,
    run_ranks,
    save,
    strays,
    visible,
)

from << cookiecutter.package >>.checkpoint import Group
from << cookiecutter.package >>.errors import Failure

SPAWN = multiprocessing.get_context("spawn")
KEEP = 2
KILLED = -9


def _forked(work: Callable[..., None], *args: object) -> int:
    """The id of a child that does the work and ends."""
    child = os.fork()
    if child == 0:
        try:
            work(*args)
            os._exit(0)
        except Failure as failure:
            os._exit(failure.exit_code)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    return child


def _exit_code(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _nursery(pipe: Connection) -> None:
    """Imports everything once, has a single thread, and forks a child for each life."""
    while (job := pipe.recv()) is not None:
        work, *args = job
        pipe.send(("end", _exit_code(_forked(work, pipe, *args))))


@pytest.fixture(scope="module")
def nursery() -> Iterator[Connection]:
    ours, theirs = SPAWN.Pipe()
    process = SPAWN.Process(target=_nursery, args=(theirs,))
    process.start()
    yield ours
    ours.send(None)
    process.join()


def _told(pipe: Connection) -> Iterator[tuple[str, object]]:
    """What a child tells, its exit code last."""
    kind = ""
    while kind != "end":
        kind, value = pipe.recv()
        yield kind, value


def _life(pipe: Connection, root: str, moment: str, fatal: int) -> None:
    """Tidies up, saves steps 3 and 4, removes old ones; tells each call and each step done."""
    write = os.write
    writes = iter(range(1, 1000))

    def before(name: str, number: int) -> None:
        pipe.send(("call", name))
        if moment == "before" and number == fatal:
            die()

    def after(name: str, number: int) -> None:
        if moment == "after" and number == fatal:
            die()

    def torn(descriptor: int, data: memoryview) -> int:
        if next(writes) == fatal:
            write(descriptor, bytes(data)[: len(data) // 2])
            die()
        return write(descriptor, data)

    if moment == "torn":
        os.write = torn  # type: ignore[assignment]  # narrower: the store writes memoryviews only
    with at_each_call(before, after):
        store = open_store(root, keep=KEEP)
        store.restore()
        for step in (3, 4):
            save(store, step)
            store.wait()
            pipe.send(("done", step))


def _lives(
    nursery: Connection, template: Path, root: Path, moment: str
) -> Iterator[tuple[int, list[str], int]]:
    """Exit code, calls made, and last step known to be done, each life killed one call later."""
    for fatal in range(1, 1000):
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(template, root)
        nursery.send((_life, str(root), moment, fatal))
        told = list(_told(nursery))
        code = next(value for kind, value in told if kind == "end")
        calls = [str(value) for kind, value in told if kind == "call"]
        assert code in (0, KILLED)
        yield int(str(code)), calls, max([2, *(int(str(v)) for k, v in told if k == "done")])
        if fatal > len(calls) or (moment == "torn" and code == 0):
            return


@pytest.fixture
def fast(tmp_path: Path) -> Iterator[Path]:
    """In memory where there is such a place: a kill, unlike a power cut, does not ask for fsync."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        yield Path(folder)


@pytest.fixture
def template(fast: Path) -> Path:
    """Steps 1 and 2 complete, a killed save of step 3, and things that are not ours."""
    root = fast / "template"
    filled(root, range(1, 4), keep=3)
    next(root.glob("step-00000003-*")).joinpath("checkpoint.json").unlink()
    (root / "notes").mkdir()
    (root / "notes" / "mine.txt").write_text("not a checkpoint")
    return root


def _check_next_life(root: Path, done: int) -> None:
    assert lacking(root) == []
    expected = visible(root)[-1]
    assert expected >= done
    store = open_store(root, keep=KEEP)
    assert_holds(store.restore(), expected)
    save(store, expected + 1)
    store.close()
    assert visible(root) == [expected, expected + 1]
    assert strays(root) == ["notes"]
    assert (root / "notes" / "mine.txt").read_text() == "not a checkpoint"
    assert_holds(open_store(root).restore(), expected + 1)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_killed_at_every_call(fast: Path, template: Path, nursery: Connection, moment: str) -> None:
    root = fast / "root"
    deaths = []
    for code, calls, done in _lives(nursery, template, root, moment):
        _check_next_life(root, done)
        if code == KILLED:
            deaths.append(calls[-1])
    assert set(deaths) == KINDS
    assert deaths.count("replace") == 6  # shard, index, manifest; two saves


def test_killed_in_the_middle_of_every_write(
    fast: Path, template: Path, nursery: Connection
) -> None:
    root = fast / "root"
    codes = []
    for code, _, done in _lives(nursery, template, root, "torn"):
        _check_next_life(root, done)
        codes.append(code)
    assert codes == [KILLED] * 6 + [0]


def _life_of_two(pipe: Connection, root: str, victim: int, fatal: int) -> None:
    """Two ranks save step 2; one is killed. Tells both exit codes."""
    ends = SPAWN.Pipe()
    ranks = [_forked(_rank, ends[rank], rank, root, victim, fatal) for rank in range(2)]
    pipe.send(("codes", [_exit_code(child) for child in ranks]))


def _rank(pipe: Connection, rank: int, root: str, victim: int, fatal: int) -> None:
    store = open_store(root, PairRank(rank, pipe), keep=KEEP, patience=0.1)
    store.restore()

    def before(name: str, number: int) -> None:
        if rank == victim and number == fatal:
            die()

    with at_each_call(before):
        save(store, 2, rank, 2)
        store.close()


@pytest.mark.parametrize("victim", [0, 1])
def test_one_rank_of_two_killed_at_every_call(fast: Path, nursery: Connection, victim: int) -> None:
    template, root = fast / "template", fast / "root"
    filled(template, range(1, 2), world=2)

    def next_life(group: Group) -> None:
        store = open_store(root, group, keep=KEEP)
        assert_holds(store.restore(), newest)
        save(store, newest + 1, group.rank, 2)
        store.close()

    seen = set()
    for fatal in range(1, 1000):
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(template, root)
        nursery.send((_life_of_two, str(root), victim, fatal))
        codes = dict(_told(nursery))["codes"]
        assert isinstance(codes, list)
        assert lacking(root) == []
        newest = visible(root)[-1]
        seen.add((codes[victim], codes[1 - victim], newest))
        all_well(run_ranks(2, next_life))
        assert visible(root) == [newest, newest + 1]
        assert strays(root) == []
        if codes == [0, 0]:  # nobody was killed, nor rank 0 out of its short patience
            break
    assert (0, 0, 2) in seen
    assert (KILLED, 6 if victim == 1 else 0, 1) in seen
