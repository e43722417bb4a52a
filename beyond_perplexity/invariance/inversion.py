"""Draws from discrete distributions by inversion: one uniform number decides on one place.

Q rows, X places, Y draws of a row.
"""

from __future__ import annotations

import torch
from torch import Tensor


def goals(totals: Tensor, uniforms: Tensor) -> Tensor:
    """Return the share of each total that its uniform number says, below the total.

    Parameters
    ----------
    totals : Tensor
        float64.
    uniforms : Tensor
        float64 in [0, 1), of a shape that goes with that of the totals.

    Returns
    -------
    Tensor
        float64; 0 where the total is 0.
    """
    # The product can round up to a total that is too small for all bits of a number.
    return torch.minimum(uniforms * totals, totals.nextafter(torch.zeros_like(totals)))


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
    return torch.searchsorted(sums, goals(sums[:, -1:], uniforms), right=True)
