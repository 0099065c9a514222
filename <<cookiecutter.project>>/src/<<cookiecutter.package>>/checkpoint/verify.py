"""Whether a checkpoint is, byte for byte, what was written."""

from __future__ import annotations

import hashlib
from typing import Any

from .faults import Broken
from .files import Files
from .manifest import MANIFEST, FileRecord, Manifest, Saved, decode, merge, unseal


def read_manifest(files: Files, folder: str) -> Manifest:
    """Broken when it is damaged; InputError when another version of the format wrote it."""
    name = f"{folder}/{MANIFEST}"
    try:
        raw = files.read_all([name])[0]
    except FileNotFoundError:
        raise Broken(files.url(name), "is missing") from None
    return decode(raw, files.url(name))


def verify(
    files: Files, folder: str, manifest: Manifest, rank: int, world: int
) -> dict[str, Saved]:
    """The tensors of a checkpoint; Broken when a file is not as the manifest says.

    Presence, sizes and indices are checked by every rank, the contents of the shards by turns.
    """
    there = files.sizes(folder)
    for record in manifest.files:
        if record.name not in there:
            raise Broken(files.url(f"{folder}/{record.name}"), "is missing")
        if there[record.name] != record.size:
            size = f"has {there[record.name]} bytes instead of {record.size}"
            raise Broken(files.url(f"{folder}/{record.name}"), size)
    indices = [record for record in manifest.files if record.name.endswith(".json")]
    shards = [record for record in manifest.files if not record.name.endswith(".json")]
    tensors = _merged(files, folder, indices)
    for record in shards[rank::world]:
        name = f"{folder}/{record.name}"
        if files.digest(name, record.size) != record.sha256:
            raise Broken(files.url(name), "does not match its checksum")
    return tensors


def _merged(files: Files, folder: str, records: list[FileRecord]) -> dict[str, Saved]:
    contents: list[dict[str, Any]] = []
    raws = files.read_all([f"{folder}/{record.name}" for record in records])
    for record, raw in zip(records, raws, strict=True):
        url = files.url(f"{folder}/{record.name}")
        if hashlib.sha256(raw).hexdigest() != record.sha256:
            raise Broken(url, "does not match its checksum")
        contents.append(unseal(raw, url))
    return merge(contents)
