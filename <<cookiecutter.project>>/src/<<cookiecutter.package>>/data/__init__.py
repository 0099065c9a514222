"""Training data: text to shards of token ids with Ray Data, and batches of windows out of them.

`prepare` runs once; `read_index` and `TokenBatches` run in every training process, without Ray.
"""

from .loader import Batch, TokenBatches
from .prefetch import Prefetch
from .prepare import SHARD_TOKENS, prepare
from .progress import Prepared
from .sampler import Sampler
from .shards import Index, Shard, read_index
from .tokens import Tokenizer, load_tokenizer

__all__ = [
    "SHARD_TOKENS",
    "Batch",
    "Index",
    "Prefetch",
    "Prepared",
    "Sampler",
    "Shard",
    "TokenBatches",
    "Tokenizer",
    "load_tokenizer",
    "prepare",
    "read_index",
]
