"""Importance sampling at one temperature: by instance, and of the corpus as a whole.

The corpus level multiplies sample k of every instance (paper, Eq. 6): which samples are paired is
arbitrary. A random order of each instance's samples is a random pairing, and its first samples are
a random subset without replacement. K samples of an instance, R random orders, S sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from beyond_perplexity.importance import estimator
from beyond_perplexity.importance.estimate_notes import corpus_notes, summarize_diagnostics
from beyond_perplexity.inference.log_space import jackknife, log_mean_exp, log_sum_exp
from beyond_perplexity.inference.weight_diagnostics import (
    bootstrap_samples,
    diagnose,
    error_variance,
)

VALUES_HELD = 2**25  # log weights of all pairings that are summed over the corpus: 256 MiB
LEAST_ORDERS = 8
_VALUES_AT_ONCE = 2**22


def n_orders(wanted: int, n_samples: int) -> int:
    """Return how many random orders of K samples are drawn: no more than hold `VALUES_HELD` log
    weights, yet `LEAST_ORDERS`, as means over them spread the less, the larger K is."""
    return min(wanted, max(LEAST_ORDERS, VALUES_HELD // n_samples))


def rows_at_once(n_samples: int) -> int:
    """Return how many orders of K samples are held at once; changes no number."""
    return max(1, _VALUES_AT_ONCE // n_samples)


def subset_sizes(n_samples: int) -> np.ndarray:
    """Return 1, 2, 5, 10, 20, 50, ... below K, and K; int64."""
    steps = (digit * 10**power for power in range(len(str(n_samples))) for digit in (1, 2, 5))
    return np.array([*(size for size in steps if size < n_samples), n_samples], np.int64)


def random_orders(
    log_weights: np.ndarray, n_orders: int, random: np.random.Generator
) -> np.ndarray:
    """Put the log weights of an instance, (K,), in random orders, a row each: float64, (R, K)."""
    orders = np.empty((n_orders, len(log_weights)))
    for row in orders:  # faster than Generator.permuted of all rows
        row[:] = random.permutation(log_weights)
    return orders


def prefix_log_means(log_weights: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Estimate log p̂, (R, S), from the first k of each row of log weights, (R, K), for `sizes` k,
    ascending."""
    sums = np.full(len(log_weights), -np.inf)
    found = np.empty((len(log_weights), len(sizes)))
    start = 0
    for column, size in enumerate(sizes.tolist()):
        sums = np.logaddexp(sums, log_sum_exp(log_weights[:, start:size], 1))
        found[:, column] = sums - np.log(size)
        start = size
    return found


class ImportanceSampling(estimator.Estimator):
    """log p̂ = log (1/K) Σ_k w_k with w_k = p(x, z_k) / q(z_k | x) (paper, Eq. 2).

    A stochastic bound by `log_space.log_mean_exp`; −inf where all weights are 0. At the level of
    instances p̂ of the corpus is Π_n p̂(x_n), at that of the corpus (1/K) Σ_k Π_n w_nk (paper, Eq.
    5 and 6), with K the least number of samples of an instance, `common`.

    Of the corpus, float64: `paired`, (K,), log Π_n w_nk with sample k of every instance; `ordered`,
    (R, K), the same for random pairings; `prefixes`, (R, S), Σ_n log p̂ from random subsets of each
    size; `blocks`, (K // replicate_samples,), Σ_n log p̂ of each replicate.
    """

    title = "Importance sampling"
    words = "importance sampling"
    bound = estimator.STOCHASTIC
    needs = (estimator.SAMPLES,)
    stream = "{temperature}/bootstrap over samples"
    levels = ("instance", "corpus")
    summary = "importance sampling at the level of instances and at that of the corpus"

    def __init__(self, inputs: estimator.Inputs, labels: estimator.Fields) -> None:
        super().__init__(inputs, labels)
        assert self.group is not None
        block = inputs.options.replicate_samples
        self.common = int(inputs.reader.n_samples[self.group].min())
        orders = n_orders(inputs.options.subsets, self.common)
        self.paired = np.zeros(self.common)
        self.ordered = np.zeros((orders, self.common))
        self.sizes = subset_sizes(self.common)
        self.prefixes = np.zeros((orders, len(self.sizes)))
        self.blocks = np.zeros(self.common // block)

    def estimate(self, instance: estimator.SampledInstance) -> estimator.InstanceEstimate:
        """Average the weights."""
        samples = self.samples(instance)
        found = estimator.mean_of_weights(samples.log_weights, samples.latent_hash)
        return found._replace(debiased=jackknife(samples.log_weights))

    def add(self, instance: estimator.SampledInstance) -> None:
        """Add to the sums over the corpus too."""
        super().add(instance)
        weights = self.samples(instance).log_weights
        self.paired += weights[: self.common]
        if len(self.blocks):
            block = self.inputs.options.replicate_samples
            whole = weights[: len(self.blocks) * block].reshape(-1, block)  # (blocks, block)
            self.blocks += log_mean_exp(whole, 1)
        if len(self.ordered):
            purpose = f"{self.labels['temperature']}/subsets"
            random = self.inputs.random(purpose, instance.instance_id)
            rows = rows_at_once(len(weights))
            for first in range(0, len(self.ordered), rows):
                part = slice(first, min(first + rows, len(self.ordered)))
                orders = random_orders(weights, part.stop - first, random)[:, : self.common]
                self.ordered[part] += orders
                self.prefixes[part] += prefix_log_means(orders, self.sizes)

    def estimates(self) -> Iterator[estimator.CorpusEstimate]:
        """Estimate at the level of instances, and at that of the corpus by two kinds of pairing."""
        yield from super().estimates()
        least, most, notes = self.common, int(self.n_samples.max()), []
        if most != least:
            notes.append(f"instances have {least} to {most} samples: of each, {least} count")
        if np.isneginf(self.paired).all():
            notes.append("no pairing by id has positive weights alone: its perplexity is infinite")
        labels: estimator.Fields = {**self.labels, "aggregation": "corpus", "bound": self.bound}
        labels["n_samples"] = least
        yield self._paired_by_id(labels, notes)
        if len(self.ordered):
            pairings = log_mean_exp(self.ordered, 1)
            labels |= {"pairing": "random", "note": "; ".join(notes) or None}
            yield estimator.CorpusEstimate(labels, float(pairings.mean()), pairings=pairings)

    def _paired_by_id(self, labels: estimator.Fields, notes: list[str]) -> estimator.CorpusEstimate:
        paired, variance = diagnose(self.paired), error_variance(self.paired)
        purpose = f"bootstrap over samples of the corpus/{self.labels['temperature']}"
        random = self.inputs.random(purpose)
        samples = bootstrap_samples(self.paired, len(self.bootstrap), random)
        qualified = [*notes, *corpus_notes(variance, paired, samples)]
        columns = {
            **labels,
            "pairing": "sample_id",
            "note": "; ".join(qualified) or None,
            **summarize_diagnostics([paired], np.array([self.common])),
        }
        total = float(log_mean_exp(self.paired))
        return estimator.CorpusEstimate(columns, total, np.array([variance]), samples)

    def curves(self) -> Mapping[str, np.ndarray]:
        """Return both levels; there the pairing is random too."""
        if not len(self.ordered):
            return {}
        return {"instance": self.prefixes, "corpus": prefix_log_means(self.ordered, self.sizes)}

    def replicates(self) -> Mapping[str, np.ndarray]:
        """Return both levels, of disjoint blocks of samples."""
        block = self.inputs.options.replicate_samples
        paired = self.paired[: len(self.blocks) * block].reshape(-1, block)
        return {"instance": self.blocks, "corpus": log_mean_exp(paired, 1)}
