"""Intervals of ratios of sums over documents that come in groups, such as bits per byte."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from beyond_perplexity.storage.provenance import hash_bytes
from beyond_perplexity.tendencies.inference.thresholds import EFFECTIVE_GROUPS
from beyond_perplexity.tendencies.inference.units import effective_groups
from beyond_perplexity.tendencies.resampling import student_quantile

INTERVAL_LEVEL = 0.95


class RatioInterval(NamedTuple):
    """A ratio of sums, or another function of sums over groups, with its interval.

    Attributes
    ----------
    value : float
        Of a ratio Σ numerators / Σ denominators.
    low, high : float
        NaN with fewer than `EFFECTIVE_GROUPS` effective groups.
    standard_error : float
        NaN with one group, or where it is not defined.
    groups : int
    effective : float
        Effective number of groups, by their sizes: of a ratio, by the denominators.
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


def group_key(group: str | None, document: int) -> int:
    """Hash the name of a document's group; one of no group is a group of its own."""
    own = f"\x1f{document}"  # no title
    return hash_bytes((own if group is None else group).encode())


def jackknife_interval(
    value: float, without: np.ndarray, sizes: np.ndarray, level: float = INTERVAL_LEVEL
) -> RatioInterval:
    """Give a function of sums over groups an interval, from its values without each group.

    The quantile is one of Student's t with the effective number of groups less one. Percentiles of
    resampled groups would hold a true ratio in 80 to 92% of the cases.

    Parameters
    ----------
    value : float
        Of all groups.
    without : ndarray of float64, shape (G,)
        The same without each group; where one is not finite there is no interval.
    sizes : ndarray, shape (G,)
        Of the groups, for their effective number.
    level : float
        Of the interval.

    References
    ----------
    Miller (2024). Adding error bars to evals. Cochran (1977). Sampling techniques, chapter 6.
    """
    groups, effective = len(sizes), effective_groups(sizes)
    if groups < 2 or not np.isfinite(without).all():
        return RatioInterval(value, math.nan, math.nan, math.nan, groups, effective)
    error = math.sqrt((groups - 1) / groups * np.square(without - value).sum())
    if effective < EFFECTIVE_GROUPS:
        return RatioInterval(value, math.nan, math.nan, error, groups, effective)
    half = float(student_quantile((1 + level) / 2, effective - 1)) * error
    return RatioInterval(value, value - half, value + half, error, groups, effective)


def ratio_interval(
    numerators: np.ndarray, denominators: np.ndarray, level: float = INTERVAL_LEVEL
) -> RatioInterval:
    """Give the ratio of two sums an interval over groups; see `jackknife_interval`.

    Parameters
    ----------
    numerators, denominators : ndarray, shape (G,)
        Sums of each group; denominators are positive.
    level : float
        Of the interval.
    """
    total, size = numerators.sum(), denominators.sum()
    if len(numerators) < 2:
        without = np.full(len(numerators), math.nan)
    else:
        without = (total - numerators) / (size - denominators)
    return jackknife_interval(float(total / size), without, denominators, level)
