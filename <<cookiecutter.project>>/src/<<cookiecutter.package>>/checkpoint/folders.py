"""The folders of the checkpoints: which are complete, which go."""

from __future__ import annotations

import logging
import re

from .files import Files
from .manifest import MANIFEST

log = logging.getLogger(__name__)

FOLDER = re.compile(r"step-(\d{8,})-[0-9a-f]{8}")
PROBE = re.compile(r"probe-[0-9a-f]{8}-\d+(\.tmp)?")


def folder_name(step: int, attempt: str) -> str:
    """The attempt is in the name, so that what a killed one left never mixes with a new one."""
    return f"step-{step:08d}-{attempt}"


def shard_name(rank: int, world: int, suffix: str) -> str:
    return f"shard-{rank:05d}-of-{world:05d}.{suffix}"


def part_name(rank: int, world: int, part: int) -> str:
    return shard_name(rank, world, f"{part:03d}.safetensors")


def tidy(files: Files) -> list[str]:
    """The complete checkpoints, oldest first. What killed runs left unfinished is removed.

    A folder or file of any other name is not ours and stays.
    """
    ours = sorted(filter(FOLDER.fullmatch, files.folders()), key=_step)
    complete = [folder for folder in ours if MANIFEST in files.sizes(folder)]
    try:
        for folder in ours:
            if folder not in complete:
                clear(files, folder)
        for name in filter(PROBE.fullmatch, files.sizes("")):
            files.remove(name)
    except Exception as error:  # it costs room, not the run
        log.warning("could not remove what a killed run left: %s", error)
    return complete


def clear(files: Files, folder: str) -> None:
    """Removes a checkpoint, its manifest first: half removed, it is not there any more."""
    files.remove(f"{folder}/{MANIFEST}")
    files.remove_folder(folder)


def _step(folder: str) -> tuple[int, str]:
    match = FOLDER.fullmatch(folder)
    return (int(match[1]) if match else -1, folder)
