"""Estimates and bounds of log p(x) = log Σ_z p(x, z) from samples z_k ~ q(z | x) or from a beam.

The paper is Logan, Gardner & Singh (2020), "On Importance Sampling-Based Evaluation of Latent
Language Models". Natural logarithms everywhere; a log weight is log p(x, z) − log q(z | x).
"""

from __future__ import annotations

import numpy as np

# What an estimated perplexity is to the true one.
STRICT = "strict"  # never below it
STOCHASTIC = "stochastic"  # its logarithm is not below it in expectation
DEBIASED = "debiased"  # closer in expectation, no bound
TWO_SIDED = "two-sided"  # between a stochastic upper and a stochastic lower bound
NONE = "none"
BOUNDS = (STRICT, STOCHASTIC, DEBIASED, TWO_SIDED, NONE)


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
    latents of p, E p̂ < p, and it is one still.
    """
    return log_sum_exp(log_weights, axis) - np.log(log_weights.shape[axis])


def jackknife(log_weights: np.ndarray) -> float:
    """Debias log p̂ by the jackknife: K log p̂ − (K − 1) · mean over k of log p̂ without sample k.

    Parameters
    ----------
    log_weights : ndarray, shape (K,), float64
        Log weights of the samples.

    Returns
    -------
    float
        No bound. Removes the bias of order 1/K; NaN when fewer than two weights are positive, as
        then leaving one out leaves nothing.

    References
    ----------
    Quenouille (1956); for log p̂, Nowozin (2018), "Debiasing evidence approximations".
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


def mixture_log_weights(
    log_p: np.ndarray, log_q_grid: np.ndarray, counts: np.ndarray
) -> np.ndarray:
    """Weigh samples of several proposals by the balance heuristic: w = p / Σ_j α_j q_j.

    Parameters
    ----------
    log_p : ndarray, shape (K,), float64
        log p(x, z) of all samples, those of every proposal.
    log_q_grid : ndarray, shape (K, J), float64
        log q_j(z | x) of every sample under every proposal.
    counts : ndarray, shape (J,), int64
        How many of the samples each proposal drew; α_j is its share.

    Returns
    -------
    ndarray, shape (K,), float64
        Log weights, whose mean weight over all samples is unbiased for p(x).

    References
    ----------
    Veach & Guibas (1995), "Optimally combining sampling techniques for Monte Carlo rendering".
    """
    shares = np.log(counts / counts.sum())
    return log_p - log_sum_exp(log_q_grid + shares, 1)


def beam_log_likelihood(log_p: np.ndarray, latent_hash: np.ndarray) -> float:
    """Sum p(x, z) over the distinct latents of a beam: a strict lower bound of log p(x).

    Parameters
    ----------
    log_p : ndarray, shape (k,), float64
        log p(x, z) of each; p must not be random.
    latent_hash : ndarray, shape (k,), int64
        Equal for equal latents. Of equals the least log p counts, should rounding tell them apart.

    Returns
    -------
    float
        log Σ p(x, z), nats, without a term of q and without −log k (paper, section 4).
    """
    order = np.lexsort((log_p, latent_hash))
    _, first = np.unique(latent_hash[order], return_index=True)
    return float(log_sum_exp(log_p[order][first]))


def beam_plus_tail(
    beam_log_p: float, log_weights: np.ndarray, outside: np.ndarray
) -> tuple[float, np.ndarray]:
    """Add to a beam's sum an estimate of what it left out.

    p̂ = Σ_{z ∈ beam} p(x, z) + (1/K) Σ_k [z_k ∉ beam] w_k: the second term is unbiased for the sum
    over the latents outside, whatever the number of samples that fall there.

    Parameters
    ----------
    beam_log_p : float
        From `beam_log_likelihood`.
    log_weights : ndarray, shape (K,), float64
        Log weights of samples of q.
    outside : ndarray, shape (K,), bool
        Whether the latent of a sample is not in the beam.

    Returns
    -------
    log_likelihood : float
        log p̂, never below `beam_log_p`, and with E p̂ = p(x) a stochastic lower bound.
    log_weights : ndarray, shape (K,), float64
        Log of beam + [outside] w_k: weights with mean p̂, for standard errors.
    """
    tail = np.where(outside, log_weights, -np.inf)
    combined = np.logaddexp(beam_log_p, tail)
    return max(float(np.logaddexp(beam_log_p, log_mean_exp(tail))), beam_log_p), combined


def perplexity(log_likelihood: np.ndarray | float, n_tokens: np.ndarray | int) -> np.ndarray:
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
