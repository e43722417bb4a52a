"""Limits of numbers between 0 and 1: from above of distances, from both sides of shares.

Distances are norms and overestimate, so that nothing can be said from below; their limits are of
bootstrap replicates of documents or groups. Intervals of shares are of some width at their ends.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from beyond_perplexity.inference.intervals import (
    INTERVAL_LEVEL,
    RatioInterval,
    RatioTest,
    ratio_interval,
    ratio_test,
)
from beyond_perplexity.inference.p_values import TIE, student_quantile
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


def wilson_interval(share: float, count: float, df: float = math.inf) -> tuple[float, float]:
    """Give a share of independent cases a 95% interval, by Wilson's method.

    Parameters
    ----------
    share, count : float
        The share, from 0 to 1, of so many cases.
    df : float
        Degrees of freedom of the quantile (Student's t); infinite: normal, as Wilson has it.

    Returns
    -------
    tuple of float
        Lower and upper limit, within 0 and 1.

    References
    ----------
    Wilson (1927). Probable inference, the law of succession, and statistical inference.

    Examples
    --------
    >>> low, high = wilson_interval(0.9, 50)
    >>> print(f"{low:.3f} to {high:.3f}")
    0.786 to 0.957
    """
    z = float(student_quantile((1 + INTERVAL_LEVEL) / 2, df))
    centre = (share + z * z / (2 * count)) / (1 + z * z / count)
    spread = math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    half = spread * z / (1 + z * z / count)
    return max(0.0, centre - half), min(1.0, centre + half)


def share_interval(right: np.ndarray, cases: np.ndarray) -> RatioInterval:
    """Give a share of cases in groups a 95% interval.

    Wilson's, with as many independent cases as have the jackknife's variance over groups, at most
    the cases there are; where that variance is 0, as of a share of 1, with the effective number of
    groups. The quantile is Student's t, of the effective groups less 1; where few of them determine
    the variance, as of a share near 1, of 3 (Σ c²)² / Σ c⁴ for the changes c by leaving out.

    Parameters
    ----------
    right, cases : ndarray, shape (G,)
        Of each group; an undecided case may count half.

    Returns
    -------
    RatioInterval

    References
    ----------
    Korn and Graubard (1998). Confidence intervals for proportions with small expected number of
    positive counts estimated from survey data. Survey Methodology 24. Satterthwaite (1946). An
    approximate distribution of estimates of variance components. Biometrics Bulletin 2.

    Examples
    --------
    >>> found = share_interval(np.full(30, 4.0), np.full(30, 4.0))
    >>> print(f"{found.value} from {found.low:.3f} to {found.high}")
    1.0 from 0.878 to 1.0
    """
    found = ratio_interval(right, cases)
    if math.isnan(found.low):
        return found
    share, count, alike = found.value, found.effective, found.effective
    if found.standard_error:
        changes = (right.sum() - right) / (cases.sum() - cases) - share
        squares = np.square(changes / np.abs(changes).max())
        alike = min(alike, 3 * float(squares.sum() ** 2 / np.square(squares).sum()))
        count = min(share * (1 - share) / found.standard_error**2, cases.sum())
    low, high = wilson_interval(share, count, alike - 1)
    return found._replace(low=low, high=high)


def share_difference_test(differences: np.ndarray, cases: np.ndarray) -> RatioTest:
    """Test whether two shares of the same cases in groups are equal; with a 95% interval.

    `ratio_test` with a group more on either side: few groups tell two shares near 1 apart, and none
    may, and these alone say too little of how often others would. The two have no case; they are as
    far from the difference as the groups that differ (root mean square) or, where these do not
    vary, as the difference, or by a mean group.

    Parameters
    ----------
    differences, cases : ndarray, shape (G,)
        Of each group: cases of the first share less those of the second one, and all cases.

    Returns
    -------
    RatioTest
        Its interval, within -1 and 1, has no limits where there are fewer than `EFFECTIVE_GROUPS`
        effective groups; p is NaN with one group.

    References
    ----------
    After Agresti and Min (2005). Simple improved confidence intervals for comparing matched
    proportions. Statistics in Medicine 24; they add half as much.

    Examples
    --------
    >>> found = share_difference_test(np.zeros(40), np.full(40, 6.0))
    >>> print(f"{found.interval.low:.3f} to {found.interval.high:.3f}, p = {found.p_value}")
    -0.111 to 0.111, p = 1.0
    """
    plain, mean = ratio_interval(differences, cases), cases.mean()
    if math.isnan(plain.standard_error):
        return RatioTest(plain, math.nan, plain.effective - 1)
    residuals = (differences - plain.value * cases)[differences != 0]
    more = math.sqrt(np.square(residuals).sum() / max(len(residuals), 1))
    if more <= TIE * mean:
        more = mean * (abs(plain.value) or 1.0)
    found = ratio_test(np.append(differences, [more, -more]), np.append(cases, [0, 0]))
    low, high = np.clip(found.interval[1:3], -1, 1) if math.isfinite(plain.low) else plain[1:3]
    return found._replace(interval=plain._replace(low=float(low), high=float(high)))
