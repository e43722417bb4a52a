"""Sums and means of numbers given by their natural logarithms, debiased too, and perplexity."""

from __future__ import annotations

import numpy as np


def log_sum_exp(values: np.ndarray, axis: int = -1) -> np.ndarray:
    """Compute log Σ exp along an axis; −inf for no values, or values that are all −inf.

    Parameters
    ----------
    values : ndarray, float64
        Any shape; without NaN and +inf.
    axis : int
        The axis to sum over.

    Returns
    -------
    ndarray, float64
        The shape of `values` without `axis`.

    Examples
    --------
    >>> float(np.exp(log_sum_exp(np.log([1.0, 2.0, 5.0]))).round(6))
    8.0
    """
    if values.shape[axis] == 0:
        return np.full(np.delete(values.shape, axis), -np.inf)
    largest = values.max(axis, keepdims=True)
    largest = np.where(np.isneginf(largest), 0.0, largest)
    scaled = values - largest
    np.exp(scaled, out=scaled)
    with np.errstate(divide="ignore"):
        return np.log(scaled.sum(axis)) + largest.squeeze(axis)


def log_mean_exp(log_weights: np.ndarray, axis: int = -1) -> np.ndarray:
    """Estimate log p̂ = logsumexp_k(log w_k) − log K (paper, Eq. 2).

    Parameters
    ----------
    log_weights : ndarray, float64
        With K log weights along `axis`.
    axis : int
        The axis of the samples.

    Returns
    -------
    ndarray, float64
        The shape of `log_weights` without `axis`; −inf where all weights are 0.

    Notes
    -----
    E p̂ = p, so E log p̂ ≤ log p: a stochastic lower bound (paper, Eq. 3 and 4). Where q misses
    latents of p, E p̂ < p, and the bound holds still.

    Examples
    --------
    >>> float(np.exp(log_mean_exp(np.log([1.0, 2.0, 6.0]))).round(6))
    3.0
    """
    return log_sum_exp(log_weights, axis) - np.log(log_weights.shape[axis])


def log_half_means(log_weights: np.ndarray, counts: np.ndarray | None = None) -> np.ndarray:
    """Estimate log p from one half of the samples and from the other.

    Parameters
    ----------
    log_weights : ndarray, shape (K,), float64
        Log weights, those of one proposal after those of the other.
    counts : ndarray, shape (J,), int64, optional
        How many each of J proposals drew; without, all are of one.

    Returns
    -------
    ndarray, shape (2,), float64
        Logarithms of Σ_j (K_j / K) · the mean over every second sample of proposal j: each is
        unbiased for p where the mean of all weights is, and they are independent. NaN where a
        proposal has one sample only.
    """
    counts = np.array([len(log_weights)]) if counts is None else counts
    if counts.min() < 2:
        return np.full(2, np.nan)
    parts = np.split(log_weights, np.cumsum(counts)[:-1])
    shares = np.log(counts / counts.sum())  # (J,)
    means = [[log_mean_exp(part[first::2]) for part in parts] for first in range(2)]
    return log_sum_exp(np.array(means) + shares, 1)  # (2, J) to (2,)


def jackknife(log_weights: np.ndarray) -> float:
    """Debias log p̂ by the jackknife: K log p̂ − (K − 1) · mean over k of log p̂ without sample k.

    Parameters
    ----------
    log_weights : ndarray, shape (K,), float64
        Log weights of the samples.

    Returns
    -------
    float
        This is no bound. It removes the bias of order 1/K; NaN when fewer than two weights are
        positive, as then leaving one out leaves nothing.

    References
    ----------
    Quenouille (1956); for log p̂, Nowozin (2018), "Debiasing evidence approximations".

    Examples
    --------
    >>> weights = np.log([1.0, 2.0, 3.0])
    >>> round(float(log_mean_exp(weights)), 4), round(jackknife(weights), 4)
    (0.6931, 0.7362)
    """
    n = len(log_weights)
    if np.isfinite(log_weights).sum() < 2:
        return float("nan")
    total = log_sum_exp(log_weights)
    top = int(np.argmax(log_weights))
    rest = np.delete(log_weights, top)
    without = np.append(
        total + np.log1p(-np.exp(rest - total)),  # at most half of the total is left out
        log_sum_exp(rest),
    ) - np.log(n - 1)
    return float(n * (total - np.log(n)) - (n - 1) * without.mean())


def to_perplexity(log_likelihood: np.ndarray | float, n_tokens: np.ndarray | int) -> np.ndarray:
    """Compute exp(−log p / T) (paper, Eq. 1, 5, 6).

    Parameters
    ----------
    log_likelihood : ndarray or float
        Nats.
    n_tokens : ndarray or int
        T, at least 1.

    Returns
    -------
    ndarray, float64
        Infinite where log p is −inf or the power overflows.
    """
    with np.errstate(over="ignore"):
        return np.exp(-np.asarray(log_likelihood) / n_tokens)
