"""A checkpoint with a damaged file is skipped, with a warning; the one before it is used."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest
from checkpoint_fixtures import (
    IDENTITY,
    Alone,
    all_well,
    assert_holds,
    failure_of,
    filled,
    open_store,
    run_ranks,
    save,
    visible,
)

from << cookiecutter.package >>.checkpoint import JSON, Checkpoint, CheckpointStore, Group
from << cookiecutter.package >>.checkpoint.files import LocalFiles
from << cookiecutter.package >>.checkpoint.manifest import seal
from << cookiecutter.package >>.errors import Failure, InputError, NotFound, Refused

Damage = Callable[[Path], object]


def _cut(path: Path, keep: Callable[[int], int]) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: keep(len(data))])


def _flip(path: Path, at: Callable[[int], int]) -> None:
    data = bytearray(path.read_bytes())
    data[at(len(data))] ^= 1
    path.write_bytes(data)


DAMAGES: dict[str, Damage] = {
    "empty": lambda path: _cut(path, lambda size: 0),
    "half": lambda path: _cut(path, lambda size: size // 2),
    "one byte short": lambda path: _cut(path, lambda size: size - 1),
    "one byte long": lambda path: path.write_bytes(path.read_bytes() + b"\n"),
    "first bit": lambda path: _flip(path, lambda size: 0),
    "middle bit": lambda path: _flip(path, lambda size: size // 2),
    "last bit": lambda path: _flip(path, lambda size: size - 1),
    "other JSON": lambda path: path.write_bytes(b'{"content":{},"sha256":"0"}\n'),
}
FILES = [
    "checkpoint.json",
    "shard-00000-of-00002.json",
    "shard-00000-of-00002.000.safetensors",
    "shard-00001-of-00002.json",
    "shard-00001-of-00002.000.safetensors",
]


def newest(root: Path) -> Path:
    return max(path.parent for path in root.glob("*/checkpoint.json"))


def restore_with_2(root: Path) -> list[Checkpoint | None]:
    return all_well(run_ranks(2, lambda group: open_store(root, group).restore()))


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file(
    tmp_path: Path, name: str, damage: Damage, caplog: pytest.LogCaptureFixture
) -> None:
    filled(tmp_path, range(1, 3), world=2)
    damage(newest(tmp_path) / name)
    with caplog.at_level(logging.WARNING):
        for checkpoint in restore_with_2(tmp_path):
            assert_holds(checkpoint, 1)
    assert f"{newest(tmp_path) / name} " in caplog.text
    assert "checkpoint skipped" in caplog.text


@pytest.mark.parametrize("name", FILES[1:])
def test_a_missing_file(tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture) -> None:
    filled(tmp_path, range(1, 3), world=2)
    (newest(tmp_path) / name).unlink()
    for checkpoint in restore_with_2(tmp_path):
        assert_holds(checkpoint, 1)
    assert f"{newest(tmp_path) / name} is missing" in caplog.text


def test_without_a_manifest_there_is_no_checkpoint(tmp_path: Path) -> None:
    filled(tmp_path, range(1, 3), world=2)
    newest(tmp_path).joinpath("checkpoint.json").unlink()
    for checkpoint in restore_with_2(tmp_path):
        assert_holds(checkpoint, 1)
    assert len(list(tmp_path.iterdir())) == 1


def test_every_byte_of_the_manifest_counts(tmp_path: Path) -> None:
    filled(tmp_path, range(1, 3))
    manifest = newest(tmp_path) / "checkpoint.json"
    whole = manifest.read_bytes()
    for position in range(len(whole)):
        data = bytearray(whole)
        data[position] ^= 2 ** (position % 8)
        manifest.write_bytes(data)
        restored = open_store(tmp_path).restore()
        assert restored is not None
        assert restored.step == 1, f"byte {position}"


def test_a_broken_one_stays_until_a_newer_one_is_complete(tmp_path: Path) -> None:
    filled(tmp_path, range(1, 3))
    broken = newest(tmp_path)
    DAMAGES["middle bit"](broken / "shard-00000-of-00001.000.safetensors")
    store = open_store(tmp_path)
    assert_holds(store.restore(), 1)
    assert broken.exists()
    save(store, 2)
    store.close()
    assert not broken.exists()
    assert visible(tmp_path) == [1, 2]
    assert_holds(open_store(tmp_path).restore(), 2)


def test_broken_ones_do_not_count_among_those_kept(tmp_path: Path) -> None:
    filled(tmp_path, range(1, 5), keep=3)
    for step in (3, 4):
        folder = next(tmp_path.glob(f"step-0000000{step}-*"))
        DAMAGES["half"](folder / "shard-00000-of-00001.000.safetensors")
    store = open_store(tmp_path, keep=2)
    assert_holds(store.restore(), 2)
    save(store, 3)
    store.close()
    assert visible(tmp_path) == [2, 3]


def test_all_broken_is_no_fresh_start(tmp_path: Path) -> None:
    filled(tmp_path, range(1, 3))
    for path in tmp_path.glob("*/*.safetensors"):
        DAMAGES["half"](path)
    with pytest.raises(Failure, match="all 2 checkpoints are broken") as caught:
        open_store(tmp_path).restore()
    assert caught.value.where == str(tmp_path)
    assert visible(tmp_path) == [1, 2]


def test_another_identity(tmp_path: Path) -> None:
    filled(tmp_path, range(1, 3), world=2)
    other: dict[str, JSON] = {"model": {"layers": 3, "heads": 4}, "vocabulary": 257}

    def restore(group: Group) -> Checkpoint | None:
        return CheckpointStore(str(tmp_path), keep=2, group=group, identity=other).restore()

    for result in run_ranks(2, restore):
        failure = failure_of(result)
        assert isinstance(failure, InputError)
        assert "model.layers: 2 in the checkpoint, 3 in this run" in failure.what
        assert "model.width: 64 in the checkpoint, nothing in this run" in failure.what
        assert "model.heads: nothing in the checkpoint, 4 in this run" in failure.what
        assert "vocabulary" not in failure.what
        assert failure.where == str(newest(tmp_path))
    assert visible(tmp_path) == [1, 2]


def test_the_same_identity_in_another_order_and_as_tuples(tmp_path: Path) -> None:
    identity: dict[str, JSON] = {"mesh": (2, 4), "model": {"a": 1, "b": 2}}
    store = CheckpointStore(str(tmp_path), keep=2, group=Alone(), identity=identity)
    store.restore()
    save(store, 1)
    store.close()
    turned: dict[str, JSON] = {"model": {"b": 2, "a": 1}, "mesh": [2, 4]}
    again = CheckpointStore(str(tmp_path), keep=2, group=Alone(), identity=turned)
    assert_holds(again.restore(), 1)


def test_a_newer_format(tmp_path: Path) -> None:
    filled(tmp_path, range(1, 2))
    (newest(tmp_path) / "checkpoint.json").write_bytes(seal({"version": 2, "identity": IDENTITY}))
    with pytest.raises(InputError, match="format 2, this program reads 1"):
        open_store(tmp_path).restore()


def test_a_name_that_is_not_there(tmp_path: Path) -> None:
    filled(tmp_path, range(1, 2))
    checkpoint = open_store(tmp_path).restore()
    assert checkpoint is not None
    with pytest.raises(NotFound, match="holds no tensor 'wait'"):
        checkpoint.read("wait")


def test_one_rank_may_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not to be taken for a broken file: the run must not go back a step because of rights."""
    filled(tmp_path, range(1, 3), world=2)
    digest = LocalFiles.digest

    def forbidden(files: LocalFiles, name: str, size: int) -> str:
        if "shard-00001" in name:
            raise PermissionError(13, "Permission denied", name)
        return digest(files, name, size)

    monkeypatch.setattr(LocalFiles, "digest", forbidden)
    results = run_ranks(2, lambda group: open_store(tmp_path, group).restore())
    other, own = (failure_of(result) for result in results)
    assert isinstance(own, Refused)
    assert "Permission denied" in own.what
    assert "another rank" in other.what


def test_a_file_that_vanishes_after_restore(tmp_path: Path) -> None:
    filled(tmp_path, range(1, 2))
    checkpoint = open_store(tmp_path).restore()
    assert checkpoint is not None
    DAMAGES["half"](newest(tmp_path) / "shard-00000-of-00001.000.safetensors")
    with pytest.raises(Failure, match="ends early"):
        checkpoint.read("step")
