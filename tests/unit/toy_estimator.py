"""An estimator that a test adds to the list: the largest weight of an instance."""

from __future__ import annotations

from beyond_perplexity.importance.estimator import (
    SAMPLES,
    STOCHASTIC,
    Estimator,
    InstanceEstimate,
    SampledInstance,
)


class Largest(Estimator):
    """log max_k w_k / K, below log p̂ of importance sampling."""

    title = "Largest weight"
    words = "the largest weight alone"
    bound = STOCHASTIC
    needs = (SAMPLES,)
    stream = "{temperature}/bootstrap over samples of the largest"
    drawn = "draws"
    times = " !"
    size_note = "of the largest weight all samples"
    trust_note = "of the largest weight 1"
    heading = "largest"
    summary = "the largest weight"

    def estimate(self, instance: SampledInstance) -> InstanceEstimate:
        weights = self.samples(instance).log_weights
        return InstanceEstimate(float(weights.max()) - 5.0, len(weights))
