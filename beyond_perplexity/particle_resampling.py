"""Drawing particles anew in proportion to their weights.

B filters, K particles of a filter.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def effective_size(weights: Tensor) -> Tensor:
    """Return (Σ w)² / Σ w², (B,), of weights given by their logarithms, float64, (B, K).

    0 where all weights are 0.
    """
    total = weights.logsumexp(1)  # (B,)
    found = (2 * total - (2 * weights).logsumexp(1)).exp()  # (B,)
    return found.masked_fill(total == -math.inf, 0.0)


def systematic(weights: Tensor, uniforms: Tensor) -> Tensor:
    """Resample: place k goes to the particle at (k + u) / K of the cumulated weights.

    `weights`: float64, (B, K): logarithms, not all of a row −inf; `uniforms`: float64, (B,): u in
    [0, 1).

    Returns int64, (B, K), rising. A particle with share w of all weights is in it K w times on
    average, and either ⌊K w⌋ or ⌈K w⌉ times.
    """
    heights = weights.softmax(1).cumsum(1)  # (B, K)
    own = torch.arange(weights.shape[1], device=weights.device)  # (K,)
    marks = (own + uniforms[:, None]) / len(own) * heights[:, -1:]  # (B, K)
    last = (own * (weights > -math.inf)).amax(1, keepdim=True)  # (B, 1)
    return torch.minimum(torch.searchsorted(heights, marks, right=True), last)


def conditional_systematic(
    weights: Tensor, uniforms: Tensor, kept: Tensor
) -> tuple[Tensor, Tensor]:
    """Resample by `systematic`, given that one particle is kept and goes on.

    Of all (u, k) whose place k falls to that particle, one is drawn: the law that `systematic` has
    where the path of a particle drawn at the end went through it (Chopin & Singh 2015, "On
    particle Gibbs sampling", section 3.3).

    `weights`: float64, (B, K): logarithms; `uniforms`: float64, (B,), in [0, 1); `kept`: int64,
    (B,): the particle of each filter, of weight above 0.

    Returns `chosen`: int64, (B, K); `place`: int64, (B,): where the kept particle goes on.
    """
    count, own = weights.shape[1], kept[:, None]  # (B, 1)
    shares = weights.softmax(1)  # (B, K)
    heights = shares.cumsum(1)  # (B, K)
    share = shares.gather(1, own)[:, 0]  # (B,)
    mark = heights.gather(1, own)[:, 0] - share * (1 - uniforms)  # (B,): within its share
    mark = (count * mark / heights[:, -1]).clamp(min=0.0)  # (B,)
    place = mark.long().clamp(max=count - 1)  # (B,)
    chosen = systematic(weights, mark - mark.floor())  # (B, K)
    # At the edges of its share rounding may give the place to a neighbour.
    return chosen.scatter(1, place[:, None], own), place
