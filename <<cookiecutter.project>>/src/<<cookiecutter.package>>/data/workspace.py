"""The place that shards are written to, which a fault leaves as it was."""

from __future__ import annotations

import logging
import re
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..errors import Failure
from .shards import INDEX, SHARD_NAME, Index, read_index
from .storage import Place, listing, storage_faults, write_atomic

log = logging.getLogger(__name__)

_PERMIT = re.compile(r"preparing-[0-9a-f]{16}")
# All that prepare, killed at any moment, may leave; files of others are never among it.
_OURS = re.compile(
    rf"({SHARD_NAME.pattern}|{re.escape(INDEX)}|{_PERMIT.pattern})(\.[0-9a-f]{{8}}\.tmp)?"
)


@contextmanager
def claim(root: Place) -> Iterator[Place]:
    """Holds a file that permits workers to write, and puts the place back after a fault.

    Writing it shows within seconds whether the place can be written to. A run that was killed
    leaves its own behind; removing that one also ends workers of the killed run that live on.
    """
    made = _missing_directories(root)
    before = listing(root)
    # Without an index all files of ours there come from runs that did not end.
    kept = set(before) if INDEX in before else set[str]()
    permit = root / f"preparing-{secrets.token_hex(8)}"
    try:
        write_atomic(permit, b"workers of prepare write only while this file exists\n")
        remove(root, filter(_PERMIT.fullmatch, before))
        yield permit
    except BaseException:
        _put_back(root, kept, made)
        raise


def _missing_directories(root: Place) -> list[Path]:
    path = Path(root.path)
    return [each for each in (path, *path.parents) if not each.exists()] if root.local else []


def _put_back(root: Place, kept: set[str], made: list[Path]) -> None:
    try:
        remove(root, (name for name in _leftovers(root, _visible(root)) if name not in kept))
        for directory in made:
            if directory.exists():
                directory.rmdir()
    except (Failure, OSError) as fault:
        # The fault that led here is the one to tell; the next run removes what is left.
        log.warning("prepare could not clean up after itself: %s", fault)


def _visible(root: Place) -> Index | None:
    """The index there: a bucket may have taken a new one although its answer was lost."""
    try:
        return read_index(root.url)
    except Failure:
        return None


def _leftovers(root: Place, index: Index | None) -> list[str]:
    """Files of ours that no index speaks of, by name."""
    kept = {INDEX, *(shard.name for shard in index.shards)} if index else set[str]()
    return [name for name in listing(root) if _OURS.fullmatch(name) and name not in kept]


def remove(root: Place, names: Iterable[str]) -> None:
    """Removes files right under `root`, those that are there. Raises Refused."""
    with storage_faults("remove what is no longer needed", root.url):
        for name in names:
            with suppress(FileNotFoundError, NotADirectoryError):
                root.fs.rm_file((root / name).path)


def sweep(root: Place, index: Index) -> None:
    """Removes the permit and the shards of earlier runs, once the index is visible."""
    try:
        remove(root, _leftovers(root, index))
    except Failure as fault:
        log.warning("files of earlier runs are still there: %s", fault)
