"""Reduce the samples of all instances to estimates, curves, replicates and diagnostics.

One pass over the instances in their order; what is kept of one is a few numbers. Sums over the
corpus are kept per sample for the paper's pairing (K) and per random order for the others (R × K).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from tqdm import tqdm

from beyond_perplexity.importance.diagnostics import (
    Diagnostics,
    bootstrap_samples,
    diagnose,
    error_variance,
)
from beyond_perplexity.importance.estimators import (
    beam_plus_tail,
    jackknife,
    log_mean_exp,
    mixture_log_weights,
)
from beyond_perplexity.importance.options import ReductionOptions
from beyond_perplexity.importance.reading.beams import Beams
from beyond_perplexity.importance.reading.smc_runs import SMCRuns
from beyond_perplexity.importance.reading.weights import Instance, Samples, WeightReader
from beyond_perplexity.importance.subsets import prefix_log_means, random_orders, subset_sizes
from beyond_perplexity.invariance.streams import stream

NOT_OF_SAMPLES = "the weights are of runs, not of samples"
_UNSIGNED = 2**64 - 1  # a negative id is a key too


class Draws:
    """The random streams of one estimator, one stream an instance and purpose.

    Parameters
    ----------
    seed : int
        The seed of the run.
    name : str
        What tells this estimator from others: model, proposal, temperature.
    """

    def __init__(self, seed: int, name: str) -> None:
        self._seed, self._name = seed, name

    def of(self, purpose: str, instance_id: int = 0) -> np.random.Generator:
        """Open the stream of an instance, or of the whole corpus, for one purpose."""
        return stream(self._seed, f"importance/{self._name}/{purpose}", instance_id & _UNSIGNED)


class InstanceResults:
    """What one estimator says of each instance.

    Parameters
    ----------
    n_instances : int
        N.
    n_replicates : int
        B, bootstrap replicates over samples.

    Attributes
    ----------
    log_likelihood, variance : ndarray, shape (N,), float64
        log p̂, and Var(p̂) / p̂² (NaN: undefined; infinite: from too few effective samples).
    jackknife, standard_error_samples : ndarray, shape (N,), float64
        log p̂ debiased, and the standard error of log p̂ by bootstrap.
    bootstrap : ndarray, shape (B,), float64
        Σ_n log p̂ of each replicate.
    diagnostics : list of Diagnostics
        In the order of the instances; empty for an estimator without.
    """

    def __init__(self, n_instances: int, n_replicates: int) -> None:
        self.log_likelihood = np.full(n_instances, np.nan)
        self.variance = np.full(n_instances, np.nan)
        self.jackknife = np.full(n_instances, np.nan)
        self.standard_error_samples = np.full(n_instances, np.nan)
        self.bootstrap = np.zeros(n_replicates)
        self.diagnostics: list[Diagnostics] = []

    def add(
        self,
        index: int,
        log_weights: np.ndarray,
        latent_hash: np.ndarray | None,
        random: np.random.Generator,
        counts: np.ndarray | None = None,
    ) -> None:
        """Add an instance; parameters as in `diagnostics.bootstrap_samples`."""
        self.log_likelihood[index] = log_mean_exp(log_weights)
        self.variance[index] = error_variance(log_weights, counts)
        self.diagnostics.append(diagnose(log_weights, latent_hash))
        if counts is None:
            self.jackknife[index] = jackknife(log_weights)
        self._resample(index, log_weights, random, counts)

    def add_tail(
        self,
        index: int,
        log_likelihood: float,
        log_weights: np.ndarray,
        random: np.random.Generator,
    ) -> None:
        """Add what `estimators.beam_plus_tail` returns for an instance."""
        self.log_likelihood[index] = log_likelihood
        self.variance[index] = error_variance(log_weights)
        self._resample(index, log_weights, random)

    def _resample(
        self,
        index: int,
        log_weights: np.ndarray,
        random: np.random.Generator,
        counts: np.ndarray | None = None,
    ) -> None:
        replicates = bootstrap_samples(log_weights, len(self.bootstrap), random, counts)
        self.bootstrap += replicates
        if len(replicates) > 1 and np.isfinite(replicates).all():
            self.standard_error_samples[index] = replicates.std(ddof=1)


class TemperatureResults:
    """Everything about the samples of one temperature.

    Parameters
    ----------
    reader : WeightReader
        The samples.
    group : int
        Index of the temperature.
    beam_sizes : tuple of int
        Sizes of the beams whose tail is estimated.
    options : ReductionOptions
    draws : Draws

    Attributes
    ----------
    common : int
        The least number of samples of an instance: K of the corpus level and of the curves.
    instances : InstanceResults
    tails : dict of int to InstanceResults
        Beam plus tail by beam size.
    paired : ndarray, shape (common,), float64
        log Π_n w_nk: the weights of the corpus when sample k of every instance is paired.
    ordered : ndarray, shape (R, common), float64
        The same for each of R random pairings.
    sizes : ndarray, shape (S,), int64
        Numbers of samples of the curves.
    prefixes : ndarray, shape (R, S), float64
        Σ_n log p̂ from random subsets of each size.
    blocks : ndarray, shape (common // replicate_samples,), float64
        Σ_n log p̂ of each replicate.
    """

    def __init__(
        self,
        reader: WeightReader,
        group: int,
        beam_sizes: tuple[int, ...],
        options: ReductionOptions,
        draws: Draws,
    ) -> None:
        n = len(reader.instance_ids)
        self._options, self._draws, self._group = options, draws, group
        self.temperature = reader.temperatures[group]
        self.n_samples = reader.n_samples[group]
        self.common = int(self.n_samples.min())
        self.instances = InstanceResults(n, options.bootstrap)
        self.tails = {size: InstanceResults(n, options.bootstrap) for size in beam_sizes}
        self.paired = np.zeros(self.common)
        self.ordered = np.zeros((options.subsets, self.common))
        self.sizes = subset_sizes(self.common)
        self.prefixes = np.zeros((options.subsets, len(self.sizes)))
        self.blocks = np.zeros(self.common // options.replicate_samples)

    def add(self, instance: Instance, beams: Beams | None) -> None:
        """Add the samples of an instance."""
        samples = instance.samples[self._group]
        weights, name = samples.log_weights, instance.instance_id
        random = self._draws.of("bootstrap over samples", name)
        self.instances.add(instance.position, weights, samples.latent_hash, random)
        self.paired += weights[: self.common]
        self._add_orders(weights, name)
        block = self._options.replicate_samples
        if len(self.blocks):
            whole = weights[: len(self.blocks) * block].reshape(-1, block)  # (blocks, block)
            self.blocks += log_mean_exp(whole, 1)
        for size, results in self.tails.items():
            assert beams is not None
            self._add_tail(results, beams, size, instance, samples)

    def _add_orders(self, weights: np.ndarray, instance_id: int) -> None:
        if not self._options.subsets:
            return
        random = self._draws.of("subsets", instance_id)
        orders = random_orders(weights, self._options.subsets, random)[:, : self.common]
        self.ordered += orders
        self.prefixes += prefix_log_means(orders, self.sizes)

    def _add_tail(
        self,
        results: InstanceResults,
        beams: Beams,
        size: int,
        instance: Instance,
        samples: Samples,
    ) -> None:
        assert samples.latent_hash is not None
        outside = beams.outside(size, instance.position, samples.latent_hash)
        inside = beams.log_likelihood(size, instance.position)
        value, combined = beam_plus_tail(inside, samples.log_weights, outside)
        random = self._draws.of(f"bootstrap over samples of the tail/{size}", instance.instance_id)
        results.add_tail(instance.position, value, combined, random)


@dataclass(frozen=True)
class Reduction:
    """The reduced samples of one model and proposal; `tables` turns them into tables.

    Attributes
    ----------
    reader : WeightReader
        Instances, temperatures, labels.
    options : ReductionOptions
    draws : Draws
        Of the corpus as a whole.
    temperatures : list of TemperatureResults
    mixture : InstanceResults or None
        Multiple importance sampling over all temperatures, when there are several and every
        sample has log q at each.
    beams : dict of int to ndarray, shape (N,)
        Beam marginalization, log Σ p of each instance, by beam size.
    smc : InstanceResults or None
        The mean of the runs of sequential Monte Carlo, each run counting as one sample.
    runs : SMCRuns or None
        These runs.
    """

    reader: WeightReader
    options: ReductionOptions
    draws: Draws
    temperatures: list[TemperatureResults]
    mixture: InstanceResults | None
    beams: dict[int, np.ndarray]
    smc: InstanceResults | None = None
    runs: SMCRuns | None = None


def _average_runs(
    runs: SMCRuns, reader: WeightReader, replicates: int, draws: Draws
) -> InstanceResults:
    """Average the runs of each instance, whose p̂ are as unbiased as weights of samples."""
    results = InstanceResults(len(reader.instance_ids), replicates)
    for index, instance_id in enumerate(reader.instance_ids.tolist()):
        random = draws.of("bootstrap over runs", instance_id)
        results.add(index, runs.log_likelihood[index], None, random)
    # With few runs the spread of a mean of resamples is too small by this factor.
    count = runs.log_likelihood.shape[1]
    widening = math.sqrt(count / (count - 1)) if count > 1 else math.nan
    centre = results.bootstrap.mean() if replicates else 0.0
    results.bootstrap = centre + (results.bootstrap - centre) * widening
    results.standard_error_samples *= widening
    # What tells how far to trust a run is how few of its particles ever carried the weight.
    results.diagnostics = [
        Diagnostics(ess, math.nan, math.nan, math.nan, NOT_OF_SAMPLES)
        for ess in runs.ess_min.tolist()
    ]
    return results


def _add_mixture(results: InstanceResults, instance: Instance, draws: Draws) -> None:
    counts = np.array([len(samples.log_p) for samples in instance.samples])
    log_p = np.concatenate([samples.log_p for samples in instance.samples])
    grid = np.concatenate([samples.log_q_grid for samples in instance.samples])  # (K, J)
    hashes = [samples.latent_hash for samples in instance.samples]
    known = [one for one in hashes if one is not None]
    results.add(
        instance.position,
        mixture_log_weights(log_p, grid, counts),
        np.concatenate(known) if len(known) == len(hashes) else None,
        draws.of("bootstrap over samples of the mixture", instance.instance_id),
        counts,
    )


def reduce_weights(
    reader: WeightReader,
    beams: Beams | None = None,
    options: ReductionOptions | None = None,
    seed: int = 0,
    progress: bool = False,
    runs: SMCRuns | None = None,
) -> Reduction:
    """Reduce all samples of one model and one proposal.

    Parameters
    ----------
    reader : WeightReader
        The samples.
    beams : Beams, optional
        The beams of the same instances.
    options : ReductionOptions, optional
        How much is drawn.
    seed : int
        Seed of the subsets, pairings and bootstraps.
    progress : bool
        Whether to show a bar on stderr.
    runs : SMCRuns, optional
        Sequential Monte Carlo of the same instances.

    Returns
    -------
    Reduction

    Raises
    ------
    InputError
        When a row of the files is not as it must be.
    """
    options = options or ReductionOptions()
    name = f"{reader.labels.model}/{reader.labels.proposal}"
    draws = Draws(seed, name)
    hashed = reader.has_hashes
    sizes = beams.sizes if beams and hashed else ()
    n = len(reader.instance_ids)
    temperatures = [
        TemperatureResults(reader, group, sizes, options, Draws(seed, f"{name}/{temperature}"))
        for group, temperature in enumerate(reader.temperatures)
    ]
    mixed = reader.has_grid and len(temperatures) > 1
    mixture = InstanceResults(n, options.bootstrap) if mixed else None
    marginals = {size: np.empty(n) for size in beams.sizes} if beams else {}
    bar = tqdm(reader, total=n, mininterval=1, disable=not progress, unit="instance")
    for instance in bar:
        for results in temperatures:
            results.add(instance, beams)
        if mixture:
            _add_mixture(mixture, instance, draws)
        for size, values in marginals.items():
            assert beams is not None
            values[instance.position] = beams.log_likelihood(size, instance.position)
    smc = _average_runs(runs, reader, options.bootstrap, draws) if runs else None
    return Reduction(reader, options, draws, temperatures, mixture, marginals, smc, runs)
