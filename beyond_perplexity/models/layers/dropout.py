"""Kinds of dropout beyond that of single elements; all are the identity outside training.

B rows, T positions, E width, V ids.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


def drop_words(
    embedded: Tensor, tokens: Tensor, vocabulary_size: int, probability: float, training: bool
) -> Tensor:
    """Drop whole rows of an embedding matrix (Gal & Ghahramani 2016, section 4.2).

    A dropped id is zero at all its places in a batch; the others are scaled up.

    Parameters
    ----------
    embedded : Tensor
        (..., E): the rows of the tokens.
    tokens : Tensor
        int64, (...).
    vocabulary_size : int
        V.
    probability : float
        Of dropping an id.
    training : bool
        The model is in training mode.
    """
    if not training or not probability:
        return embedded
    kept = torch.rand(vocabulary_size, device=tokens.device) >= probability  # (V,)
    return embedded * (kept / (1 - probability))[tokens][..., None]  # (..., E)


def drop(values: Tensor, probability: float, training: bool, locked: bool = False) -> Tensor:
    """Drop elements of (B, T, E), or with `locked` the same ones at all positions of a row.

    The latter is the variational dropout of Gal & Ghahramani (2016); in a convolution, where it
    takes whole channels, it is known as spatial dropout.
    """
    if locked and training and probability:
        mask = functional.dropout(torch.ones_like(values[:, :1]), probability)  # (B, 1, E)
        return values * mask
    return functional.dropout(values, probability, training)


def skips_layer(probability: float, training: bool) -> bool:
    """Draw whether a batch skips a residual block (LayerDrop; Fan, Grave & Joulin 2020)."""
    return training and probability > 0 and float(torch.rand(())) < probability
