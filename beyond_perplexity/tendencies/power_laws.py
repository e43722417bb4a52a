"""Zipf's and Heaps' laws: maximum-likelihood fits from sufficient statistics.

Source: "Language Model Evaluation Beyond Perplexity" (2021), eq. 4, 5 and Appendix A.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from scipy.special import zeta

from beyond_perplexity.inference.intervals import NOT_DEFINED, StandardError, UnitSums, error_of

_LARGEST_EXPONENT = 60.0
_TABLE_REACH = 0.1  # in exponents, on either side
_TABLE_NODES = 33


class Heaps(NamedTuple):
    """Parameters of Heaps' law, E[types of a document of l tokens] = alpha * l ** beta."""

    alpha: float
    beta: float

    def rate(self, lengths: np.ndarray) -> np.ndarray:
        """Return the Poisson rate at lengths in tokens (any shape), as float64."""
        return self.alpha * np.asarray(lengths, float) ** self.beta


def fit_zipf(ranked: np.ndarray) -> float:
    """Fit the exponent of Zipf's law, p(rank k) = k^-s / zeta(s), by maximum likelihood.

    The log-likelihood is -N ln zeta(s) - s sum_k c_k ln k, with N = sum_k c_k; the normalization is
    infinite, whatever the number of ranks that are fitted.

    Parameters
    ----------
    ranked : numpy.ndarray, shape (K,)
        Counts c_k by rank, most frequent first.

    Returns
    -------
    float
        s > 1; NaN when all tokens are of one type, for which no finite maximum exists.
    """
    total = float(np.sum(ranked))
    weighted = float(np.dot(ranked, np.log(np.arange(1, len(ranked) + 1))))
    if total == 0 or weighted == 0:
        return math.nan
    mean_log_rank = weighted / total

    def loss(log_excess: float) -> float:
        s = 1 + math.exp(log_excess)
        return math.log(zeta(s)) + s * mean_log_rank

    # ln(s - 1) keeps the search away from the pole at s = 1 and makes its steps relative to it.
    bounds = (math.log(1e-9), math.log(_LARGEST_EXPONENT))
    found = minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 1e-10})
    return 1 + math.exp(found.x)


def zipf_cdf(s: float, ranks: int) -> np.ndarray:
    """Return the cumulative distribution of Zipf's law with infinite support at ranks 1 to `ranks`.

    Parameters
    ----------
    s : float
        Exponent, above 1.
    ranks : int
        The largest rank.

    Returns
    -------
    numpy.ndarray of float64, shape (ranks,)
        F(k); F(ranks) < 1 by the mass beyond.
    """
    return np.cumsum(np.arange(1, ranks + 1, dtype=float) ** -s) / zeta(s)


def fit_heaps(lengths: np.ndarray, documents: np.ndarray, types: np.ndarray) -> Heaps:
    """Fit Heaps' law as a Poisson law of the types of a document, by maximum likelihood.

    The log-likelihood is sum [u ln alpha + u beta ln l - alpha l^beta] + constant. Given beta,
    alpha = sum u / sum l^beta; what remains is concave in beta, and its derivative has one root.

    Parameters
    ----------
    lengths : numpy.ndarray, shape (G,)
        Distinct lengths in tokens; those below 1 carry no information and are left out.
    documents : numpy.ndarray, shape (G,)
        Documents of each length.
    types : numpy.ndarray, shape (G,)
        Sum of the types of these documents.

    Returns
    -------
    Heaps
        NaNs when fewer than two lengths occur or no document has a type.
    """
    used = (lengths >= 1) & (documents > 0)
    log_l, n, u = np.log(lengths[used]), documents[used].astype(float), types[used].astype(float)
    if len(log_l) < 2 or u.sum() == 0:
        return Heaps(math.nan, math.nan)
    target = np.dot(u, log_l) / u.sum()

    def excess(beta: float) -> float:
        weights = n * np.exp(beta * (log_l - log_l.max()))
        return float(np.dot(weights, log_l) / weights.sum() - target)

    low, high = -1.0, 2.0
    while excess(low) > 0 and low > -1e3:
        low *= 2
    while excess(high) < 0 and high < 1e3:
        high *= 2
    if excess(low) * excess(high) > 0:
        return Heaps(math.nan, math.nan)
    beta = float(brentq(excess, low, high, xtol=1e-13))
    return Heaps(float(u.sum() / np.dot(n, np.exp(beta * log_l))), beta)


def heaps_columns(
    lengths: np.ndarray, types: np.ndarray, fit: Heaps
) -> tuple[np.ndarray, np.ndarray]:
    """Return what documents contribute to Heaps' fit, (C, 5), and which do, (C,); see `fit_heaps`.

    With x = ln l: l^beta, x l^beta, x^2 l^beta, the types u, and x u.
    """
    used = lengths >= 1
    x = np.log(np.maximum(lengths, 1))
    rate = np.exp(fit.beta * x)
    return np.stack([rate, x * rate, x**2 * rate, types, x * types], axis=1), used


def heaps_errors(units: UnitSums, fit: Heaps) -> tuple[StandardError, StandardError]:
    """Return the standard errors of alpha and beta from sums of `heaps_columns`.

    Each unit is left out with one step of Newton's method from the fit of all.
    """
    if units.many.sum() < 2 or math.isnan(fit.beta):
        return NOT_DEFINED, NOT_DEFINED
    rate, rate_x, rate_xx, types, types_x = (units.many @ units.sums - units.sums).T
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        mean = rate_x / rate
        variance = rate_xx / rate - mean**2
        # Without a unit a single length may remain, and no slope.
        variance = np.where(variance > 1e-12 * mean**2, variance, np.nan)
        step = (types_x / types - mean) / variance
        alpha = types / (rate * np.exp(step * mean + step**2 * variance / 2))
    return error_of(fit.alpha, alpha, units), error_of(fit.beta, fit.beta + step, units)


def fit_truncated_zipf(ranked: np.ndarray) -> float:
    """Fit p(k) = k^-s / sum_j j^-s over the given ranks alone, by maximum likelihood.

    At the maximum the mean of ln k under the law is that of the counts, which falls in s.

    Parameters
    ----------
    ranked : numpy.ndarray, shape (K,)
        Counts by rank, where the order of the ranks is known from elsewhere; zeros are allowed.

    Returns
    -------
    float
        s, of any sign; NaN with fewer than two ranks, without counts, or when all counts are of the
        first rank or of the last, for which no finite maximum exists.
    """
    log_ranks = np.log(np.arange(1, len(ranked) + 1))
    total = float(np.sum(ranked))
    if len(ranked) < 2 or total == 0:
        return math.nan
    return exponent_of_mean(float(np.dot(ranked, log_ranks)) / total, log_ranks)


def truncated_zipf_moments(s: float, log_ranks: np.ndarray) -> tuple[float, float]:
    """Return mean and variance of ln k under Zipf's law with exponent s over ranks, ln k: (K,)."""
    weights = np.exp(-s * log_ranks)
    total = weights.sum()
    mean = float(weights @ log_ranks / total)
    return mean, float(weights @ (log_ranks - mean) ** 2 / total)


def exponent_of_mean(mean_log_rank: float, log_ranks: np.ndarray, start: float = 1.0) -> float:
    """Return the s for which the mean of ln k over ranks (K,) is the one given; NaN for none."""
    if not 0 < mean_log_rank < log_ranks[-1]:
        return math.nan
    s = start
    for _ in range(50):  # Newton's method; of a convex derivative only far steps can miss
        mean, variance = truncated_zipf_moments(s, log_ranks)
        step = (mean - mean_log_rank) / variance if variance > 0 else math.nan
        if not abs(step) < 1:
            break
        s += step
        if abs(step) < 1e-12:
            return s

    def excess(at: float) -> float:
        return truncated_zipf_moments(at, log_ranks)[0] - mean_log_rank

    low, high = -_LARGEST_EXPONENT, _LARGEST_EXPONENT
    if excess(low) < 0 or excess(high) > 0:
        return math.nan
    return float(brentq(excess, low, high, xtol=1e-13))


def truncated_zipf_cdf(s: float, ranks: int) -> np.ndarray:
    """Return the distribution function of Zipf's law over ranks 1 to `ranks` alone, (ranks,)."""
    sums = np.cumsum(np.exp(-s * np.log(np.arange(1, ranks + 1))))
    cdf: np.ndarray = sums / sums[-1]
    return cdf


class ExponentTable:
    """Fits of many counts over ranks whose exponents lie near each other.

    The exponent is a smooth function of the mean of ln k; it is interpolated from its values and
    slopes at some exponents, to 1e-9 or better. Another one is found by `exponent_of_mean`.

    Parameters
    ----------
    s : float
        The exponent in the middle.
    ranks : int
        The most ranks K of a fit that is interpolated, at least 1.
    """

    def __init__(self, s: float, ranks: int) -> None:
        self._log_ranks = np.log(np.arange(1, ranks + 1))
        self._grid = s + np.linspace(-_TABLE_REACH, _TABLE_REACH, _TABLE_NODES)
        # Variances are differences, which are the more exact the nearer this is to the means.
        self._middle = truncated_zipf_moments(s, self._log_ranks)[0]
        apart = (self._log_ranks - self._middle)[:, None]  # (K, 1)
        weights = np.exp(-self._grid * self._log_ranks[:, None])  # (K, G)
        self._sums = tuple(np.cumsum(weights * apart**power, axis=0) for power in range(3))

    def exponents(self, means: np.ndarray, ranks: np.ndarray) -> np.ndarray:
        """Fit the exponents for means of ln k over so many ranks: float64, (w,) each.

        NaN where no finite exponent has the mean, or there are fewer than two ranks.
        """
        held = (ranks > 1) & (ranks <= len(self._log_ranks))
        at = np.where(held, ranks, 1) - 1
        total, first, second = (sums[at] for sums in self._sums)  # (w, G)
        centred = first / total
        x = means - self._middle
        place = np.count_nonzero(centred > x[:, None], axis=1) - 1
        inside = held & (place >= 0) & (place < len(self._grid) - 1)
        rows, left = np.flatnonzero(inside), place[inside]
        variances = second / total - centred**2
        x_0, x_1 = centred[rows, left], centred[rows, left + 1]
        slopes = [-(x_1 - x_0) / variances[rows, left + side] for side in (0, 1)]
        t = (x[inside] - x_0) / (x_1 - x_0)
        step = self._grid[left + 1] - self._grid[left]
        found = np.empty(len(means))
        found[inside] = (
            self._grid[left]
            + step * t**2 * (3 - 2 * t)
            + t * (1 - t) * ((1 - t) * slopes[0] - t * slopes[1])
        )
        for row in np.flatnonzero(~inside):
            log_ranks = np.log(np.arange(1, max(int(ranks[row]), 1) + 1))
            found[row] = exponent_of_mean(float(means[row]), log_ranks)
        return found
