"""Locally typical sampling: draw from the tokens whose surprisal is nearest to the entropy.

Distances are on a grid of 1e-4, as tokens above and below the entropy are often equally far from
it. Meister, Pimentel, Wiher and Cotterell (2023). Locally typical sampling.
"""

from __future__ import annotations

from torch import Tensor

from beyond_perplexity.decoding import kernels
from beyond_perplexity.decoding.options import DecodingOptions

LOOKS = True  # whether the candidates sufficed


def _score(difference: Tensor) -> Tensor:
    """Score the difference of surprisal and entropy: the nearer, the higher, on the grid."""
    return -(difference.abs() * 1e4).round().float()


def draw(weights: kernels.Weights, uniform: Tensor, options: DecodingOptions) -> kernels.Drawn:
    """Draw from the tokens nearest to the entropy that hold `mass`; see `DecodingKind.draw`."""
    weight, total = weights.weight, weights.total()  # (B, V), (B,)
    surprisal = total.log()[:, None].float() - weight.log()  # (B, V)
    entropy = (weight / total[:, None].float() * surprisal.nan_to_num(0, 0, 0)).sum(-1)  # (B,)
    score = _score(surprisal - entropy[:, None])  # (B, V); -inf where impossible
    limit = total * (options.mass - kernels.MASS_TOLERANCE)  # (B,)
    return kernels.draw_to_mass(weight, score, limit, uniform)


def keep(contexts: kernels.Contexts, options: DecodingOptions) -> tuple[Tensor | None, Tensor]:
    """Keep the same of every context; see `DecodingKind.keep`."""
    total = contexts.total[contexts.owner]  # (N,)
    surprisal = (total / contexts.weight).log()  # (N,)
    parts = contexts.weight / total * surprisal.nan_to_num(0, 0, 0)  # (N,)
    entropy = contexts.sums(parts)[contexts.owner]  # (N,)
    return contexts.keep_to_mass(_score(surprisal - entropy), options.mass - kernels.MASS_TOLERANCE)
