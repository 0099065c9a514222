"""Where the TPU's compiler lives: an environment of its own, made when it is first wanted.

It takes part of no training, and no package of the project's own environment may meet its jax.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import mkdtemp

from ..errors import Refused

PACKAGES = ("jax==0.10.2", "jaxlib==0.10.2", "libtpu==0.0.52")
"""Tested together: `compiling.py` uses what jax does not promise to keep."""

INDEX = (
    f"let this machine reach a package index with {', '.join(PACKAGES)} once, "
    "or set XDG_CACHE_HOME to a folder that has it already"
)
ANOTHER = "set XDG_CACHE_HOME to a folder that can be read and written"

Say = Callable[[str], None]


def cache() -> Path:
    """Shared by all projects: the same compiler serves them."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "ray-tpu-template"


def place() -> Path:
    """Only what is whole begins with `preflight-`: CI keeps that."""
    versions = "-".join(package.replace("==", "") for package in PACKAGES)
    python = f"py{sys.version_info.major}.{sys.version_info.minor}"
    return cache() / f"preflight-{versions}-{python}"


def python(say: Say) -> Path:
    """The Python that has the compiler. Raises Refused where it cannot be installed."""
    found = place() / "bin" / "python"
    try:
        there = found.exists()
    except OSError as error:
        raise _refused(f"{error.strerror}", str(place()), ANOTHER) from None
    if not there:
        # Where the Python that it was made with has gone, its link leads nowhere.
        shutil.rmtree(place(), ignore_errors=True)
        say(f"installing {', '.join(PACKAGES)} (once, about a gigabyte, into {place()})")
        _make(place())
    return found


def check() -> None:
    """After a compilation that broke off. Raises Refused where the environment is at fault."""
    probe = [str(place() / "bin" / "python"), "-c", "import jax, jaxlib, libtpu"]
    done = subprocess.run(probe, capture_output=True, text=True)  # noqa: S603
    if done.returncode:
        said = done.stderr.strip().splitlines() or ["it says nothing"]
        raise Refused(
            f"the TPU's compiler is no longer whole: {said[-1]}",
            str(place()),
            "remove that folder and run the command again: it is installed anew",
        )


def _make(target: Path) -> None:
    """All or nothing: what is there under its name is complete, whoever made it."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        part = Path(mkdtemp(prefix=f"part-{target.name}-", dir=target.parent))
    except OSError as error:
        raise _refused(f"{error.strerror}", str(target.parent), ANOTHER) from None
    try:
        for command in _commands(part):
            _run(command, target)
        # A temporary folder is closed to others: who shares this one shall find it.
        part.chmod(0o755)
        part.rename(target)
    except OSError as error:
        # Another process that made the same one at the same time is no fault.
        if not (target / "bin" / "python").exists():
            raise _refused(str(error), str(target), ANOTHER) from None
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _commands(folder: Path) -> list[list[str]]:
    inside = str(folder / "bin" / "python")
    if uv := shutil.which("uv"):
        return [
            [uv, "venv", "--quiet", "--allow-existing", "--python", sys.executable, str(folder)],
            [uv, "pip", "install", "--quiet", "--python", inside, *PACKAGES],
        ]
    return [
        [sys.executable, "-m", "venv", str(folder)],
        [inside, "-m", "pip", "install", "--quiet", *PACKAGES],
    ]


def _run(command: list[str], target: Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True)  # noqa: S603
    if done.returncode:
        log = target.with_name(f"install-{target.name}.log")
        log.write_text(f"{' '.join(command)}\n{done.stdout}{done.stderr}", encoding="utf-8")
        said = [line for line in done.stderr.splitlines() if line.strip()] or ["no reason given"]
        raise _refused(said[-1].strip(), str(log))


def _refused(reason: str, where: str, remedy: str = INDEX) -> Refused:
    return Refused(f"the TPU's compiler could not be installed: {reason}", where, remedy)
