"""What an estimator of log p(x) is: what it says of itself, what it needs, what it finds.

The paper is Logan, Gardner & Singh (2020), "On Importance Sampling-Based Evaluation of Latent
Language Models". Natural logarithms everywhere; a log weight is log p(x, z) − log q(z | x).

N instances, K samples of one, B bootstrap replicates, R random orders, S sizes of subsets.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np

from beyond_perplexity.importance.estimate_notes import instance_notes, summarize_diagnostics
from beyond_perplexity.inference import weight_diagnostics
from beyond_perplexity.inference.log_space import log_mean_exp
from beyond_perplexity.random_streams import stream

if TYPE_CHECKING:
    from beyond_perplexity.importance.ways_to_draw import ReductionOptions
    from beyond_perplexity.importance.weight_files import WeightReader

# What an estimated perplexity is to the true one, in words.
STRICT, STOCHASTIC, DEBIASED, TWO_SIDED = "strict", "stochastic", "debiased", "two-sided"
DEBIASED_UNSURE, TWO_SIDED_UNSURE = f"{DEBIASED}?", f"{TWO_SIDED}?"
BOUNDS = {
    STRICT: "a strict upper bound: the true value is not above it",
    STOCHASTIC: "a stochastic upper bound: in expectation over the samples its logarithm is not "
    "below the true one's",
    DEBIASED: "debiased: closer to the true value in expectation, but no bound",
    DEBIASED_UNSURE: "meant to be closer to the true value than what it corrects, but with so few "
    "effective samples it may be further off: no bound, and no claim",
    TWO_SIDED: "the logarithms of both ends enclose the true one's in expectation over the "
    "samples, and with their errors in at least 95 of 100 repetitions, unless all samples miss "
    "the same latents",
    TWO_SIDED_UNSURE: "made as two ends that enclose the true value, but the weights are too "
    "uneven, or too few, for that to be claimed",
    "none": "no bound",
}
# What an estimator may need beside a kind of draws, a key of `DRAW_READERS`.
SAMPLES = "samples"  # those of one temperature: there is an estimate for each
ALL_TEMPERATURES = "temperatures"  # samples of several, each with log q at all of them
KNOWN_LATENTS = "latents"  # samples whose latents are known
BY_THOUGHTS = "importance_sampling"  # the method of the sum over thoughts

Fields = dict[str, Any]
_UNSIGNED = 2**64 - 1  # a negative id is a key too


class WeightedSamples(NamedTuple):
    """The samples of one instance at one temperature, in the order of their ids."""

    log_p: np.ndarray  # (K,), float64: log p(x, z), nats
    log_q: np.ndarray  # (K,), float64: log q(z | x), nats
    # (K, J), float64: log q at each temperature of the reader; J = 0 when not every file has them
    log_q_grid: np.ndarray
    latent_hash: np.ndarray | None  # (K,), int64: equal for equal latents

    @property
    def log_weights(self) -> np.ndarray:
        """Log p − log q, shape (K,)."""
        return self.log_p - self.log_q


class SampledInstance(NamedTuple):
    """One instance, its position among the reader's, its samples at each temperature, and
    `estimates` that estimators have found of it, by what they are."""

    position: int
    instance_id: int
    samples: tuple[WeightedSamples, ...]
    estimates: dict[Hashable, Any]


@dataclass(frozen=True)
class Inputs:
    """All that estimators are made from."""

    reader: WeightReader  # the samples of one model and one proposal
    draws: Mapping[str, Any]  # what the readers of other kinds of draws, `DRAW_READERS`, have read
    options: ReductionOptions
    seed: int  # of the subsets, pairings and bootstraps

    def settings(self, need: str) -> Sequence[Fields]:
        """List what an estimate is made for each of; empty when the need is not met."""
        temperatures = self.reader.temperatures
        if need == SAMPLES:
            return [{"temperature": temperature} for temperature in temperatures]
        if need == ALL_TEMPERATURES:
            return [{}] * (self.reader.has_grid and len(temperatures) > 1)
        if need == KNOWN_LATENTS:
            return [{}] * self.reader.has_hashes
        return self.draws[need].settings if need in self.draws else []

    def random(self, purpose: str, instance_id: int = 0) -> np.random.Generator:
        """Open the random stream of an instance, or of the whole corpus, for one purpose."""
        labels = self.reader.labels
        name = f"importance/{labels.model}/{labels.proposal}/{purpose}"
        return stream(self.seed, name, instance_id & _UNSIGNED)


class InstanceEstimate(NamedTuple):
    """What an estimator finds of one instance: log p̂, nats, of K samples; 0 if none are drawn."""

    log_likelihood: float
    n_samples: int = 0
    # (K,): logarithms of independent numbers whose mean is p̂, for the errors over samples
    log_weights: np.ndarray | None = None
    # (J,): how many of them each of several proposals drew; see `relative_variance`
    counts: np.ndarray | None = None
    diagnostics: weight_diagnostics.Diagnostics | None = None  # how far to trust them
    debiased: float = math.nan  # log p̂ without the bias of order 1/K; NaN where not known


def mean_of_weights(
    log_weights: np.ndarray, latent_hash: np.ndarray | None, counts: np.ndarray | None = None
) -> InstanceEstimate:
    """Estimate p by the mean of weights, with all their diagnostics."""
    found = weight_diagnostics.diagnose(log_weights, latent_hash)
    mean = float(log_mean_exp(log_weights))
    return InstanceEstimate(mean, len(log_weights), log_weights, counts, found)


@dataclass(frozen=True)
class CorpusEstimate:
    """One estimate of log p of the corpus, nats, before it becomes perplexities."""

    labels: Fields  # of schema ``estimates``: what it is
    log_likelihood: float
    # (M,): Var(p̂) / p̂² of its independent parts; NaN where not known, may be empty
    variances: np.ndarray = field(default_factory=lambda: np.empty(0))
    # (B,): log p̂ of bootstrap replicates over samples; may be empty
    samples: np.ndarray = field(default_factory=lambda: np.empty(0))
    instances: np.ndarray | None = None  # (N,): log p̂ of each, to be resampled
    pairings: np.ndarray | None = None  # (R,): log p̂ of each, instead of `log_likelihood`
    ends: tuple[float, float] | None = None  # the lower and the upper one, instead of it


class Estimator(ABC):
    """An estimator with one setting, such as a temperature, over all instances.

    A subclass says in its docstring the formula, the bound, when it is undefined, and the source.

    Parameters
    ----------
    inputs : Inputs
    labels : dict
        Its setting, columns of the table.

    Attributes
    ----------
    title, words : str
        Its name in tables and figures, and in a sentence.
    bound : str
        One of `BOUNDS`: what its perplexity is to the true one.
    needs : tuple of str
        `SAMPLES`, `ALL_TEMPERATURES`, `KNOWN_LATENTS` or kinds of draws. There is an estimator for
        each combination of their settings (`Inputs.settings`), so none when a need is not met.
    stream : str
        Name of the random stream of its bootstrap over samples; its labels in braces.
    levels : tuple of str
        Values of column ``aggregation`` that it has.
    drawn, times : str
        What K counts, in a sentence; what stands behind it in a table. Fields in braces.
    size_note, trust_note : str
        What K and the effective samples are, where not the samples of an instance and theirs.
    heading, summary : str
        Its column on the first page of the report, and what is said above it: of a strict bound a
        sentence, else a part of one. Empty: it is not there.
    pools : str
        The method whose samples at all temperatures it takes together; empty: none.
    group : int or None
        Index of the temperature whose samples it takes.
    n_samples, log_likelihood, debiased : ndarray, shape (N,)
        K, log p̂, log p̂ debiased.
    variance, standard_error_samples : ndarray, shape (N,)
        Var(p̂) / p̂² (NaN: undefined; infinite: from too few effective samples), and the standard
        error of log p̂ by bootstrap.
    bootstrap : ndarray, shape (B,)
        Σ_n log p̂ of each replicate.
    diagnostics : list of Diagnostics
        In the order of the instances; empty for an estimator without.
    sizes : ndarray, shape (S,), int64
        Numbers of samples of its curves.
    """

    title: ClassVar[str]
    words: ClassVar[str]
    bound: ClassVar[str]
    needs: ClassVar[tuple[str, ...]]
    stream: ClassVar[str]
    levels: ClassVar[tuple[str, ...]] = ("instance",)
    drawn: ClassVar[str] = "samples"
    times: ClassVar[str] = ""
    size_note: ClassVar[str] = ""
    trust_note: ClassVar[str] = ""
    heading: ClassVar[str] = ""
    summary: ClassVar[str] = ""
    pools: ClassVar[str] = ""

    def __init__(self, inputs: Inputs, labels: Fields) -> None:
        n, reader = len(inputs.reader.instance_ids), inputs.reader
        own = SAMPLES in self.needs
        self.inputs, self.labels = inputs, labels
        self.group = reader.temperatures.index(labels["temperature"]) if own else None
        self.n_samples = np.zeros(n, np.int64)
        self.log_likelihood, self.debiased = np.full((2, n), np.nan)
        self.variance, self.standard_error_samples = np.full((2, n), np.nan)
        self.bootstrap = np.zeros(inputs.options.bootstrap)
        self.diagnostics: list[weight_diagnostics.Diagnostics] = []
        self.sizes = np.empty(0, np.int64)

    @classmethod
    def of(cls, inputs: Inputs) -> list[Self]:
        """Make one for each combination of the settings of its needs."""
        settings = product(*(inputs.settings(need) for need in cls.needs))
        return [cls(inputs, {k: v for part in one for k, v in part.items()}) for one in settings]

    @abstractmethod
    def estimate(self, instance: SampledInstance) -> InstanceEstimate:
        """Estimate log p of an instance."""

    def estimated(self, instance: SampledInstance) -> InstanceEstimate:
        """Return what `estimate` finds; an instance is estimated once by all that are alike."""
        key = type(self), tuple(sorted(self.labels.items()))
        if key not in instance.estimates:
            instance.estimates[key] = self.estimate(instance)
        found: InstanceEstimate = instance.estimates[key]
        return found

    def samples(self, instance: SampledInstance) -> WeightedSamples:
        """Return the samples at the temperature of an estimator that needs `SAMPLES`."""
        assert self.group is not None
        return instance.samples[self.group]

    def add(self, instance: SampledInstance) -> None:
        """Keep what the whole corpus needs of an instance; they come in their order."""
        found, index = self.estimated(instance), instance.position
        self.log_likelihood[index] = found.log_likelihood
        self.n_samples[index], self.debiased[index] = found.n_samples, found.debiased
        if found.diagnostics is not None:
            self.diagnostics.append(found.diagnostics)
        if found.log_weights is None:
            return
        self.variance[index] = weight_diagnostics.error_variance(found.log_weights, found.counts)
        random = self.inputs.random(self.stream.format_map(self.labels), instance.instance_id)
        size = len(self.bootstrap)
        replicates = weight_diagnostics.bootstrap_samples(
            found.log_weights, size, random, found.counts
        )
        self.bootstrap += replicates
        if len(replicates) > 1 and np.isfinite(replicates).all():
            self.standard_error_samples[index] = replicates.std(ddof=1)

    def finish(self) -> None:  # noqa: B027 - most estimators have nothing left to do
        """Do what is left when all instances are there."""

    def notes(self) -> list[str]:
        """Say what a reader must know of a mean of weights, each without a full stop."""
        return list(instance_notes(self))

    def estimates(self) -> Iterator[CorpusEstimate]:
        """Estimate log p of the corpus: of the product over instances, and what else there is."""
        labels = {
            "aggregation": "instance",
            "bound": self.bound,
            "n_samples": int(self.n_samples.min()) or None,
            "n_infinite": int(np.isneginf(self.log_likelihood).sum()),
            "note": "; ".join(self.notes()) or None,
            **summarize_diagnostics(self.diagnostics, self.n_samples, self.inputs.reader.n_tokens),
            **self.labels,
        }
        total = float(self.log_likelihood.sum())
        yield CorpusEstimate(
            labels, total, self.variance, self.bootstrap, instances=self.log_likelihood
        )

    def curves(self) -> Mapping[str, np.ndarray]:
        """Return log p̂ of the corpus from random subsets of each of `sizes`, (R, S), by level."""
        return {}

    def replicates(self) -> Mapping[str, np.ndarray]:
        """Return log p̂ of the corpus from each block of samples, by level."""
        return {}

    def diagnosed(self) -> Iterator[Fields]:
        """Give the columns of schema ``importance_diagnostics`` of each instance, if any."""
        reader = self.inputs.reader
        for index, one in enumerate(self.diagnostics):
            of_samples = one.tail != weight_diagnostics.NOT_OF_SAMPLES
            size = int(self.n_samples[index])
            unknown = None if reader.n_unknown is None else reader.n_unknown[index]
            error = np.sqrt(weight_diagnostics.delta_variance(self.variance[[index]]))
            threshold = weight_diagnostics.k_hat_threshold(size) if of_samples else None
            row = {"temperature": self.labels.get("temperature"), "n_samples": size}
            row |= {"instance_id": reader.instance_ids[index], "n_tokens": reader.n_tokens[index]}
            row |= {"n_unknown": unknown, "log_likelihood": self.log_likelihood[index]}
            row |= {"log_likelihood_jackknife": self.debiased[index], "standard_error": error}
            row |= {"standard_error_samples": self.standard_error_samples[index]}
            yield row | {"k_hat_threshold": threshold, **one._asdict()}
