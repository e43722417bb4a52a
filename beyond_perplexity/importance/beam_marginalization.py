"""Beam marginalization: the sum over the latents that a beam search ends with."""

from __future__ import annotations

import numpy as np

from beyond_perplexity.importance import estimator
from beyond_perplexity.inference.log_space import log_sum_exp


def beam_log_likelihood(log_p: np.ndarray, latent_hash: np.ndarray) -> float:
    """Sum p(x, z) over the distinct latents of a beam: a strict lower bound of log p(x).

    Parameters
    ----------
    log_p : ndarray, shape (k,), float64
        log p(x, z) of each; p must not be random.
    latent_hash : ndarray, shape (k,), int64
        Equal for equal latents. Of equals the least log p counts, should rounding distinguish them.

    Returns
    -------
    float
        log Σ p(x, z), nats, without a term of q and without −log k (paper, section 4).
    """
    order = np.lexsort((log_p, latent_hash))
    _, first = np.unique(latent_hash[order], return_index=True)
    return float(log_sum_exp(log_p[order][first]))


class Beam(estimator.Estimator):
    """`beam_log_likelihood` of each size: a strict bound; −inf where no latent is possible."""

    title = "Beam marginalization"
    words = "the sum over the latents of the beam"
    bound = estimator.STRICT
    needs = ("beams",)
    heading = "beam (strict)"
    summary = "The widest beam gives a strict bound."

    def estimate(self, instance: estimator.SampledInstance) -> estimator.InstanceEstimate:
        """Sum over the beam of this size."""
        beam = self.inputs.draws["beams"].beam(self.labels["beam_size"], instance.position)
        return estimator.InstanceEstimate(beam_log_likelihood(*beam))

    def notes(self) -> list[str]:
        """Count the instances without a possible latent."""
        infinite = int(np.isneginf(self.log_likelihood).sum())
        return [f"p of the beam is 0 for {infinite} instances"] if infinite else []
