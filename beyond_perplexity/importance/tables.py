"""The tables of a reduction: estimates, curves, replicates, diagnostics per instance.

Of an estimate (schema ``estimates``):

``method``
    A key of `estimators.rows.ESTIMATORS`; what it is stands in its file.
``aggregation``, ``pairing``
    ``instance``: Π_n p̂(x_n). ``corpus``: the mean over samples of products over the corpus, with
    the samples paired by their ids (``sample_id``, the paper's) or at random (``random``: the mean
    over random pairings, ``low`` to ``high`` and ``standard_deviation`` their spread: how
    far one pairing, such as that by ids, may be off; the samples stay the same).
``measure``
    ``perplexity`` exp(−log p̂ / T), or ``unknown_penalized_perplexity``, with log p̂ less ln U for
    each unknown token, U = ``unknown_types``; null when either is not known.
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
    ``k_hat_above`` counts instances above the threshold of their own K, of those where k̂ is
    defined; ``k_hat_threshold`` is null when the thresholds differ.

Columns that do not apply are null.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from beyond_perplexity.importance.diagnostics import bootstrap_instances, delta_variance
from beyond_perplexity.importance.estimators.contract import CorpusEstimate, Estimator, Fields
from beyond_perplexity.importance.log_space import to_perplexity
from beyond_perplexity.importance.reduction import Reduction
from beyond_perplexity.schemas import SCHEMAS

_MEASURES = ("perplexity", "unknown_penalized_perplexity")


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
        reader = reduction.inputs.reader
        self._t = reader.n_tokens
        self._total = int(reader.n_tokens.sum())
        self._unknown = reader.n_unknown
        self._types = reader.labels.unknown_types
        self._common: Fields = {
            "model": reader.labels.model,
            "proposal": reader.labels.proposal,
            "n_instances": len(self._t),
            "n_tokens": self._total,
            "t_definition": reader.labels.t_definition,
            "n_unknown": None if self._unknown is None else int(self._unknown.sum()),
            "unknown_types": self._types,
        }

    def rows(self, estimate: CorpusEstimate, method: str) -> Iterator[Fields]:
        """Give the row of each measure."""
        known = self._unknown is not None and self._types is not None
        for measure in _MEASURES:
            row = {**self._common, **estimate.labels, "method": method, "measure": measure}
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

    def _values(self, estimate: CorpusEstimate, penalty: np.ndarray) -> Fields:
        """Compute the numbers of a row, with log p̂ of each instance less a penalty, (N,)."""
        charged = estimate.log_likelihood - penalty.sum()
        value = float(to_perplexity(charged, self._total))
        row: Fields = {"log_likelihood": charged, "value": value}
        if estimate.pairings is not None:
            values = to_perplexity(estimate.pairings - penalty.sum(), self._total)  # (R,)
            low, high = band(values, self._reduction.inputs.options.confidence)
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
            resampled = bootstrap_instances(
                estimate.instances - penalty,
                self._t,
                self._reduction.inputs.options.bootstrap,
                self._reduction.inputs.random("bootstrap over instances"),
            )
            row["standard_error_instances"] = _deviation(resampled)
        return row


def _place(reduction: Reduction, estimator: Estimator, estimate: CorpusEstimate) -> tuple[int, ...]:
    """Sort by temperature, then by beam, then by level; else as in the list of estimators."""
    group = len(reduction.inputs.reader.temperatures)
    return (
        group if estimator.group is None else estimator.group,
        estimate.labels.get("beam_size", 0),
        estimator.levels.index(estimate.labels["aggregation"]),
    )


def _table(kind: str, rows: Iterable[Fields]) -> pa.Table:
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
    found = [
        (_place(reduction, estimator, estimate), estimate, method)
        for method, estimator in reduction.estimators
        for estimate in estimator.estimates()
    ]
    found.sort(key=lambda entry: entry[0])
    return _table(
        "estimates",
        (row for _, one, method in found for row in builder.rows(one, method)),
    )


def _common(reduction: Reduction, estimator: Estimator, level: str) -> Fields:
    """Return the columns that curves and replicates share."""
    reader = reduction.inputs.reader
    return {
        "model": reader.labels.model,
        "proposal": reader.labels.proposal,
        **estimator.labels,
        "aggregation": level,
        "bound": estimator.bound,
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
    total = int(reduction.inputs.reader.n_tokens.sum())
    rows: list[Fields] = []
    for _, estimator in reduction.estimators:
        for level, log_likelihoods in estimator.curves().items():
            values = to_perplexity(log_likelihoods, total)  # (R, S)
            low, high = band(values, reduction.inputs.options.confidence)
            rows += [
                {
                    **_common(reduction, estimator, level),
                    "n_samples": size,
                    "mean": values[:, column].mean(),
                    "low": low[column],
                    "high": high[column],
                    "replicates": len(values),
                }
                for column, size in enumerate(estimator.sizes.tolist())
            ]
    return _table("importance_curves", rows)


def replicates_table(reduction: Reduction) -> pa.Table:
    """Make the table of schema ``importance_replicates``: perplexities of disjoint blocks."""
    total = int(reduction.inputs.reader.n_tokens.sum())
    size = reduction.inputs.options.replicate_samples
    rows = (
        {
            **_common(reduction, estimator, level),
            "n_samples": size,
            "replicate": replicate,
            "value": value,
        }
        for _, estimator in reduction.estimators
        for level, log_likelihoods in estimator.replicates().items()
        for replicate, value in enumerate(to_perplexity(log_likelihoods, total))
    )
    return _table("importance_replicates", rows)


def instances_table(reduction: Reduction) -> pa.Table:
    """Make the table of schema ``importance_diagnostics``, a row an instance and estimator.

    ``log_likelihood`` is log p̂ in nats, without a penalty; its standard errors are nats too, that
    by the delta method null where `diagnostics.delta_variance` says that it does not hold.
    """
    labels = reduction.inputs.reader.labels
    rows = (
        {"model": labels.model, "proposal": labels.proposal, "method": method, **found}
        for method, estimator in reduction.estimators
        for found in estimator.diagnosed()
    )
    return _table("importance_diagnostics", rows)
