"""Min-p sampling: draw from the tokens that are not much less probable than the first.

Nguyen et al. (2024). Turning up the heat: min-p sampling for creative and coherent LLM outputs.
"""

from __future__ import annotations

from torch import Tensor

from beyond_perplexity.decoding import kernels
from beyond_perplexity.decoding.options import DecodingOptions

LOOKS = False


def draw(weights: kernels.Weights, uniform: Tensor, options: DecodingOptions) -> kernels.Drawn:
    """Draw from the tokens of at least `p` times the largest weight; see `DecodingKind.draw`."""
    weight = weights.weight
    least = weight.amax(-1, keepdim=True) * options.p * (1 - kernels.MASS_TOLERANCE)  # (B, 1)
    weight.masked_fill_(weight < least, 0)
    weights.sums = kernels.block_sums(weight)  # (B, blocks)
    return kernels.Drawn(kernels.pick(weights, uniform), weights.total())


def keep(contexts: kernels.Contexts, options: DecodingOptions) -> tuple[Tensor | None, Tensor]:
    """Keep the same of every context; see `DecodingKind.keep`."""
    least = contexts.largest()[contexts.owner] * options.p * (1 - kernels.MASS_TOLERANCE)  # (N,)
    return None, contexts.weight >= least  # (N,)
