"""Limits of distances, and what intervals cover.

*Distances* (between two texts, or to a law) are norms and overestimate: below the plug-in value
nothing can be said from it, so `low` is left out; `high` = value + t * se is an upper limit, with
the bootstrap's standard error. The total variation has the held-out distance as its lower limit.
With groups t has the effective number of groups less 1 as degrees of freedom, and the variance of G
resampled groups is taken times G / (G - 1). *Means, differences and Heaps' law* have value -+ t *
se with units left out one by one (`inference.jackknife`): percentiles of resamples are too narrow.
*Zipf's s* of the paper's fit has none: its ranks are those of the tokens that it is fitted to. That
of the split fit names the exponent at the ranks that were found (`zipf_split`).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from beyond_perplexity.tendencies.inference.units import Groups, effective_groups, group_sums
from beyond_perplexity.tendencies.resampling import student_quantile


class Spread(NamedTuple):
    """How a text's units vary when they are resampled.

    Attributes
    ----------
    correction : float
        Factor of the standard deviation of replicates.
    df : float
        Degrees of freedom; infinite for independent documents.
    """

    correction: float = 1.0
    df: float = math.inf


INDEPENDENT = Spread()


def spread_of(groups: np.ndarray | None, lengths: np.ndarray) -> Spread:
    """Return the spread of a text from the group and the length of each document, (D,)."""
    if groups is None:
        return INDEPENDENT
    n, effective = len(np.unique(groups)), effective_groups(group_sums(groups, lengths))
    if n < 2 or effective <= 1:
        return Spread(math.nan, math.nan)
    return Spread(math.sqrt(n / (n - 1)), effective - 1)


def widest_spread(groups: Groups, lengths: tuple[np.ndarray, np.ndarray] | None) -> Spread:
    """Return the spread of two texts' distance: that with fewer degrees of freedom.

    Without lengths of their documents (D,) these count as independent.
    """
    if lengths is None:
        return INDEPENDENT
    found = [spread_of(*both) for both in zip(groups, lengths, strict=True)]
    grouped = [spread for spread in found if spread != INDEPENDENT]
    return min(grouped, key=lambda spread: np.nan_to_num(spread.df), default=INDEPENDENT)


def upper_limit(
    value: float, replicates: np.ndarray | None, confidence: float, spread: Spread = INDEPENDENT
) -> float:
    """Return the upper limit of a distance; see the module.

    Parameters
    ----------
    value : float
        The distance of the data.
    replicates : numpy.ndarray, shape (R,), or None
        Bootstrap replicates; NaNs are left out.
    confidence : float
        Of the limit.
    spread : Spread
        How replicates and degrees of freedom are corrected.

    Returns
    -------
    float
        NaN where there is none.
    """
    drawn = np.zeros(0) if replicates is None else replicates[~np.isnan(replicates)]
    if len(drawn) < 2 or math.isnan(value):
        return math.nan
    error = spread.correction * float(drawn.std(ddof=1))
    return min(1.0, value + float(student_quantile(confidence, spread.df)) * error)
