"""Where checkpoints lie. Names are relative to the root, with `/` between folder and file."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem

from ..errors import InputError
from .faults import Broken, as_failure
from .format import Bytes

Blocks = Callable[[], Iterator[Bytes]]


class Files(Protocol):
    """Storage as a checkpoint needs it. Errors are the storage's own."""

    at_once: int  # writes that gain from being under way together

    def url(self, name: str) -> str:
        """The full address, for people."""

    def write(self, name: str, blocks: Blocks) -> None:
        """Writes a file whole and durably, or not at all. `blocks` may be called again."""

    def put(self, name: str, data: bytes) -> None:
        """Writes a small file, whole and durably, or not at all."""

    def read_all(self, names: Sequence[str]) -> list[bytes]:
        """The contents of small files."""

    def read_into(self, name: str, start: int, view: memoryview) -> None:
        """Fills `view` from byte `start` on."""

    def digest(self, name: str, size: int) -> str:
        """The sha256 of a file of `size` bytes."""

    def sizes(self, folder: str) -> dict[str, int]:
        """The files of a folder with their sizes; none when there is no such folder."""

    def folders(self) -> list[str]:
        """The folders in the root."""

    def remove(self, name: str) -> None:
        """Removes a file, if it is there."""

    def remove_folder(self, folder: str) -> None:
        """Removes a folder with all that is in it, if it is there."""


def open_files(root: str) -> Files:
    """The storage at a local path or any URL that fsspec knows."""
    try:
        # Other hosts write to the same folders: a cached listing would hide their files.
        fs, path = url_to_fs(root, use_listings_cache=False)
    except (ValueError, ImportError) as error:
        raise InputError(
            f"no way to store checkpoints there ({error})",
            root,
            "set [run] storage to a local path or a gs:// URL; for another kind of storage install "
            "its fsspec package",
        ) from error
    except Exception as error:
        raise as_failure(error, root) from error
    if isinstance(fs, LocalFileSystem):
        return LocalFiles(path)
    from .remote import RemoteFiles

    return RemoteFiles(fs, path, root)


class LocalFiles:
    """A folder of this machine, or one that all machines mount."""

    at_once = 1

    def __init__(self, root: str) -> None:
        self._root = root.rstrip("/")

    def url(self, name: str) -> str:
        return f"{self._root}/{name}"

    def write(self, name: str, blocks: Blocks) -> None:
        path = self.url(name)
        folder, temporary = os.path.dirname(path), f"{path}.tmp"
        os.makedirs(folder, exist_ok=True)
        try:
            _fill(temporary, blocks())
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):  # the first error is the one to tell
                os.unlink(temporary)
            raise
        # The names must outlast a power cut: the file's in its folder, the folder's in the root.
        _sync(folder)
        _sync(os.path.dirname(folder))

    def put(self, name: str, data: bytes) -> None:
        self.write(name, lambda: iter([data]))

    def read_all(self, names: Sequence[str]) -> list[bytes]:
        contents = []
        for name in names:
            with open(self.url(name), "rb") as file:
                contents.append(file.read())
        return contents

    def read_into(self, name: str, start: int, view: memoryview) -> None:
        with open(self.url(name), "rb", buffering=0) as file:
            file.seek(start)
            while view:
                count = file.readinto(view)
                if not count:
                    raise Broken(self.url(name), "ends early")
                view = view[count:]

    def digest(self, name: str, size: int) -> str:
        with open(self.url(name), "rb", buffering=0) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def sizes(self, folder: str) -> dict[str, int]:
        sizes = {}
        for entry in self._scan(folder):
            with contextlib.suppress(FileNotFoundError):  # another rank has renamed it meanwhile
                if entry.is_file():
                    sizes[entry.name] = entry.stat().st_size
        return sizes

    def folders(self) -> list[str]:
        return [entry.name for entry in self._scan("") if entry.is_dir()]

    def remove(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.url(name))
            _sync(os.path.dirname(self.url(name)))

    def remove_folder(self, folder: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self.url(folder))

    def _scan(self, folder: str) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(self.url(folder)) as entries:
                return list(entries)
        except FileNotFoundError:
            return []


def _fill(path: str, blocks: Iterator[Bytes]) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    try:
        for block in blocks:
            view = memoryview(block)
            while view:
                view = view[os.write(descriptor, view) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
