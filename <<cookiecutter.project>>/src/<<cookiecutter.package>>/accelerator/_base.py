"""What an accelerator does for the loop, and the names under which a checkpoint keeps its state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import AdamW

from ..checkpoint import State
from ..config import Train
from ..model import Transformer

Reader = Callable[[str, tuple[int, ...], tuple[int, ...]], Tensor]
"""name, offset, shape -> that part of a named tensor, on the CPU."""

MOMENTS = ("exp_avg", "exp_avg_sq")


class Accelerator(Protocol):
    """Opens the device, makes the mesh, shards the model, places a batch, ends a step, and hands
    out a state dict of CPU tensors."""

    kind: str
    devices: int

    def prepare(self, model: Transformer, train: Train, read: Reader) -> AdamW:
        """Makes parameters and optimizer state real, sharded, with the values that `read` gives."""

    def place(self, tokens: np.ndarray) -> Tensor:
        """This worker's rows, int32 [rows, length + 1], as its part of the global batch."""

    def set_learning_rate(self, optimizer: AdamW, value: float) -> None:
        """Without a new graph where graphs are compiled."""

    def mean(self, loss: Tensor) -> Tensor:
        """A worker's loss as the loss of the global batch, without waiting for it."""

    def end_step(self) -> None:
        """Hands the work so far to the device, without waiting for it."""

    def snapshot(self, state: Mapping[str, Tensor]) -> State:
        """CPU copies of the parts that this worker must save."""

    def compiled_graphs(self) -> int:
        """Graphs compiled so far; 0 where nothing compiles."""

    def keep_compiled(self) -> None:
        """What was compiled is wanted by the next start; nobody waits for it."""


def decay_groups(model: nn.Module, weight_decay: float) -> list[dict[str, object]]:
    """Matrices decay, norms do not."""
    parameters = list(model.parameters())
    return [
        {"params": [p for p in parameters if p.dim() > 1], "weight_decay": weight_decay},
        {"params": [p for p in parameters if p.dim() == 1], "weight_decay": 0.0},
    ]


def training_state(model: nn.Module, optimizer: AdamW) -> dict[str, Tensor]:
    """All that a run needs to go on, by the names under which it is saved."""
    state: dict[str, Tensor] = {}
    for name, parameter in model.named_parameters():
        state[f"model.{name}"] = parameter.detach()
        for key in (*MOMENTS, "step"):
            state[f"optimizer.{name}.{key}"] = optimizer.state[parameter][key]
    return state


def seed_optimizer(
    optimizer: AdamW,
    model: nn.Module,
    moment: Callable[[str, Tensor], Tensor],
    step: Callable[[str], Tensor],
) -> None:
    """Gives the optimizer its state before its first step, which is then like any other."""
    for name, parameter in model.named_parameters():
        optimizer.state[parameter] = {
            "step": step(f"optimizer.{name}.step"),
            **{key: moment(f"optimizer.{name}.{key}", parameter) for key in MOMENTS},
        }


def dtype_of(train: Train) -> torch.dtype:
    return {"bfloat16": torch.bfloat16, "float32": torch.float32}[train.compute_dtype]
