"""Beam plus tail: the sum over a beam, and samples for the latents outside."""

from __future__ import annotations

import numpy as np

from beyond_perplexity.importance import estimator
from beyond_perplexity.importance.beam_marginalization import beam_log_likelihood
from beyond_perplexity.inference.log_space import log_mean_exp


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


class BeamPlusTail(estimator.Estimator):
    """`beam_plus_tail` for each temperature and size of the beam."""

    title = "Beam plus sampled tail"
    words = "the sum over the latents of the beam, and samples for those outside"
    bound = estimator.STOCHASTIC
    needs = (estimator.SAMPLES, estimator.KNOWN_LATENTS, "beams")
    stream = "{temperature}/bootstrap over samples of the tail/{beam_size}"

    def estimate(self, instance: estimator.SampledInstance) -> estimator.InstanceEstimate:
        """Add the tail of this temperature to the beam of this size."""
        log_p, latents = self.inputs.draws["beams"].beam(
            self.labels["beam_size"], instance.position
        )
        samples = self.samples(instance)
        assert samples.latent_hash is not None
        outside = ~np.isin(samples.latent_hash, latents)
        inside = beam_log_likelihood(log_p, latents)
        value, combined = beam_plus_tail(inside, samples.log_weights, outside)
        return estimator.InstanceEstimate(value, len(combined), combined)
