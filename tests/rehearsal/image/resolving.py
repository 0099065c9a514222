"""What a project's image would hold: its demands, resolved by uv as the Dockerfile has it."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

CUDA = re.compile(r"^(nvidia-|cuda|triton)")
PLATFORM = "x86_64-manylinux_2_36"
"""Debian 12's C library."""
NO_SOLUTION = 1


@cache
def resolved(project: Path, backend: str) -> dict[str, set[str]] | None:
    """Each package with those that demand it; None where the index cannot be reached.
    An empty `backend` is the default build of torch."""
    chosen = (f"--torch-backend={backend}",) if backend else ()
    command = ["uv", "pip", "compile", "--quiet", "pyproject.toml", "--extra=tpu", *chosen]
    options = ["--constraint=constraints.txt", "--python-version=3.11"]
    done = subprocess.run(
        [*command, *options, f"--python-platform={PLATFORM}"],
        cwd=project,
        capture_output=True,
        text=True,
    )
    if done.returncode == NO_SOLUTION:
        pytest.fail(f"no versions fit together:\n{done.stderr}", pytrace=False)
    return None if done.returncode else dict(_packages(done.stdout))


def _packages(text: str) -> Iterator[tuple[str, set[str]]]:
    blocks = re.split(r"^(?=\w)", text, flags=re.M)
    for block in blocks:
        name, _, comments = block.partition("==")
        if comments:
            yield name, set(re.findall(r"^    # (?:via |  )(\S+)", comments, re.M))
