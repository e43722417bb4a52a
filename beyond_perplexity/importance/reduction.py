"""Reduce the samples of all instances, in one pass, to estimates, curves, replicates,
diagnostics."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from tqdm import tqdm

from beyond_perplexity.importance.bidirectional_gaps import gap_rows, refuted_settings, withdrawn
from beyond_perplexity.importance.draw_files import WeightLabels, read_draws
from beyond_perplexity.importance.estimate_wording import is_above_strict, least_strict
from beyond_perplexity.importance.estimator import CorpusEstimate, Estimator, Fields, Inputs
from beyond_perplexity.importance.ways_to_draw import ReductionOptions, load_estimators
from beyond_perplexity.importance.weight_files import WeightReader
from beyond_perplexity.inference.log_space import to_perplexity
from beyond_perplexity.inference.weight_diagnostics import bootstrap_instances, delta_variance
from beyond_perplexity.schemas.estimates import (
    ESTIMATES,
    IMPORTANCE_CURVES,
    IMPORTANCE_DIAGNOSTICS,
    IMPORTANCE_GAPS,
    IMPORTANCE_REPLICATES,
)
from beyond_perplexity.signature import sign

_SIGNED = ("t_definition", "method", "aggregation", "temperature", "n_samples", "beam_size")


@dataclass(frozen=True)
class Reduction:
    """The reduced samples of one model and proposal: every estimator with a setting, by its method,
    and the same `penalized`, None where unknown words cost ln U each."""

    inputs: Inputs
    estimators: tuple[tuple[str, Estimator], ...]
    penalized: Reduction | None = None

    def signature(self, estimates: pa.Table) -> str:
        """Sign what is reduced; `estimates` are its table."""
        columns = {name: pc.unique(estimates[name].drop_null()).to_pylist() for name in _SIGNED}
        held = {name: sorted(values) for name, values in columns.items()}
        names = ("two_sided", "subsets", "bootstrap", "confidence")
        return sign("estimate", **held, **{n: getattr(self.inputs.options, n) for n in names})


def reduce_weights(
    reader: WeightReader,
    draws: Mapping[str, Any] | None = None,
    options: ReductionOptions | None = None,
    seed: int = 0,
    progress: bool = False,
) -> Reduction:
    """Reduce all samples of one model and proposal, with other draws of the same instances
    (`read_draws`); the seed is that of subsets, pairings and bootstraps."""
    inputs = Inputs(reader, draws or {}, options or ReductionOptions(), seed)
    estimators = tuple(
        (method, one) for method, kind in load_estimators().items() for one in kind.of(inputs)
    )
    total = len(reader.instance_ids)
    for instance in tqdm(reader, total=total, mininterval=1, disable=not progress, unit="instance"):
        for _, estimator in estimators:
            estimator.add(instance)
    for _, estimator in estimators:
        estimator.finish()
    return Reduction(inputs, estimators)


def reduce_files(
    given: argparse.Namespace, labels: WeightLabels, options: ReductionOptions
) -> Reduction:
    """Reduce the files that flags name, twice where copies are spared the unknown penalty; `labels`
    stand in place of the footers'."""
    reader = WeightReader(given.weights, labels, log_q=given.log_q)
    found = reduce_weights(reader, read_draws(given, reader), options, given.seed, True)
    if not reader.has_penalized:
        return found
    other = WeightReader(given.weights, labels, log_q=given.log_q, penalized=True)
    lower = reduce_weights(other, read_draws(given, other), options, given.seed, True)
    return replace(found, penalized=lower)


def band(values: np.ndarray, confidence: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the order statistics of replicates, (R, ...), with at least a share between them."""
    ordered = np.sort(values, axis=0)
    last = len(values) - 1
    below = math.floor((1 - confidence) / 2 * last)
    return ordered[below], ordered[last - below]


def _deviation(values: np.ndarray) -> float:
    enough = len(values) > 1 and np.isfinite(values).all()
    return float(values.std(ddof=1)) if enough else math.nan


def _numbers(inputs: Inputs, estimate: CorpusEstimate, penalty: np.ndarray | None = None) -> Fields:
    """Compute the numbers of a row, with log p̂ of each instance less a penalty, (N,)."""
    n_tokens, options = inputs.reader.n_tokens, inputs.options
    total = int(n_tokens.sum())
    penalty = np.zeros(len(n_tokens)) if penalty is None else penalty
    if estimate.ends is not None:
        ends = np.array(estimate.ends[::-1]) - penalty.sum()  # the lower perplexity first
        low, high = to_perplexity(ends, total)
        return {**estimate.labels, "low": low, "high": high}
    lower = estimate.log_likelihood - penalty.sum()
    value = float(to_perplexity(lower, total))
    row: Fields = {**estimate.labels, "log_likelihood": lower, "value": value}
    if estimate.pairings is not None:
        values = to_perplexity(estimate.pairings - penalty.sum(), total)  # (R,)
        low, high = band(values, options.confidence)
        found = {"value": values.mean(), "low": low, "high": high, "replicates": len(values)}
        return row | found | {"standard_deviation": _deviation(values)}
    if math.isfinite(value):
        variance = delta_variance(estimate.variances)
        row["standard_error"] = value * math.sqrt(variance) / total
    if not np.isnan(estimate.variances).all():  # resamples of single samples do not vary
        samples = to_perplexity(estimate.samples - penalty.sum(), total)
        row["standard_error_samples"] = _deviation(samples)
    if estimate.instances is not None and len(n_tokens) > 1:
        random = inputs.random("bootstrap over instances")
        ones = estimate.instances - penalty  # (N,)
        resampled = bootstrap_instances(ones, n_tokens, options.bootstrap, random)
        row["standard_error_instances"] = _deviation(resampled)
    return row


def _measured(inputs: Inputs, estimate: CorpusEstimate, own: Fields | None) -> Iterator[Fields]:
    """Give the row of each measure; `own` are its numbers where they are estimated."""
    unknown, types = inputs.reader.n_unknown, inputs.reader.labels.unknown_types
    yield {"measure": "perplexity", **_numbers(inputs, estimate)}
    penalized = {"measure": "unknown_penalized_perplexity"}
    if own is not None:
        yield own | penalized
    elif unknown is None or types is None:
        note = "the number of unknown tokens or of unknown types is not known"
        yield {**penalized, **estimate.labels, "note": note}
    else:
        yield penalized | _numbers(inputs, estimate, unknown * math.log(max(1, types)))


def _table(schema: pa.Schema, rows: Iterable[Fields], inputs: Inputs | None = None) -> pa.Table:
    """Make a table; what all rows share is added, missing columns and NaN become null."""
    common: Fields = {}
    if inputs is not None:
        reader = inputs.reader
        common = {
            **_named_pair(inputs),
            "n_instances": len(reader.n_tokens),
            "n_tokens": int(reader.n_tokens.sum()),
            "t_definition": reader.labels.t_definition,
            "n_unknown": None if reader.n_unknown is None else int(reader.n_unknown.sum()),
            "unknown_types": reader.labels.unknown_types,
        }
    listed = [common | row for row in rows]
    columns = {name: [_clean(row.get(name)) for row in listed] for name in schema.names}
    return pa.table(columns, schema)


def _clean(value: object) -> object:
    if isinstance(value, np.generic | np.ndarray):
        value = value.item()
    return None if isinstance(value, float) and math.isnan(value) else value


def estimates_table(reduction: Reduction) -> pa.Table:
    """Make the table of schema ``estimates``."""
    inputs, lower = reduction.inputs, reduction.penalized
    last = len(inputs.reader.temperatures)
    found: list[tuple[tuple[int, ...], list[Fields]]] = []
    for index, (method, estimator) in enumerate(reduction.estimators):
        group = last if estimator.group is None else estimator.group
        estimates = list(estimator.estimates())
        own: list[Fields | None] = [None] * len(estimates)
        if lower is not None:
            others = lower.estimators[index][1].estimates()
            own = [_numbers(lower.inputs, other) for other in others]
        for estimate, penalized in zip(estimates, own, strict=True):
            level = estimator.levels.index(estimate.labels["aggregation"])
            rows = [{"method": method, **row} for row in _measured(inputs, estimate, penalized)]
            found.append(((group, estimate.labels.get("beam_size", 0), level), rows))
    found.sort(key=lambda entry: entry[0])
    rows = [row for _, listed in found for row in listed]
    # Two-sided bounds that fail on the simulated documents of this proposal lose their claim.
    named = {**_named_pair(inputs), "basis": None, "temperature": None}
    refuted = refuted_settings(_gap_rows(reduction))
    rows = [row | withdrawn(named | row, refuted) if row.get("basis") else row for row in rows]
    return _table(ESTIMATES, _warned(rows, inputs), inputs)


def _named_pair(inputs: Inputs) -> Fields:
    labels = inputs.reader.labels
    return {"model": labels.model, "proposal": labels.proposal}


def _gap_rows(reduction: Reduction) -> list[Fields]:
    """Give the rows of schema ``importance_gaps``; none without simulated documents."""
    found = reduction.inputs.draws.get("bidirectional")
    return [_named_pair(reduction.inputs) | row for row in (gap_rows(found) if found else ())]


def _warned(rows: list[Fields], inputs: Inputs) -> list[Fields]:
    """Add a note to the stochastic bounds that lie above a strict one."""
    empty = {"model": inputs.reader.labels.model, "proposal": None, "value": None}
    least = least_strict([empty | row for row in rows])
    for row in rows:
        if strict := is_above_strict(empty | row, least):
            warning = f"above the strict bound {strict.value:.2f} by {strict.words}: that is better"
            row["note"] = "; ".join(filter(None, [warning, row["note"]]))
        if is_below_one(row):
            row["note"] = "; ".join(filter(None, [BELOW_ONE, row["note"]]))
    return rows


def is_below_one(row: Fields) -> bool:
    """Tell a perplexity that no distribution over texts has: a text would have P > 1."""
    value = row.get("value")
    return "perplexity" in row["measure"] and value is not None and value < 1


BELOW_ONE = (
    "below 1, which no probability of a text gives: check that log_p is a natural logarithm of "
    "p(x, z), log_q of q(z | x), and the samples drawn from q"
)


def curves_table(reduction: Reduction) -> pa.Table:
    """Make the table of schema ``importance_curves``: mean perplexity and band over random subsets,
    at the corpus level with random pairings; instances have no band with all samples."""
    rows: list[Fields] = []
    for common, estimator, values in _by_level(reduction, "curves"):  # (R, S)
        low, high = band(values, reduction.inputs.options.confidence)
        common = {**common, "replicates": len(values)}
        for column, size in enumerate(estimator.sizes.tolist()):
            found = {"mean": values[:, column].mean(), "low": low[column], "high": high[column]}
            rows.append({**common, "n_samples": size, **found})
    return _table(IMPORTANCE_CURVES, rows, reduction.inputs)


def _by_level(reduction: Reduction, what: str) -> Iterator[tuple[Fields, Estimator, np.ndarray]]:
    """Give perplexities of what each estimator has at each level, and what its rows share."""
    total = int(reduction.inputs.reader.n_tokens.sum())
    for _, estimator in reduction.estimators:
        for level, log_likelihoods in getattr(estimator, what)().items():
            common = {**estimator.labels, "aggregation": level, "bound": estimator.bound}
            yield common, estimator, to_perplexity(log_likelihoods, total)


def replicates_table(reduction: Reduction) -> pa.Table:
    """Make the table of schema ``importance_replicates``: perplexities of disjoint blocks."""
    size = reduction.inputs.options.replicate_samples
    rows = (
        {**common, "n_samples": size, "replicate": replicate, "value": value}
        for common, _, values in _by_level(reduction, "replicates")
        for replicate, value in enumerate(values)
    )
    return _table(IMPORTANCE_REPLICATES, rows, reduction.inputs)


def instances_table(reduction: Reduction) -> pa.Table:
    """Make the table of schema ``importance_diagnostics``, a row an instance and estimator."""
    rows = (
        {"method": method, **found}
        for method, estimator in reduction.estimators
        for found in estimator.diagnosed()
    )
    return _table(IMPORTANCE_DIAGNOSTICS, rows, reduction.inputs)


def gaps_table(reduction: Reduction) -> pa.Table:
    """Make the table of schema ``importance_gaps``; empty without simulated documents."""
    return _table(IMPORTANCE_GAPS, _gap_rows(reduction))


# By the flag that names its file: the schema and what makes it.
REDUCED_TABLES = {
    "estimates": (ESTIMATES, estimates_table),
    "curves": (IMPORTANCE_CURVES, curves_table),
    "replicates": (IMPORTANCE_REPLICATES, replicates_table),
    "diagnostics": (IMPORTANCE_DIAGNOSTICS, instances_table),
}
