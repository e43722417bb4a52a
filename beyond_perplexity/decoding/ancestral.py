"""Ancestral sampling: draw from the model's distribution itself."""

from __future__ import annotations

from torch import Tensor

from beyond_perplexity.decoding.kernels import Contexts, Drawn, Weights, pick
from beyond_perplexity.decoding.options import DecodingOptions

LOOKS = False


def draw(weights: Weights, uniform: Tensor, options: DecodingOptions) -> Drawn:
    """Draw from all tokens; see `DecodingKind.draw`."""
    return Drawn(pick(weights, uniform), weights.total())


def keep(contexts: Contexts, options: DecodingOptions) -> tuple[Tensor | None, Tensor]:
    """Keep everything; see `DecodingKind.keep`."""
    return None, contexts.weight >= 0  # (N,)
