"""What a Ray worker does: one unit of input files into finished shards.

The output of a unit depends on its files alone, so the shards are the same bytes however many
workers there are and whichever of them takes which unit.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import Failure
from .documents import InputFile, read_documents
from .shards import Shard, token_dtype, write_shard
from .storage import Place, locate, storage_faults
from .tokens import TokenIds, Tokenizer

_BATCH_CHARACTERS = 2**20
_SMALLEST_UNIT, _LARGEST_UNIT, _UNITS = 2**20, 2**28, 64


@dataclass(frozen=True)
class Job:
    """What all units share. `permit` is a file: when it is gone, workers write nothing more."""

    root: str
    permit: str
    tokenizer: Tokenizer
    text_field: str
    shard_tokens: int


@dataclass(frozen=True)
class Outcome:
    """What comes of a unit: shards by their part, then its end, or a fault in place of the end.

    A fault is a value here, since Ray would log it with its own stack.
    """

    unit: int
    part: int = 0
    shard: Shard | None = None
    ended: bool = False
    fault: Failure | None = None


class Stopped(BaseException):
    """The permit is gone: no fault of this run's."""


def split_units(files: list[InputFile]) -> list[list[InputFile]]:
    """Groups of whole files of about 1/64 of the input, at least 1 MiB and at most 256 MiB each.

    A function of the list alone, never of the cluster.
    """
    total = sum(file.size for file in files)
    target = min(max(total // _UNITS, _SMALLEST_UNIT), _LARGEST_UNIT)
    units: list[list[InputFile]] = [[]]
    filled = 0
    for file in files:
        if filled >= target:
            units.append([])
            filled = 0
        units[-1].append(file)
        filled += file.size
    return units


def pack_unit(row: dict[str, Any], job: Job) -> Iterator[dict[str, bytes]]:
    """Ray Data's map function: a row `{unit, urls}` in, rows of a pickled `{outcome}` out."""
    # Ray runs a task on every core already.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    for outcome in _outcomes(int(row["unit"]), list(row["urls"]), job):
        yield {"outcome": pickle.dumps(outcome)}


def _outcomes(unit: int, urls: list[str], job: Job) -> Iterator[Outcome]:
    try:
        for part, shard in enumerate(_pack(unit, urls, job)):
            yield Outcome(unit, part, shard)
        yield Outcome(unit, ended=True)
    except Stopped:
        return
    except Failure as fault:
        yield Outcome(unit, fault=fault)


def _pack(unit: int, urls: list[str], job: Job) -> Iterator[Shard]:
    root, permit = locate(job.root), locate(job.permit)
    _require(permit)
    for part, tokens in enumerate(_cut(_stream(urls, job), job.shard_tokens)):
        _require(permit)
        documents = int(np.count_nonzero(tokens == job.tokenizer.end_of_text))
        yield write_shard(root, f"{unit:05}-{part:03}", tokens, documents)


def _require(permit: Place) -> None:
    with storage_faults("look at it", permit.url):
        permit.fs.invalidate_cache()
        allowed = permit.fs.exists(permit.path)
    if not allowed:
        raise Stopped


def _stream(urls: list[str], job: Job) -> Iterator[TokenIds]:
    """Token ids of all documents, each with an end-of-text behind it."""
    dtype = np.dtype(token_dtype(job.tokenizer.vocab_size))
    end = np.array([job.tokenizer.end_of_text], dtype)
    documents = (text for url in urls for text in read_documents(url, job.text_field))
    for texts in _batches(documents):
        pieces = [piece for ids in job.tokenizer.encode_batch(texts) for piece in (ids, end)]
        # Every id is below vocab_size, for which the type was chosen.
        yield np.concatenate(pieces).astype(dtype)


def _batches(documents: Iterable[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    characters = 0
    for text in documents:
        batch.append(text)
        characters += len(text)
        if characters >= _BATCH_CHARACTERS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


def _cut(pieces: Iterable[TokenIds], length: int) -> Iterator[TokenIds]:
    """The same stream in arrays of `length` ids; the last may be shorter."""
    held: list[TokenIds] = []
    missing = length
    for piece in pieces:
        while len(piece) >= missing:
            yield np.concatenate([*held, piece[:missing]])
            piece, held, missing = piece[missing:], [], length
        held.append(piece)
        missing -= len(piece)
    if missing < length:
        yield np.concatenate(held)
