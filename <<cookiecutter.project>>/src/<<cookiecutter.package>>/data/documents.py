"""The input: which files it is, and the documents in them.

A text file is one document. JSON Lines (.jsonl, .ndjson, .json) and Parquet hold one a row, in one
field. All but Parquet may be gzipped. Documents without text are passed over.
"""

from __future__ import annotations

import glob
import gzip
import json
import sysconfig
import zlib
from collections.abc import Iterable, Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import InputError
from .storage import Place, locate, storage_faults

STDLIB = "stdlib"
# Tests are no typical Python, and some hold broken encodings on purpose.
_NOT_STDLIB = {"site-packages", "dist-packages", "test", "tests", "idle_test", "__pycache__"}
_JSON_LINES = (".jsonl", ".ndjson", ".json")
_PARQUET = (".parquet", ".pq")
_PARQUET_ROWS = 1024
_BROKEN_GZIP = (EOFError, gzip.BadGzipFile, zlib.error)
_ABSENT = (FileNotFoundError, IsADirectoryError, NotADirectoryError)


class InputFile(NamedTuple):
    """`size` in bytes as it is stored; 0 where the storage does not tell."""

    url: str
    size: int


def list_input(spec: str) -> list[InputFile]:
    """The files of a path, directory, glob or URL, or of `stdlib`, sorted by path.

    Raises InputError where there are none, Refused where they may not be listed.
    """
    files = _stdlib() if spec == STDLIB else _find(locate(spec))
    if not files:
        remedy = "correct [data] input: a file, a directory, a glob or a URL"
        raise InputError("there is no input file", spec, remedy)
    return files


def _stdlib() -> list[InputFile]:
    root = Path(sysconfig.get_paths()["stdlib"])
    found = (path.relative_to(root) for path in root.rglob("*.py"))
    kept = sorted(path.as_posix() for path in found if not _NOT_STDLIB.intersection(path.parts))
    return [InputFile(str(root / path), (root / path).stat().st_size) for path in kept]


def _find(place: Place) -> list[InputFile]:
    with storage_faults("list it", place.url):
        entries = _entries(place)
    named = [part for part in place.path.split("/") if part.startswith(".")]
    return [
        InputFile(Place(place.fs, path).url, int(entry.get("size") or 0))
        for path, entry in sorted(entries.items())
        if entry["type"] == "file" and not _hidden(path, named)
    ]


def _entries(place: Place) -> dict[str, Any]:
    fs, path = place
    try:
        if fs.isfile(path):
            return {path: fs.info(path)}
        # A path that exists may still look like a pattern: data[1]/
        if glob.has_magic(path) and not fs.exists(path):
            return dict(fs.glob(path, detail=True))
        return dict(fs.find(path, detail=True))
    except _ABSENT:
        return {}


def _hidden(path: str, named: list[str]) -> bool:
    """.git, .DS_Store, .ipynb_checkpoints: nobody means these by naming the directory around."""
    parts = (part for part in path.split("/") if part.startswith("."))
    return any(not any(fnmatch(part, name) for name in named) for part in parts)


def read_documents(url: str, text_field: str) -> Iterator[str]:
    """The texts of one file, in its order.

    Raises InputError for broken content (file, and line, row or byte), Refused where the file may
    not be read.
    """
    with storage_faults("read the input file", url):
        try:
            yield from filter(None, _texts(locate(url), url, text_field))
        except _ABSENT as error:
            remedy = "the workers must see the same files as this machine: use storage all share"
            raise InputError("the input file is not there", url, remedy) from error
        except _BROKEN_GZIP as error:
            what = f"the gzip file is truncated or broken: {error}"
            raise InputError(what, url, "fetch or pack the file again") from error


def _texts(place: Place, url: str, text_field: str) -> Iterator[str]:
    name = place.name.removesuffix(".gz")
    with place.fs.open(place.path, "rb") as file:
        if name.endswith(_PARQUET):
            yield from _parquet(file, url, text_field)
            return
        content = _unpacked(file) if place.name.endswith(".gz") else file
        if name.endswith(_JSON_LINES):
            yield from _json_lines(content, url, text_field)
        else:
            yield _decode(content.read(), url, 0).removeprefix("\ufeff")


def _unpacked(file: Any) -> gzip.GzipFile:
    # gzip takes no bytes at all for an empty archive.
    if not file.read(1):
        raise EOFError("it has no bytes")
    file.seek(0)
    return gzip.GzipFile(fileobj=file)


def _decode(content: bytes, url: str, offset: int) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        byte = offset + error.start
        what = f"byte {byte:,} (0x{content[error.start]:02x}) is not UTF-8"
        remedy = "convert it (iconv -t UTF-8), or keep it out of [data] input with a glob"
        raise InputError(what, f"{url}, byte {byte}", remedy) from error


def _json_lines(file: Iterable[bytes], url: str, text_field: str) -> Iterator[str]:
    offset = 0
    for number, line in enumerate(file, start=1):
        text = _decode(line, url, offset)
        offset += len(line)
        if number == 1:
            text = text.removeprefix("\ufeff")
        if text.strip():
            yield _json_text(text, f"{url}, line {number}", text_field)


def _json_text(line: str, where: str, text_field: str) -> str:
    remedy = "mend this line; every line is one JSON object"
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(f"the line is not JSON: {error}", where, remedy) from error
    if not isinstance(record, dict):
        raise InputError(f"the line holds a {type(record).__name__}", where, remedy)
    if text_field not in record:
        raise _no_field(text_field, record, where)
    text = record[text_field]
    if text is not None and not isinstance(text, str):
        what = f"the field {text_field!r} holds a {type(text).__name__}, not text"
        raise InputError(what, where, "name the field with the text in [data] text_field")
    try:
        (text or "").encode()
    except UnicodeEncodeError as error:
        raise InputError(f"half of a surrogate pair: {error}", where, remedy) from error
    return text or ""


def _no_field(text_field: str, fields: Iterable[str], where: str) -> InputError:
    there = ", ".join(sorted(fields)) or "none"
    remedy = f"set [data] text_field to one of the fields there are: {there}"
    return InputError(f"there is no field {text_field!r}", where, remedy)


def _parquet(file: Any, url: str, text_field: str) -> Iterator[str]:
    import pyarrow
    import pyarrow.parquet

    row = 0
    try:
        table = pyarrow.parquet.ParquetFile(file)
        _check_column(table.schema_arrow, url, text_field)
        for batch in table.iter_batches(_PARQUET_ROWS, columns=[text_field]):
            yield from (text or "" for text in batch.column(0).to_pylist())
            row += batch.num_rows
    except UnicodeDecodeError as error:
        where = f"{url}, rows {row} to {row + _PARQUET_ROWS}"
        raise InputError(f"a text is not UTF-8: {error}", where, "write the file again") from error
    except (pyarrow.ArrowException, OSError) as error:
        what = f"the Parquet file is truncated or broken: {error}"
        raise InputError(what, url, "fetch or write the file again") from error


def _check_column(schema: Any, url: str, text_field: str) -> None:
    import pyarrow.types as types

    if text_field not in schema.names:
        raise _no_field(text_field, schema.names, url)
    kind = schema.field(text_field).type
    value = kind.value_type if types.is_dictionary(kind) else kind
    if not (types.is_string(value) or types.is_large_string(value) or types.is_string_view(value)):
        what = f"the column {text_field!r} holds {kind}, not text"
        raise InputError(what, url, "name the column with the text in [data] text_field")
