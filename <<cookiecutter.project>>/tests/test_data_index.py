"""The index of a directory of shards: read whole, or refused with a reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from data_fixtures import make_shards

from << cookiecutter.package >>.data import read_index
from << cookiecutter.package >>.errors import InputError


def test_it_says_what_is_there(tmp_path: Path) -> None:
    make_shards(tmp_path / "s", 100, 50)
    index = read_index(str(tmp_path / "s"))
    assert (index.tokens, index.documents, index.dtype) == (150, 2, "uint32")
    assert (index.tokenizer, index.vocab_size, index.end_of_text) == ("hand-made", 100_000, 0)
    assert [shard.tokens for shard in index.shards] == [100, 50]


def test_a_missing_index_is_told(tmp_path: Path) -> None:
    for root in (tmp_path, tmp_path / "none"):
        with pytest.raises(InputError, match="there is no index") as caught:
            read_index(str(root))
        assert str(root / "index.json") in caught.value.where
        assert "run prepare" in caught.value.remedy


def test_a_truncated_index_is_told_at_every_length(tmp_path: Path) -> None:
    make_shards(tmp_path / "s", 100, 50)
    path = tmp_path / "s" / "index.json"
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(InputError, match="broken or of another program"):
            read_index(str(tmp_path / "s"))


CHANGES: list[tuple[str, Any]] = [
    ("format", "other"),
    ("version", 2),
    ("version", "1"),
    ("vocab_size", -1),
    ("vocab_size", 257.0),
    ("vocab_size", 300),
    ("dtype", "float32"),
    ("tokens", 151),
    ("documents", True),
    ("source", []),
    ("shards", {}),
    ("shards", ["tokens-00000-000-000000000000.bin"]),
    ("tokenizer", None),
]


@pytest.mark.parametrize(("key", "value"), CHANGES)
def test_a_foreign_value_is_told_by_name(tmp_path: Path, key: str, value: Any) -> None:
    make_shards(tmp_path / "s", 100, 50)
    path = tmp_path / "s" / "index.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {key: value}))
    with pytest.raises(InputError, match="broken or of another program") as caught:
        read_index(str(tmp_path / "s"))
    assert key in str(caught.value) or "dtype" in str(caught.value) or key == "shards"


def test_every_key_is_needed(tmp_path: Path) -> None:
    make_shards(tmp_path / "s", 100, 50)
    path = tmp_path / "s" / "index.json"
    whole = json.loads(path.read_text())
    for key in whole:
        path.write_text(json.dumps({k: v for k, v in whole.items() if k != key}))
        with pytest.raises(InputError, match=f"no '{key}' in it"):
            read_index(str(tmp_path / "s"))
    for key in whole["shards"][1]:
        shards = [whole["shards"][0], {k: v for k, v in whole["shards"][1].items() if k != key}]
        path.write_text(json.dumps(whole | {"shards": shards}))
        with pytest.raises(InputError, match=f"no '{key}' in it"):
            read_index(str(tmp_path / "s"))


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "tokens-0.bin", ""])
def test_a_name_cannot_lead_out_of_the_directory(tmp_path: Path, name: str) -> None:
    make_shards(tmp_path / "s", 100)
    path = tmp_path / "s" / "index.json"
    whole = json.loads(path.read_text())
    whole["shards"][0]["name"] = name
    path.write_text(json.dumps(whole))
    with pytest.raises(InputError, match="a shard is called"):
        read_index(str(tmp_path / "s"))


@pytest.mark.parametrize("content", [b"", b"null", b"[]", b"{}", b"\xff\xfe", b"[" * 100_000])
def test_other_content_is_told(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "index.json").write_bytes(content)
    with pytest.raises(InputError, match="broken or of another program"):
        read_index(str(tmp_path))
