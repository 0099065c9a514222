"""Checkpoints of a run: saved beside the training, visible only when complete."""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Mapping
from functools import cached_property, partial
from typing import Any

from ..errors import Failure, InputError
from .background import Background
from .faults import Broken
from .files import Files, open_files
from .folders import clear, clear_probes, survey
from .manifest import Manifest, Saved, differences
from .probe import probe
from .ranks import from_rank_0, together
from .reader import Checkpoint
from .state import JSON, Group, State, check
from .verify import read_manifest, verify
from .writer import Writer, Written

log = logging.getLogger(__name__)


class CheckpointStore:
    """The checkpoints under one root, and the one background thread that writes them.

    All ranks build it, `probe` and `restore` together. `save`, `wait` and `close` are calls of each
    rank alone; what the thread ran into is raised by the next of them. Rank 0 publishes a
    checkpoint once all ranks' shards are there, for which it waits `patience` seconds.
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
        self._attempt = group.share(secrets.token_hex(4))
        self._background = Background("checkpoint")
        self._restored = False
        self._step = self._done = -1  # of the newest save: handed over, and ended well
        self.last: Written | None = None  # the newest save of this rank that is done

    @cached_property
    def _files(self) -> Files:
        return open_files(self._root)

    @cached_property
    def _writer(self) -> Writer:
        return Writer(
            files=self._files,
            rank=self._group.rank,
            world=self._group.world,
            attempt=self._attempt,
            keep=self._keep,
            patience=self._patience,
            identity=self._identity,
        )

    def probe(self, seconds: float = 30.0) -> None:
        """Writes, reads and removes a small object on every rank; Refused when one of them cannot.

        Also proves that all ranks see the same storage. No answer within `seconds` is a refusal.
        """
        probe(lambda: self._files, self._root, self._group, self._attempt, seconds)

    def save(self, step: int, state: State, progress: Mapping[str, JSON]) -> None:
        """Hands a state to the background thread, after waiting for the save before.

        The tensors are not copied: they must stay as they are until the next `save` or `wait`
        returns. A step that is saved already is not saved again. Raises the Failure of the save
        before; ValueError for a state that cannot be written.
        """
        if not self._restored:
            raise RuntimeError("restore() comes before the first save(): it looks what is there")
        check(state)
        told = _plain(progress)
        self.wait()
        if step == self._step:
            return
        if step < self._step:
            raise ValueError(f"step {step} after step {self._step}, which is saved already")
        self._background.start(partial(self._write, step, state, told))
        self._step = step

    def wait(self) -> None:
        """Returns when nothing is under way; raises what the last save ran into."""
        try:
            self._background.wait()
        except Exception:
            self._step = self._done
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
        folders = from_rank_0(self._group, self._root, self._look)
        self._restored = True
        for folder in folders:
            checkpoint = self._open(folder)
            if checkpoint is not None:
                self._step = self._done = checkpoint.step
                return checkpoint
        if folders:
            raise Failure(
                f"all {len(folders)} checkpoints are broken; the log names the file of each",
                self._root,
                "bring the files back, or remove the folder (or give [run] name another name) to "
                "start from step 0",
            )
        return None

    def _write(self, step: int, state: State, progress: dict[str, Any]) -> None:
        written = self._writer.write(step, state, progress)
        self.last, self._done = written, step
        megabytes, seconds = written.size / 1e6, written.seconds
        log.info("step %d saved: %.0f MB in %.1f s: %s", step, megabytes, seconds, written.path)

    def _look(self) -> list[str]:
        """The complete checkpoints, newest first. What is left of killed saves goes."""
        complete, unfinished = survey(self._files)
        try:
            clear_probes(self._files)
            for folder in unfinished:
                clear(self._files, folder)
        except Exception as error:
            log.warning("could not remove what a killed run left in %s: %s", self._root, error)
        self._writer.complete, self._writer.useless = complete, []
        return complete[::-1]

    def _open(self, folder: str) -> Checkpoint | None:
        """None when a rank finds a file broken, on all ranks alike."""
        manifest = from_rank_0(self._group, self._root, partial(self._manifest, folder))
        tensors = None
        if manifest is not None:
            verdict = partial(self._verified, folder, manifest)
            tensors = together(self._group, self._files.url(folder), verdict)
        whole = self._group.agree(tensors is not None)
        if manifest is None or tensors is None or not whole:
            self._disown(folder)
            return None
        url = self._files.url(folder)
        return Checkpoint(manifest.step, manifest.progress, url, self._files, folder, tensors)

    def _manifest(self, folder: str) -> Manifest | None:
        try:
            manifest = read_manifest(self._files, folder)
        except Broken as broken:
            log.warning("checkpoint skipped: %s", broken)
            return None
        lines = differences(manifest.identity, self._identity)
        if lines:
            raise InputError(
                "\n    ".join(["the newest checkpoint is of another model:", *lines]),
                self._files.url(folder),
                "set run.toml back to the checkpoint's values, or give [run] name another name to "
                "start from step 0",
            )
        return manifest

    def _verified(self, folder: str, manifest: Manifest) -> dict[str, Saved] | None:
        rank, world = self._group.rank, self._group.world
        try:
            return verify(self._files, folder, manifest, rank, world)
        except Broken as broken:
            log.warning("checkpoint skipped: %s", broken)
            return None

    def _disown(self, folder: str) -> None:
        """A broken checkpoint no longer counts among those that are kept."""
        if self._group.rank == 0:
            self._writer.complete.remove(folder)
            self._writer.useless.append(folder)


def _plain(mapping: Mapping[str, JSON]) -> dict[str, Any]:
    """A copy, as JSON gives it back; TypeError for what JSON cannot hold."""
    plain: dict[str, Any] = json.loads(json.dumps({**mapping}))
    return plain
