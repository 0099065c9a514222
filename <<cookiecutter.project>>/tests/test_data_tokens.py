"""Tokenizers: bytes, and the tokenizer.json of Hugging Face."""

from __future__ import annotations

import hashlib
import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from << cookiecutter.package >>.data import load_tokenizer
from << cookiecutter.package >>.errors import InputError

TEXTS = ["def f(x):\n    return x\n", "naïve café ☕ 🦉", "a<|endoftext|>b", " "]


def train_tokenizer(path: Path, end: str = "<|endoftext|>") -> Tokenizer:
    """A byte-level BPE, as GPT-2's, of 300 tokens."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=300, special_tokens=[end], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(["def return import self " * 50], trainer)
    tokenizer.save(str(path))
    return tokenizer


def test_bytes_are_the_utf8_of_the_text() -> None:
    tokenizer = load_tokenizer("bytes")
    for text, ids in zip(TEXTS, tokenizer.encode_batch(TEXTS), strict=True):
        assert bytes(ids.tolist()).decode() == text
    assert (tokenizer.name, tokenizer.vocab_size, tokenizer.end_of_text) == ("bytes", 257, 256)


def test_a_file_encodes_as_the_library_does(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    made = train_tokenizer(path)
    tokenizer = load_tokenizer(str(path))
    for text, ids in zip(TEXTS[:2], tokenizer.encode_batch(TEXTS[:2]), strict=True):
        assert ids.tolist() == made.encode(text).ids
    assert tokenizer.vocab_size == made.get_vocab_size()
    assert tokenizer.end_of_text == made.token_to_id("<|endoftext|>")


def test_the_name_tells_the_content(tmp_path: Path) -> None:
    paths = [tmp_path / "a.json", tmp_path / "b.json"]
    train_tokenizer(paths[0])
    train_tokenizer(paths[1], "</s>")
    names = [load_tokenizer(str(path)).name for path in paths]
    for path, name in zip(paths, names, strict=True):
        assert hashlib.sha256(path.read_bytes()).hexdigest() in name
    assert len(set(names)) == 2


def test_a_marker_in_a_text_ends_no_document(tmp_path: Path) -> None:
    train_tokenizer(tmp_path / "tokenizer.json")
    tokenizer = load_tokenizer(str(tmp_path / "tokenizer.json"))
    (ids,) = tokenizer.encode_batch(["a<|endoftext|>b"])
    assert tokenizer.end_of_text not in ids.tolist()
    assert len(ids) > 3


def test_no_text_is_cut_or_padded(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    made = train_tokenizer(path)
    lengths = [len(made.encode(text).ids) for text in TEXTS[:2]]
    made.enable_truncation(4)
    made.enable_padding(length=100)
    made.save(str(path))
    found = [len(ids) for ids in load_tokenizer(str(path)).encode_batch(TEXTS[:2])]
    assert found == lengths


def test_it_reaches_a_worker_without_the_file(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    train_tokenizer(path)
    tokenizer = load_tokenizer(str(path))
    path.unlink()
    copy = pickle.loads(pickle.dumps(tokenizer))
    assert copy.name == tokenizer.name
    assert np.array_equal(copy.encode_batch(["self"])[0], tokenizer.encode_batch(["self"])[0])


def test_a_truncated_file_is_told_at_every_length(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    train_tokenizer(path)
    whole = path.read_bytes()
    for length in range(0, len(whole), 199):
        path.write_bytes(whole[:length])
        with pytest.raises(InputError, match="no tokenizer") as caught:
            load_tokenizer(str(path))
        assert caught.value.where == str(path)


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such tokenizer file"):
        load_tokenizer(str(tmp_path / "none.json"))
    with pytest.raises(InputError, match="no such tokenizer file"):
        load_tokenizer(str(tmp_path))


def test_a_tokenizer_without_an_end_is_told(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    train_tokenizer(path, "[MASK]")
    with pytest.raises(InputError, match="no end-of-text") as caught:
        load_tokenizer(str(path))
    assert "</s>" in caught.value.remedy


def test_ids_with_gaps_count_up_to_the_largest(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    train_tokenizer(path)
    record = json.loads(path.read_text())
    vocab = record["model"]["vocab"]
    vocab[max(vocab, key=vocab.get)] = 70_000
    path.write_text(json.dumps(record))
    assert load_tokenizer(str(path)).vocab_size == 70_001


def test_an_unknown_storage_is_told() -> None:
    with pytest.raises(InputError, match="cannot be used"):
        load_tokenizer("nosuch://bucket/tokenizer.json")
