"""What the tests of the data package share: a local Ray, disks that fill up, hand-made shards."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

CONTROL = "DATA_TEST_FAULTS"


def make_shards(root: Path, *lengths: int, dtype: str = "uint32") -> list[np.ndarray]:
    """Shards written by hand after the documented format; token values count on through all."""
    root.mkdir(parents=True)
    ends = np.cumsum(lengths)
    shards = [
        np.arange(end - length, end, dtype=dtype) for end, length in zip(ends, lengths, strict=True)
    ]
    records = []
    for number, shard in enumerate(shards):
        content = shard.astype(f"<{shard.dtype.str[1:]}").tobytes()
        sha256 = hashlib.sha256(content).hexdigest()
        name = f"tokens-{number:05}-000-{sha256[:12]}.bin"
        (root / name).write_bytes(content)
        record = {"name": name, "tokens": len(shard), "documents": 1, "sha256": sha256}
        records.append(record)
    index = {
        "format": "token-shards",
        "version": 1,
        "tokenizer": "hand-made",
        "vocab_size": 100_000 if dtype == "uint32" else 60_000,
        "end_of_text": 0,
        "dtype": dtype,
        "tokens": sum(lengths),
        "documents": len(lengths),
        "source": {"input": "none"},
        "shards": records,
    }
    (root / "index.json").write_text(json.dumps(index))
    return shards


def shard_files(root: Path) -> list[Path]:
    index = json.loads((root / "index.json").read_text())
    return [root / shard["name"] for shard in index["shards"]]


def contents(root: Path) -> dict[str, bytes]:
    """Every file under a directory, hidden ones too."""
    files = (path for path in root.rglob("*") if path.is_file())
    return {str(path.relative_to(root)): path.read_bytes() for path in files}


class Faults:
    """A disk that fills up at the n-th change under a directory, in this and in Ray's processes."""

    def __init__(self, control: Path) -> None:
        self._control = control

    def arm(self, root: Path, at: int) -> None:
        (self._control / "count").write_bytes(b"")
        (self._control / "armed").write_text(json.dumps([str(root), at]))

    def disarm(self) -> None:
        (self._control / "armed").unlink(missing_ok=True)


def _due(control: Path, path: str | os.PathLike[str]) -> bool:
    try:
        root, at = json.loads((control / "armed").read_text())
    except FileNotFoundError:
        return False
    if not os.fspath(path).startswith(root):
        return False
    descriptor = os.open(control / "count", os.O_WRONLY | os.O_APPEND)
    try:
        os.write(descriptor, b".")
        return os.fstat(descriptor).st_size >= int(at)
    finally:
        os.close(descriptor)


def _full() -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def install_faults() -> None:
    """Puts the disk of `Faults` under this process; also the set-up hook of Ray's workers."""
    control = Path(os.environ[CONTROL])
    real_open = io.open

    class FullFile(io.FileIO):
        def write(self, content: Any) -> int:
            if _due(control, str(self.name)):
                super().write(memoryview(content)[: len(content) // 2])
                raise _full()
            return super().write(content)

    def faulty_open(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        if mode != "wb" or not (control / "armed").exists():
            return real_open(file, mode, *args, **kwargs)
        if _due(control, file):
            raise _full()
        return FullFile(file, "w")

    def faulty(call: Callable[..., Any], path_of: Callable[[Any], str]) -> Callable[..., Any]:
        def checked(first: Any, *args: Any, **kwargs: Any) -> Any:
            if _due(control, path_of(first)):
                raise _full()
            return call(first, *args, **kwargs)

        return checked

    io.open = faulty_open
    os.fsync = faulty(
        os.fsync, lambda number: os.fspath(Path(f"/proc/self/fd/{number}").readlink())
    )
    os.replace = faulty(os.replace, os.fspath)
    os.mkdir = faulty(os.mkdir, os.fspath)


@contextmanager
def faulty_disk(control: Path) -> Iterator[Faults]:
    """The disk of `Faults`, in this process and in those that are started from it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CONTROL, str(control))
        patch.setattr(io, "open", io.open)
        for name in ("fsync", "replace", "mkdir"):
            patch.setattr(os, name, getattr(os, name))
        install_faults()
        faults = Faults(control)
        yield faults
        faults.disarm()


@contextmanager
def local_ray(**environment: str) -> Iterator[None]:
    """A Ray of two cores on this machine; its workers have the disk of `Faults` too."""
    import ray

    paths = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    ray.init(
        address="local",
        num_cpus=2,
        include_dashboard=False,
        runtime_env={
            "worker_process_setup_hook": "data_fixtures.install_faults",
            "env_vars": environment | {"PYTHONPATH": os.pathsep.join(paths)},
        },
    )
    try:
        yield
    finally:
        ray.shutdown()
