"""Zipf's and Heaps' laws: maximum-likelihood fits from sufficient statistics.

Source: "Language Model Evaluation Beyond Perplexity" (2021), eq. 4, 5 and Appendix A.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from scipy.special import zeta

_LARGEST_EXPONENT = 60.0


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
