"""How a command ends for its caller: a message and an exit code, never a traceback."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import typer

from .errors import Failure


def run_app(app: typer.Typer) -> None:
    """Runs a command line; a Failure is told in its words and becomes the exit code."""
    try:
        app()
    except Failure as failure:
        print(f"error: {failure}", file=sys.stderr, flush=True)
        sys.exit(failure.exit_code)


def show(result: dict[str, Any], as_json: bool, text: Callable[[dict[str, Any]], str]) -> None:
    print(json.dumps(result) if as_json else text(result), flush=True)
