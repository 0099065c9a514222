"""Writing a checkpoint: each rank its shard, then rank 0 the manifest that makes it visible."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from ..errors import Failure
from .background import run_all
from .files import Files
from .folders import part_name, shard_name
from .format import Bytes, Layout
from .manifest import MANIFEST, FileRecord, Manifest, encode, merge, seal, unseal

POLL_SECONDS = (0.05, 5.0)  # first and longest pause between two looks at the storage


def write_shard(
    files: Files, folder: str, rank: int, world: int, layouts: Sequence[Layout]
) -> bytes:
    """Writes this rank's tensors, then the index of them, and returns the index's bytes."""
    parts = run_all(
        [
            partial(_write_part, files, folder, part_name(rank, world, part), layout)
            for part, layout in enumerate(layouts)
        ],
        files.at_once,
    )
    raw = seal({"parts": parts})
    files.put(f"{folder}/{shard_name(rank, world, 'json')}", raw)
    return raw


def _write_part(files: Files, folder: str, name: str, layout: Layout) -> dict[str, Any]:
    digest = hashlib.sha256()

    def blocks() -> Iterator[Bytes]:
        nonlocal digest
        digest = hashlib.sha256()  # a write that is tried again starts from the first byte
        for block in layout.blocks():
            digest.update(block)
            yield block

    files.write(f"{folder}/{name}", blocks)
    record = FileRecord(name, layout.size, digest.hexdigest())
    return {"file": asdict(record), "tensors": layout.index}


def tell_rank_0(files: Files, folder: str, rank: int, world: int, failure: Failure) -> None:
    """Leaves a word about a shard that will never come, so that rank 0 does not wait for it."""
    raw = seal({"what": failure.what, "where": failure.where, "remedy": failure.remedy})
    files.put(f"{folder}/{shard_name(rank, world, 'failed')}", raw)


def commit(
    files: Files, folder: str, manifest: Callable[..., Manifest], indices: list[bytes]
) -> int:
    """Writes the manifest over all ranks' shards; returns the bytes of the whole checkpoint."""
    world = len(indices)
    contents = []
    records = []
    for rank, raw in enumerate(indices):
        name = shard_name(rank, world, "json")
        contents.append(unseal(raw, name))
        records.append(FileRecord(name, len(raw), hashlib.sha256(raw).hexdigest()))
        records += [FileRecord(**part["file"]) for part in contents[-1]["parts"]]
    merge(contents)
    _check_sizes(files, folder, records)
    raw = encode(manifest(world=world, files=tuple(records)))
    files.put(f"{folder}/{MANIFEST}", raw)
    return sum(record.size for record in records)


def _check_sizes(files: Files, folder: str, records: list[FileRecord]) -> None:
    """A storage that lost bytes on the way is found out now, not when the checkpoint is needed."""
    there = files.sizes(folder)
    for record in records:
        if there.get(record.name) != record.size:
            raise Failure(
                f"{record.size} bytes were written, {there.get(record.name, 0)} are there",
                files.url(f"{folder}/{record.name}"),
                "look at the storage; the run can go on from the checkpoint before",
            )


def gather(files: Files, folder: str, own: bytes, world: int, patience: float) -> list[bytes]:
    """The indices of all ranks' shards, in order, once all are written. `patience` in seconds."""
    names = [shard_name(rank, world, "json") for rank in range(1, world)]
    deadline, pause = time.monotonic() + patience, POLL_SECONDS[0]
    while names:
        there = files.sizes(folder)
        missing = [name for name in names if name not in there]
        if not missing:
            break
        _look_for_failure(files, folder, there)
        if time.monotonic() > deadline:
            raise _too_late(files, folder, missing, patience)
        time.sleep(pause)
        pause = min(2 * pause, POLL_SECONDS[1])
    return [own, *files.read_all([f"{folder}/{name}" for name in names])]


def _look_for_failure(files: Files, folder: str, there: Mapping[str, Any]) -> None:
    for name in there:
        if name.endswith(".failed"):
            told = unseal(files.read_all([f"{folder}/{name}"])[0], name)
            shard = name.removesuffix(".failed")
            raise Failure(f"{shard} was not written: {told['what']}", told["where"], told["remedy"])


def _too_late(files: Files, folder: str, missing: list[str], patience: float) -> Failure:
    return Failure(
        f"the checkpoint stays incomplete: {len(missing)} shards, the first {missing[0]}, were not "
        f"written within {patience:.0f} s",
        files.url(folder),
        "look at the log of that rank; if it wrote its shard, [run] storage is a folder of each "
        "machine's own: name one that all of them share, such as a gs:// bucket",
    )
