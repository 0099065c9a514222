"""The model's equal layers as torch_xla's scan over one of them, in the place of one after another.

Imported by the process that traces the step; it needs jax 0.7.1 and torchax beside torch_xla.
"""

from __future__ import annotations

import importlib
from typing import Any

import torch
from common import PACKAGE
from functorch.compile import default_partition  # type: ignore[import-not-found]
from torch import Tensor, nn
from torch_xla.experimental.scan import scan

model: Any = importlib.import_module(f"{PACKAGE}.model")
attention: Any = importlib.import_module(f"{PACKAGE}.accelerator._attention")


def logits(self: Any, inputs: Tensor) -> Tensor:
    x = self._constrained(self.embedding(inputs).to(self.dtype))
    cos, sin = model.rotation(inputs.shape[1], self.shape.head_size, x)
    first = self.blocks[0]

    def one(carried: Any, parameters: dict[str, Tensor]) -> Any:
        x, cos, sin = carried
        x = torch.func.functional_call(first, parameters, (x, cos, sin))
        return (x, cos.clone(), sin.clone()), None

    # One argument each: scan cuts a layer's parameters out of what is stacked here.
    carried, _ = scan(one, (x, cos, sin), _stacked(self), partition_fn=default_partition)
    x = self.norm(self._constrained(carried[0]))
    return (
        self.head(x)
        if self.head is not None
        else nn.functional.linear(x, self.embedding.weight.to(x.dtype))
    )


def _stacked(self: Any) -> dict[str, Tensor]:
    """The parameters of all layers by name, in the type that is computed in."""
    blocks = [dict(block.named_parameters()) for block in self.blocks]
    return {
        name: torch.stack([block[name].to(self.dtype) for block in blocks]) for name in blocks[0]
    }


model.Transformer.logits = logits
# A barrier in place cannot be traced; between two loops the compiler finds nothing alike.
attention._hold = lambda *tensors: None
