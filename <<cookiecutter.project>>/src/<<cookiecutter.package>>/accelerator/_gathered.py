"""Weights of a layer that is computed again for its backward pass, whole on every device for both.

Left alone, the partitioner chooses for each product by itself: it gathers a weight twice for the
backward pass, or sends activations instead, in float32.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ._lookup import Spec


class Gathered(torch.autograd.Function):
    """A matrix that is cut like `spec` -> the same, whole; its gradient is cut again."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, mesh: Any, spec: Spec) -> Tensor:
        ctx.mesh, ctx.spec = mesh, spec
        return _laid(weight, mesh, (None,) * weight.dim())

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        return _laid(gradients[0], ctx.mesh, ctx.spec), None, None


def gathered(weight: Tensor, mesh: Any, spec: Spec) -> Tensor:
    found: Tensor = Gathered.apply(weight, mesh, spec)  # type: ignore[no-untyped-call]
    return found


def _laid(tensor: Tensor, mesh: Any, spec: Spec) -> Tensor:
    import torch_xla.distributed.spmd as xs

    found: Tensor = xs.mark_sharding(tensor.clone(), mesh, spec).global_tensor
    return found
