"""Why there are no figures, in words."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from ..config import Config
from ..errors import Failure, InputError, NotFound

PACKAGE = Path(__file__).resolve().parents[1]
FRAME = re.compile(r'  File "(.+)", line (\d+)')


def available() -> None:
    """Raises NotFound in an environment without torch_xla."""
    if not _installed("torch_xla"):
        raise NotFound(
            "torch_xla is not in this environment, and it traces the step",
            sys.prefix,
            "run `nox -s preflight`, whose environment has the whole project",
        )


def _installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def check(config: Config) -> None:
    """Raises InputError for a chip that cannot be judged."""
    if config.hardware.generation == "v4":
        raise InputError(
            "the compiler sees a v4 chip's two cores as two devices, torch_xla as one: its figures "
            "would be those of another program",
            "hardware.generation = v4",
            "judge another one: --set hardware.generation=v5p --set hardware.topology=2x2x2",
        )


def not_lowered(fault: Mapping[str, Any]) -> InputError:
    """An operation of the model that has no form on a TPU."""
    return InputError(
        f"{fault['operation']} cannot be compiled: in each step torch_xla would leave the TPU for "
        "it and compute it on the host",
        f"{fault['file']}:{fault['line']}, {fault['code']}",
        "write it with operations whose shapes do not depend on values, and none that reads a "
        "value back; then run the command again",
    )


def not_compiled(message: str, where: str) -> Failure:
    found = re.search(r'source_file="([^"]*)" source_line=(\d+)', message)
    said = message.strip().splitlines()
    return InputError(
        f"the TPU's compiler refused the step: {said[0] if said else 'no reason given'}",
        f"{where}, {found[1]}:{found[2]}" if found else where,
        "change the operation that is named, or the setting that brings it",
    )


def in_model(file: Path) -> bool:
    """Whether it belongs to what a project writes for itself, not to what runs it on a device."""
    if not file.is_relative_to(PACKAGE):
        return False
    return file.relative_to(PACKAGE).parts[0] not in ("accelerator", "preflight")


def broken(what: str, log: Path) -> Failure:
    """A process that ended without a result; its log outlives the folder it worked in."""
    with NamedTemporaryFile(prefix="preflight-", suffix=".log", delete=False) as kept:
        kept.write(log.read_bytes())
    lines = [line for line in log.read_text("utf-8", "replace").splitlines() if line.strip()]
    last = lines[-1].strip() if lines else "it said nothing"
    if place := _place(lines):
        return InputError(
            f"{what} broke off: {last}",
            place,
            f"mend it there; the whole traceback is in {kept.name}",
        )
    return Failure(
        f"{what} ended without a result: {last}",
        kept.name,
        "read the log; a process that was killed may have lacked memory",
    )


def _place(lines: Sequence[str]) -> str:
    """File, line and code where a traceback leaves the project's own code; none in other logs."""
    frames = [(match, at) for at, text in enumerate(lines) if (match := FRAME.match(text))]
    ours = [(match, at) for match, at in frames if in_model(Path(match[1]))]
    if not ours:
        return ""
    match, at = ours[-1]
    return ", ".join([f"{match[1]}:{match[2]}", *(line.strip() for line in lines[at + 1 : at + 2])])
