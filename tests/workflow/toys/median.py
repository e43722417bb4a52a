"""The median of weights, which single large weights do not move."""

from __future__ import annotations

import numpy as np

from beyond_perplexity.importance.estimator import (
    SAMPLES,
    Estimator,
    InstanceEstimate,
    SampledInstance,
)


class Median(Estimator):
    """Σ_n log median_k w_nk: no bound; −inf where half of the weights are 0."""

    title = "Median"
    words = "the median of the weights"
    bound = "none"
    needs = (SAMPLES,)

    def estimate(self, instance: SampledInstance) -> InstanceEstimate:
        """Take the median of the logarithms."""
        weights = self.samples(instance).log_weights
        return InstanceEstimate(float(np.median(weights)), len(weights))
