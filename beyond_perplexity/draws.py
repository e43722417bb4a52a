"""Draws from discrete distributions by inversion: one uniform number decides on one place.

Q rows, X places, Y draws of a row.
"""

from __future__ import annotations

import torch
from torch import Tensor


def invert(sums: Tensor, uniforms: Tensor) -> Tensor:
    """Return the first place whose running sum is above a share of the last, int64, (Q, Y).

    A place of weight 0 is never drawn.

    Parameters
    ----------
    sums : Tensor
        float64, (Q, X): running sums of weights, which need not add up to 1. Where all are 0 the
        result is X.
    uniforms : Tensor
        float64 in [0, 1), (Q, Y).
    """
    totals = sums[:, -1:]  # (Q, 1)
    # The product can round up to a total that is too small for all bits of a number.
    below = totals.nextafter(torch.zeros_like(totals))  # (Q, 1)
    return torch.searchsorted(sums, torch.minimum(uniforms * totals, below), right=True)
