"""The folders of the checkpoints: which are complete, which go."""

from __future__ import annotations

import re

from .files import Files
from .manifest import MANIFEST

FOLDER = re.compile(r"step-(\d{8,})-[0-9a-f]{8}")
PROBE = re.compile(r"probe-[0-9a-f]{8}-\d+(\.tmp)?")


def folder_name(step: int, attempt: str) -> str:
    """The attempt is in the name, so that what a killed one left never mixes with a new one."""
    return f"step-{step:08d}-{attempt}"


def shard_name(rank: int, world: int, suffix: str) -> str:
    return f"shard-{rank:05d}-of-{world:05d}.{suffix}"


def survey(files: Files) -> tuple[list[str], list[str]]:
    """The complete checkpoints, oldest first, and the folders of those that never were complete.

    A folder of any other name is not ours and in neither list.
    """
    complete: list[str] = []
    unfinished: list[str] = []
    for folder in files.folders():
        if FOLDER.fullmatch(folder):
            (complete if MANIFEST in files.sizes(folder) else unfinished).append(folder)
    return sorted(complete, key=_step), sorted(unfinished, key=_step)


def clear(files: Files, folder: str) -> None:
    """Removes a checkpoint, its manifest first: half removed, it is not there any more."""
    files.remove(f"{folder}/{MANIFEST}")
    files.remove_folder(folder)


def clear_probes(files: Files) -> None:
    for name in files.sizes(""):
        if PROBE.fullmatch(name):
            files.remove(name)


def _step(folder: str) -> tuple[int, str]:
    match = FOLDER.fullmatch(folder)
    return (int(match[1]) if match else -1, folder)
