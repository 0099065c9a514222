"""Tokenizers: text to token ids."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from .storage import locate, read_bytes

# What well-known tokenizers call the token between two documents; the first one present is taken.
END_OF_TEXT_NAMES = (
    "<|endoftext|>",
    "<|end_of_text|>",
    "<eos>",
    "</s>",
    "<\uff5cend\u2581of\u2581sentence\uff5c>",
    "<|eos|>",
    "[EOS]",
)

TokenIds = NDArray[np.unsignedinteger[Any]]


class Tokenizer(Protocol):
    """`name` says what made the ids: two tokenizers of one name give the same ids."""

    @property
    def name(self) -> str: ...
    @property
    def vocab_size(self) -> int: ...
    @property
    def end_of_text(self) -> int: ...
    def encode_batch(self, texts: Sequence[str]) -> list[TokenIds]: ...


class ByteTokenizer:
    """A token a byte of UTF-8, and 256 between documents: nothing to train, nothing to fetch."""

    name = "bytes"
    vocab_size = 257
    end_of_text = 256

    def encode_batch(self, texts: Sequence[str]) -> list[TokenIds]:
        return [np.frombuffer(text.encode(), np.uint8).astype(np.uint16) for text in texts]


class FileTokenizer:
    """A Hugging Face `tokenizer.json`.

    It travels to Ray's workers as the file's content, so that they need not see the file.
    Markers such as `<|endoftext|>` inside of a text are ordinary text: no document ends another.
    """

    def __init__(self, content: bytes, where: str) -> None:
        """`where` is named in errors. Raises InputError for a broken file."""
        self._content, self._where = content, where
        built = _build(content, where)
        self.name = f"tokenizer.json sha256:{hashlib.sha256(content).hexdigest()}"
        # The largest id, not the number of entries: ids may have gaps.
        self.vocab_size = max(built.get_vocab(with_added_tokens=True).values(), default=0) + 1
        self.end_of_text = _end_of_text(built, where)

    def __reduce__(self) -> tuple[type[FileTokenizer], tuple[bytes, str]]:
        return FileTokenizer, (self._content, self._where)

    def encode_batch(self, texts: Sequence[str]) -> list[TokenIds]:
        built = _build(self._content, self._where)
        encoded = built.encode_batch_fast(list(texts), add_special_tokens=False)
        return [np.array(encoding.ids, dtype=np.uint32) for encoding in encoded]


@lru_cache(maxsize=1)
def _build(content: bytes, where: str) -> Any:
    # One a process: a worker packs many units of input with it.
    import tokenizers

    try:
        built = tokenizers.Tokenizer.from_buffer(content)
    except Exception as error:  # the library raises bare Exception
        remedy = "name the tokenizer.json of a Hugging Face tokenizer, or fetch the file again"
        raise InputError(f"this is no tokenizer: {error}", where, remedy) from error
    # A file may hold settings meant for inference, which would silently cut or pad documents.
    built.no_truncation()
    built.no_padding()
    built.encode_special_tokens = True
    return built


def _end_of_text(built: Any, where: str) -> int:
    for name in END_OF_TEXT_NAMES:
        found = built.token_to_id(name)
        if found is not None:
            return int(found)
    known = ", ".join(END_OF_TEXT_NAMES)
    remedy = f"add one of these tokens to it: {known}"
    raise InputError("the tokenizer has no end-of-text token that is known here", where, remedy)


def load_tokenizer(spec: str) -> Tokenizer:
    """`bytes`, or the path or URL of a `tokenizer.json`.

    Raises InputError for a missing or broken file, Refused for one that may not be read.
    """
    if spec == "bytes":
        return ByteTokenizer()
    place = locate(spec)
    content = read_bytes(place)
    if content is None:
        remedy = 'set [data] tokenizer to "bytes" or to the path of a tokenizer.json'
        raise InputError("there is no such tokenizer file", place.url, remedy)
    return FileTokenizer(content, place.url)
