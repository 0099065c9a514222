"""Which steps pre-flight judges: that of run.toml, the same elsewhere, or none."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..config import Config
from ..errors import InputError
from . import opening

FORCED = ("hardware.accelerator=xla", "hardware.virtual_devices=0", "hardware.placement=slice")
"""The step as torch_xla runs it on a slice."""


def own(config: Path, overrides: Sequence[str], *place: str) -> Config:
    """Raises InputError for settings that cannot work and for a chip that cannot be judged."""
    from ..preflight.faults import check

    # What is wrong in run.toml or --set is told without the settings that are forced below.
    opening.settings(config, overrides)
    found = opening.settings(config, [*overrides, *FORCED, *place])
    check(found)
    return found


def compared(config: Path, overrides: Sequence[str], other: str) -> Config:
    """The same on another slice. What is wrong there is a fault of `--compare`."""
    generation, colon, topology = other.partition(":")
    if not colon:
        raise InputError(
            f"--compare {other} is no GENERATION:TOPOLOGY",
            "the command line",
            "write it like --compare v6e:2x2",
        )
    place = (f"hardware.generation={generation}", f"hardware.topology={topology}")
    try:
        return own(config, overrides, *place)
    except InputError as error:
        raise InputError(
            error.what,
            f"--compare {other}",
            "compare with another slice, or change what is named for all of them with --set",
        ) from None


def excused(config: Path, overrides: Sequence[str]) -> str:
    """Why a push may rent without a verdict; nothing where it needs one. Raises InputError."""
    from ..preflight.faults import check

    found = opening.settings(config, overrides)
    if not found.preflight.before_renting:
        return "preflight.before_renting = false"
    try:
        check(found)
    except InputError as unknown:
        return unknown.what
    return ""
