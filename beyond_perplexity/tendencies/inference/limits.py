"""Intervals and limits, and what they cover.

*Distances* (between two texts, or to a law) are norms and overestimate: below the plug-in value
nothing can be said from it, so `low` is left out; `high` = value + t * se is an upper limit. The
total variation has the held-out distance as its lower limit. *Means, differences and Heaps' law* of
independent documents have percentile intervals. With groups percentiles are too narrow: value
+- t * se, with the effective number of groups less 1 as degrees of freedom and the variance of G
resampled groups times G / (G - 1). *Zipf's s* of the paper's fit has none: its ranks are those of
the tokens that it is fitted to.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from beyond_perplexity.tendencies.inference.units import Groups, effective_groups, group_sums
from beyond_perplexity.tendencies.measured import DISTANCES
from beyond_perplexity.tendencies.resampling import interval, student_quantile


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


class Spreads(NamedTuple):
    """The spreads of the reference and of the samples."""

    reference: Spread = INDEPENDENT
    samples: Spread = INDEPENDENT

    def of(self, measure: str) -> Spread:
        """Return the spread of a measure: of one text, or the wider one for both."""
        if measure.endswith("_reference") and not measure.startswith(DISTANCES):
            return self.reference
        if measure.startswith(("mean", "heaps")) and measure != "mean_difference":
            return self.samples
        grouped = [spread for spread in self if spread.df < math.inf or math.isnan(spread.df)]
        return min(grouped, key=lambda spread: spread.df, default=INDEPENDENT)


def spreads(groups: Groups, lengths: tuple[np.ndarray, np.ndarray] | None) -> Spreads:
    """Return the spreads of two texts; without lengths of their documents, as independent."""
    if lengths is None:
        return Spreads()
    return Spreads(*(spread_of(*both) for both in zip(groups, lengths, strict=True)))


def limits_of(
    measure: str,
    value: float,
    replicates: Mapping[str, np.ndarray],
    confidence: float,
    spread: Spread = INDEPENDENT,
) -> tuple[float, float]:
    """Return the limits of a measure; see the module.

    Parameters
    ----------
    measure : str
        Its name.
    value : float
        The measure of the data.
    replicates : mapping of str to numpy.ndarray, shape (R,)
        Bootstrap replicates by measure; NaNs are left out.
    confidence : float
        Of the interval, or of each limit of a distance.
    spread : Spread
        How replicates and degrees of freedom are corrected.

    Returns
    -------
    low, high : float
        NaN where there is none.
    """
    drawn = replicates.get(measure, np.zeros(0))
    drawn = drawn[~np.isnan(drawn)]
    if len(drawn) < 2 or math.isnan(value) or measure.startswith("zipf_s"):
        return math.nan, math.nan
    error = spread.correction * float(drawn.std(ddof=1))
    if measure.startswith(DISTANCES):
        return math.nan, min(1.0, value + float(student_quantile(confidence, spread.df)) * error)
    if spread == INDEPENDENT:
        return interval(value, drawn, confidence)
    margin = float(student_quantile((1 + confidence) / 2, spread.df)) * error
    return value - margin, value + margin
