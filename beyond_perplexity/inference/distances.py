"""Distances between distributions over an ordered or an unordered support.

Every function takes counts with any number of leading axes (permutations, resamples) and works on
the last one. Source: "Language Model Evaluation Beyond Perplexity" (2021), eq. 10 and 11.
"""

from __future__ import annotations

import numpy as np


def _shares(counts: np.ndarray) -> np.ndarray:
    return counts / np.sum(counts, axis=-1, keepdims=True)


def ks(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Compute the Kolmogorov-Smirnov metric sup |F1 - F2| of two histograms.

    Parameters
    ----------
    first, second : numpy.ndarray, shape (..., C)
        Counts over the same ordered support.

    Returns
    -------
    numpy.ndarray, shape (...)
        Between 0 and 1.

    Examples
    --------
    >>> float(ks(np.array([2, 1, 1]), np.array([1, 1, 2])))
    0.25
    """
    return ks_to_cdf(first, np.cumsum(_shares(second), axis=-1))


def ks_to_cdf(counts: np.ndarray, cdf: np.ndarray) -> np.ndarray:
    """Compute sup |F - G| of a histogram and a distribution function on the same support.

    Parameters
    ----------
    counts : numpy.ndarray, shape (..., C)
        Counts over an ordered support.
    cdf : numpy.ndarray, shape (C,) or (..., C)
        G at the points of the support.

    Returns
    -------
    numpy.ndarray, shape (...)
        Between 0 and 1.
    """
    return np.max(np.abs(np.cumsum(_shares(counts), axis=-1) - cdf), axis=-1)


def rank_ks(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Compute sup |F1 - F2| of two rank-frequency distributions.

    Parameters
    ----------
    first, second : numpy.ndarray, shape (..., K1) and (..., K2)
        Counts by rank, most frequent first, over the ranks that are compared.

    Returns
    -------
    numpy.ndarray, shape (...)
        The shorter one is continued with zeros.

    Examples
    --------
    >>> float(rank_ks(np.array([8, 2]), np.array([5, 3, 2])).round(6))
    0.3
    """
    width = max(first.shape[-1], second.shape[-1])
    return ks(_pad(first, width), _pad(second, width))


def _pad(counts: np.ndarray, width: int) -> np.ndarray:
    missing = width - counts.shape[-1]
    return np.pad(counts, [(0, 0)] * (counts.ndim - 1) + [(0, missing)]) if missing else counts
