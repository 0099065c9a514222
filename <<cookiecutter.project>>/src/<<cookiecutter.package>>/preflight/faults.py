"""Why there are no figures, in words."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from .. import accelerator
from ..config import Config
from ..errors import Failure, InputError, NotFound


def available() -> None:
    """Raises NotFound in a project or an environment without torch_xla."""
    if "xla" not in accelerator.names():
        raise NotFound(
            "this project was made for TorchTPU, and pre-flight traces the step with torch_xla",
            "src/, accelerator/",
            "make a project with the framework torch_xla to judge a step before renting",
        )
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
            "judge another one: --set hardware.generation=v5p --set hardware.topology=2x2x1",
        )


def not_lowered(fault: Mapping[str, Any]) -> InputError:
    """An operation of the model that has no form on a TPU."""
    return InputError(
        f"{fault['operation']} cannot be compiled: {fault['reason']}",
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


def broken(what: str, log: Path) -> Failure:
    """A process that ended without a result; its log outlives the folder it worked in."""
    with NamedTemporaryFile(prefix="preflight-", suffix=".log", delete=False) as kept:
        kept.write(log.read_bytes())
    lines = [line for line in log.read_text("utf-8", "replace").splitlines() if line.strip()]
    return Failure(
        f"{what} ended without a result: {lines[-1].strip() if lines else 'it said nothing'}",
        kept.name,
        "read the log; a process that was killed may have lacked memory",
    )
