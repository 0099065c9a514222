"""TorchTPU: PyTorch's own TPU device, one worker a device; several workers over tpu_dist."""

from __future__ import annotations

import os

import torch

from ..config import Config
from ..errors import NotFound
from ..group import Group
from ._native import Native

VARIABLES = ("TORCH_TPU_TOPOLOGY", "TORCH_TPU_SLICEBUILDER_ADDRESSES")


def open_accelerator(config: Config, group: Group) -> Native:
    """Raises NotFound where a TPU, or what the runtime must know of its slice, is missing."""
    missing = [name for name in VARIABLES if group.world > 1 and not os.environ.get(name)]
    if missing:
        raise NotFound(
            f"this worker lacks {' and '.join(missing)}",
            "the environment of the TPU pod",
            "set them in the worker's pod template, the same on all workers",
        )
    if not torch.accelerator.is_available() or _kind() != "tpu":
        raise NotFound(
            "PyTorch sees no TPU on this worker",
            'hardware.accelerator = "tpu"',
            "check that torch_tpu is installed and that the pod runs on a TPU node, "
            "or train on this machine's CPU with --local",
        )
    return Native(config, group, "tpu")


def _kind() -> str:
    device = torch.accelerator.current_accelerator()
    return device.type if device else "none"
