"""Figures that were made before, kept beside the compiler for all projects."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from pydantic import TypeAdapter

from . import environment
from .environment import Say
from .figures import Figures

_JSON = TypeAdapter(Figures)


def remembered(name: str, make: Callable[[], Figures], say: Say, fresh: bool = False) -> Figures:
    """Those kept under this name, or those that `make` gives; `fresh` looks at nothing kept."""
    file = environment.cache() / "results" / f"{name}.json"
    if not fresh and (kept := _kept(file)):
        return kept
    found = make()
    try:
        _keep(file, found)
    except OSError as error:
        say(f"this result cannot be kept for the next time: {error}")
    return found


def _keep(file: Path, found: Figures) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(f".{os.getpid()}")
    try:
        part.write_text(json.dumps(asdict(found)), encoding="utf-8")
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)


def _kept(file: Path) -> Figures | None:
    """None where the file is not there, was cut short or holds something else."""
    try:
        found = _JSON.validate_json(file.read_bytes())
    except (OSError, ValueError):
        return None
    whole = found.depths and found.used > 0 and (found.needed is not None or found.flops > 0)
    return found if whole else None
