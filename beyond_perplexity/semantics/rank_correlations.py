"""Correlations of few or many items: ranks, matrices, and intervals that need no resampling."""

from __future__ import annotations

import math

import numpy as np

LEAST_ITEMS = 5  # of a correlation, for an interval
_NORMAL = 1.959963984540054  # 97.5% quantile


def average_ranks(values: np.ndarray) -> np.ndarray:
    """Rank columns (N, C) from 1 on, equal values by the mean of their ranks; no NaN."""
    ranks = np.empty(values.shape)
    for place, column in enumerate(values.T):
        _, code, counts = np.unique(column, return_inverse=True, return_counts=True)
        last = np.cumsum(counts)
        ranks[:, place] = (last - (counts - 1) / 2)[code]
    return ranks


def correlation_matrix(values: np.ndarray) -> np.ndarray:
    """Return Pearson's correlations (C, C) of columns (N, C); NaN where one does not vary."""
    if len(values) < 2:
        return np.full((values.shape[1],) * 2, math.nan)
    centred = values - values.mean(axis=0)
    # The centre of equal numbers may be off by rounding, so that they seem to vary.
    constant = np.ptp(values, axis=0) == 0
    sizes = np.sqrt(np.square(centred).sum(axis=0))
    sizes[constant] = math.nan
    scaled = centred / sizes
    found: np.ndarray = np.clip(scaled.T @ scaled, -1, 1)
    return found


def few_items_interval(value: float, items: int, *, ranks: bool) -> tuple[float, float]:
    """Give a correlation over independent items a 95% interval, by Fisher's z.

    Of ranks the variance of z is (1 + r²/2) / (n − 3), and a perfect order counts as half of the
    smallest change to it (6 / (n³ − n)), its interval then reaching 1. Of pairs of normal variables
    it holds the true rank correlation in 95 to 99% of the cases for 5 to 9 items, below
    correlations of .9 also of more (near 1 in 89%).

    Parameters
    ----------
    value : float
        The correlation.
    items : int
        Independent ones.
    ranks : bool
        Whether it is Spearman's.

    Returns
    -------
    tuple of float
        NaNs with fewer than `LEAST_ITEMS` items.

    References
    ----------
    Bonett, Wright (2000). Sample size requirements for estimating Pearson, Kendall and Spearman
    correlations. Psychometrika 65.
    """
    if items < LEAST_ITEMS or not math.isfinite(value):
        return math.nan, math.nan
    limit = 1 - 6 / (items**3 - items) if ranks else 1 - 1e-12
    inside = min(max(value, -limit), limit)
    half = _NORMAL * math.sqrt((1 + inside**2 / 2 if ranks else 1) / (items - 3))
    low, high = (math.tanh(math.atanh(inside) + side * half) for side in (-1, 1))
    return (-1.0 if value <= -limit else low), (1.0 if value >= limit else high)
