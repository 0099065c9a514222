"""What the measurements share: a generated project, roles in processes of their own, medians."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

PROJECT = Path(os.environ.get("PROJECT", "."))
PACKAGE = os.environ.get("PACKAGE", "tpu_training")


def begin(main: Callable[[], None]) -> None:
    """A measurement's main function; `--help` is its module's text, a wrong setting one message."""
    if "--help" in sys.argv:
        print(sys.modules["__main__"].__doc__)
        return
    failure = importlib.import_module(f"{PACKAGE}.errors").Failure
    try:
        main()
    except failure as fault:
        sys.exit(f"error: {fault}")


def words(folder: Path, **changed: object) -> list[str]:
    """--set words of a run under `folder`; `train_steps=5` stands for train.steps=5."""
    places = {"run.storage": folder / "runs", "data.shards": folder / "data"}
    own = {key.replace("_", ".", 1): value for key, value in changed.items()}
    return [
        word for key, value in {**places, **own}.items() for word in ("--set", f"{key}={value}")
    ]


def train(folder: Path, *options: str, **changed: object) -> dict[str, Any]:
    """The project's own command; its summary, and the seconds that the command took."""
    began = time.perf_counter()
    command = ("-m", f"{PACKAGE}.train", "--local", "--json", *options, *words(folder, **changed))
    return {**_run(*command), "command_seconds": time.perf_counter() - began}


def role(script: str, *arguments: str) -> dict[str, Any]:
    """Another process of the same script: torch_xla opens once in each."""
    return _run(script, *arguments)


def _run(*command: str) -> dict[str, Any]:
    """Runs Python; the JSON object that it prints last."""
    done = subprocess.run([sys.executable, *command], cwd=PROJECT, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr[-4000:]}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def table(title: str, rows: Sequence[tuple[str, Sequence[float], str]]) -> None:
    """Median, lowest and highest of each row's rounds."""
    print(f"\n{title}")
    for name, values, unit in rows:
        low, high = min(values), max(values)
        print(f"  {name:<44} {median(values):>12,.3f} {unit}  ({low:,.3f} to {high:,.3f})")


def ratio(name: str, value: float, bound: str) -> None:
    print(f"  {name:<44} {value:>12.3f}  (aim: {bound})")
