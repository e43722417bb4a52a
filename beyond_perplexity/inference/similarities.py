"""The mean similarity of documents of different units, and the difference of two texts in it.

Similarities are products: of vectors of length 1 (cosines), or of which n-grams documents have. U
units, D numbers of a vector, w sides at a time.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

ROUNDING = 1e-12  # a difference of means below is one of equal texts


def mean_similarities(
    sums: np.ndarray | csr_array, sizes: np.ndarray, sides: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Compute the mean cosine of documents of different units, of the units on a side.

    Parameters
    ----------
    sums : numpy.ndarray of float64, shape (U, D)
        Vectors of length 1, added up over each unit.
    sizes : numpy.ndarray of float64, shape (U,)
        How many, or what they count.
    sides : numpy.ndarray of bool, shape (U, w)
        Which units are on the side.

    Returns
    -------
    tuple of numpy.ndarray of float64, shape (w,) and (U, w)
        The means, NaN of fewer than two units, and what each unit adds to their variance's square
        root: the mean less that without it, to first order.
    """
    own, squares = sides.astype(float), np.sum(sums**2, axis=1)
    total, n = sums.T @ own, sizes @ own  # (D, w), (w,)
    pairs = n**2 - sizes**2 @ own
    with np.errstate(invalid="ignore", divide="ignore"):
        value = (np.sum(total**2, axis=0) - squares @ own) / pairs
        beside = sizes[:, None] * n - sizes[:, None] ** 2
        parts = 2 * own * (sums @ total - squares[:, None] - value * beside) / pairs
    return value, parts


def unit_variances(parts: np.ndarray, units: np.ndarray) -> np.ndarray:
    """Add up the squares of what units add, (U, w), of so many units (w,): (w,)."""
    with np.errstate(invalid="ignore", divide="ignore"):
        found: np.ndarray = units / (units - 1) * np.sum(parts**2, axis=0)
    return found


def compared_similarities(
    sums: np.ndarray | csr_array, sizes: np.ndarray, sides: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Compute the difference of the means off and on a side, (U, w), and its t: (w,) each."""
    values, variances = [], []
    for side in (sides, ~sides):
        value, parts = mean_similarities(sums, sizes, side)
        values.append(value)
        variances.append(unit_variances(parts, np.sum(side & (sizes > 0)[:, None], axis=0)))
    difference = values[1] - values[0]
    with np.errstate(invalid="ignore", divide="ignore"):
        t = difference / np.sqrt(variances[0] + variances[1])
    return difference, np.where(np.abs(difference) < ROUNDING, 0.0, t)
