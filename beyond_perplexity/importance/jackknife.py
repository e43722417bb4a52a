"""The jackknife: importance sampling without the bias of order 1/K."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from beyond_perplexity.importance.diagnostics import LEAST_EFFECTIVE, effective_samples
from beyond_perplexity.importance.estimate_notes import share_below
from beyond_perplexity.importance.estimator import (
    DEBIASED,
    DEBIASED_UNSURE,
    SAMPLES,
    CorpusEstimate,
    Estimator,
    Fields,
    Inputs,
    InstanceEstimate,
    SampledInstance,
)
from beyond_perplexity.importance.log_space import log_sum_exp


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


class Jackknife(Estimator):
    """Σ_n of `jackknife`, undefined where it is so for an instance.

    With few effective samples it may be further from log p than log p̂ is (of 100 log-normal weights
    with σ = 3, root mean square errors are 1.25 and 1.10), and says so: the label is
    `DEBIASED_UNSURE` where more than a tenth of the tokens are in instances with fewer than
    `LEAST_EFFECTIVE` of them, or the median is below.

    Attributes
    ----------
    effective : ndarray, shape (N,), float64
        Effective samples of each instance.
    """

    title = "The same, jackknife"
    words = "importance sampling, debiased by the jackknife"
    bound = DEBIASED
    needs = (SAMPLES,)

    def __init__(self, inputs: Inputs, labels: Fields) -> None:
        super().__init__(inputs, labels)
        self.effective = np.zeros(len(self.n_samples))

    def estimate(self, instance: SampledInstance) -> InstanceEstimate:
        """Debias log p̂ of the weights."""
        weights = self.samples(instance).log_weights
        self.effective[instance.position] = effective_samples(weights)
        return InstanceEstimate(jackknife(weights), len(weights))

    def notes(self) -> list[str]:
        """Count the instances where it is undefined."""
        missing = int(np.isnan(self.log_likelihood).sum())
        few = int((self.effective < LEAST_EFFECTIVE).sum())
        notes = {
            f"undefined: {missing} instances have fewer than two positive weights": missing,
            f"{few} of {len(self.effective)} instances have fewer than {LEAST_EFFECTIVE:g} "
            "effective samples: there the correction may err by more than it corrects": few,
        }
        return [note for note, count in notes.items() if count]

    def estimates(self) -> Iterator[CorpusEstimate]:
        """Estimate as every estimator; no instance of it is infinite."""
        few = share_below(self.effective, self.inputs.reader.n_tokens, LEAST_EFFECTIVE) > 0.1
        for found in super().estimates():
            found.labels["n_infinite"] = None
            if few or np.median(self.effective) < LEAST_EFFECTIVE:
                found.labels["bound"] = DEBIASED_UNSURE
            yield found
