"""Checkpoints of a run: saved beside the training, visible only when complete."""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import Any

from ..errors import Failure, InputError
from .background import Background
from .files import Files, open_files
from .folders import tidy
from .probe import probe
from .ranks import from_rank_0, together
from .reader import Checkpoint
from .restore import first_whole
from .state import JSON, Group, State, check
from .writer import Writer, Written

log = logging.getLogger(__name__)


class CheckpointStore:
    """The checkpoints under one root, and the one background thread that writes them.

    All ranks `probe` and `restore` together, in their main threads. `save`, `wait` and `close` are
    calls of each rank alone; what the thread ran into is raised by the next of them. Rank 0
    publishes a checkpoint once all ranks' shards are there, for which it waits `patience` seconds.
    """

    def __init__(
        self,
        root: str,
        *,
        keep: int,
        group: Group,
        identity: Mapping[str, JSON],
        patience: float = 600.0,
    ) -> None:
        if keep < 1:
            raise InputError(f"keep = {keep}", "run.toml, [checkpoint]", "keep 1 or more")
        self._root, self._keep, self._group, self._patience = root, keep, group, patience
        self._identity = _plain(identity)
        self._background = Background("checkpoint")
        self._writer: Writer | None = None  # there is one while all ranks are of one mind
        self._step = self._done = -1  # of the newest save: handed over, and ended well
        self.last: Written | None = None  # the newest save of this rank that is done

    @cached_property
    def _files(self) -> Files:
        return open_files(self._root)

    def probe(self, seconds: float = 30.0) -> None:
        """Writes, reads and removes a small object on every rank; Refused when one of them cannot.

        Also proves that all ranks see the same storage. No answer within `seconds` is a refusal.
        """
        probe(lambda: self._files, self._root, self._group, seconds)

    def save(
        self,
        step: int,
        state: State,
        progress: Mapping[str, JSON],
        before: Callable[[], None] = lambda: None,
    ) -> None:
        """Hands a state to the background thread, after waiting for the save before.

        There `before` is called first: what it does is done when the checkpoint becomes visible,
        and what it raises fails the save.

        The tensors are not copied: they must stay as they are until the next `save` or `wait`
        returns. A step that is saved already is not saved again. Raises the Failure of the save
        before; ValueError for a state that cannot be written.
        """
        if self._writer is None:
            raise RuntimeError(
                "restore() comes before save(): at the start, and when a save has failed on one of "
                "several ranks"
            )
        check(state)
        told = _plain(progress)
        self.wait()
        if step == self._step:
            return
        if step < self._step:
            raise ValueError(f"step {step} after step {self._step}, which is saved already")
        self._background.start(partial(self._write, self._writer, step, state, told, before))
        self._step = step

    def wait(self) -> None:
        """Returns when nothing is under way; raises what the last save ran into."""
        try:
            self._background.wait()
        except Exception:
            self._step = self._done
            if self._group.world > 1:  # shards of this try must not mix with those of another
                self._writer = None
            raise

    def close(self) -> None:
        """Waits for the save under way: what was handed over is not given up."""
        self.wait()

    def restore(self) -> Checkpoint | None:
        """The newest complete checkpoint whose files are whole; None when there is none at all.

        A broken one is skipped with a warning. InputError when the checkpoint is of another
        identity; Failure when there are checkpoints and all are broken. Removes what killed runs
        left unfinished.
        """
        together(self._group, self._root, self.wait)
        complete = from_rank_0(self._group, self._root, lambda: tidy(self._files))
        checkpoint, broken = first_whole(self._files, self._group, self._identity, complete[::-1])
        if checkpoint is None and broken:
            raise Failure(
                f"all {len(broken)} checkpoints are broken; the log names the file of each",
                self._root,
                "bring the files back, or remove the folder (or give [run] name another name) to "
                "start from step 0",
            )
        self._writer = Writer(
            files=self._files,
            rank=self._group.rank,
            world=self._group.world,
            attempt=self._group.share(secrets.token_hex(4)),
            keep=self._keep,
            patience=self._patience,
            identity=self._identity,
            complete=[folder for folder in complete if folder not in broken],
            useless=broken,
        )
        self._step = self._done = -1 if checkpoint is None else checkpoint.step
        return checkpoint

    def _write(
        self,
        writer: Writer,
        step: int,
        state: State,
        progress: dict[str, Any],
        before: Callable[[], None],
    ) -> None:
        written = writer.write(step, state, progress, before)
        self.last, self._done = written, step
        if self._group.rank == 0:
            megabytes, seconds = written.size / 1e6, written.seconds
            log.info("step %d saved: %.0f MB in %.1f s: %s", step, megabytes, seconds, written.path)


def _plain(mapping: Mapping[str, JSON]) -> dict[str, Any]:
    """A copy, as JSON gives it back; TypeError for what JSON cannot hold."""
    plain: dict[str, Any] = json.loads(json.dumps({**mapping}))
    return plain
