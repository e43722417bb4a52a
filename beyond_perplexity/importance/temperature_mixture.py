"""Multiple importance sampling: the samples of all temperatures together."""

from __future__ import annotations

import numpy as np

from beyond_perplexity.importance import estimator
from beyond_perplexity.inference.log_space import log_sum_exp


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


class Mixture(estimator.Estimator):
    """log of the mean of `mixture_log_weights`: p̂ is unbiased, so a stochastic bound; −inf where
    all weights are 0."""

    title = "Mixture of all temperatures"
    words = "the samples of all temperatures together (balance heuristic)"
    bound = estimator.STOCHASTIC
    needs = (estimator.ALL_TEMPERATURES,)
    stream = "bootstrap over samples of the mixture"
    pools = "importance_sampling"
    size_note = "of the mixture those of all temperatures together"

    def estimate(self, instance: estimator.SampledInstance) -> estimator.InstanceEstimate:
        """Weigh the samples of every temperature by the mixture of them all."""
        counts = np.array([len(samples.log_p) for samples in instance.samples])
        log_p = np.concatenate([samples.log_p for samples in instance.samples])
        grid = np.concatenate([samples.log_q_grid for samples in instance.samples])  # (K, J)
        hashes = [samples.latent_hash for samples in instance.samples]
        known = [one for one in hashes if one is not None]
        latents = np.concatenate(known) if len(known) == len(hashes) else None
        return estimator.mean_of_weights(mixture_log_weights(log_p, grid, counts), latents, counts)
