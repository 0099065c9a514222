"""The format of prepared data: files of token ids, and an index that is written last.

A directory of shards holds `tokens-UNIT-PART-HASH.bin` files, little-endian unsigned integers with
nothing around them, and `index.json`. Where there is no index, nothing is prepared. A shard is
named after its content, so that writing it again changes nothing and new shards never touch old
ones.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ..errors import InputError
from .storage import Place, listing, locate, read_bytes, write_atomic
from .tokens import TokenIds

INDEX = "index.json"
FORMAT = "token-shards"
VERSION = 1
SHARD_NAME = re.compile(r"tokens-\d{5,}-\d{3,}-[0-9a-f]{12}\.bin")
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Shard:
    """`documents` counts those that end in it; `sha256` is of the file's bytes."""

    name: str
    tokens: int
    documents: int
    sha256: str


@dataclass(frozen=True)
class Index:
    """What a directory of shards holds; `source` is what it was made from, and how."""

    root: str
    tokenizer: str
    vocab_size: int
    end_of_text: int
    dtype: str
    source: Mapping[str, str | int]
    shards: tuple[Shard, ...]

    @property
    def tokens(self) -> int:
        return sum(shard.tokens for shard in self.shards)

    @property
    def documents(self) -> int:
        return sum(shard.documents for shard in self.shards)

    def size(self, shard: Shard) -> int:
        """Bytes of a shard's file."""
        return shard.tokens * np.dtype(self.dtype).itemsize

    def place(self, shard: Shard) -> Place:
        return locate(self.root) / shard.name


def token_dtype(vocab_size: int) -> str:
    """The smallest type that holds every id."""
    return "uint16" if vocab_size <= 2**16 else "uint32"


def write_shard(root: Place, number: str, tokens: TokenIds, documents: int) -> Shard:
    """Writes one shard, `number` being its UNIT-PART. Raises Refused; then nothing is left."""
    content = tokens.astype(tokens.dtype.newbyteorder("<"), copy=False).tobytes()
    sha256 = hashlib.sha256(content).hexdigest()
    shard = Shard(f"tokens-{number}-{sha256[:12]}.bin", len(tokens), documents, sha256)
    write_atomic(root / shard.name, content)
    return shard


def write_index(index: Index) -> None:
    """Makes the shards visible, at once and whole. Raises Refused."""
    record = {
        "format": FORMAT,
        "version": VERSION,
        "tokenizer": index.tokenizer,
        "vocab_size": index.vocab_size,
        "end_of_text": index.end_of_text,
        "dtype": index.dtype,
        "tokens": index.tokens,
        "documents": index.documents,
        "source": dict(index.source),
        "shards": [asdict(shard) for shard in index.shards],
    }
    write_atomic(locate(index.root) / INDEX, (json.dumps(record, indent=1) + "\n").encode())


def read_index(root: str) -> Index:
    """The index of a directory of shards.

    Raises InputError where it is missing, truncated or foreign, Refused where it may not be read.
    """
    place = locate(root) / INDEX
    content = read_bytes(place)
    if content is None:
        remedy = "run prepare, or correct [data] shards in run.toml"
        raise InputError("no prepared data: there is no index", place.url, remedy)
    try:
        return _parse(root, json.loads(content))
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        remedy = "run prepare with --overwrite, or name another place in [data] shards"
        reason = f"no {error} in it" if isinstance(error, KeyError) else error
        what = f"the index of the shards is broken or of another program: {reason}"
        raise InputError(what, place.url, remedy) from error


def _typed(record: Any, key: str, kind: type) -> Any:
    if not isinstance(record, dict):
        raise TypeError("an object is expected")
    value = record[key]
    if type(value) is not kind or (isinstance(value, int) and value < 0):
        raise TypeError(f"{key} is {value!r}")
    return value


def _expect(record: Any, key: str, expected: str | int) -> None:
    if (found := _typed(record, key, type(expected))) != expected:
        raise ValueError(f"{key} is {found!r}, not {expected!r}")


def _parse(root: str, record: Any) -> Index:
    _expect(record, "format", FORMAT)
    _expect(record, "version", VERSION)
    index = Index(
        root=root,
        tokenizer=_typed(record, "tokenizer", str),
        vocab_size=_typed(record, "vocab_size", int),
        end_of_text=_typed(record, "end_of_text", int),
        dtype=_typed(record, "dtype", str),
        source=_typed(record, "source", dict),
        shards=tuple(_parse_shard(shard) for shard in _typed(record, "shards", list)),
    )
    _expect(record, "dtype", token_dtype(index.vocab_size))
    _expect(record, "tokens", index.tokens)
    _expect(record, "documents", index.documents)
    return index


def _parse_shard(record: Any) -> Shard:
    shard = Shard(
        name=_typed(record, "name", str),
        tokens=_typed(record, "tokens", int),
        documents=_typed(record, "documents", int),
        sha256=_typed(record, "sha256", str),
    )
    # A name is joined to a path: it must not lead out of the directory.
    if not SHARD_NAME.fullmatch(shard.name) or not _SHA256.fullmatch(shard.sha256):
        raise ValueError(f"a shard is called {shard.name!r}, its sha256 {shard.sha256!r}")
    return shard


def check_sizes(index: Index) -> None:
    """One listing that finds every missing and every truncated shard. Raises InputError."""
    found = listing(locate(index.root))
    for shard in index.shards:
        size, expected = found.get(shard.name), index.size(shard)
        if size == expected:
            continue
        state = "is missing" if size is None else f"has {size:,} bytes, not {expected:,}"
        remedy = "run prepare again: it writes the shards anew"
        raise InputError(f"the shard {shard.name} {state}", index.root, remedy)
