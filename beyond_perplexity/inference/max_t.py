"""Many tests on shared randomizations: Westfall and Young's max-T, Benjamini and Yekutieli's q."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

_NEAR = 1e-5  # of statistics of 32 bits, closer than which they are ties that rounding has parted


class MaxT(NamedTuple):
    """What `max_t` found, float64, (W,): standardized statistics and their two-sided p-values.

    `df` are the degrees of freedom of Student's t that has the kurtosis of the draws.
    """

    t: np.ndarray
    p_value: np.ndarray
    p_adjusted: np.ndarray
    df: np.ndarray


def max_t(draws: np.ndarray) -> MaxT:
    """Test W statistics on shared randomizations, and adjust for their number by max-T.

    Every statistic is first centred and scaled by its own mean and standard deviation over all
    draws, those of the data among them: so all weigh alike in the largest one, whatever is
    permuted, and the tests stay exact. Step-down: the k-th largest statistic is held against the
    largest one of those that are not larger, in every draw. The error over all features is at most
    the level where the sides are alike in all of them, and asymptotically where some differ.

    Parameters
    ----------
    draws : numpy.ndarray of float, shape (B + 1, W)
        The statistics under B randomizations, and last those of the data.

    Returns
    -------
    MaxT
        P-values are from 1 / (B + 1) to 1, and 1 where the statistic of the data is 0.

    References
    ----------
    Westfall and Young (1993). Resampling-based multiple testing, algorithm 4.1. Phipson and Smyth
    (2010). Permutation p-values should never be zero.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> draws = rng.standard_normal((1000, 50))
    >>> draws[-1, 0] = 6.0
    >>> found = max_t(draws)
    >>> found.p_adjusted[0].round(4).item(), bool((found.p_adjusted[1:] > 0.2).all())
    (0.001, True)
    """
    zero = draws[-1] == 0
    spread = draws.std(axis=0, dtype=float)
    spread, centre = np.where(spread > 0, spread, 1.0), draws.mean(axis=0, dtype=float)
    sizes = (draws - centre.astype(draws.dtype)) / spread.astype(draws.dtype)
    t = sizes[-1].astype(float)
    excess = np.mean(sizes**4, axis=0, dtype=float) - 3 - 2 * np.sqrt(24 / len(draws))  # 2 errors
    df = 4 + 6 / np.maximum(excess, 1e-9)
    order = np.argsort(-np.abs(t), kind="stable")
    sizes = np.abs(sizes)[:, order]
    least = sizes[-1] - _NEAR * (1 + sizes[-1])
    p_value, p_adjusted = np.ones(len(t)), np.ones(len(t))
    p_value[order] = np.mean(sizes >= least, axis=0)
    largest = np.maximum.accumulate(sizes[:, ::-1], axis=1)[:, ::-1]
    p_adjusted[order] = np.maximum.accumulate(np.mean(largest >= least, axis=0))
    p_value[zero], p_adjusted[zero] = 1.0, 1.0
    return MaxT(t, p_value, p_adjusted, df)


def benjamini_yekutieli(p_values: np.ndarray) -> np.ndarray:
    """Adjust p-values so that rejecting at a level keeps the false discovery rate at it.

    Parameters
    ----------
    p_values : numpy.ndarray, shape (m,)

    Returns
    -------
    numpy.ndarray of float64, shape (m,)
        The k-th smallest is multiplied by m / k * (1 + 1/2 + ... + 1/m), made monotone, at most 1:
        valid however the tests depend.

    References
    ----------
    Benjamini and Yekutieli (2001). The control of the false discovery rate in multiple testing
    under dependency. Annals of Statistics 29.

    Examples
    --------
    >>> benjamini_yekutieli(np.array([0.001, 0.02, 0.9])).round(4).tolist()
    [0.0055, 0.055, 1.0]
    """
    order = np.argsort(p_values, kind="stable")
    ranks = np.arange(1, len(order) + 1)
    steps = np.asarray(p_values, float)[order] * len(order) / ranks * np.sum(1 / ranks)
    adjusted = np.empty(len(order))
    adjusted[order] = np.minimum(np.minimum.accumulate(steps[::-1])[::-1], 1)
    return adjusted
