"""A decoder-only transformer in the LLaMA style: RMSNorm, RoPE, SwiGLU, grouped-query attention.

The model knows no hardware. Its parameters are made on the `meta` device; an accelerator makes them
real (`accelerator/`), and may set `constrain`, `checkpoint` and `attend` on the way.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .shapes import Shape

ROPE_BASE = 500_000.0
EPSILON = 1e-5
DEVIATION = 0.02
IGNORED = -100

Rotation = tuple[Tensor, Tensor]
Attend = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Queries [batch, heads, length, size], keys and values of fewer heads -> the like of queries."""


class Linear(nn.Module):
    """A matrix without bias that computes in the type of its input."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs, device="meta"))

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight.to(x.dtype))


class Norm(nn.Module):
    """RMSNorm, computed in float32."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width, device="meta"))

    def forward(self, x: Tensor) -> Tensor:
        y = x.float()
        y = y * torch.rsqrt(y.square().mean(-1, keepdim=True) + EPSILON)
        return (y * self.weight.float()).to(x.dtype)


class Attention(nn.Module):
    """Causal self-attention; each key and value head serves `heads / kv_heads` query heads."""

    attend: Attend

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.size = shape.heads, shape.kv_heads, shape.head_size
        self.query = Linear(shape.width, shape.heads * self.size)
        self.key = Linear(shape.width, shape.kv_heads * self.size)
        self.value = Linear(shape.width, shape.kv_heads * self.size)
        self.output = Linear(shape.heads * self.size, shape.width)
        self.attend = attend

    def forward(self, x: Tensor, rotation: Rotation) -> Tensor:
        batch, length, _ = x.shape
        query = rotate(self._split(self.query(x), self.heads), rotation)
        key = rotate(self._split(self.key(x), self.kv_heads), rotation)
        value = self._split(self.value(x), self.kv_heads)
        y = self.attend(query, key, value)
        return self.output(y.transpose(1, 2).reshape(batch, length, -1))

    def _split(self, x: Tensor, heads: int) -> Tensor:
        """[batch, length, heads * size] to [batch, heads, length, size]."""
        return x.view(x.shape[0], x.shape[1], heads, self.size).transpose(1, 2)


def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """PyTorch's own attention, which has fused kernels for CPUs and CUDA."""
    groups = query.shape[1] // key.shape[1]
    key, value = (t.repeat_interleave(groups, dim=1) for t in (key, value))
    return F.scaled_dot_product_attention(query, key, value, is_causal=True)


class FeedForward(nn.Module):
    """SwiGLU."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.gate = Linear(shape.width, shape.hidden)
        self.up = Linear(shape.width, shape.hidden)
        self.down = Linear(shape.hidden, shape.width)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    """One layer."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.attention_norm, self.attention = Norm(shape.width), Attention(shape)
        self.feed_forward_norm, self.feed_forward = Norm(shape.width), FeedForward(shape)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x = x + self.attention(self.attention_norm(x), (cos, sin))
        return x + self.feed_forward(self.feed_forward_norm(x))


class Transformer(nn.Module):
    """Tokens [batch, length + 1] in; the mean cross-entropy of predicting each next one out.

    `constrain` pins the layout of activations [batch, length, width] where the hardware is told
    layouts; `checkpoint` calls a block so that its activations are recomputed in the backward pass.
    """

    constrain: Callable[[Tensor], Tensor] | None = None
    checkpoint: Callable[..., Tensor] | None = None

    def __init__(self, shape: Shape, dtype: torch.dtype) -> None:
        super().__init__()
        self.shape, self.dtype = shape, dtype
        self.embedding = nn.Embedding(shape.padded_vocabulary, shape.width, device="meta")
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = Norm(shape.width)
        self.head = None if shape.tied else Linear(shape.width, shape.padded_vocabulary)

    def forward(self, tokens: Tensor) -> Tensor:
        inputs, targets = tokens[:, :-1].long(), tokens[:, 1:].long()
        logits = self.logits(inputs)
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())

    def logits(self, inputs: Tensor) -> Tensor:
        """Tokens [batch, length] to logits [batch, length, padded vocabulary]."""
        x = self._constrained(self.embedding(inputs).to(self.dtype))
        cos, sin = rotation(inputs.shape[1], self.shape.head_size, x)
        for block in self.blocks:
            x = self._constrained(self._call(block, x, cos, sin))
        x = self.norm(x)
        if self.head is not None:
            return self.head(x)
        return F.linear(x, self.embedding.weight.to(x.dtype))

    def _call(self, block: nn.Module, *inputs: Tensor) -> Tensor:
        return self.checkpoint(block, *inputs) if self.checkpoint else block(*inputs)

    def _constrained(self, x: Tensor) -> Tensor:
        return self.constrain(x) if self.constrain else x


def rotation(length: int, size: int, like: Tensor) -> Rotation:
    """RoPE's cosines and sines, [length, size / 2] each, float32."""
    half = torch.arange(0, size, 2, device=like.device, dtype=torch.float32) / size
    angles = torch.arange(length, device=like.device, dtype=torch.float32)[:, None] * (
        1.0 / ROPE_BASE**half
    )
    return angles.cos(), angles.sin()


def rotate(x: Tensor, rotation: Rotation) -> Tensor:
    """Turns each pair (i, i + size / 2) of [batch, heads, length, size] by its position's angle."""
    cos, sin = rotation
    a, b = x.float().chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1).to(x.dtype)


def initial(name: str, shape: tuple[int, ...], layers: int, seed: int) -> Tensor:
    """The value of a parameter before training, float32 on the CPU.

    It depends on the seed and the parameter's name alone, so that any number of workers starts from
    the same model without one of them ever holding all of it.
    """
    if len(shape) == 1:
        return torch.ones(shape)
    digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(digest[:8], "little") >> 1)
    deviation = DEVIATION
    if name.endswith(("attention.output.weight", "feed_forward.down.weight")):
        deviation /= math.sqrt(2 * layers)
    return torch.empty(shape).normal_(0.0, deviation, generator=generator)
