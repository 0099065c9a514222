"""The image that the Dockerfile starts from: the real one, or Debian's own Python in its place."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from pathlib import Path

import pytest

PACKAGES = "python3,python3-venv,ca-certificates"
PATIENCE_SECONDS = 1800


def wanted(project: Path) -> str:
    """What the Dockerfile names, like docker.io/library/python:3.11-slim-bookworm."""
    found = re.search(r"^ARG BASE=(\S+)$", (project / "Dockerfile").read_text("utf-8"), re.M)
    assert found, "the Dockerfile names no base"
    return found[1]


def debian(name: str) -> Path:
    """A tar file of the same suite and Python as `name`; made once, kept beside the checkout's."""
    found = re.fullmatch(r".*:(?P<python>[\d.]+)-slim-(?P<suite>\w+)", name)
    assert found, f"{name} names no Debian suite that debootstrap could make"
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ray-tpu-template"
    kept = home / f"base-{found['suite']}-python{found['python']}-{os.uname().machine}.tar"
    if not kept.exists():
        home.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="base-", dir=home) as place:
            _pack(_bootstrap(Path(place), found["suite"], found["python"]), kept)
    return kept


def _bootstrap(place: Path, suite: str, python: str) -> Path:
    root = place / "root"
    words = ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", suite, str(root)]
    _checked(words, "install debootstrap, and run the session as root")
    told = _checked(["chroot", str(root), "python3", "--version"], "")
    if not told.startswith(f"Python {python}."):
        pytest.fail(f"Debian {suite} has {told.strip()}, the Dockerfile wants {python}", False)
    return root


def _checked(words: list[str], remedy: str) -> str:
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    except OSError as error:
        pytest.fail(f"{words[0]} cannot be run: {error.strerror}; {remedy}", False)
    if done.returncode:
        pytest.fail(
            f"{words[0]} ended with {done.returncode}; {remedy}\n{done.stdout[-2000:]}", False
        )
    return done.stdout


def _pack(root: Path, kept: Path) -> None:
    part = kept.with_name(f"{kept.name}.{os.getpid()}")
    _checked(["tar", "-cf", str(part), "-C", str(root), "."], "is the disk full?")
    part.rename(kept)
