"""Nucleus sampling: draw from the fewest tokens that hold a given mass.

Holtzman, Buys, Du, Forbes and Choi (2020). The curious case of neural text degeneration.
"""

from __future__ import annotations

import torch
from torch import Tensor

from beyond_perplexity.decoding import kernels
from beyond_perplexity.decoding.options import DecodingOptions

LOOKS = True  # whether the candidates sufficed


def _draw_whole(weight: Tensor, limit: Tensor, uniform: Tensor) -> kernels.Drawn:
    """Draw with the weight as score, by sorting the weights without their ids.

    The rank that is drawn has a weight; of the tokens of that weight, which go by id, it is the one
    that stands as many positions after the first of them as the rank does.
    """
    rising = kernels.sort_rows(weight)  # (R, V)
    falling = rising.flip(1)  # (R, V)
    cumulative = falling.double().cumsum(-1)  # (R, V)
    last = kernels.last_of_set(cumulative, limit).clamp(max=weight.shape[1] - 1)[:, None]  # (R, 1)
    held = cumulative.gather(1, last)  # (R, 1)
    position = kernels.search_cdf(torch.minimum(cumulative, held), uniform[:, None])  # (R, 1)
    value = falling.gather(1, position)  # (R, 1)
    above = weight.shape[1] - torch.searchsorted(rising, value, right=True)  # (R, 1)
    row, ids = (weight == value).nonzero(as_tuple=True)  # (E,), (E,): by row, then by id
    starts = torch.searchsorted(row, torch.arange(len(weight), device=row.device))  # (R,)
    return kernels.Drawn(ids[starts + (position - above)[:, 0]], held[:, 0])


def draw(weights: kernels.Weights, uniform: Tensor, options: DecodingOptions) -> kernels.Drawn:
    """Draw from the first tokens that hold `mass`; see `DecodingKind.draw`."""
    limit = weights.total() * (options.mass - kernels.MASS_TOLERANCE)  # (B,)
    return kernels.draw_to_mass(weights.weight, weights.weight, limit, uniform, _draw_whole)


def keep(contexts: kernels.Contexts, options: DecodingOptions) -> tuple[Tensor | None, Tensor]:
    """Keep the same of every context; see `DecodingKind.keep`."""
    return contexts.keep_to_mass(contexts.weight, options.mass - kernels.MASS_TOLERANCE)
