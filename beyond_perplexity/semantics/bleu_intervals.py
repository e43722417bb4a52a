"""Intervals of BLEU, which is no mean of sentences: resampled sets of groups of documents."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from beyond_perplexity.inference.exchanged_units import effective_groups
from beyond_perplexity.inference.intervals import INTERVAL_LEVEL, RatioInterval
from beyond_perplexity.inference.p_values import student_quantile
from beyond_perplexity.inference.thresholds import EFFECTIVE_GROUPS
from beyond_perplexity.random_streams import stream
from beyond_perplexity.semantics.bleu import bleu_of

_PURPOSE = "semantics/bleu"  # of the random streams
_Counts = NDArray[np.int64]


def resampled_sums(statistics: Sequence[_Counts], resamples: int, seed: int) -> list[_Counts]:
    """Sum statistics over groups that are drawn with replacement, as many as there are.

    Parameters
    ----------
    statistics : sequence of ndarray of int64, shape (G, C)
        Several, which share their draws.
    resamples : int
    seed : int
        Of the run; resample k has a stream of its own.

    Returns
    -------
    list of ndarray of int64, shape (resamples, C)
    """
    size, joined = len(statistics[0]), np.concatenate(statistics, axis=1)
    sums = np.empty((resamples, joined.shape[1]), np.int64)
    for number in range(resamples):
        drawn = stream(seed, _PURPOSE, number).integers(0, size, size)
        sums[number] = np.bincount(drawn, minlength=size) @ joined
    ends = np.cumsum([held.shape[1] for held in statistics])
    return np.split(sums, ends[:-1], axis=1)


def spread_interval(
    value: float, drawn: NDArray[np.float64], sizes: _Counts, *, known: bool = True
) -> RatioInterval:
    """Give a value an interval by the deviation of its resamples.

    The quantile is Student's with the effective number of groups less one: percentiles of the
    resamples would hold the true value too seldom when groups are few.

    Parameters
    ----------
    value : float
    drawn : ndarray of float64, shape (resamples,)
    sizes : ndarray, shape (G,)
        Of the groups, for their effective number.
    known : bool
        Whether there is an interval at all.
    """
    groups, effective = len(sizes), effective_groups(sizes)
    error = float(np.std(drawn, ddof=1)) if len(drawn) > 1 and groups > 1 else math.nan
    if effective < EFFECTIVE_GROUPS or math.isnan(error) or not known:
        return RatioInterval(value, math.nan, math.nan, error, groups, effective)
    half = float(student_quantile((1 + INTERVAL_LEVEL) / 2, effective - 1)) * error
    return RatioInterval(value, value - half, value + half, error, groups, effective)


def bleu_intervals(
    own: _Counts, floor: _Counts | None, order: int, resamples: int, seed: int
) -> tuple[RatioInterval, RatioInterval | None, RatioInterval | None]:
    """Return corpus BLEU, that of the floor, and the difference, each with its interval.

    Parameters
    ----------
    own, floor : ndarray of int64, shape (G, C)
        Sums of `count_bleu` by group, of the same groups.
    order : int
        n of BLEU-n; there is no interval where an order up to it has no match.
    resamples, seed : int
        See `resampled_sums`.
    """
    statistics = [own] if floor is None else [own, floor]
    # where there is no match smoothing alone decides, and what varies is not the texts
    seen = [bool(held.sum(axis=0)[2 : 2 + order].all()) for held in statistics]
    drawn = [bleu_of(sums, order) for sums in resampled_sums(statistics, resamples, seed)]
    values = [float(bleu_of(held.sum(axis=0), order)) for held in statistics]
    sizes = own[:, 1]
    first = spread_interval(values[0], drawn[0], sizes, known=seen[0])
    if floor is None:
        return first, None, None
    second = spread_interval(values[1], drawn[1], floor[:, 1], known=seen[1])
    difference = values[0] - values[1], drawn[0] - drawn[1]
    return first, second, spread_interval(*difference, sizes, known=all(seen))
