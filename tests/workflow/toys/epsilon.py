"""Epsilon sampling: draw from the tokens whose probability is not below a threshold.

References
----------
Hewitt, Manning and Liang (2022). Truncation sampling as language model desmoothing.
"""

from __future__ import annotations

import torch
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
    """Draw from the tokens of q(w) >= `epsilon`, and from the most probable ones at least."""
    weight = weights.weight
    least = weights.total().float()[:, None] * options.epsilon * (1 - MASS_TOLERANCE)  # (B, 1)
    weight.masked_fill_(weight < torch.minimum(least, weight.amax(-1, keepdim=True)), 0)
    weights.sums = block_sums(weight)  # (B, blocks)
    return Drawn(pick(weights, uniform), weights.total())


def keep(contexts: Contexts, options: DecodingOptions) -> tuple[Tensor | None, Tensor]:
    """Keep the same of every context."""
    least = contexts.total * options.epsilon * (1 - MASS_TOLERANCE)  # (C,)
    least = torch.minimum(least, contexts.largest())  # (C,)
    return None, contexts.weight >= least[contexts.owner]  # (N,)
