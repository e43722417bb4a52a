"""P-values from permutations and Monte Carlo draws, and Student's distribution."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

import numpy as np

_TIE = 1e-12  # statistics closer than this differ by rounding alone
_Key = TypeVar("_Key")


def joined_draws(parts: Iterable[Mapping[_Key, np.ndarray]]) -> dict[_Key, np.ndarray]:
    """Put the draws (r,) of each measure from some blocks one after the other; {} of no block."""
    held = list(parts)
    return {key: np.concatenate([part[key] for part in held]) for key in held[0]} if held else {}


def permutation_p(observed: float, permuted: np.ndarray, *, two_sided: bool = False) -> float:
    """Compute the p-value of a randomization test.

    p = (b + 1) / (B + 1), with b the randomizations whose statistic is at least the observed one:
    under the null all B + 1 are exchangeable and the test is exact. Of a distance only the upper
    tail speaks against the null: a text against itself has p = 1.

    Parameters
    ----------
    observed : float
        The statistic of the data.
    permuted : numpy.ndarray, shape (B,)
        The statistic of every randomization; one not defined (a side without tokens) counts as
        extreme.
    two_sided : bool
        Whether absolute values are compared, for a signed difference.

    Returns
    -------
    float
        From 1 / (B + 1) to 1; NaN without randomizations or when the statistic is not defined.

    References
    ----------
    Phipson and Smyth (2010). Permutation p-values should never be zero.

    Examples
    --------
    >>> permutation_p(0.9, np.array([0.1, 0.5, 0.9, 0.3]))
    0.4
    """
    if len(permuted) == 0 or np.isnan(observed):
        return float("nan")
    if two_sided:
        observed, permuted = abs(observed), np.abs(permuted)
    extreme = ~(permuted < observed - _TIE * max(1.0, observed))
    return float((extreme.sum() + 1) / (len(permuted) + 1))


def monte_carlo_p(observed: float, drawn: np.ndarray) -> float:
    """Compute the upper-tail p-value (b + 1) / (B + 1) of a distance drawn under the null.

    Parameters
    ----------
    observed : float
        The distance of the data.
    drawn : numpy.ndarray, shape (B,)
        The distance of samples of the null distribution.

    Returns
    -------
    float
        NaN without draws or when the distance is not defined.

    Examples
    --------
    >>> monte_carlo_p(0.2, np.array([0.1, 0.3, 0.15]))
    0.5
    """
    if len(drawn) == 0 or np.isnan(observed):
        return float("nan")
    return float((np.sum(drawn >= observed - _TIE) + 1) / (len(drawn) + 1))


def student_quantile(level: float, df: float | np.ndarray) -> np.ndarray:
    """Return the quantile of Student's t at a level, normal for infinite degrees of freedom."""
    from scipy.special import stdtrit  # late, as everywhere in this package

    found: np.ndarray = stdtrit(df, level)
    return found


def student_tail(t: np.ndarray, df: np.ndarray) -> np.ndarray:
    """Return the upper tail of Student's t: P(T >= t)."""
    from scipy.special import stdtr

    tail: np.ndarray = stdtr(df, -t)
    return tail
