"""Intervals of shares, such as accuracies: within 0 and 1, and of some width at their ends."""

from __future__ import annotations

import math

import numpy as np

from beyond_perplexity.inference.intervals import INTERVAL_LEVEL, RatioInterval, ratio_interval
from beyond_perplexity.inference.p_values import student_quantile


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
