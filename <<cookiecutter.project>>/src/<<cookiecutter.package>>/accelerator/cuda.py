"""NVIDIA GPUs, one a worker; several workers over NCCL."""

from __future__ import annotations

import torch

from ..config import Config
from ..errors import NotFound
from ..group import Group
from ._native import Native


def open_accelerator(config: Config, group: Group) -> Native:
    """Raises NotFound where PyTorch sees no GPU."""
    if not torch.cuda.is_available():
        raise NotFound(
            "PyTorch sees no GPU on this worker",
            'hardware.accelerator = "cuda"',
            'check nvidia-smi and that torch was built for CUDA, or set it to "cpu"',
        )
    return Native(config, group, "cuda")
