"""Object storage through fsspec: an object appears whole when its upload ends, or never."""

from __future__ import annotations

import contextlib
import hashlib
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from tenacity import Retrying, before_sleep_log, retry_if_exception, stop_after_attempt
from tenacity.wait import wait_random_exponential

from .faults import Broken, passing
from .files import Blocks
from .format import Bytes

T = TypeVar("T")
CHUNK = 16 * 2**20  # bytes of one upload request; a stream holds one such buffer
RANGE = 8 * 2**20  # bytes of one download request
RANGES_AT_ONCE = 8
TRIES = 5  # gcsfs tries each request several times by itself; this is about whole uploads too
PAUSES = wait_random_exponential(multiplier=1, max=20)  # seconds
log = logging.getLogger(__name__)


class RemoteFiles:
    """A place that fsspec reaches. What passes is tried again, a write from its first byte."""

    at_once = 4  # a stream waits for an answer after each chunk

    def __init__(self, fs: Any, path: str, url: str) -> None:
        self._fs, self._path, self._url = fs, path.rstrip("/"), url.rstrip("/")

    def url(self, name: str) -> str:
        return f"{self._url}/{name}"

    def write(self, name: str, blocks: Blocks) -> None:
        self._patiently(lambda: self._write(self._at(name), blocks()))

    def put(self, name: str, data: bytes) -> None:
        self._patiently(lambda: self._fs.pipe_file(self._at(name), data))

    def read_all(self, names: Sequence[str]) -> list[bytes]:
        if not names:
            return []
        paths = [self._at(name) for name in names]
        contents = self._patiently(lambda: self._fs.cat_ranges(paths, None, None, on_error="raise"))
        return [bytes(content) for content in contents]

    def read_into(self, name: str, start: int, view: memoryview) -> None:
        filled = 0
        for content in self._ranges(name, start, start + len(view)):
            view[filled : filled + len(content)] = content
            filled += len(content)

    def digest(self, name: str, size: int) -> str:
        digest = hashlib.sha256()
        for content in self._ranges(name, 0, size):
            digest.update(content)
        return digest.hexdigest()

    def sizes(self, folder: str) -> dict[str, int]:
        return {
            _last(entry["name"]): int(entry["size"])
            for entry in self._list(folder)
            if entry["type"] == "file"
        }

    def folders(self) -> list[str]:
        return [_last(entry["name"]) for entry in self._list("") if entry["type"] == "directory"]

    def remove(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._patiently(lambda: self._fs.rm_file(self._at(name)))

    def remove_folder(self, folder: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._patiently(lambda: self._fs.rm(self._at(folder), recursive=True))

    def _at(self, name: str) -> str:
        return f"{self._path}/{name}".rstrip("/")

    def _patiently(self, request: Callable[[], T]) -> T:
        retrying = Retrying(
            retry=retry_if_exception(passing),
            wait=PAUSES,
            stop=stop_after_attempt(TRIES),
            before_sleep=before_sleep_log(log, logging.WARNING),
            reraise=True,
        )
        return retrying(request)

    def _write(self, path: str, blocks: Iterator[Bytes]) -> None:
        file = self._fs.open(path, "wb", block_size=CHUNK)
        try:
            for block in blocks:
                file.write(block)
            file.close()
        except BaseException:
            _drop(file)
            raise

    def _ranges(self, name: str, start: int, end: int) -> Iterator[bytes]:
        """The bytes from `start` to `end` in order, several requests under way at once."""
        starts = range(start, end, RANGE)
        for first in range(0, len(starts), RANGES_AT_ONCE):
            batch = list(starts[first : first + RANGES_AT_ONCE])
            yield from self._batch(name, batch, [min(begin + RANGE, end) for begin in batch])

    def _batch(self, name: str, starts: list[int], ends: list[int]) -> list[bytes]:
        paths = [self._at(name)] * len(starts)
        contents: list[bytes] = self._patiently(
            lambda: self._fs.cat_ranges(paths, starts, ends, on_error="raise")
        )
        for begin, end, content in zip(starts, ends, contents, strict=True):
            if len(content) != end - begin:
                raise Broken(self.url(name), "ends early")
        return contents

    def _list(self, folder: str) -> list[dict[str, Any]]:
        try:
            entries: list[dict[str, Any]] = self._patiently(
                lambda: self._fs.ls(self._at(folder), detail=True)
            )
        except FileNotFoundError:
            return []
        return entries


def _last(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


def _drop(file: Any) -> None:
    """Gives an upload up. Closing the file instead would publish the half of it."""
    with contextlib.suppress(Exception):  # the error that ended the upload is the one to tell
        file.discard()
    file.closed = True
