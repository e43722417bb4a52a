"""Upper limits of distances, from bootstrap replicates of documents or groups.

Distances are norms and overestimate, so that nothing can be said from below.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from beyond_perplexity.inference.p_values import student_quantile
from beyond_perplexity.inference.permuted_units import Groups, effective_groups, group_sums


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
    """Return the spread of a text from the group and the length of each document, (D,).

    The variance of G resampled groups is taken times G / (G - 1), and t has the effective number of
    groups less 1 as degrees of freedom.
    """
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
    """Return the upper limit of a distance between 0 and 1: value + t · standard error.

    Parameters
    ----------
    value : float
        The distance of the data.
    replicates : numpy.ndarray, shape (R,), or None
        Bootstrap replicates; NaNs are left out.
    confidence : float
        Confidence of the limit.
    spread : Spread
        How replicates and degrees of freedom are corrected.

    Returns
    -------
    float
        At most 1; NaN where there is none: too few units, or replicates that do not vary.

    Examples
    --------
    >>> round(upper_limit(0.1, np.array([0.09, 0.1, 0.12, 0.13]), 0.95), 4)
    0.13
    """
    drawn = np.zeros(0) if replicates is None else replicates[~np.isnan(replicates)]
    if len(drawn) < 2 or math.isnan(value):
        return math.nan
    error = spread.correction * float(drawn.std(ddof=1))
    if not error > 0:  # NaN where a text has one group
        return math.nan
    return min(1.0, value + float(student_quantile(confidence, spread.df)) * error)
