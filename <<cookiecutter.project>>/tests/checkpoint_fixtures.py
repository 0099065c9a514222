"""Ranks without a network, states of every kind of tensor, filesystem calls that can be broken."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar
from unittest import mock

import torch

from << cookiecutter.package >>.checkpoint import (
    JSON,
    Checkpoint,
    CheckpointStore,
    Entry,
    Group,
    Piece,
    State,
)
from << cookiecutter.package >>.errors import Failure

T = TypeVar("T")
Hook = Callable[[str, int], None]
IDENTITY: dict[str, JSON] = {"model": {"layers": 2, "width": 64}, "vocabulary": 257}
PATIENCE = 30.0


class Alone:
    """A run of one process."""

    rank, world = 0, 1

    def agree(self, ok: bool) -> bool:
        return ok

    def share(self, value: T) -> T:
        return value


class _Threads:
    """What the ranks of `run_ranks` share: one slot each, and a barrier before and after."""

    def __init__(self, world: int) -> None:
        self.slots: list[Any] = [None] * world
        self.barrier = threading.Barrier(world, timeout=PATIENCE)


class ThreadRank:
    """A rank that is a thread."""

    def __init__(self, rank: int, world: int, threads: _Threads) -> None:
        self.rank, self.world, self._threads = rank, world, threads

    def agree(self, ok: bool) -> bool:
        return all(self._exchange(ok))

    def share(self, value: T) -> T:
        first: T = self._exchange(value)[0]
        return first

    def _exchange(self, value: Any) -> list[Any]:
        self._threads.slots[self.rank] = value
        self._threads.barrier.wait()
        seen = list(self._threads.slots)
        self._threads.barrier.wait()
        return seen


class PairRank:
    """A rank of two that are processes, joined by a pipe."""

    world = 2

    def __init__(self, rank: int, pipe: Connection) -> None:
        self.rank, self._pipe = rank, pipe

    def agree(self, ok: bool) -> bool:
        self._pipe.send(ok)
        return bool(self._pipe.recv()) and ok

    def share(self, value: T) -> T:
        if self.rank == 0:
            self._pipe.send(value)
            return value
        other: T = self._pipe.recv()
        return other


def run_ranks(world: int, work: Callable[[Group], T]) -> list[T | Exception]:
    """What `work` returned or raised on each rank, all ranks at the same time."""
    threads = _Threads(world)

    def run(rank: int) -> T | Exception:
        try:
            return work(ThreadRank(rank, world, threads))
        except Exception as error:
            return error

    with ThreadPoolExecutor(world) as pool:
        return list(pool.map(run, range(world)))


def all_well(results: list[T | Exception]) -> list[T]:
    """The results, or the first exception among them."""
    for result in results:
        if isinstance(result, Exception):
            raise result
    return [result for result in results if not isinstance(result, Exception)]


def open_store(
    root: str | Path, group: Group | None = None, *, keep: int = 2, patience: float = PATIENCE
) -> CheckpointStore:
    return CheckpointStore(
        str(root), keep=keep, group=group or Alone(), identity=IDENTITY, patience=patience
    )


def tensors_at(step: int) -> dict[str, torch.Tensor]:
    """A small model's worth of everything that must survive to the bit; other values each step."""
    random = torch.Generator().manual_seed(step)
    bits = torch.randint(-(2**15), 2**15, (16, 8), generator=random, dtype=torch.int16)
    return {
        "weight": torch.randn(16, 24, generator=random),
        "half": bits.view(torch.bfloat16),  # NaNs with payloads, infinities, subnormals
        "cube": torch.randn(4, 6, 8, generator=random, dtype=torch.float64),
        "step": torch.tensor(step, dtype=torch.int64),
        "scale": torch.randn((), generator=random).to(torch.bfloat16),
        "mask": torch.rand(7, generator=random) > 0.5,
        "empty": torch.zeros(0, 5, dtype=torch.bfloat16),
    }


def state_at(step: int, rank: int = 0, world: int = 1) -> State:
    """This rank's part: matrices by rows or by columns, the rest on rank 0."""
    state: dict[str, Entry] = {}
    for name, data in tensors_at(step).items():
        if data.dim() < 2 or not data.numel():
            pieces = Entry.whole(data).pieces if rank == 0 else ()
        else:
            pieces = (cut(data, 1 if name == "half" else 0, rank, world),)
        state[name] = Entry(tuple(data.shape), pieces)
    return state


def cut(data: torch.Tensor, dim: int, rank: int, world: int) -> Piece:
    """The part of a tensor that a rank holds when `dim` is sharded."""
    begin, end = (data.shape[dim] * each // world for each in (rank, rank + 1))
    offset = tuple(begin if i == dim else 0 for i in range(data.dim()))
    return Piece(offset, data.narrow(dim, begin, end - begin).contiguous())


def same_bits(left: torch.Tensor, right: torch.Tensor) -> bool:
    if (left.dtype, left.shape) != (right.dtype, right.shape):
        return False
    a, b = (each.contiguous().reshape(-1).view(torch.uint8) for each in (left, right))
    return torch.equal(a, b)


def assert_holds(checkpoint: Checkpoint | None, step: int) -> None:
    """The checkpoint is of that step and equal to the bit to what was saved."""
    assert checkpoint is not None, f"no checkpoint where step {step} was expected"
    assert (checkpoint.step, checkpoint.progress) == (step, {"loss": step / 4})
    expected = tensors_at(step)
    assert checkpoint.names() == tuple(sorted(expected))
    for name, data in expected.items():
        assert same_bits(checkpoint.read(name), data), name


def save(store: CheckpointStore, step: int, rank: int = 0, world: int = 1) -> None:
    store.save(step, state_at(step, rank, world), {"loss": step / 4})


def filled(root: str | Path, steps: range, *, world: int = 1, keep: int = 2) -> None:
    """Checkpoints of those steps, written by `world` ranks."""

    def work(group: Group) -> None:
        store = open_store(root, group, keep=keep)
        store.restore()
        for step in steps:
            save(store, step, group.rank, group.world)
        store.close()

    all_well(run_ranks(world, work))


def visible(root: Path) -> list[int]:
    """The steps of the checkpoints that have a manifest, seen without the code under test."""
    return sorted(int(path.parent.name.split("-")[1]) for path in root.glob("*/checkpoint.json"))


def lacking(root: Path) -> list[str]:
    """The files that visible checkpoints lack: half of one must never be seen."""
    missing = []
    for manifest in root.glob("*/checkpoint.json"):
        for record in json.loads(manifest.read_bytes())["content"]["files"]:
            path = manifest.with_name(record["name"])
            if not path.exists() or path.stat().st_size != record["size"]:
                missing.append(str(path))
    return missing


def strays(root: Path) -> list[str]:
    """Whatever lies in the root and is no part of a visible checkpoint."""
    whole = {path.parent for path in root.glob("*/checkpoint.json")}
    loose = [path for path in root.iterdir() if path not in whole]
    return [path.name for path in [*loose, *root.glob("*/*.tmp"), *root.glob("*/*.failed")]]


CALLS = ("mkdir", "open", "write", "fsync", "replace", "unlink", "rmdir")
KINDS = {*CALLS, "create"}  # an `open` that makes a file is told apart


@contextlib.contextmanager
def at_each_call(before: Hook, after: Hook = lambda kind, number: None) -> Iterator[None]:
    """Runs `before` and `after` around each filesystem call, with its kind and number from 1."""
    count = 0
    lock = threading.Lock()

    def wrapped(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            nonlocal count
            with lock:
                count += 1
                number = count
            kind = "create" if name == "open" and args[1] & os.O_CREAT else name
            before(kind, number)
            result = call(*args, **kwargs)
            after(kind, number)
            return result

        return run

    with contextlib.ExitStack() as patches:
        for name in CALLS:
            patches.enter_context(mock.patch.object(os, name, wrapped(name, getattr(os, name))))
        yield


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def failure_of(result: object) -> Failure:
    assert isinstance(result, Failure), f"no failure but {result!r}"
    return result
