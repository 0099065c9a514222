"""Object storage: what passes is tried again, what does not is told, half an upload is nothing."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, ClassVar

import fsspec
import pytest
import torch
from checkpoint_fixtures import (
    PATIENCE,
    all_well,
    assert_holds,
    failure_of,
    filled,
    open_store,
    run_ranks,
    same_bits,
    save,
)
from tenacity import wait_none

from << cookiecutter.package >>.checkpoint import Entry, remote
from << cookiecutter.package >>.errors import Failure, Refused

ROOT = "sick://bucket/runs/demo"


class HttpError(Exception):
    """As gcsfs has it: the status is in `code`."""

    def __init__(self, code: int) -> None:
        super().__init__(f"{code}")
        self.code = code


class Upload:
    """A file under way: it appears in the storage when it is closed, not before."""

    def __init__(self, path: str) -> None:
        self._path, self._data, self.closed = path, bytearray(), False

    def write(self, data: bytes) -> None:
        SickStorage.ask("write")
        self._data += data

    def close(self) -> None:
        if not self.closed:
            SickStorage.asked.append("publish")
            SickStorage.objects[self._path] = bytes(self._data)
        self.closed = True

    def discard(self) -> None:
        self._data.clear()


class SickStorage(fsspec.AbstractFileSystem):
    """A bucket in memory. `errors` are raised by the next requests of their kind, in turn."""

    protocol = "sick"
    objects: ClassVar[dict[str, bytes]] = {}
    errors: ClassVar[dict[str, Iterator[Exception | None]]] = {}
    asked: ClassVar[list[str]] = []

    @classmethod
    def ask(cls, kind: str) -> None:
        cls.asked.append(kind)
        error = next(cls.errors.get(kind, iter(())), None)
        if error is not None:
            raise error

    def open(self, path: str, mode: str = "rb", **kwargs: Any) -> Upload:
        self.ask("open")
        return Upload(self._strip_protocol(path))

    def pipe_file(self, path: str, value: bytes, **kwargs: Any) -> None:
        self.ask("put")
        self.objects[self._strip_protocol(path)] = bytes(value)

    def cat_file(self, path: str, start: Any = None, end: Any = None, **kwargs: Any) -> bytes:
        self.ask("get")
        if path not in self.objects:
            raise FileNotFoundError(path)
        return self.objects[path][start:end]

    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> list[Any]:
        self.ask("list")
        below = path.rstrip("/") + "/"
        entries: dict[str, Any] = {}
        for name in [name for name in list(self.objects) if name.startswith(below)]:
            child, more, _ = name.removeprefix(below).partition("/")
            size, kind = (0, "directory") if more else (len(self.objects[name]), "file")
            entries[child] = {"name": below + child, "size": size, "type": kind}
        if not entries:
            raise FileNotFoundError(path)
        return list(entries.values()) if detail else [each["name"] for each in entries.values()]

    def rm_file(self, path: str) -> None:
        self.ask("remove")
        if path not in self.objects:
            raise FileNotFoundError(path)
        del self.objects[path]

    def rm(self, path: str, recursive: bool = False, maxdepth: int | None = None) -> None:
        for name in [name for name in list(self.objects) if name.startswith(path + "/")]:
            self.rm_file(name)


fsspec.register_implementation("sick", SickStorage, clobber=True)


@pytest.fixture(autouse=True)
def storage(monkeypatch: pytest.MonkeyPatch) -> type[SickStorage]:
    """An empty bucket; the pauses between tries take no time."""
    SickStorage.objects.clear()
    SickStorage.errors.clear()
    SickStorage.asked.clear()
    monkeypatch.setattr(remote, "PAUSES", wait_none())
    return SickStorage


def names() -> list[str]:
    return sorted(path.rpartition("/")[2] for path in SickStorage.objects)


def test_saved_by_4_read_by_2(storage: type[SickStorage]) -> None:
    filled(ROOT, range(1, 5), world=4)
    assert names().count("checkpoint.json") == 2
    assert len(names()) == 2 * (1 + 2 * 4)
    for checkpoint in all_well(run_ranks(2, lambda group: open_store(ROOT, group).restore())):
        assert_holds(checkpoint, 4)
        assert checkpoint is not None
        assert checkpoint.path.startswith(ROOT + "/step-00000004-")


def test_a_tensor_of_many_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "RANGE", 1000)
    monkeypatch.setattr(remote, "RANGES_AT_ONCE", 3)
    data = torch.randn(300, 70, generator=torch.Generator().manual_seed(3))
    store = open_store(ROOT)
    store.restore()
    store.save(1, {"x": Entry.whole(data)}, {})
    store.close()
    checkpoint = open_store(ROOT).restore()
    assert checkpoint is not None
    assert same_bits(checkpoint.read("x"), data)
    part = checkpoint.read_slice("x", (100, 0), (100, 70))
    assert same_bits(part, data[100:200])


@pytest.mark.parametrize("kind", ["open", "write", "put", "get", "list", "remove"])
@pytest.mark.parametrize("error", [HttpError(503), HttpError(429), ConnectionResetError()])
def test_what_passes_is_tried_again(
    storage: type[SickStorage], kind: str, error: Exception
) -> None:
    storage.errors[kind] = iter([error, None, error, error])
    store = open_store(ROOT)
    store.probe()
    store.restore()
    for step in (1, 2, 3):
        save(store, step)
    store.close()
    assert_holds(open_store(ROOT).restore(), 3)
    assert list(storage.errors[kind]) == [], "all errors were met"
    assert names().count("checkpoint.json") == 2


def test_an_upload_that_breaks_off_starts_again(storage: type[SickStorage]) -> None:
    data = torch.randn(3 * 2**20, generator=torch.Generator().manual_seed(4))  # three blocks
    storage.errors["write"] = iter([None, None, ConnectionResetError(), None, TimeoutError()])
    store = open_store(ROOT)
    store.restore()
    store.save(1, {"x": Entry.whole(data)}, {})
    store.close()
    assert storage.asked.count("open") == 3
    assert storage.asked.count("publish") == 1
    checkpoint = open_store(ROOT).restore()
    assert checkpoint is not None
    assert same_bits(checkpoint.read("x"), data)


def test_the_parts_of_a_shard_go_together(
    storage: type[SickStorage], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four uploads are under way before the first one ends; one that fails ends the save."""
    together = threading.Barrier(4, timeout=PATIENCE)
    write = Upload.write

    def waiting(file: Upload, data: bytes) -> None:
        together.wait()
        write(file, data)

    monkeypatch.setattr("<< cookiecutter.package >>.checkpoint.format.PART", 1)
    state = {f"t{i}": Entry.whole(torch.full((3,), i)) for i in range(8)}
    store = open_store(ROOT)
    store.restore()
    with monkeypatch.context() as patch:
        patch.setattr(Upload, "write", waiting)
        store.save(1, state, {})
        store.wait()
    assert sum(name.endswith(".safetensors") for name in names()) == 8
    storage.errors["open"] = iter([None, PermissionError("Access Denied")])
    storage.asked.clear()
    store.save(2, state, {})
    with pytest.raises(Refused, match="no right"):
        store.wait()
    assert storage.asked.count("open") < 8
    assert names().count("checkpoint.json") == 1


@pytest.mark.parametrize("name", ["checkpoint.json", "of-00001.json", "of-00001.000.safetensors"])
@pytest.mark.parametrize("damage", ["short", "long", "flipped"])
def test_a_damaged_object(
    storage: type[SickStorage], name: str, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    filled(ROOT, range(1, 3))
    path = max(path for path in storage.objects if path.endswith(name))
    data = storage.objects[path]
    flipped = bytes([data[0] ^ 1]) + data[1:]
    storage.objects[path] = {"short": data[:-1], "long": data + b"\n", "flipped": flipped}[damage]
    assert_holds(open_store(ROOT).restore(), 1)
    assert f"checkpoint skipped: sick://{path}" in caplog.text


def test_a_storage_that_loses_bytes(storage: type[SickStorage]) -> None:
    filled(ROOT, range(1, 2))

    def close(file: Upload) -> None:
        storage.objects[file._path] = bytes(file._data[:-1])

    store = open_store(ROOT)
    store.restore()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Upload, "close", close)
        save(store, 2)
        with pytest.raises(Failure, match="3841 bytes were written, 3840 are there"):
            store.wait()
    assert names().count("checkpoint.json") == 1
    assert_holds(open_store(ROOT).restore(), 1)


def test_what_does_not_pass_in_five_tries(storage: type[SickStorage]) -> None:
    store = open_store(ROOT)
    store.restore()
    save(store, 1)
    store.wait()
    storage.errors["open"] = iter([HttpError(503)] * 100)
    storage.asked.clear()
    save(store, 2)
    with pytest.raises(Failure, match="HttpError: 503") as caught:
        store.wait()
    assert not isinstance(caught.value, Refused)
    assert storage.asked.count("open") == 5
    assert_holds(open_store(ROOT).restore(), 1)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError("Forbidden: https://storage/b/o\nno storage.objects.create"), "no right"),
        (HttpError(403), "no right"),
        (HttpError(401), "no right"),
        (PermissionError("Access Denied"), "no right"),
        (FileNotFoundError("b/bucket/o"), "is not there"),
        (HttpError(404), "is not there"),
        (RuntimeError("Your default credentials were not found."), "does not know who asks"),
    ],
)
def test_a_bucket_that_refuses(storage: type[SickStorage], error: Exception, words: str) -> None:
    filled(ROOT, range(1, 2))
    storage.errors["put"] = iter([error])
    with pytest.raises(Refused, match=words) as caught:
        open_store(ROOT).probe()
    assert caught.value.where == ROOT
    assert "\n" not in caught.value.what
    storage.errors["open"] = iter([error])
    store = open_store(ROOT)
    store.restore()
    save(store, 2)
    with pytest.raises(Refused, match=words):
        store.close()
    assert_holds(open_store(ROOT).restore(), 1)
    assert names().count("checkpoint.json") == 1


def test_probe_does_not_wait_for_ever(storage: type[SickStorage]) -> None:
    hangs = threading.Event()

    class Hanging:
        def __iter__(self) -> Hanging:
            return self

        def __next__(self) -> None:
            hangs.wait()

    storage.errors["put"] = Hanging()
    try:
        with pytest.raises(Refused, match="no answer within 0 s"):
            open_store(ROOT).probe(seconds=0.05)
    finally:
        storage.errors.clear()
        hangs.set()
        for thread in threading.enumerate():
            if thread.name == "checkpoint-probe":
                thread.join()


def test_probe_on_every_rank(storage: type[SickStorage]) -> None:
    all_well(run_ranks(3, lambda group: open_store(ROOT, group).probe()))
    assert storage.asked.count("put") == 3
    assert names() == []


def test_one_rank_without_rights(storage: type[SickStorage]) -> None:
    storage.errors["put"] = iter([PermissionError("Access Denied")])
    results = run_ranks(3, lambda group: open_store(ROOT, group).probe())
    failures = [failure_of(result) for result in results]
    assert sorted("no right" in failure.what for failure in failures) == [False, False, True]
    assert sorted("another rank" in failure.what for failure in failures) == [False, True, True]
    assert names() == []


def test_a_listing_that_fails_on_rank_0_stops_all(storage: type[SickStorage]) -> None:
    filled(ROOT, range(1, 2), world=2)
    storage.errors["list"] = iter([PermissionError("Access Denied")])
    for result in run_ranks(2, lambda group: open_store(ROOT, group).restore()):
        assert "no right" in failure_of(result).what
