"""Correlations with intervals, also of items that come in groups, such as sentences of documents.

N items, G groups. The error is that of the influence of each item (the infinitesimal jackknife),
summed within groups; limits are on Fisher's scale, where they keep within −1 and 1. Fisher's own
error, 1/√(N − 3), supposes normal variables; scores have bounds, ties and tails.

Source: Fisher (1921). On the probable error of a coefficient of correlation. Efron (1982). The
jackknife, the bootstrap and other resampling plans, chapter 6. Borkowf (2002) on Spearman's.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from beyond_perplexity.inference.exchanged_units import effective_groups
from beyond_perplexity.inference.intervals import INTERVAL_LEVEL
from beyond_perplexity.inference.p_values import student_quantile
from beyond_perplexity.inference.thresholds import EFFECTIVE_GROUPS

_Floats = NDArray[np.float64]


class CorrelationInterval(NamedTuple):
    """A correlation with its interval.

    Attributes
    ----------
    value : float
        NaN where it is not defined: fewer than two items, or a column that does not vary.
    low, high : float
        NaN with fewer than `EFFECTIVE_GROUPS` effective groups.
    standard_error : float
        Of `value`.
    items : int
        N.
    effective : float
        Effective number of groups.
    influences : ndarray of float64, shape (N,)
        N · the change of the value by one item; their sum is 0.
    """

    value: float
    low: float
    high: float
    standard_error: float
    items: int
    effective: float
    influences: _Floats


def pearson(
    first: ArrayLike, second: ArrayLike, groups: ArrayLike | None = None
) -> CorrelationInterval:
    """Return Pearson's correlation with its interval.

    Parameters
    ----------
    first, second : array, shape (N,)
        Finite.
    groups : array of int, shape (N,), optional
        Key of the group of each item; None: each is by itself.
    """
    x, y = _standard(first), _standard(second)
    value = float(np.mean(x * y)) if len(x) else math.nan
    influences = x * y - value / 2 * (x * x + y * y)
    return _interval(value, influences, groups)


def spearman(
    first: ArrayLike, second: ArrayLike, groups: ArrayLike | None = None
) -> CorrelationInterval:
    """Return Spearman's correlation of ranks, ties having their mean rank, with its interval.

    The influence of an item is that on the ranks of all others too. Parameters are those of
    `pearson`.
    """
    x, y = np.asarray(first, np.float64), np.asarray(second, np.float64)
    if len(x) < 2:
        return _interval(math.nan, np.full(len(x), math.nan), groups)
    grades = [_grades(column) - 0.5 for column in (x, y)]
    shared = _moment((x, grades[0]), (y, grades[1]))
    pairs = zip((x, y), grades, strict=True)
    own = [_moment(pair, pair) for pair in pairs]
    scale = math.sqrt(own[0][0] * own[1][0])
    if not scale > 0:
        return _interval(math.nan, np.full(len(x), math.nan), groups)
    value = shared[0] / scale
    influences = shared[1] / scale - value / 2 * sum(part[1] / part[0] for part in own)
    return _interval(value, influences, groups)


def correlation_difference(
    first: CorrelationInterval, second: CorrelationInterval, groups: ArrayLike | None = None
) -> tuple[float, float, float]:
    """Return by how much one correlation exceeds another of the same items, low and high.

    Two measures that agree with people on the same pairs err alike: intervals that overlap say
    little of the difference.

    Parameters
    ----------
    first, second : CorrelationInterval
        Of the same N items in the same order.
    groups : array of int, shape (N,), optional
        As they were given to both.

    Returns
    -------
    tuple of float
        NaN where one is not defined; limits also with fewer than `EFFECTIVE_GROUPS` groups.
    """
    value = first.value - second.value
    if not math.isfinite(value):
        return math.nan, math.nan, math.nan
    error, effective = _error(first.influences - second.influences, groups)
    if effective < EFFECTIVE_GROUPS:
        return value, math.nan, math.nan
    half = float(student_quantile((1 + INTERVAL_LEVEL) / 2, effective - 1)) * error
    return value, max(-2.0, value - half), min(2.0, value + half)


def _standard(values: ArrayLike) -> _Floats:
    held = np.asarray(values, np.float64)
    if len(held) < 2 or np.ptp(held) == 0:
        return np.full(len(held), np.nan)
    centred = held - held.mean()
    found: _Floats = centred / math.sqrt(np.mean(centred**2))
    return found


def _grades(values: _Floats) -> _Floats:
    """Return the share of items below each one, and half of those like it; their mean is 1/2."""
    ordered = np.sort(values)
    below = np.searchsorted(ordered, values, "left")
    return (below + np.searchsorted(ordered, values, "right")) / (2 * len(values))


def _moment(
    first: tuple[_Floats, _Floats], second: tuple[_Floats, _Floats]
) -> tuple[float, _Floats]:
    """Return the mean product of centred grades, and the influence of each item on it."""
    (x, u), (y, v) = first, second
    value = float(np.mean(u * v))
    moved = _above(x, v) - value + _above(y, u) - value
    return value, u * v - value + moved


def _above(values: _Floats, weights: _Floats) -> _Floats:
    """Return the mean weight of items above each one, and half of those like it."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    sums = np.concatenate([[0.0], np.cumsum(weights[order])])
    after = [sums[-1] - sums[np.searchsorted(ordered, values, side)] for side in ("left", "right")]
    found: _Floats = (after[0] + after[1]) / (2 * len(values))
    return found


def _grouped(influences: _Floats, groups: ArrayLike | None) -> tuple[_Floats, float]:
    """Sum influences over groups, and return these sums and the effective number of groups."""
    if groups is None:
        return influences, float(len(influences))
    _, codes, sizes = np.unique(np.asarray(groups), return_inverse=True, return_counts=True)
    sums = np.asarray(np.bincount(codes, influences), np.float64)
    return sums, effective_groups(sizes)


def _error(influences: _Floats, groups: ArrayLike | None) -> tuple[float, float]:
    """Return the standard error by influences, and the effective number of groups."""
    sums, effective = _grouped(influences, groups)
    count = len(sums)
    if count < 2:
        return math.nan, effective
    return math.sqrt(count / (count - 1) * float(np.sum(sums**2))) / len(influences), effective


def _interval(value: float, influences: _Floats, groups: ArrayLike | None) -> CorrelationInterval:
    items = len(influences)
    if not math.isfinite(value):
        return CorrelationInterval(math.nan, math.nan, math.nan, math.nan, items, 0.0, influences)
    error, effective = _error(influences, groups)
    value = min(1.0, max(-1.0, value))
    low = high = math.nan
    if effective >= EFFECTIVE_GROUPS and abs(value) < 1:
        half = float(student_quantile((1 + INTERVAL_LEVEL) / 2, effective - 1))
        half *= error / (1 - value**2)
        low, high = (math.tanh(math.atanh(value) + side * half) for side in (-1, 1))
    elif effective >= EFFECTIVE_GROUPS:
        low = high = value
    return CorrelationInterval(value, low, high, error, items, effective, influences)
