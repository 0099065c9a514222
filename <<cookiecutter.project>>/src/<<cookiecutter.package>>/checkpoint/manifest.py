"""The documents of a checkpoint: JSON that carries its own checksum."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from math import prod
from typing import Any

import torch

from ..errors import Failure, InputError
from .faults import Broken
from .state import DTYPES

VERSION = 1
MANIFEST = "checkpoint.json"


@dataclass(frozen=True)
class FileRecord:
    """A file as it was written. `size` in bytes."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """What makes a checkpoint visible: there is one once all files are there."""

    step: int
    world: int
    progress: dict[str, Any]
    identity: dict[str, Any]
    files: tuple[FileRecord, ...]
    version: int = VERSION


@dataclass(frozen=True)
class Located:
    """A piece of a tensor: it fills `shape` from byte `begin` of `file`."""

    file: str
    begin: int
    offset: tuple[int, ...]
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Saved:
    """A tensor of a checkpoint, wherever its pieces lie."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    pieces: tuple[Located, ...]


def seal(content: Mapping[str, Any]) -> bytes:
    """The document's bytes, the checksum of its content inside."""
    body = json.dumps(content, separators=(",", ":"), sort_keys=True).encode()
    return b'{"content":%b,"sha256":"%b"}\n' % (body, hashlib.sha256(body).hexdigest().encode())


def unseal(raw: bytes, file: str) -> dict[str, Any]:
    """The content of a sealed document; Broken when a single bit of it is another."""
    try:
        content: dict[str, Any] = json.loads(raw)["content"]
        if seal(content) == raw:
            return content
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise Broken(file, "is no document of a checkpoint, or cut short") from None
    raise Broken(file, "does not match its own checksum")


def encode(manifest: Manifest) -> bytes:
    return seal(asdict(manifest))


def decode(raw: bytes, file: str) -> Manifest:
    content = unseal(raw, file)
    if content.get("version") != VERSION:
        raise InputError(
            f"the checkpoint is of format {content.get('version')}, this program reads {VERSION}",
            file,
            "run the version of the project that wrote it, or give [run] name another name",
        )
    files = tuple(FileRecord(**record) for record in content.pop("files"))
    return Manifest(**content, files=files)


def differences(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> list[str]:
    """One line for each key whose values differ, nested keys joined by dots."""
    left, right = dict(_flat(theirs)), dict(_flat(ours))
    lines = []
    for key in sorted(left.keys() | right.keys()):
        a, b = left.get(key, "nothing"), right.get(key, "nothing")
        if a != b:
            lines.append(f"{key}: {a} in the checkpoint, {b} in this run")
    return lines


def _flat(tree: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, str]]:
    for key, value in tree.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", json.dumps(value)


def merge(indices: Iterable[dict[str, Any]]) -> dict[str, Saved]:
    """The tensors that all shards hold together; Failure when they do not make wholes."""
    tensors: dict[str, Saved] = {}
    for index in indices:
        for name, found in _of_parts(index["parts"]):
            known = tensors.get(name, found)
            if (known.dtype, known.shape) != (found.dtype, found.shape):
                raise _no_whole(f"the ranks disagree about the dtype or shape of {name}")
            before = known.pieces if name in tensors else ()
            tensors[name] = Saved(found.dtype, found.shape, before + found.pieces)
    for name, saved in tensors.items():
        _check_cover(name, saved)
    return tensors


def _of_parts(parts: Iterable[dict[str, Any]]) -> Iterator[tuple[str, Saved]]:
    for part in parts:
        for name, entry in part["tensors"].items():
            yield name, _saved(entry, part["file"]["name"])


def _saved(entry: dict[str, Any], file: str) -> Saved:
    pieces = tuple(
        Located(file, piece["begin"], tuple(piece["offset"]), tuple(piece["shape"]))
        for piece in entry["pieces"]
    )
    return Saved(DTYPES[entry["dtype"]], tuple(entry["shape"]), pieces)


def _check_cover(name: str, saved: Saved) -> None:
    full = [piece for piece in saved.pieces if prod(piece.shape)]
    held = sum(prod(piece.shape) for piece in full)
    if held != prod(saved.shape) or len({piece.offset for piece in full}) != len(full):
        raise _no_whole(
            f"the pieces of {name} hold {held} elements, the whole has {prod(saved.shape)}"
        )


def _no_whole(what: str) -> Failure:
    return Failure(
        what,
        "the state that was given to save()",
        "this is a fault of the program, not of the storage: every element of every tensor must be "
        "in exactly one rank's pieces",
    )
