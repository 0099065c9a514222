"""Rows of an embedding, with a gradient that is summed in the type that the model computes in.

Left alone, the partitioner adds up whole tables in float32 where a batch has more tokens than the
table has rows. Here each device adds up the rows of its own tokens, and the sum over the devices
is scattered at once: half the bytes, and libtpu joins it with the head's where they are tied.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

Spec = tuple[str | None, ...]
"""The axis of the mesh that each dimension is cut over."""
CHANNEL = 1000
"""Of the only collective that the compiler does not number itself."""


@dataclass(frozen=True)
class Layout:
    """`mesh` has the axes data and fsdp. Batches are cut over both, the table over the second."""

    mesh: Any
    table: Spec

    @property
    def groups(self) -> list[list[int]]:
        """Devices that hold one table together."""
        found: list[list[int]] = self.mesh.get_logical_mesh().tolist()
        return found


class LookUp(torch.autograd.Function):
    """Table [rows, width] and tokens [batch, length] -> [batch, length, width]."""

    @staticmethod
    def forward(
        ctx: Any, table: Tensor, tokens: Tensor, layout: Layout, dtype: torch.dtype
    ) -> Tensor:
        ctx.save_for_backward(tokens)
        ctx.table, ctx.layout, ctx.dtype = table.shape, layout, dtype
        return F.embedding(tokens, table)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (tokens,) = ctx.saved_tensors
        own, summed = _own(gradients[0], ctx.layout), _own(tokens, ctx.layout)
        rows = torch.ops.aten.embedding_dense_backward(own, summed, ctx.table[0], -1, False)
        found = _scattered(rows.to(ctx.dtype), ctx.layout, ctx.table)
        return found.to(gradients[0].dtype), None, None, None


def look_up(table: Tensor, tokens: Tensor, layout: Layout, dtype: torch.dtype) -> Tensor:
    found: Tensor = LookUp.apply(table, tokens, layout, dtype)  # type: ignore[no-untyped-call]
    return found


def _own(whole: Tensor, layout: Layout) -> Tensor:
    """What a device has of a batch, and is told to work on by itself."""
    import torch_xla.distributed.spmd as xs

    spec = (("data", "fsdp"), *(None,) * (whole.dim() - 1))
    return xs.enable_manual_sharding(whole, spec, mesh=layout.mesh).global_tensor


def _scattered(rows: Tensor, layout: Layout, shape: torch.Size) -> Tensor:
    """The sum over all devices, cut like the table."""
    import torch_xla.distributed.spmd as xs
    from torch_xla.core import xla_model

    groups = layout.groups
    part = xla_model.reduce_scatter(
        xla_model.REDUCE_SUM,
        rows,
        1.0,
        layout.table.index("fsdp"),
        len(groups[0]),
        groups,
        pin_layout=False,
        channel_id=CHANNEL,
        use_global_device_ids=True,
    )
    spec, several = ("data", *layout.table), (len(groups), *shape)
    whole = xs.disable_manual_sharding(part[None], spec, several, mesh=layout.mesh).global_tensor
    return whole.sum(0)
