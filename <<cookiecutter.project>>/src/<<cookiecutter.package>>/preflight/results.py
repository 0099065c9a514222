"""Figures that were made before, kept beside the compiler for all projects."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from . import environment
from .figures import Figures, from_json, to_json


def remembered(name: str, make: Callable[[], Figures], fresh: bool = False) -> Figures:
    """Those kept under this name, or those that `make` gives; `fresh` looks at nothing kept."""
    file = environment.cache() / "results" / f"{name}.json"
    if not fresh and (kept := _kept(file)):
        return kept
    found = make()
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(f".{os.getpid()}")
    part.write_text(to_json(found), encoding="utf-8")
    part.replace(file)
    return found


def _kept(file: Path) -> Figures | None:
    """None where the file is not there or was cut short."""
    try:
        return from_json(file.read_text("utf-8"))
    except (OSError, ValueError, KeyError, TypeError):
        return None
