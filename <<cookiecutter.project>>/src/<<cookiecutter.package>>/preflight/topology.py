"""A slice as libtpu's compiler names it."""

from __future__ import annotations

from typing import Any

from ..config import Config

NAMES = {"7x": "tpu7x"}


def of(config: Config) -> dict[str, Any]:
    """Name, number of devices and options of the topology. Those of one host say so: the compiler
    takes other machines than Google rents for some."""
    one, slices = config.hardware.slice, config.hardware.slices
    options: dict[str, Any] = {}
    if not one.multi_host:
        sides = [int(side) for side in one.topology.split("x")]
        options["chips_per_host_bounds"] = [*sides, 1][:3]
    if slices > 1:
        options["num_slices"] = slices
    return {
        "topology": f"{NAMES.get(one.generation, one.generation)}:{one.topology}",
        "devices": config.hardware.devices,
        "options": options,
    }
