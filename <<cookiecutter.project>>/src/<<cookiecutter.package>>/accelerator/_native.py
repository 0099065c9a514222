"""PyTorch's own devices: one process a device, parameters sharded by FSDP2."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor
from torch.distributed.tensor._utils import compute_local_shape_and_global_offset
from torch.optim import AdamW
from torch.utils.checkpoint import checkpoint

from ..checkpoint import Entry, Piece, State
from ..config import Config, Train
from ..group import Group
from ..model import Transformer
from ._base import Reader, decay_groups, dtype_of, seed_optimizer


class Native:
    """See `Accelerator`. A worker alone is not sharded."""

    def __init__(self, config: Config, group: Group, kind: str) -> None:
        self.kind, self.devices = kind, group.world
        self._fsdp = config.hardware.fsdp_devices
        self._rank = group.rank
        self._mesh = self._open_mesh() if group.world > 1 else None

    def _open_mesh(self) -> DeviceMesh:
        shape = (self.devices // self._fsdp, self._fsdp)
        return init_device_mesh(self.kind, shape, mesh_dim_names=("data", "fsdp"))

    def prepare(self, model: Transformer, train: Train, read: Reader) -> AdamW:
        if self._mesh is not None:
            _shard(model, self._mesh, train)
        model.to_empty(device=self.kind)
        for name, parameter in model.named_parameters():
            _fill(parameter, read, f"model.{name}")
        if train.activation_checkpointing:
            model.checkpoint = _checkpoint
        groups = decay_groups(model, train.weight_decay)
        optimizer = AdamW(groups, lr=train.learning_rate, betas=(0.9, 0.95))
        seed_optimizer(
            optimizer,
            model,
            lambda name, like: _fill(torch.empty_like(like.detach()), read, name),
            lambda name: read(name, (), ()),
        )
        return optimizer

    def place(self, tokens: np.ndarray) -> Tensor:
        return torch.from_numpy(tokens).to(self.kind, non_blocking=True)

    def set_learning_rate(self, optimizer: AdamW, value: float) -> None:
        for group in optimizer.param_groups:
            group["lr"] = value

    def mean(self, loss: Tensor) -> Tensor:
        if self._mesh is None:
            return loss
        total = loss.clone()
        dist.all_reduce(total)
        return total / self.devices

    def end_step(self) -> None:
        """Nothing is held back: each operation is handed over as it is called."""

    def snapshot(self, state: Mapping[str, Tensor]) -> State:
        return {name: self._entry(tensor) for name, tensor in state.items()}

    def compiled_graphs(self) -> int:
        return 0

    def keep_compiled(self) -> None:
        """Nothing compiles."""

    def _entry(self, tensor: Tensor) -> Entry:
        """This worker's part. Of the replicas on the data axis the first is saved."""
        shape = tuple(tensor.shape)
        if self._rank >= (self._fsdp if isinstance(tensor, DTensor) else 1):
            return Entry(shape, ())
        local, offset = _local(tensor)
        copy = local.to("cpu", copy=True).contiguous()
        return Entry(shape, (Piece(offset, copy),) if copy.numel() else ())


def _shard(model: Transformer, mesh: DeviceMesh, train: Train) -> None:
    policy = MixedPrecisionPolicy(
        param_dtype=dtype_of(train), reduce_dtype=torch.float32, cast_forward_inputs=False
    )
    for block in model.blocks:
        fully_shard(block, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)


def _local(tensor: Tensor) -> tuple[Tensor, tuple[int, ...]]:
    """What this process holds of a tensor, and where that begins."""
    if not isinstance(tensor, DTensor):
        return tensor.detach(), (0,) * tensor.dim()
    _, offset = compute_local_shape_and_global_offset(
        tensor.shape, tensor.device_mesh, tensor.placements
    )
    return tensor.to_local().detach(), tuple(offset)


def _fill(tensor: Tensor, read: Reader, name: str) -> Tensor:
    local, offset = _local(tensor)
    if local.numel():
        with torch.no_grad():
            local.copy_(read(name, offset, tuple(local.shape)))
    return tensor


def _checkpoint(block: nn.Module, *inputs: Tensor) -> Tensor:
    return checkpoint(block, *inputs, use_reentrant=False)
