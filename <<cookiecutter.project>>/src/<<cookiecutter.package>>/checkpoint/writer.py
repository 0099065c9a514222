"""The work of the background thread: write, publish, and let go of what is old."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ..errors import Failure
from .commit import commit, gather, tell_rank_0, write_shard
from .faults import as_failure
from .files import Files
from .folders import clear, folder_name
from .format import plan
from .manifest import Manifest
from .state import State

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Written:
    """A save that ended. `size` in bytes: this rank's shard, on rank 0 the whole checkpoint."""

    step: int
    path: str
    size: int
    seconds: float


@dataclass
class Writer:
    """Writes one checkpoint at a time. Only rank 0 publishes and removes.

    `complete` are the folders of checkpoints, oldest first. `useless` are broken or could not be
    removed; they go once a newer checkpoint is complete.
    """

    files: Files
    rank: int
    world: int
    attempt: str
    keep: int
    patience: float
    identity: dict[str, Any]
    complete: list[str] = field(default_factory=list)
    useless: list[str] = field(default_factory=list)

    def write(
        self, step: int, state: State, progress: dict[str, Any], before: Callable[[], None]
    ) -> Written:
        """Failure when the checkpoint is not complete, as far as this rank can know."""
        started = time.monotonic()
        folder = folder_name(step, self.attempt)
        try:
            before()
            size = self._publish(step, folder, state, progress)
        except Exception as error:
            failure = as_failure(error, self.files.url(folder))
            self._give_up(folder, failure)
            raise failure from error
        if self.rank == 0:
            self._retire(folder)
        seconds = time.monotonic() - started
        return Written(step, self.files.url(folder), size, seconds)

    def _publish(self, step: int, folder: str, state: State, progress: dict[str, Any]) -> int:
        layouts = plan(state)
        own = write_shard(self.files, folder, self.rank, self.world, layouts)
        if self.rank != 0:
            return sum(layout.size for layout in layouts)
        indices = gather(self.files, folder, own, self.world, self.patience)
        manifest = partial(Manifest, step=step, progress=progress, identity=self.identity)
        return commit(self.files, folder, manifest, indices)

    def _give_up(self, folder: str, failure: Failure) -> None:
        """Makes room again, unless other ranks may be writing there: then the next start does."""
        with contextlib.suppress(Exception):  # the failure at hand is the one to tell
            if self.rank != 0:
                tell_rank_0(self.files, folder, self.rank, self.world, failure)
            elif self.world == 1:
                self.useless.append(folder)
                clear(self.files, folder)
                self.useless.remove(folder)

    def _retire(self, newest: str) -> None:
        """Keeps the newest `keep`. What cannot be removed is tried again after the next save."""
        self.complete.append(newest)
        if newest in self.useless:  # it failed once, could not be removed, and now is complete
            self.useless.remove(newest)
        surplus = self.complete[: -self.keep]
        for folder in [*self.useless, *surplus]:
            try:
                clear(self.files, folder)
            except Exception as error:
                log.warning("could not remove %s: %s", self.files.url(folder), error)
                continue
            for known in (self.complete, self.useless):
                if folder in known:
                    known.remove(folder)
