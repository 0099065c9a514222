"""The one seam between the loop and the hardware: a file of this folder is an accelerator."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..config import Config
    from ..group import Group
    from ._base import Accelerator


def names() -> list[str]:
    """The values that `hardware.accelerator` may take in this project."""
    return sorted(path.stem for path in Path(__file__).parent.glob("[!_]*.py"))


def open_accelerator(config: Config, group: Group) -> Accelerator:
    """The accelerator that run.toml names, checked against what this process finds.

    Raises NotFound when the hardware is not there, in kind or in number.
    """
    module = importlib.import_module(f".{config.hardware.accelerator}", __package__)
    return module.open_accelerator(config, group)
