"""The shards of an index as verified local files.

No token is handed out before the sha256 of its shard was compared with the index, once a process.
For shards on a local disk that verdict is kept in memory only: a note on disk would be believed
after the file had changed, and hashing costs less than training on wrong data. Remote shards are
fetched whole into a directory which all processes of a host may share; a file that is named after
its sha256 there was verified before it got that name.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

import numpy as np

from ..errors import Failure, InputError, Refused
from .shards import Index, Shard, check_sizes
from .storage import Place, locate, storage_faults
from .tokens import TokenIds

_FETCHERS = 4
_CHUNK = 2**24
# Every mapped file holds a file descriptor, of which a process commonly has 1024.
_MAPPED = 256


class Closed(BaseException):
    """A fetch was given up because its owner was closed: like asyncio's CancelledError no fault."""


def default_cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / __name__.split(".")[0] / "shards"


class ShardFiles:
    """Opens shards by their number in the index.

    Raises InputError at once for a missing or truncated shard, Refused where the cache cannot hold
    what is still to be fetched.
    """

    def __init__(self, index: Index, cache: Path) -> None:
        check_sizes(index)
        self._index = index
        self._root = locate(index.root)
        self._cache = cache
        self._locks = [threading.Lock() for _ in index.shards]
        self._verified: dict[int, Path] = {}
        self._closed = threading.Event()
        self._ahead: list[threading.Thread] = []
        self.open = lru_cache(maxsize=_MAPPED)(self._open)
        if not self._root.local:
            self._require_space()

    def _open(self, number: int) -> TokenIds:
        """The tokens of a shard, mapped read-only; fetched and verified when first needed.

        Raises InputError for a wrong checksum, Refused where it cannot be fetched or stored.
        """
        dtype = np.dtype(self._index.dtype).newbyteorder("<")
        tokens: TokenIds = np.memmap(self._path(number), dtype=dtype, mode="r")
        return tokens

    def fetch_ahead(self, numbers: Iterable[int]) -> None:
        """Fetches and verifies in the background, in this order."""
        waiting = deque(number for number in numbers if number not in self._verified)
        for _ in range(min(_FETCHERS, len(waiting))):
            thread = threading.Thread(target=self._fetch, args=(waiting,), daemon=True)
            self._ahead.append(thread)
            thread.start()

    def close(self) -> None:
        self._closed.set()
        for thread in self._ahead:
            thread.join()

    def _fetch(self, waiting: deque[int]) -> None:
        while waiting and not self._closed.is_set():
            try:
                self._path(waiting.popleft())
            except (Failure, Closed, IndexError):
                # Whoever needs this shard meets the same fault and tells it.
                return

    def _path(self, number: int) -> Path:
        with self._locks[number]:
            if number not in self._verified:
                shard = self._index.shards[number]
                obtain = self._verify if self._root.local else self._get
                self._verified[number] = obtain(shard)
            return self._verified[number]

    def _verify(self, shard: Shard) -> Path:
        path = Path((self._root / shard.name).path)
        with storage_faults("read it", str(path)), path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        _compare(shard, found, str(path))
        return path

    def _cached(self, shard: Shard) -> Path | None:
        path = self._cache / f"{shard.sha256}.bin"
        whole = path.exists() and path.stat().st_size == self._index.size(shard)
        return path if whole else None

    def _require_space(self) -> None:
        with storage_faults("make the cache of shards", str(self._cache)):
            self._cache.mkdir(parents=True, exist_ok=True)
            free = shutil.disk_usage(self._cache).free
        sizes = (self._index.size(each) for each in self._index.shards if not self._cached(each))
        if (needed := sum(sizes)) > free:
            what = f"the shards need {needed:,} bytes of disk, {free:,} are free"
            remedy = "give the hosts a larger disk, or another directory for the cache of shards"
            raise Refused(what, str(self._cache), remedy)

    def _get(self, shard: Shard) -> Path:
        path = self._cache / f"{shard.sha256}.bin"
        remote = self._root / shard.name
        with storage_faults(f"fetch {remote.url}", str(path)), _locked(path.with_suffix(".lock")):
            if self._cached(shard):
                return path
            partial = path.with_suffix(".part")
            try:
                found = self._download(remote, self._index.size(shard), partial)
                _compare(shard, found, remote.url)
                partial.replace(path)
            finally:
                partial.unlink(missing_ok=True)
        return path

    def _download(self, remote: Place, size: int, partial: Path) -> str:
        """Returns the sha256 of what came."""
        digest = hashlib.sha256()
        with partial.open("wb") as target:
            for start in range(0, size, _CHUNK):
                if self._closed.is_set():
                    raise Closed
                chunk = remote.fs.cat_file(remote.path, start, min(start + _CHUNK, size))
                digest.update(chunk)
                target.write(chunk)
            target.flush()
            os.fsync(target.fileno())
        return digest.hexdigest()


def _compare(shard: Shard, found: str, where: str) -> None:
    if found != shard.sha256:
        what = f"the shard {shard.name} is damaged: sha256 {found}, not {shard.sha256}"
        raise InputError(what, where, "remove it and run prepare again: it writes the shard anew")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """One process of the host at a time; the kernel frees the lock of a process that dies."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
