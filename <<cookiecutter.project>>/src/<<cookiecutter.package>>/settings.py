"""Reads run.toml and `--set`; every error names the key and what to do."""

from __future__ import annotations

import difflib
import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any, get_type_hints

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from .config import Config
from .errors import InputError, NotFound

BUILT_IN = ("stdlib", "bytes")
"""Names that stand where a path could: the default input and the default tokenizer."""

Tables = dict[str, dict[str, Any]]


def load(path: Path, overrides: Iterable[str] = (), local: bool = False) -> Config:
    """The configuration in `path`, with `overrides` (`section.key=value`) laid over it.

    `local` puts this machine in the place of the slice and the bucket. Raises InputError with all
    faults at once, NotFound where there is no file.
    """
    tables = _read(path)
    overrides = list(overrides)
    for override in overrides:
        _override(tables, override)
    if local:
        _localize(tables, path.resolve().parent)
        for override in overrides:
            _override(tables, override)
    return _absolute(build(tables, " with --set ".join([str(path), *overrides])))


def build(tables: Mapping[str, Any], where: str) -> Config:
    try:
        # JSON, because strict checking takes a table for a dataclass and a list for a tuple there.
        return TypeAdapter(Config).validate_json(json.dumps(tables, default=str))
    except ValidationError as error:
        faults = [_fault(details) for details in error.errors()]
        raise InputError(
            "\n".join(faults), where, "change these keys and run the command again"
        ) from None


def _read(path: Path) -> Tables:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise NotFound(
            f"no settings could be read: {error.strerror}",
            str(path),
            "run the command in the project's folder, or name the file with --config",
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(
            f"this is not TOML: {error}", str(path), "correct the line that is named"
        ) from None


def _override(tables: Tables, override: str) -> None:
    key, equals, text = override.partition("=")
    section, dot, name = key.strip().partition(".")
    if not (equals and dot and section and name):
        raise InputError(
            f"--set {override} is no section.key=value",
            "the command line",
            "write it like --set train.steps=500",
        )
    table = tables.setdefault(section, {})
    if not isinstance(table, dict):
        raise InputError(
            f"{section} is no table and has no key {name}",
            "run.toml",
            f"write it as [{section}], with its keys below",
        )
    table[name] = text if _is_text(section, name) else _value(text)


def _localize(tables: Tables, folder: Path) -> None:
    """One worker here: a virtual CPU device for each chip of a host, files beside run.toml."""
    hardware = build(tables, "run.toml").hardware
    here: Tables = {
        "run": {"storage": str(folder / "runs")},
        "data": {"shards": str(folder / "data" / PurePosixPath(tables["data"]["shards"]).name)},
        "hardware": {"placement": "any", "workers": 1, "slices": 1, "fsdp": 0},
    }
    if hardware.accelerator == "xla":
        here["hardware"]["virtual_devices"] = hardware.slice.devices_per_host
    else:
        here["hardware"]["accelerator"] = "cpu"
    for section, values in here.items():
        tables[section].update(values)


def _absolute(config: Config) -> Config:
    """Local paths made absolute: a worker's current folder is not that of the command."""
    run = replace(config.run, storage=_rooted(config.run.storage))
    data = config.data
    rooted = {name: _rooted(getattr(data, name)) for name in ("input", "shards", "tokenizer")}
    return replace(config, run=run, data=replace(data, **rooted))


def _rooted(path: str) -> str:
    return path if "://" in path or path in BUILT_IN else str(Path(path).absolute())


def _is_text(section: str, name: str) -> bool:
    """Whether the key holds text, so that `--set run.name=7` needs no quotes."""
    part = get_type_hints(Config).get(section)
    hint = get_type_hints(part).get(name) if is_dataclass(part) else None
    return hint is str


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _fault(details: ErrorDetails) -> str:
    key = ".".join(str(part) for part in details["loc"])
    if details["type"] == "unexpected_keyword_argument":
        return f"{key}: there is no such key{_nearest(key)}"
    if details["type"] == "missing":
        return f"{key}: this key is missing"
    if details["type"] == "value_error":
        return str(details["ctx"]["error"])
    message = details["msg"][0].lower() + details["msg"][1:]
    return f"{key} = {details['input']!r}: {message}"


def _nearest(key: str) -> str:
    known = [name for name, part in _parts()]
    known += [f"{name}.{item.name}" for name, part in _parts() for item in fields(part)]
    found = difflib.get_close_matches(key, known, n=2, cutoff=0.5)
    return f"; near to it: {' and '.join(found)}" if found else f"; keys are {', '.join(known)}"


def _parts() -> list[tuple[str, Any]]:
    return list(get_type_hints(Config).items())
