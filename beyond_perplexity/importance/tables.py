"""The tables of a reduction: estimates, curves, replicates, diagnostics per instance.

Of an estimate (schema ``estimates``):

``method``
    ``importance_sampling``; ``jackknife`` (the same, debiased); ``mixture`` (multiple importance
    sampling over the temperatures); ``beam`` (beam marginalization); ``beam_plus_tail``; ``smc``
    (sequential Monte Carlo, the mean of ``replicates`` runs).
``aggregation``, ``pairing``
    ``instance``: Π_n p̂(x_n). ``corpus``: the mean over samples of products over the corpus, with
    the samples paired by their ids (``sample_id``, the paper's) or at random (``random``: the mean
    over random pairings, ``low`` to ``high`` and ``standard_deviation`` their spread: how
    far one pairing, such as that by ids, may be off; the samples stay the same).
``measure``
    ``perplexity`` exp(−log p̂ / T), or ``unknown_penalized_perplexity``, with log p̂ less ln U for
    each unknown token, U = ``unknown_types``; null when either is not known.
``bound``
    See `estimators.BOUNDS`: of the true perplexity, or the true unknown-penalized perplexity.
``standard_error``, ``standard_error_samples``, ``standard_error_instances``
    Of ``value``: by the delta method and by bootstrap over samples, the corpus being fixed; and by
    bootstrap over instances, the corpus being a sample. The first is null where the delta method
    does not hold (`diagnostics.delta_variance`); none knows of the bias of log p̂.
``n_samples``
    K; the least K of an instance when they differ. Of the mixture: over all temperatures. Of
    sequential Monte Carlo: the particles of a run.
``n_infinite``
    Instances with p̂ = 0.
``ess_*``, ``largest_weight_*``, ``unique_share``, ``k_hat_*``
    Summary over the instances; of the corpus level, of its K products. Of sequential Monte Carlo:
    the smallest effective sample size of an instance after any word, and nothing else.
    ``k_hat_above`` counts instances above the threshold of their own K, of those where k̂ is
    defined; ``k_hat_threshold`` is null when the thresholds differ.

Columns that do not apply are null.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from beyond_perplexity.importance import estimators
from beyond_perplexity.importance.diagnostics import (
    bootstrap_instances,
    bootstrap_samples,
    delta_variance,
    diagnose,
    error_variance,
    k_hat_threshold,
)
from beyond_perplexity.importance.estimators import log_mean_exp, perplexity
from beyond_perplexity.importance.reading.smc_runs import SMCRuns
from beyond_perplexity.importance.reduction import InstanceResults, Reduction, TemperatureResults
from beyond_perplexity.importance.subsets import prefix_log_means
from beyond_perplexity.importance.summary import corpus_notes, instance_notes, summarize
from beyond_perplexity.schemas import SCHEMAS

MEASURES = ("perplexity", "unknown_penalized_perplexity")
Row = dict[str, Any]


@dataclass(frozen=True)
class Estimate:
    """One estimate of log p of the corpus, before it becomes perplexities.

    Attributes
    ----------
    labels : dict
        Columns of the table that say what it is.
    log_likelihood : float
        log p̂ of the corpus, nats.
    variances : ndarray, shape (M,)
        Var(p̂) / p̂² of its independent parts; may be empty.
    samples : ndarray, shape (B,)
        log p̂ of bootstrap replicates over samples; may be empty.
    instances : ndarray, shape (N,), or None
        log p̂ of each instance, to be resampled.
    pairings : ndarray, shape (R,), or None
        log p̂ of each pairing, instead of `log_likelihood`.
    """

    labels: Row
    log_likelihood: float
    variances: np.ndarray = field(default_factory=lambda: np.empty(0))
    samples: np.ndarray = field(default_factory=lambda: np.empty(0))
    instances: np.ndarray | None = None
    pairings: np.ndarray | None = None


def band(values: np.ndarray, confidence: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the order statistics that have at least a share of the replicates between them.

    Parameters
    ----------
    values : ndarray, shape (R, ...)
        Replicates; may be infinite.
    confidence : float
        The share.

    Returns
    -------
    low, high : ndarray, shape (...)
    """
    ordered = np.sort(values, axis=0)
    last = len(values) - 1
    below = math.floor((1 - confidence) / 2 * last)
    return ordered[below], ordered[last - below]


def _deviation(values: np.ndarray) -> float:
    enough = len(values) > 1 and np.isfinite(values).all()
    return float(values.std(ddof=1)) if enough else math.nan


class _Builder:
    """Turn the estimates of a reduction into rows of ``estimates``."""

    def __init__(self, reduction: Reduction) -> None:
        self._reduction = reduction
        reader = reduction.reader
        self._t = reader.n_tokens
        self._total = int(reader.n_tokens.sum())
        self._unknown = reader.n_unknown
        self._types = reader.labels.unknown_types
        self._common: Row = {
            "model": reader.labels.model,
            "proposal": reader.labels.proposal,
            "n_instances": len(self._t),
            "n_tokens": self._total,
            "t_definition": reader.labels.t_definition,
            "n_unknown": None if self._unknown is None else int(self._unknown.sum()),
            "unknown_types": self._types,
        }

    def rows(self, estimate: Estimate) -> Iterator[Row]:
        """Give the row of each measure."""
        known = self._unknown is not None and self._types is not None
        for measure in MEASURES:
            row = {**self._common, **estimate.labels, "measure": measure}
            if measure == "perplexity":
                yield row | self._values(estimate, np.zeros(len(self._t)))
            elif known:
                assert self._unknown is not None
                yield row | self._values(
                    estimate, self._unknown * math.log(max(1, self._types or 0))
                )
            else:
                yield row | {
                    "note": "the number of unknown tokens or of unknown types is not known"
                }

    def _values(self, estimate: Estimate, penalty: np.ndarray) -> Row:
        """Compute the numbers of a row, with log p̂ of each instance less a penalty, (N,)."""
        charged = estimate.log_likelihood - penalty.sum()
        value = float(perplexity(charged, self._total))
        row: Row = {"log_likelihood": charged, "value": value}
        if estimate.pairings is not None:
            values = perplexity(estimate.pairings - penalty.sum(), self._total)  # (R,)
            low, high = band(values, self._reduction.options.confidence)
            return row | {
                "value": values.mean(),
                "low": low,
                "high": high,
                "standard_deviation": _deviation(values),
                "replicates": len(values),
            }
        if math.isfinite(value):
            variance = delta_variance(estimate.variances)
            row["standard_error"] = value * math.sqrt(variance) / self._total
        if not np.isnan(estimate.variances).all():  # resamples of single samples do not vary
            samples = perplexity(estimate.samples - penalty.sum(), self._total)
            row["standard_error_samples"] = _deviation(samples)
        if estimate.instances is not None and len(self._t) > 1:
            resampled = bootstrap_instances(
                estimate.instances - penalty,
                self._t,
                self._reduction.options.bootstrap,
                self._reduction.draws.of("bootstrap over instances"),
            )
            row["standard_error_instances"] = _deviation(resampled)
        return row


def _instance_estimate(
    reduction: Reduction, results: InstanceResults, labels: Row, n_samples: np.ndarray
) -> Estimate:
    """Make the estimate of the product over instances with K samples each, (N,)."""
    notes = instance_notes(results, n_samples, reduction.reader.instance_ids)
    return Estimate(
        {
            "aggregation": "instance",
            "bound": estimators.STOCHASTIC,
            "n_samples": int(n_samples.min()),
            "n_infinite": int(np.isneginf(results.log_likelihood).sum()),
            "note": "; ".join(notes) or None,
            **summarize(results.diagnostics, n_samples),
            **labels,
        },
        float(results.log_likelihood.sum()),
        results.variance,
        samples=results.bootstrap,
        instances=results.log_likelihood,
    )


def _jackknife_estimate(results: InstanceResults, labels: Row) -> Estimate:
    missing = int(np.isnan(results.jackknife).sum())
    note = f"undefined: {missing} instances have fewer than two positive weights"
    return Estimate(
        {
            "method": "jackknife",
            "aggregation": "instance",
            "bound": estimators.DEBIASED,
            "note": note if missing else None,
            **labels,
        },
        float(results.jackknife.sum()),
        instances=results.jackknife,
    )


def _corpus_estimates(reduction: Reduction, results: TemperatureResults) -> Iterator[Estimate]:
    common, most = results.common, int(results.n_samples.max())
    notes = []
    if most != common:
        notes.append(f"instances have {common} to {most} samples: of each, {common} count")
    if np.isneginf(results.paired).all():
        notes.append("no pairing by id has positive weights alone: its perplexity is infinite")
    labels: Row = {
        "method": "importance_sampling",
        "temperature": results.temperature,
        "aggregation": "corpus",
        "bound": estimators.STOCHASTIC,
        "n_samples": common,
    }
    name = f"bootstrap over samples of the corpus/{results.temperature}"
    random = reduction.draws.of(name)
    paired, variance = diagnose(results.paired), error_variance(results.paired)
    samples = bootstrap_samples(results.paired, reduction.options.bootstrap, random)
    qualified = [*notes, *corpus_notes(variance, paired, samples)]
    yield Estimate(
        {
            **labels,
            "pairing": "sample_id",
            "note": "; ".join(qualified) or None,
            **summarize([paired], np.array([common])),
        },
        float(log_mean_exp(results.paired)),
        np.array([variance]),
        samples=samples,
    )
    if len(results.ordered):
        pairings = log_mean_exp(results.ordered, 1)
        labels |= {"pairing": "random", "note": "; ".join(notes) or None}
        yield Estimate(labels, float(pairings.mean()), pairings=pairings)


def _temperature_estimates(reduction: Reduction, results: TemperatureResults) -> Iterator[Estimate]:
    labels: Row = {"temperature": results.temperature}
    counts = results.n_samples
    plain = {**labels, "method": "importance_sampling"}
    yield _instance_estimate(reduction, results.instances, plain, counts)
    yield _jackknife_estimate(results.instances, {**labels, "n_samples": results.common})
    yield from _corpus_estimates(reduction, results)
    for size, tail in results.tails.items():
        extra = {**labels, "method": "beam_plus_tail", "beam_size": size}
        yield _instance_estimate(reduction, tail, extra, counts)


def _smc_estimate(reduction: Reduction, results: InstanceResults, runs: SMCRuns) -> Estimate:
    labels: Row = {
        "method": "smc",
        "temperature": runs.temperature,
        "replicates": runs.log_likelihood.shape[1],
    }
    particles = np.full(len(runs.log_likelihood), runs.n_particles)
    return _instance_estimate(reduction, results, labels, particles)


def _estimates(reduction: Reduction) -> Iterator[Estimate]:
    for results in reduction.temperatures:
        yield from _temperature_estimates(reduction, results)
    if reduction.mixture:
        counts = reduction.reader.n_samples.sum(0)
        yield _instance_estimate(reduction, reduction.mixture, {"method": "mixture"}, counts)
    if reduction.smc and reduction.runs:
        yield _smc_estimate(reduction, reduction.smc, reduction.runs)
    for size, values in reduction.beams.items():
        infinite = int(np.isneginf(values).sum())
        yield Estimate(
            {
                "method": "beam",
                "aggregation": "instance",
                "beam_size": size,
                "bound": estimators.STRICT,
                "n_infinite": infinite,
                "note": f"p of the beam is 0 for {infinite} instances" if infinite else None,
            },
            float(values.sum()),
            instances=values,
        )


def _table(kind: str, rows: Iterable[Row]) -> pa.Table:
    """Make a table; missing columns and NaN become null."""

    def clean(value: object) -> object:
        if isinstance(value, np.generic | np.ndarray):
            value = value.item()
        return None if isinstance(value, float) and math.isnan(value) else value

    listed = list(rows)
    columns = {name: [clean(row.get(name)) for row in listed] for name in SCHEMAS[kind].names}
    return pa.table(columns, SCHEMAS[kind])


def estimates_table(reduction: Reduction) -> pa.Table:
    """Make the table of schema ``estimates``; the module says what its columns mean."""
    builder = _Builder(reduction)
    return _table("estimates", (row for one in _estimates(reduction) for row in builder.rows(one)))


def _common(reduction: Reduction, results: TemperatureResults, aggregation: str) -> Row:
    """Return the columns that curves and replicates share."""
    reader = reduction.reader
    return {
        "model": reader.labels.model,
        "proposal": reader.labels.proposal,
        "temperature": results.temperature,
        "aggregation": aggregation,
        "bound": estimators.STOCHASTIC,
        "n_instances": len(reader.n_tokens),
        "n_tokens": int(reader.n_tokens.sum()),
        "t_definition": reader.labels.t_definition,
    }


def curves_table(reduction: Reduction) -> pa.Table:
    """Make the table of schema ``importance_curves``.

    Each row is the mean perplexity over random subsets of ``n_samples`` samples of every instance,
    without replacement, and the band of them; at the corpus level the pairing is random too. With
    all samples the subsets are the same, and so the instance level has no band there.
    """
    total = int(reduction.reader.n_tokens.sum())
    rows: list[Row] = []
    for results in reduction.temperatures:
        if not reduction.options.subsets:
            break
        levels = {
            "instance": results.prefixes,
            "corpus": prefix_log_means(results.ordered, results.sizes),
        }
        for aggregation, log_likelihoods in levels.items():
            values = perplexity(log_likelihoods, total)  # (R, S)
            low, high = band(values, reduction.options.confidence)
            rows += [
                {
                    **_common(reduction, results, aggregation),
                    "n_samples": size,
                    "mean": values[:, column].mean(),
                    "low": low[column],
                    "high": high[column],
                    "replicates": len(values),
                }
                for column, size in enumerate(results.sizes.tolist())
            ]
    return _table("importance_curves", rows)


def replicates_table(reduction: Reduction) -> pa.Table:
    """Make the table of schema ``importance_replicates``: perplexities of disjoint blocks."""
    total = int(reduction.reader.n_tokens.sum())
    size = reduction.options.replicate_samples
    rows: list[Row] = []
    for results in reduction.temperatures:
        n = len(results.blocks)
        paired = results.paired[: n * size].reshape(n, size)
        levels = {"instance": results.blocks, "corpus": log_mean_exp(paired, 1)}
        for aggregation, log_likelihoods in levels.items():
            rows += [
                {
                    **_common(reduction, results, aggregation),
                    "n_samples": size,
                    "replicate": replicate,
                    "value": value,
                }
                for replicate, value in enumerate(perplexity(log_likelihoods, total))
            ]
    return _table("importance_replicates", rows)


def diagnostics_table(reduction: Reduction) -> pa.Table:
    """Make the table of schema ``importance_diagnostics``, a row an instance and estimator.

    ``log_likelihood`` is log p̂ in nats, without a penalty; its standard errors are nats too, that
    by the delta method null where `diagnostics.delta_variance` says that it does not hold.
    """
    reader = reduction.reader
    found: list[tuple[str, float | None, InstanceResults, np.ndarray]] = [
        ("importance_sampling", results.temperature, results.instances, results.n_samples)
        for results in reduction.temperatures
    ]
    if reduction.mixture:
        found.append(("mixture", None, reduction.mixture, reader.n_samples.sum(0)))
    if reduction.smc and reduction.runs:
        particles = np.full(len(reader.instance_ids), reduction.runs.n_particles)
        found.append(("smc", reduction.runs.temperature, reduction.smc, particles))
    rows: list[Row] = []
    for method, temperature, results, n_samples in found:
        errors = np.sqrt([delta_variance(results.variance[[n]]) for n in range(len(n_samples))])
        for index, one in enumerate(results.diagnostics):
            threshold = None if method == "smc" else k_hat_threshold(int(n_samples[index]))
            row = {
                "model": reader.labels.model,
                "proposal": reader.labels.proposal,
                "temperature": temperature,
                "method": method,
                "instance_id": reader.instance_ids[index],
                "n_samples": n_samples[index],
                "n_tokens": reader.n_tokens[index],
                "n_unknown": None if reader.n_unknown is None else reader.n_unknown[index],
                "log_likelihood": results.log_likelihood[index],
                "log_likelihood_jackknife": results.jackknife[index],
                "standard_error": errors[index],
                "standard_error_samples": results.standard_error_samples[index],
                "k_hat_threshold": threshold,
            }
            rows.append(row | one._asdict())
    return _table("importance_diagnostics", rows)
