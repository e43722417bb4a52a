"""Min-p sampling: draw from the tokens that are not much less probable than the first.

References
----------
Nguyen et al. (2024). Turning up the heat: min-p sampling for creative and coherent LLM outputs.
"""

from __future__ import annotations

from torch import Tensor

from beyond_perplexity.decoding.kernels import (
    MASS_TOLERANCE,
    Contexts,
    Drawn,
    Weights,
    block_sums,
    pick,
)
from beyond_perplexity.decoding.options import DecodingOptions

LOOKS = False


def draw(weights: Weights, uniform: Tensor, options: DecodingOptions) -> Drawn:
    """Draw from the tokens of at least `p` times the largest weight; see `DecodingKind.draw`."""
    weight = weights.weight
    least = weight.amax(-1, keepdim=True) * options.p * (1 - MASS_TOLERANCE)  # (B, 1)
    weight.masked_fill_(weight < least, 0)
    weights.sums = block_sums(weight)  # (B, blocks)
    return Drawn(pick(weights, uniform), weights.total())


def keep(contexts: Contexts, options: DecodingOptions) -> tuple[Tensor | None, Tensor]:
    """Keep the same of every context; see `DecodingKind.keep`."""
    least = contexts.largest()[contexts.owner] * options.p * (1 - MASS_TOLERANCE)  # (N,)
    return None, contexts.weight >= least  # (N,)
