"""The tables of a reduction: estimates, curves, replicates, diagnostics per instance.

Of an estimate (schema ``estimates``):

``method``, ``basis``
    A key of `estimators.rows.ESTIMATORS`; what it is stands in its file. Of a bracket, ``basis`` is
    the method whose samples it is made of, ``low`` and ``high`` are its ends, ``value`` is null.
``aggregation``, ``pairing``
    ``instance``: Π_n p̂(x_n). ``corpus``: the mean over samples of products over the corpus, with
    the samples paired by their ids (``sample_id``, the paper's) or at random (``random``: the mean
    over random pairings, ``low`` to ``high`` and ``standard_deviation`` their spread: how
    far one pairing, such as that by ids, may be off; the samples stay the same).
``measure``
    ``perplexity`` exp(−log p̂ / T), or ``unknown_penalized_perplexity``: the same of a model that
    shares p(``<unk>``) among the U = ``unknown_types`` types of unknown words. Its log p̂ is less by
    ln U for each unknown token; null when either is not known. Where words are copied as well, the
    draws have log p(x, z) of that model, and all is estimated with it anew.
``bound``
    One of `estimators.contract.BOUNDS`: of the true perplexity, or the true unknown-penalized
    perplexity.
``standard_error``, ``standard_error_samples``, ``standard_error_instances``
    Of ``value``: by the delta method and by bootstrap over samples, the corpus being fixed; and by
    bootstrap over instances, the corpus being a sample. The first is null where the delta method
    does not hold (`diagnostics.delta_variance`); none knows of the bias of log p̂.
``n_samples``
    K; the least K of an instance when they differ. What it counts: `Estimator.size_note`.
``n_infinite``
    Instances with p̂ = 0.
``ess_*``, ``largest_weight_*``, ``unique_share``, ``k_hat_*``
    Summary over the instances; of the corpus level, of its K products; see `Estimator.trust_note`.
    ``ess_low_share`` is the share of tokens in instances with fewer than 5 effective samples.
    ``k_hat_above`` counts instances above the threshold of their own K, of those where k̂ is
    defined; ``k_hat_threshold`` is null when the thresholds differ.

Columns that do not apply are null.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from beyond_perplexity.importance.estimators.contract import CorpusEstimate, Fields, Inputs
from beyond_perplexity.importance.gaps import gap_rows
from beyond_perplexity.importance.reduction import Reduction
from beyond_perplexity.importance.refuted import refuted_settings, withdrawn
from beyond_perplexity.importance.strict_bounds import is_above_strict, least_strict
from beyond_perplexity.inference.log_space import to_perplexity
from beyond_perplexity.inference.weight_diagnostics import bootstrap_instances, delta_variance
from beyond_perplexity.schemas.estimates import (
    ESTIMATES,
    IMPORTANCE_CURVES,
    IMPORTANCE_DIAGNOSTICS,
    IMPORTANCE_GAPS,
    IMPORTANCE_REPLICATES,
)


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


class _Measures:
    """Turn an estimate into a row of ``estimates`` for each measure."""

    def __init__(self, inputs: Inputs) -> None:
        self._inputs = inputs
        self._t = inputs.reader.n_tokens
        self._total = int(self._t.sum())

    def rows(self, estimate: CorpusEstimate, own: Fields | None) -> Iterator[Fields]:
        """Give the row of each measure.

        Parameters
        ----------
        estimate : CorpusEstimate
        own : dict or None
            Its numbers with unknown words penalized, where they are estimated anew.
        """
        unknown, types = self._inputs.reader.n_unknown, self._inputs.reader.labels.unknown_types
        yield {"measure": "perplexity", **self.uncharged(estimate)}
        penalized = {"measure": "unknown_penalized_perplexity"}
        if own is not None:
            yield own | penalized
        elif unknown is None or types is None:
            note = "the number of unknown tokens or of unknown types is not known"
            yield {**penalized, **estimate.labels, "note": note}
        else:
            yield penalized | self._values(estimate, unknown * math.log(max(1, types)))

    def uncharged(self, estimate: CorpusEstimate) -> Fields:
        """Compute the numbers of a row of an estimate as it stands."""
        return self._values(estimate, np.zeros(len(self._t)))

    def _values(self, estimate: CorpusEstimate, penalty: np.ndarray) -> Fields:
        """Compute the numbers of a row, with log p̂ of each instance less a penalty, (N,)."""
        options = self._inputs.options
        if estimate.ends is not None:
            ends = np.array(estimate.ends[::-1]) - penalty.sum()  # the lower perplexity first
            low, high = to_perplexity(ends, self._total)
            return {**estimate.labels, "low": low, "high": high}
        charged = estimate.log_likelihood - penalty.sum()
        value = float(to_perplexity(charged, self._total))
        row: Fields = {**estimate.labels, "log_likelihood": charged, "value": value}
        if estimate.pairings is not None:
            values = to_perplexity(estimate.pairings - penalty.sum(), self._total)  # (R,)
            low, high = band(values, options.confidence)
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
            samples = to_perplexity(estimate.samples - penalty.sum(), self._total)
            row["standard_error_samples"] = _deviation(samples)
        if estimate.instances is not None and len(self._t) > 1:
            random = self._inputs.random("bootstrap over instances")
            charged_ones = estimate.instances - penalty  # (N,)
            resampled = bootstrap_instances(charged_ones, self._t, options.bootstrap, random)
            row["standard_error_instances"] = _deviation(resampled)
        return row


def _table(schema: pa.Schema, inputs: Inputs, rows: Iterable[Fields]) -> pa.Table:
    """Make a table; what all rows share is added, missing columns and NaN become null."""
    reader = inputs.reader
    common: Fields = {
        "model": reader.labels.model,
        "proposal": reader.labels.proposal,
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


def _charged(reduction: Reduction) -> Sequence[Sequence[Fields] | None]:
    """Give the numbers of every estimator with unknown words penalized, if they are estimated."""
    if reduction.penalized is None:
        return [None] * len(reduction.estimators)
    measures = _Measures(reduction.penalized.inputs)
    held = reduction.penalized.estimators
    return [[measures.uncharged(one) for one in estimator.estimates()] for _, estimator in held]


def estimates_table(reduction: Reduction) -> pa.Table:
    """Make the table of schema ``estimates``; the module says what its columns mean.

    Sorted by temperature, then by beam, then by level; else as in the list of estimators.
    """
    measures, last = _Measures(reduction.inputs), len(reduction.inputs.reader.temperatures)
    charged: Sequence[Sequence[Fields] | None] = _charged(reduction)
    found: list[tuple[tuple[int, ...], list[Fields]]] = []
    for (method, estimator), numbers in zip(reduction.estimators, charged, strict=True):
        group = last if estimator.group is None else estimator.group
        estimates = list(estimator.estimates())
        own: Sequence[Fields | None] = [None] * len(estimates) if numbers is None else numbers
        for estimate, penalized in zip(estimates, own, strict=True):
            level = estimator.levels.index(estimate.labels["aggregation"])
            rows = [{"method": method, **row} for row in measures.rows(estimate, penalized)]
            found.append(((group, estimate.labels.get("beam_size", 0), level), rows))
    found.sort(key=lambda entry: entry[0])
    rows = [row for _, listed in found for row in listed]
    return _table(ESTIMATES, reduction.inputs, _warned(_refuted(rows, reduction), reduction.inputs))


def _refuted(rows: list[Fields], reduction: Reduction) -> list[Fields]:
    """Take the claim from brackets that fail on the simulated documents of this proposal."""
    own = {**_named_pair(reduction.inputs), "basis": None, "temperature": None}
    refuted = refuted_settings(_gap_rows(reduction))
    return [row | withdrawn(own | row, refuted) if row.get("basis") else row for row in rows]


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
    """Make the table of schema ``importance_curves``.

    Each row is the mean perplexity over random subsets of ``n_samples`` samples of every instance,
    without replacement, and the band of them; at the corpus level the pairing is random too. With
    all samples the subsets are the same, and so the instance level has no band there.
    """
    total = int(reduction.inputs.reader.n_tokens.sum())
    rows: list[Fields] = []
    for _, estimator in reduction.estimators:
        for level, log_likelihoods in estimator.curves().items():
            values = to_perplexity(log_likelihoods, total)  # (R, S)
            low, high = band(values, reduction.inputs.options.confidence)
            rows += [
                {
                    **estimator.labels,
                    "aggregation": level,
                    "bound": estimator.bound,
                    "n_samples": size,
                    "mean": values[:, column].mean(),
                    "low": low[column],
                    "high": high[column],
                    "replicates": len(values),
                }
                for column, size in enumerate(estimator.sizes.tolist())
            ]
    return _table(IMPORTANCE_CURVES, reduction.inputs, rows)


def replicates_table(reduction: Reduction) -> pa.Table:
    """Make the table of schema ``importance_replicates``: perplexities of disjoint blocks."""
    total = int(reduction.inputs.reader.n_tokens.sum())
    rows = (
        {
            **estimator.labels,
            "aggregation": level,
            "bound": estimator.bound,
            "n_samples": reduction.inputs.options.replicate_samples,
            "replicate": replicate,
            "value": value,
        }
        for _, estimator in reduction.estimators
        for level, log_likelihoods in estimator.replicates().items()
        for replicate, value in enumerate(to_perplexity(log_likelihoods, total))
    )
    return _table(IMPORTANCE_REPLICATES, reduction.inputs, rows)


def instances_table(reduction: Reduction) -> pa.Table:
    """Make the table of schema ``importance_diagnostics``, a row an instance and estimator.

    ``log_likelihood`` is log p̂ in nats, without a penalty; its standard errors are nats too, that
    by the delta method null where `diagnostics.delta_variance` says that it does not hold.
    """
    rows = (
        {"method": method, **found}
        for method, estimator in reduction.estimators
        for found in estimator.diagnosed()
    )
    return _table(IMPORTANCE_DIAGNOSTICS, reduction.inputs, rows)


def gaps_table(reduction: Reduction) -> pa.Table:
    """Make the table of schema ``importance_gaps``; empty without simulated documents."""
    rows = _gap_rows(reduction)
    columns = {name: [_clean(row.get(name)) for row in rows] for name in IMPORTANCE_GAPS.names}
    return pa.table(columns, IMPORTANCE_GAPS)


# By the flag that names its file: the schema and what makes it.
REDUCED_TABLES = {
    "estimates": (ESTIMATES, estimates_table),
    "curves": (IMPORTANCE_CURVES, curves_table),
    "replicates": (IMPORTANCE_REPLICATES, replicates_table),
    "diagnostics": (IMPORTANCE_DIAGNOSTICS, instances_table),
}
