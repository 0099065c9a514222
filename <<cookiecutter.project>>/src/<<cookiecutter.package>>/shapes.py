"""Shapes of the model: presets, parameter count and FLOPs per token, from the numbers alone."""

from __future__ import annotations

from dataclasses import dataclass

LANES = 128
"""A TPU's matrix unit is 128 wide: the vocabulary is padded up to a multiple of it."""


@dataclass(frozen=True)
class Shape:
    """A LLaMA-style decoder.

    `width` is the size of the residual stream, `hidden` that of the feed-forward layer, `kv_heads`
    the number of key and value heads that the `heads` query heads share.
    """

    layers: int
    width: int
    heads: int
    kv_heads: int
    hidden: int
    tied: bool
    vocabulary: int = 0

    @property
    def head_size(self) -> int:
        return self.width // self.heads

    @property
    def padded_vocabulary(self) -> int:
        return -(-self.vocabulary // LANES) * LANES

    @property
    def matrix_parameters(self) -> int:
        """Parameters that multiply each token: all but the norms and the embedding's look-up."""
        attention = 2 * self.width * self.head_size * (self.heads + self.kv_heads)
        feed_forward = 3 * self.width * self.hidden
        return self.layers * (attention + feed_forward) + self.width * self.padded_vocabulary

    @property
    def parameters(self) -> int:
        norms = (2 * self.layers + 1) * self.width
        embedding = 0 if self.tied else self.width * self.padded_vocabulary
        return self.matrix_parameters + norms + embedding

    def flops_per_token(self, sequence_length: int) -> int:
        """Forward and backward FLOPs of one token, without recomputation.

        6 per matrix parameter, and 12 x width per layer and position that attention looks at; the
        causal mask is not subtracted (the convention of the PaLM paper, appendix B).
        """
        attention = 12 * self.layers * self.width * sequence_length
        return 6 * self.matrix_parameters + attention


PRESETS = {
    "tiny": Shape(layers=4, width=128, heads=4, kv_heads=2, hidden=384, tied=True),
    "125m": Shape(layers=12, width=768, heads=12, kv_heads=4, hidden=2048, tied=True),
    "1b": Shape(layers=16, width=2048, heads=32, kv_heads=8, hidden=8192, tied=True),
    "8b": Shape(layers=32, width=4096, heads=32, kv_heads=8, hidden=14336, tied=False),
}
