"""Causal attention for compilers that have no fused kernel of it.

Scores of all pairs of positions are the largest thing that a step would keep: here none outlives
its block of queries. The backward pass computes them again, and no block looks at keys that lie
behind its last query, which saves more products than are done twice.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

BLOCK = 1024
"""Queries at a time: smaller blocks multiply and hold less, and take longer to compile."""


class Attention(torch.autograd.Function):
    """[batch, heads, length, size] of queries, [batch, key heads, length, size] of keys and values;
    heads that share a key head lie side by side."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        made, norms = [], []
        for start, end in _blocks(query.shape[2]):
            scores = _scores(query, key, start, end)
            norm = scores.logsumexp(-1, keepdim=True)
            shares = (scores - norm).exp().to(value.dtype)
            made.append(_apart(shares @ value[:, :, :end], query))
            norms.append(norm)
        whole = torch.cat(made, 2)
        ctx.save_for_backward(query, key, value, whole, *norms)
        return whole

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, ...]:
        query, key, value, made, *norms = ctx.saved_tensors
        (gradient,) = gradients
        _hold(query, key, value, gradient)
        of_query: list[Tensor] = []
        of_key = of_value = torch.zeros((), device=key.device)
        for (start, end), norm in zip(_blocks(query.shape[2]), norms, strict=True):
            shares = (_scores(query, key, start, end) - norm).exp()
            above = _together(gradient[:, :, start:end], key)
            mean = (above.float() * _together(made[:, :, start:end], key).float()).sum(-1, True)
            moved = (above @ value[:, :, :end].mT).float() - mean
            slope = (shares * moved / math.sqrt(query.shape[3])).to(key.dtype)
            of_query.append(_apart(slope @ key[:, :, :end], query))
            rows = _together(query[:, :, start:end], key)
            of_key = of_key + _filled(slope.mT @ rows, key)
            of_value = of_value + _filled(shares.to(value.dtype).mT @ above, value)
        return torch.cat(of_query, 2), of_key.to(key.dtype), of_value.to(value.dtype)


def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    found: Tensor = Attention.apply(query, key, value)  # type: ignore[no-untyped-call]
    return found


def _hold(*tensors: Tensor) -> None:
    """Makes what is computed of these begin here: else the compiler finds that the forward pass had
    the same scores, and keeps those of every layer instead."""
    if tensors[0].device.type == "xla":
        from torch_xla.core import xla_model

        xla_model.optimization_barrier_(list(tensors))


def _blocks(length: int) -> Iterator[tuple[int, int]]:
    return ((start, min(start + BLOCK, length)) for start in range(0, length, BLOCK))


def _scores(query: Tensor, key: Tensor, start: int, end: int) -> Tensor:
    """Of the queries from `start` on with all keys up to `end`, float32."""
    rows, seen = _together(query[:, :, start:end], key), key[:, :, :end]
    scores = rows.float() @ seen.float().mT / math.sqrt(query.shape[3])
    place = torch.arange(start, end, device=key.device).repeat(query.shape[1] // key.shape[1])
    later = torch.arange(end, device=key.device) > place[:, None]
    return scores.masked_fill(later, -math.inf)


def _together(rows: Tensor, key: Tensor) -> Tensor:
    """Queries that share a key head as more rows of it: nothing of a key is copied for them."""
    return rows.reshape(*key.shape[:2], -1, rows.shape[3])


def _apart(rows: Tensor, query: Tensor) -> Tensor:
    return rows.reshape(*query.shape[:2], -1, rows.shape[3])


def _filled(part: Tensor, like: Tensor) -> Tensor:
    """Zeros, in float32, for the keys that a block does not see."""
    return F.pad(part.float(), (0, 0, 0, like.shape[2] - part.shape[2]))
