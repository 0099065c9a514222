"""Files and objects over fsspec, with faults that a person can act on."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import fsspec
from fsspec.implementations.local import LocalFileSystem

from ..errors import Failure, InputError, Refused

_NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_IN_THE_WAY = {errno.ENOTDIR, errno.EISDIR, errno.EEXIST}
_NO_RIGHT = {errno.EACCES, errno.EPERM, errno.EROFS}


class Place(NamedTuple):
    """A path inside of one of fsspec's file systems."""

    fs: Any
    path: str

    @property
    def local(self) -> bool:
        return isinstance(self.fs, LocalFileSystem)

    @property
    def url(self) -> str:
        return self.path if self.local else str(self.fs.unstrip_protocol(self.path))

    @property
    def name(self) -> str:
        return self.path.rsplit("/", 1)[-1]

    def __truediv__(self, name: str) -> Place:
        return Place(self.fs, f"{self.path.rstrip('/')}/{name}")


def locate(url: str) -> Place:
    """The place of a path or URL. Raises InputError where fsspec knows no driver for it."""
    try:
        fs, path = fsspec.core.url_to_fs(url)
    except (ImportError, ValueError) as error:
        remedy = "correct the URL, or install the package that fsspec names"
        raise InputError(f"this kind of storage cannot be used: {error}", url, remedy) from error
    return Place(fs, path)


@contextmanager
def storage_faults(doing: str, where: str) -> Iterator[None]:
    """Turns whatever a disk or a bucket answers into Refused.

    Every driver has exceptions of its own (HttpError, RefreshError, ClientError and more), so all
    are caught here; only calls into storage belong inside.
    """
    try:
        yield
    except Failure:
        raise
    except Exception as error:
        reason = str(error) or type(error).__name__
        raise Refused(f"cannot {doing}: {reason}", where, _remedy(error, where)) from error


def _remedy(error: Exception, where: str) -> str:
    number = getattr(error, "errno", None)
    if number in _NO_SPACE:
        return "free some space there, or name a place on another disk"
    if number in _IN_THE_WAY:
        return "a file stands where a directory is needed: move it away, or name another place"
    if isinstance(error, FileNotFoundError) and "://" in where:
        return "create the bucket, or correct its name"
    if number in _NO_RIGHT or "Forbidden" in str(error) or getattr(error, "code", 0) in (401, 403):
        return "give this account the right to read, write and delete there, or name another place"
    return "mend the cause given above, then run again: nothing was lost"


def read_bytes(place: Place) -> bytes | None:
    """The whole content; None where no file is. Raises Refused for any other fault."""
    with storage_faults("read it", place.url):
        try:
            return bytes(place.fs.cat_file(place.path))
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            return None


def listing(place: Place) -> dict[str, int]:
    """Name and size in bytes of the files right under a directory; empty where there is none."""
    with storage_faults("list it", place.url):
        place.fs.invalidate_cache(place.path)
        try:
            entries = place.fs.ls(place.path, detail=True)
        except (FileNotFoundError, NotADirectoryError):
            return {}
    files = (entry for entry in entries if entry["type"] == "file")
    return {entry["name"].rsplit("/", 1)[-1]: int(entry["size"] or 0) for entry in files}


def write_atomic(place: Place, content: bytes) -> None:
    """Writes all of it or nothing; an older file there stays until then.

    After a power cut the file may be missing, never partial: readers look for missing files anyway.
    Raises Refused (rights, a full disk, a missing bucket).
    """
    with storage_faults(f"write {len(content):,} bytes", place.url):
        if place.local:
            _write_local(Path(place.path), content)
        else:
            # An object appears whole or not at all.
            place.fs.pipe_file(place.path, content)


def _write_local(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
