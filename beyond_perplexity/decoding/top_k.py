"""Top-k sampling: draw from the k most probable tokens.

Fan, Lewis and Dauphin (2018). Hierarchical neural story generation.
"""

from __future__ import annotations

from torch import Tensor

from beyond_perplexity.decoding.kernels import Contexts, Drawn, Weights, draw_among, rank
from beyond_perplexity.decoding.options import DecodingOptions

LOOKS = False


def draw(weights: Weights, uniform: Tensor, options: DecodingOptions) -> Drawn:
    """Draw from the first `k` tokens; see `DecodingKind.draw`."""
    count = min(options.k, weights.weight.shape[1])
    ids = rank(weights.weight, count)  # (B, k)
    return draw_among(weights.weight, ids, count, uniform)[0]


def keep(contexts: Contexts, options: DecodingOptions) -> tuple[Tensor | None, Tensor]:
    """Keep the first `k` of every context; see `DecodingKind.keep`."""
    return contexts.ranking(contexts.weight), contexts.positions() < options.k  # (N,), (N,)
