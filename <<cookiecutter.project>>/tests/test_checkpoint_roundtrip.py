"""What is saved comes back to the bit, beside the training and without a second copy."""

from __future__ import annotations

import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from checkpoint_fixtures import (
    Alone,
    assert_holds,
    filled,
    open_store,
    same_bits,
    save,
    state_at,
    strays,
    tensors_at,
    visible,
)
from safetensors.torch import load_file

from << cookiecutter.package >>.checkpoint import CheckpointStore, Entry, Piece
from << cookiecutter.package >>.checkpoint.files import Blocks, LocalFiles
from << cookiecutter.package >>.checkpoint.state import DTYPES
from << cookiecutter.package >>.errors import Failure, InputError


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """No file is written before the gate is set."""
    opened = threading.Event()
    write = LocalFiles.write

    def waiting(files: LocalFiles, name: str, blocks: Blocks) -> None:
        opened.wait()
        write(files, name, blocks)

    monkeypatch.setattr(LocalFiles, "write", waiting)
    yield opened
    opened.set()


def test_an_empty_place_holds_no_checkpoint(tmp_path: Path) -> None:
    assert open_store(tmp_path / "runs" / "new").restore() is None


def test_everything_comes_back_to_the_bit(tmp_path: Path) -> None:
    filled(tmp_path, range(1, 4))
    assert_holds(open_store(tmp_path).restore(), 3)


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES.keys())
def test_every_dtype_comes_back_to_the_bit(tmp_path: Path, dtype: torch.dtype) -> None:
    random = torch.Generator().manual_seed(1)
    high = 2 if dtype == torch.bool else 256
    data = torch.randint(0, high, (64,), generator=random, dtype=torch.uint8).view(dtype)
    store = open_store(tmp_path)
    store.restore()
    store.save(1, {"x": Entry.whole(data), "one": Entry.whole(data[0])}, {})
    store.close()
    checkpoint = open_store(tmp_path).restore()
    assert checkpoint is not None
    assert checkpoint.dtype("x") == dtype
    assert same_bits(checkpoint.read("x"), data)
    assert same_bits(checkpoint.read("one"), data[0])


def test_the_safetensors_library_reads_the_shards(tmp_path: Path) -> None:
    filled(tmp_path, range(1, 2), world=2)
    whole = tensors_at(1)
    first, second = (load_file(path) for path in sorted(tmp_path.glob("*/*.safetensors")))
    assert same_bits(first["weight[0:8,0:24]"], whole["weight"][:8])
    assert same_bits(second["weight[8:16,0:24]"], whole["weight"][8:])
    assert same_bits(second["half[0:16,4:8]"], whole["half"][:, 4:])
    for name in ("step", "scale", "mask", "empty"):
        assert same_bits(first[name], whole[name])


def test_blocks_larger_and_smaller_than_one_write(tmp_path: Path) -> None:
    random = torch.Generator().manual_seed(2)
    sizes = (3_000_001, 5, 1_048_577, 0, 2_500_000, 7)
    state = {f"t{i}": torch.randn(size, generator=random) for i, size in enumerate(sizes)}
    store = open_store(tmp_path)
    store.restore()
    store.save(1, {name: Entry.whole(data) for name, data in state.items()}, {})
    store.close()
    checkpoint = open_store(tmp_path).restore()
    assert checkpoint is not None
    assert all(same_bits(checkpoint.read(name), data) for name, data in state.items())


def test_a_state_of_many_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("<< cookiecutter.package >>.checkpoint.format.PART", 300)
    filled(tmp_path, range(1, 3), world=2)
    assert len(list(tmp_path.glob("*/*.safetensors"))) == 2 * (4 + 3)
    assert_holds(open_store(tmp_path).restore(), 2)
    parts = [load_file(path) for path in tmp_path.glob("step-00000002-*/*.safetensors")]
    assert sum(data.numel() for part in parts for data in part.values()) == sum(
        data.numel() for data in tensors_at(2).values()
    )


def test_save_returns_before_anything_is_written(tmp_path: Path, gate: threading.Event) -> None:
    store = open_store(tmp_path)
    store.restore()
    save(store, 1)
    assert visible(tmp_path) == []
    assert store.last is None
    gate.set()
    store.wait()
    assert visible(tmp_path) == [1]
    assert store.last is not None
    assert store.last.step == 1


def test_a_save_waits_for_the_save_before(tmp_path: Path, gate: threading.Event) -> None:
    store = open_store(tmp_path)
    store.restore()
    save(store, 1)
    second = threading.Thread(target=save, args=(store, 2))
    second.start()
    second.join(0.2)
    assert second.is_alive()
    gate.set()
    second.join()
    store.close()
    assert visible(tmp_path) == [1, 2]


def test_close_does_not_give_up_what_was_handed_over(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.restore()
    save(store, 1)
    store.close()
    assert (visible(tmp_path), strays(tmp_path)) == ([1], [])


def test_before_is_done_when_the_checkpoint_is_visible(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.restore()
    seen: list[list[int]] = []
    for step in (1, 2):
        store.save(step, state_at(step), {}, before=lambda: seen.append(visible(tmp_path)))
    store.close()
    assert seen == [[], [1]]


def test_a_state_that_was_written_is_let_go(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.restore()
    data = torch.ones(8)
    gone = weakref.ref(data)
    store.save(1, {"x": Entry.whole(data)}, {})
    del data
    store.wait()
    assert gone() is None


def test_progress_is_taken_at_the_call(tmp_path: Path, gate: threading.Event) -> None:
    store = open_store(tmp_path)
    store.restore()
    progress = {"loss": 0.25}
    store.save(1, state_at(1), progress)
    progress["loss"] = 7.0
    gate.set()
    store.close()
    assert_holds(open_store(tmp_path).restore(), 1)


def test_a_step_is_saved_once(tmp_path: Path) -> None:
    filled(tmp_path, range(1, 4))
    store = open_store(tmp_path)
    assert_holds(store.restore(), 3)
    save(store, 3)
    store.close()
    assert len(list(tmp_path.glob("step-00000003-*"))) == 1
    with pytest.raises(ValueError, match="step 2 after step 3"):
        save(store, 2)


def test_save_wants_restore_first(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"restore\(\) comes before"):
        save(open_store(tmp_path), 1)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (Entry((4, 4), (Piece((0, 0), torch.zeros(4, 8)[:, ::2]),)), "contiguous"),
        (Entry((4,), (Piece((0,), torch.zeros(4, device="meta")),)), "on the CPU"),
        (Entry((4, 4), (Piece((0,), torch.zeros(4)),)), "dimensions"),
        (Entry((4,), (Piece((2,), torch.zeros(3)),)), "beyond"),
        (Entry((4,), (Piece((-1,), torch.zeros(3)),)), "beyond"),
        (Entry.whole(torch.zeros(4, dtype=torch.complex64)), "complex64"),
        (Entry((8,), (Piece((0,), torch.zeros(4)), Piece((0,), torch.ones(4)))), "same place"),
    ],
)
def test_a_state_that_cannot_be_written(tmp_path: Path, entry: Entry, message: str) -> None:
    store = open_store(tmp_path)
    store.restore()
    with pytest.raises(ValueError, match=message):
        store.save(1, {"x": entry}, {})
    store.close()
    assert list(tmp_path.iterdir()) == []


def test_pieces_that_leave_a_gap_are_not_published(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.restore()
    store.save(1, {"x": Entry((4,), (Piece((0,), torch.zeros(3)),))}, {})
    with pytest.raises(Failure, match="hold 3 elements, the whole has 4"):
        store.close()
    assert list(tmp_path.iterdir()) == []


def test_keep_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="keep = 0"):
        CheckpointStore(str(tmp_path), keep=0, group=Alone(), identity={})


MEASURE = """
import sys, torch
from << cookiecutter.package >>.checkpoint import CheckpointStore, Entry

class Alone:
    rank, world = 0, 1
    agree = share = staticmethod(lambda value: value)

def peak():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) // 1024

def grown(work):
    open("/proc/self/clear_refs", "w").write("5")
    before = peak()
    result = work()
    return peak() - before, result

store = CheckpointStore(sys.argv[1], keep=1, group=Alone(), identity={})
store.restore()
state = {"w": Entry.whole(torch.ones(64, 2**20))}
saved, _ = grown(lambda: (store.save(1, state, {}), store.close()))
restored, found = grown(store.restore)
read, _ = grown(lambda: found.read_slice("w", (0, 0), (16, 2**20)))
print(saved, restored, read)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak of the memory from /proc")
def test_no_second_copy_in_memory(tmp_path: Path) -> None:
    """A state of 256 MB: saving and restoring take a few blocks, a slice of 64 MB takes 64 MB."""
    command = [sys.executable, "-c", MEASURE, str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    saved, restored, read = (int(number) for number in run.stdout.split())
    assert saved < 48
    assert restored < 48
    assert read < 64 + 48
