"""Which checkpoint a run goes on from: all ranks come to the same answer."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import Any

from ..errors import InputError
from .faults import Broken
from .files import Files
from .manifest import Manifest, Saved, differences
from .ranks import from_rank_0, together
from .reader import Checkpoint
from .state import Group
from .verify import read_manifest, verify

log = logging.getLogger(__name__)


def first_whole(
    files: Files, group: Group, identity: dict[str, Any], folders: Sequence[str]
) -> tuple[Checkpoint | None, list[str]]:
    """The first checkpoint whose files are whole, and the broken ones before it."""
    broken: list[str] = []
    for folder in folders:
        checkpoint = _open(files, group, identity, folder)
        if checkpoint is not None:
            return checkpoint, broken
        broken.append(folder)
    return None, broken


def _open(files: Files, group: Group, identity: dict[str, Any], folder: str) -> Checkpoint | None:
    """None, on all ranks alike, when one of them finds a file broken."""
    url = files.url(folder)
    manifest = from_rank_0(group, url, partial(_manifest, files, folder, identity))
    if manifest is None:
        return None
    tensors = together(group, url, partial(_tensors, files, folder, manifest, group))
    whole = group.agree(tensors is not None)
    if tensors is None or not whole:
        return None
    return Checkpoint(manifest.step, manifest.progress, url, files, folder, tensors)


def _manifest(files: Files, folder: str, identity: dict[str, Any]) -> Manifest | None:
    try:
        manifest = read_manifest(files, folder)
    except Broken as broken:
        log.warning("checkpoint skipped: %s", broken)
        return None
    lines = differences(manifest.identity, identity)
    if lines:
        raise InputError(
            "\n    ".join(["the newest checkpoint is of another model:", *lines]),
            files.url(folder),
            "set run.toml back to the checkpoint's values, or give [run] name another name to "
            "start from step 0",
        )
    return manifest


def _tensors(
    files: Files, folder: str, manifest: Manifest, group: Group
) -> dict[str, Saved] | None:
    try:
        return verify(files, folder, manifest, group.rank, group.world)
    except Broken as broken:
        log.warning("checkpoint skipped: %s", broken)
        return None
