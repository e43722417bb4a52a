"""Intervals of ratios of sums over documents that come in groups, such as bits per byte."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from beyond_perplexity.tendencies.inference.thresholds import EFFECTIVE_GROUPS
from beyond_perplexity.tendencies.inference.units import effective_groups

INTERVAL_LEVEL = 0.95


class RatioInterval(NamedTuple):
    """A ratio of sums with its interval.

    Attributes
    ----------
    value : float
        Σ numerators / Σ denominators.
    low, high : float
        NaN with fewer than `EFFECTIVE_GROUPS` effective groups.
    standard_error : float
        NaN with one group.
    groups : int
    effective : float
        Effective number of groups, by the denominators.
    """

    value: float
    low: float
    high: float
    standard_error: float
    groups: int
    effective: float


def sum_groups(groups: np.ndarray, *columns: np.ndarray) -> list[np.ndarray]:
    """Sum columns over groups.

    Parameters
    ----------
    groups : ndarray of int, shape (D,)
        Key of the group of each document.
    *columns : ndarray, shape (D,)

    Returns
    -------
    list of ndarray of float64, shape (G,)
        In the order of the keys.
    """
    _, codes = np.unique(groups, return_inverse=True)
    return [np.bincount(codes, column) for column in columns]


def ratio_interval(
    numerators: np.ndarray, denominators: np.ndarray, level: float = INTERVAL_LEVEL
) -> RatioInterval:
    """Give the ratio of two sums an interval over groups.

    The error is that of the jackknife that leaves out a group, the quantile one of Student's t with
    the effective number of groups less one. Percentiles of resampled groups would hold the true
    ratio in 80 to 92% of the cases.

    Parameters
    ----------
    numerators, denominators : ndarray, shape (G,)
        Sums of each group; denominators are positive.
    level : float
        Of the interval.

    References
    ----------
    Miller (2024). Adding error bars to evals. Cochran (1977). Sampling techniques, chapter 6.
    """
    total, size, groups = numerators.sum(), denominators.sum(), len(numerators)
    value, effective = float(total / size), effective_groups(denominators)
    if groups < 2:
        return RatioInterval(value, math.nan, math.nan, math.nan, groups, effective)
    without = (total - numerators) / (size - denominators)
    error = math.sqrt((groups - 1) / groups * np.square(without - value).sum())
    if effective < EFFECTIVE_GROUPS:
        return RatioInterval(value, math.nan, math.nan, error, groups, effective)
    half = float(stdtrit(effective - 1, (1 + level) / 2)) * error
    return RatioInterval(value, value - half, value + half, error, groups, effective)
