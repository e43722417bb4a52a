"""The two-sided bounds: log p from both sides, from the same weights as a stochastic bound."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Self

import numpy as np

from beyond_perplexity.importance import estimator
from beyond_perplexity.importance.estimate_notes import summarize_diagnostics
from beyond_perplexity.importance.two_sided_bounds import Ends, PooledTail, doubts, enclose
from beyond_perplexity.importance.ways_to_draw import find_estimator
from beyond_perplexity.inference.log_space import log_half_means
from beyond_perplexity.inference.weight_diagnostics import NOT_OF_SAMPLES

if TYPE_CHECKING:
    from beyond_perplexity.importance.estimator import SampledInstance

# Methods whose weights are independent with mean p, in the order in which two-sided bounds are
# listed.
ENCLOSED = ("importance_sampling", "mixture", "smc")
LEAST_SAMPLES = 25  # fewer have no tail that k̂ could be fitted to


class TwoSided(estimator.Estimator):
    """Σ_n log p̂ from below and Σ_n `tangent_bound` from above, each widened by its errors.

    Of plain samples, mixtures and runs of sequential Monte Carlo alike: of each setting of a `base`
    of `ENCLOSED`. What encloses log p are the expectations of both ends, where q misses no latent
    of p. The ends of one sampling are widened by 1.960 standard errors each (`enclose`), the upper
    one at least to what the largest weights may lack (`PooledTail`), and the claim is made only
    where `doubts` has none: where all samples miss the same mass, the halves agree on what they
    found, and the bounds are narrow and wrong. Left out with fewer than `LEAST_SAMPLES`
    samples or particles of an instance, or a single sample of a temperature, or a single run.

    `halves`, (2, N), are log p̂ of the halves of the samples of each instance; `between_runs`,
    (N,), the variance of log p̂ between runs, nats², NaN of samples.
    """

    title = "Two-sided bounds"
    words = "the two-sided bounds"
    bound = estimator.TWO_SIDED_UNSURE
    needs = ()
    stream = ""

    def __init__(self, inputs: estimator.Inputs, base: estimator.Estimator, method: str) -> None:
        super().__init__(inputs, {**base.labels, "basis": method})
        self._base, self.group = base, base.group
        n = len(inputs.reader.instance_ids)
        self.halves, self.between_runs = np.full((2, n), np.nan), np.full(n, np.nan)
        self._tail: PooledTail | None = None
        self._runs = 1

    @classmethod
    def of(cls, inputs: estimator.Inputs) -> list[Self]:
        """Make one for each setting of each method of `ENCLOSED`."""
        methods = ENCLOSED if inputs.options.two_sided else ()
        return [cls(inputs, one, key) for key in methods for one in find_estimator(key).of(inputs)]

    def estimate(self, instance: SampledInstance) -> estimator.InstanceEstimate:
        """Estimate as the method does, from all samples; keep the halves."""
        found, index = self._base.estimated(instance), instance.position
        assert found.log_weights is not None
        assert found.diagnostics is not None
        self.halves[:, index] = log_half_means(found.log_weights, found.counts)
        if np.isfinite(self.halves[:, index]).all():  # else there will be no ends
            count = len(found.log_weights) * len(self.n_samples)
            self._tail = self._tail or PooledTail(count)
            self._tail.add(found.log_weights)
        if found.diagnostics.tail == NOT_OF_SAMPLES and len(found.log_weights) > 1:
            with np.errstate(invalid="ignore"):
                self.between_runs[index] = found.log_weights.var(ddof=1)
            self._runs = len(found.log_weights)
        return found._replace(log_weights=None)

    def estimates(self) -> Iterator[estimator.CorpusEstimate]:
        """Give both ends, where there are samples enough."""
        if self.n_samples.min() < LEAST_SAMPLES or np.isnan(self.halves).any():
            return
        n_tokens, tail = self.inputs.reader.n_tokens, self._tail
        tail_end = tail.upper_end() if tail else -math.inf
        ends = enclose(self.log_likelihood, self.halves, n_tokens, tail_end)
        known = self.diagnostics, n_tokens, self.n_samples
        unsure = doubts(ends, self.halves, *known, self.between_runs, self._runs)
        labels: estimator.Fields = {
            "aggregation": "instance",
            "bound": estimator.TWO_SIDED_UNSURE if unsure else estimator.TWO_SIDED,
            "n_samples": int(self.n_samples.min()),
            "n_infinite": int(np.isneginf(self.log_likelihood).sum()),
            "note": "; ".join([*self._made_of(ends), *unsure]),
            **summarize_diagnostics(self.diagnostics, self.n_samples, n_tokens),
            **self.labels,
        }
        yield estimator.CorpusEstimate(labels, math.nan, ends=(ends.low, ends.high))

    def diagnosed(self) -> Iterator[estimator.Fields]:
        """Give nothing: the method that it is made of has the diagnostics."""
        return iter(())

    def _made_of(self, ends: Ends) -> Iterator[str]:
        """Say what the bounds rest on."""
        least, most = np.exp([ends.log_constants.min(), ends.log_constants.max()])
        constant = f"{least:.3g}" + (f" to {most:.3g}" if f"{most:.3g}" != f"{least:.3g}" else "")
        tuned = "tuned on the other instances" if len(ends.log_constants) > 2 else "not tuned"
        yield (
            f"rests on {self._base.words}: from log p̂ of all samples to the tangent bound of each "
            f"half of them at c p̂ of the other, c = {constant} ({tuned})"
        )
        if math.isfinite(ends.factor):
            yield f"both ends are widened by {ends.factor:.3f} standard errors over instances"
        if ends.of_tail:
            yield "the upper end of log p allows for what the largest weights may lack"
        checked = self.inputs.reader.from_run
        yield (
            "mass that all samples miss is missing in both ends, so that log p may silently be "
            "above them and the perplexity below; that q can draw every latent of p is "
            + ("checked when models are paired" if checked else "taken as given of these weights")
        )
