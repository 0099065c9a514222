"""The input as workers read it: every kind of damage has its place and its reason."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from << cookiecutter.package >>.data.documents import list_input, read_documents
from << cookiecutter.package >>.errors import InputError, Refused


def read(path: Path, text_field: str = "text") -> list[str]:
    return list(read_documents(str(path), text_field))


def fault(path: Path, text_field: str = "text") -> InputError:
    with pytest.raises(InputError) as caught:
        read(path, text_field)
    assert caught.value.where.startswith(str(path))
    return caught.value


def test_gzip_is_told_when_truncated_at_any_byte(tmp_path: Path) -> None:
    for name, content in (("a.txt.gz", b"text " * 99), ("a.jsonl.gz", b'{"text": "a"}\n' * 99)):
        whole = gzip.compress(content)
        for length in range(len(whole)):
            (tmp_path / name).write_bytes(whole[:length])
            assert "gzip file is truncated" in fault(tmp_path / name).what, length
        (tmp_path / name).write_bytes(whole)
        assert read(tmp_path / name)


def test_gzip_is_told_when_damaged_or_none(tmp_path: Path) -> None:
    whole = bytearray(gzip.compress(b"text " * 99))
    whole[-6] ^= 1
    (tmp_path / "a.gz").write_bytes(whole)
    assert "CRC" in fault(tmp_path / "a.gz").what
    (tmp_path / "a.gz").write_bytes(b"plain text")
    assert "gzip" in fault(tmp_path / "a.gz").what


def test_parquet_is_told_when_truncated_at_any_byte(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": [f"row {n}" for n in range(50)]}), path)
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        assert "Parquet file is truncated or broken" in fault(path).what, length


def test_parquet_is_told_when_its_pages_are_damaged(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    table = pa.table({"text": [f"row {n}" for n in range(50)]})
    pq.write_table(table, path, write_page_checksum=True)
    whole = path.read_bytes()
    path.write_bytes(whole[:4] + bytes(len(whole) // 2) + whole[4 + len(whole) // 2 :])
    assert "Parquet file is truncated or broken" in fault(path).what


def test_parquet_text_that_is_not_utf8_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    text = pa.array([b"fine", b"caf\xe9"], pa.binary()).cast(pa.string(), safe=False)
    pq.write_table(pa.table({"text": text}), path)
    assert "not UTF-8" in fault(path).what


def test_a_json_line_that_is_cut_is_told_with_its_number(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    line = json.dumps({"text": "some text"})
    for length in range(1, len(line)):
        path.write_text(f"{line}\n\n{line[:length]}")
        found = fault(path)
        assert "not JSON" in found.what and found.where == f"{path}, line 3"


LINES = [
    ("[1]", "holds a list"),
    ('"text"', "holds a str"),
    ('{"text": 5}', "'text' holds a int, not text"),
    ('{"text": ["a"]}', "'text' holds a list, not text"),
    ('{"text": "\\ud83e"}', "half of a surrogate pair"),
    ("[" * 100_000, "not JSON"),
    ("{'text': 'a'}", "not JSON"),
    ('{"text": "a"} {"text": "b"}', "not JSON: Extra data"),
]


@pytest.mark.parametrize(("line", "what"), LINES)
def test_a_json_line_without_text_is_told(tmp_path: Path, line: str, what: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "fine"}\n' + line + "\n")
    found = fault(path)
    assert what in found.what and found.where == f"{path}, line 2"


def test_a_missing_field_is_told_with_those_there_are(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"body": "a", "title": "b"}\n')
    pq.write_table(pa.table({"body": ["a"], "title": ["b"]}), tmp_path / "a.parquet")
    for path in sorted(tmp_path.iterdir()):
        found = fault(path)
        assert "no field 'text'" in found.what
        assert "body, title" in found.remedy


def test_a_column_that_is_no_text_is_told(tmp_path: Path) -> None:
    for kind in (pa.int64(), pa.binary()):
        pq.write_table(pa.table({"text": pa.array([], kind)}), tmp_path / "a.parquet")
        assert str(kind) in fault(tmp_path / "a.parquet").what


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl", "a.txt.gz", "a.jsonl.gz"])
def test_text_that_is_not_utf8_is_told_with_its_byte(tmp_path: Path, name: str) -> None:
    lines = '{"text": "fine ☕"}\n'.encode()
    content = lines + b'{"text": "caf\xe9"}\n'
    offset = len(lines) + len(b'{"text": "caf')
    path = tmp_path / name
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    found = fault(path)
    assert f"byte {offset} (0xe9) is not UTF-8" in found.what
    assert found.where == f"{path}, byte {offset}"


def test_a_file_that_is_gone_is_told(tmp_path: Path) -> None:
    assert "not there" in fault(tmp_path / "none.txt").what


def test_a_file_that_cannot_be_read_is_told() -> None:
    with pytest.raises(Refused, match="cannot read the input file") as caught:
        read(Path("/proc/self/mem"))
    assert caught.value.where == "/proc/self/mem"


@pytest.mark.parametrize("spec", ["none", "none/", "none/*.txt", "*.txt", "", "."])
def test_no_file_is_told(tmp_path: Path, spec: str) -> None:
    (tmp_path / ".hidden").write_text("a")
    with pytest.raises(InputError, match="no input file"):
        list_input(f"{tmp_path}/{spec}")


def test_files_are_listed_in_the_same_order_everywhere(tmp_path: Path) -> None:
    for name in ("b.txt", "a/z.txt", "a.txt", "B.txt", "a-/x.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    found = [Path(file.url).relative_to(tmp_path).as_posix() for file in list_input(str(tmp_path))]
    assert found == ["B.txt", "a-/x.txt", "a.txt", "a/z.txt", "b.txt"]
    assert [file.size for file in list_input(str(tmp_path))] == [len(name) for name in found]


def test_a_hidden_file_that_is_named_is_read(tmp_path: Path) -> None:
    (tmp_path / ".corpus").mkdir()
    (tmp_path / ".corpus" / "a.txt").write_text("a")
    (tmp_path / ".corpus" / ".b.txt").write_text("b")
    assert [Path(file.url).name for file in list_input(f"{tmp_path}/.corpus")] == ["a.txt"]
    assert [Path(file.url).name for file in list_input(f"{tmp_path}/.c*/.*")] == [".b.txt"]
