"""Sequential Monte Carlo: the mean over independent runs of a particle filter."""

from __future__ import annotations

import math

from beyond_perplexity.importance import estimator
from beyond_perplexity.inference.log_space import jackknife, log_mean_exp
from beyond_perplexity.inference.weight_diagnostics import NOT_OF_SAMPLES, Diagnostics


class SequentialMonteCarlo(estimator.Estimator):
    """log of the mean of the p̂ of F runs, each as unbiased as the weight of a sample.

    So a stochastic bound; −inf where the particles of all runs have died. Errors are of the spread
    between runs, and not known of a single one. Doucet & Johansen (2011), "A tutorial on particle
    filtering and smoothing".
    """

    title = "Sequential Monte Carlo"
    words = "sequential Monte Carlo"
    bound = estimator.STOCHASTIC
    needs = ("smc",)
    stream = "bootstrap over runs"
    drawn = "particles in each of {replicates} runs"
    times = " × {replicates:.0f}"
    size_note = "of sequential Monte Carlo particles × runs"
    trust_note = "of sequential Monte Carlo the fewest after any word"
    heading = "sequential Monte Carlo"
    summary = "sequential Monte Carlo where a model goes word by word"

    def estimate(self, instance: estimator.SampledInstance) -> estimator.InstanceEstimate:
        """Average the runs of the instance."""
        runs = self.inputs.draws["smc"]
        log_weights = runs.log_likelihood[instance.position]  # (F,)
        # What tells how far to trust a run is how few of its particles ever carried the weight.
        ess = float(runs.ess_min[instance.position])
        return estimator.InstanceEstimate(
            float(log_mean_exp(log_weights)),
            runs.n_particles,
            log_weights,
            diagnostics=Diagnostics(ess, math.nan, math.nan, math.nan, NOT_OF_SAMPLES),
            debiased=jackknife(log_weights),
        )

    def finish(self) -> None:
        """Widen the errors: with few runs the spread of a mean of resamples is too small."""
        count = self.labels["replicates"]
        widening = math.sqrt(count / (count - 1)) if count > 1 else math.nan
        centre = self.bootstrap.mean() if len(self.bootstrap) else 0.0
        self.bootstrap = centre + (self.bootstrap - centre) * widening
        self.standard_error_samples *= widening
