"""Models on the same sentences: paired differences of every measure, and how measures go together.

What is claimed is about the trained models, on texts like these. G groups of documents in B blocks,
N sentences, M models, C measures.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, groupby
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from beyond_perplexity.inference import intervals, p_values
from beyond_perplexity.inference.correlations import (
    LEAST_ITEMS,
    average_ranks,
    correlation_matrix,
    few_items_interval,
)
from beyond_perplexity.schemas import semantics
from beyond_perplexity.semantics.bleu import bleu_of
from beyond_perplexity.semantics.paired_scores import GroupSums, PairedScores, ScoreKey
from beyond_perplexity.verdicts import joined_facts

_Row = dict[str, Any]


def _pooled(sums: GroupSums, counts: np.ndarray) -> np.ndarray:
    """Return BLEU of counts (..., P, K), less that of the partner where there is one; (...)."""
    parts = range(counts.shape[-2])
    found, *partner = (bleu_of(counts[..., part, :], sums.order) for part in parts)
    return found - partner[0] if partner else found


def model_values(sums: GroupSums) -> np.ndarray:
    """Return the value of every model, float64, (M,); NaN where no sentence counts."""
    if sums.counts is not None:
        return _pooled(sums, sums.counts.sum(axis=0))
    size = sums.sizes.sum()
    return sums.numerators.sum(axis=0) / size if size else np.full(len(sums.models), math.nan)


def _difference(sums: GroupSums, one: int, two: int) -> intervals.RatioTest:
    held = sums.sizes > 0
    sizes = sums.sizes[held]
    if sums.counts is None:
        own = sums.numerators[held]
        return intervals.ratio_test(own[:, one] - own[:, two], sizes)
    counts = sums.counts[held][:, (one, two)]
    total = counts.sum(axis=0)
    first, second = _pooled(sums, total)
    rest = _pooled(sums, total - counts)
    return intervals.jackknife_test(float(first - second), rest[:, 0] - rest[:, 1], sizes)


def _row(key: ScoreKey, sums: GroupSums, pair: tuple[int, int]) -> _Row:
    tested = _difference(sums, *pair)
    found, p_value = tested.interval, intervals.finite(tested.p_value)
    total = sums.sentences + sums.left_out
    left_out = f"{sums.left_out:,} of {total:,} sentences left out: a model has no value"
    note = joined_facts(found.few_groups(), left_out if sums.left_out else "")
    row = {**key._asdict(), "first": sums.models[pair[0]], "second": sums.models[pair[1]]}
    row |= found.columns("value", "low", "high") | {"p_value": p_value, "p_adjusted": None}
    row |= {"groups": found.groups, "groups_effective": found.effective}
    return row | {"sentences": sums.sentences, "note": note}


def compare_semantics(paired: PairedScores) -> pa.Table:
    """Compare models pair by pair in every measure: schema ``semantic_differences``.

    Intervals and p-values are over groups (`inference.intervals.ratio_test`, `jackknife_test`),
    adjusted (Holm) over all pairs and measures of a split and kind; none with fewer than 20
    effective groups.
    """
    held = {k: sums for k, sums in paired.sums.items() if len(sums.models) > 1 and sums.sentences}
    order = {split: index for index, split in enumerate(paired.groups)}
    kinds = list(dict.fromkeys(key.kind for key in held))

    def family(key: ScoreKey) -> tuple[int, int]:
        return order[key.split], kinds.index(key.kind)

    rows: list[_Row] = []
    for _, keys in groupby(sorted(held, key=family), family):
        own = [
            _row(key, held[key], pair)
            for key in keys
            for pair in combinations(range(len(held[key].models)), 2)
        ]
        p_values.adjust_rows(own)
        rows += own
    return pa.Table.from_pylist(rows, semantics.SEMANTIC_DIFFERENCES)


# ---- correlations ----

CORRELATED_SENTENCES = 20_000  # of each split; more say nothing new
BLOCKS = 50  # of groups, that are left out one by one
_METHODS = {"pearson": False, "spearman": True}  # whether ranks are correlated
_Key = tuple[str, str]


def _matrices(
    values: Sequence[np.ndarray], kept: Sequence[np.ndarray], *, ranks: bool
) -> np.ndarray:
    """Correlate the measures of each model, (M, C, C); values (N, C) of each, and kept rows."""
    parts = [own[rows] for own, rows in zip(values, kept, strict=True)]
    return np.stack([correlation_matrix(average_ranks(p) if ranks else p) for p in parts])


def _sentence_values(held: pd.DataFrame) -> tuple[list[_Key], list[np.ndarray]]:
    """Choose the measures that all models have, and their values; a measure that some model lacks
    altogether is correlated over the others, without those that have fewer measures than most."""
    has: Any = np.isfinite(held).any()  # by evaluator, model and measure
    known = has.unstack(1, fill_value=False, sort=False)
    counts = known.sum()
    models = [model for model in known if counts[model] == counts.max() > 0]
    keys = [key for key, row in known.iterrows() if models and row[models].all()]
    columns = [[(evaluator, model, measure) for evaluator, measure in keys] for model in models]
    return keys, [np.ascontiguousarray(held[names]) for names in columns if names]


def _over_sentences(held: pd.DataFrame) -> Iterator[_Row]:
    keys, values = _sentence_values(held)
    if not values:
        return
    complete = [np.isfinite(own).all(axis=1) for own in values]
    groups, code = np.unique(held.index.get_level_values("group"), return_inverse=True)
    block = code % BLOCKS  # groups are hashes: in a random order
    sizes = np.bincount(block)
    counts = {"n": max(int(own.sum()) for own in complete), "groups": len(groups)}
    for method, ranks in _METHODS.items():
        whole = _matrices(values, complete, ranks=ranks)
        vary = np.isfinite(whole)  # of a model that always predicts the same word nothing does
        models = vary.sum(axis=0)
        kept = ([own & (block != left) for own in complete] for left in range(len(sizes)))
        parts = [np.where(vary, _matrices(values, own, ranks=ranks), 0).sum(axis=0) for own in kept]
        without = np.stack(parts)
        mean = np.where(vary, whole, 0).sum(axis=0)
        for one, two in combinations(range(len(keys)), 2):
            index, of = (one, two), int(models[one, two])
            found = _interval(mean[index], without[:, one, two], of, sizes)
            if 0 < of < len(values):
                found["note"] = joined_facts(found["note"], f"of {of} of {len(values)} models")
            yield {**_pair(keys[one], keys[two]), "method": method, **found, **counts}


def _interval(total: float, without: np.ndarray, models: int, sizes: np.ndarray) -> _Row:
    """Give a mean of correlations an interval on Fisher's scale, by sums without blocks (B,)."""
    if not models:
        return {"value": None, "low": None, "high": None, "note": "a measure does not vary"}
    value, without = total / models, without / models
    if abs(value) > 1 - 1e-12 or (np.abs(without) > 1 - 1e-12).any():
        return {"value": value, "low": value, "high": value, "note": "one follows from the other"}
    found = intervals.jackknife_interval(math.atanh(value), np.arctanh(without), sizes)
    if math.isnan(found.low):
        note = found.few_groups() or "a measure varies in few documents: no interval"
        return {"value": value, "low": None, "high": None, "note": note}
    return {"value": value, "low": math.tanh(found.low), "high": math.tanh(found.high), "note": ""}


def _pair(first: _Key, second: _Key) -> _Row:
    names = ("first_evaluator", "first_measure", "second_evaluator", "second_measure")
    return dict(zip(names, (*first, *second), strict=True))


def correlation_of_models(value: float, models: int, *, ranks: bool) -> _Row:
    """Return a correlation over so few items as models are, with its limits and a note."""
    limits = few_items_interval(value, models, ranks=ranks)
    known = zip(("value", "low", "high"), map(intervals.finite, (value, *limits)), strict=True)
    few = f"fewer than {LEAST_ITEMS} models: no interval" if models < LEAST_ITEMS else ""
    return {**dict(known), "note": few}


def _over_models(values: Mapping[_Key, Mapping[str, float]]) -> Iterator[_Row]:
    """Correlate measures over models: (evaluator, measure) to the value of each model."""
    for first, second in combinations(values, 2):
        of = values[second]
        pairs = ((value, of.get(model, math.nan)) for model, value in values[first].items())
        columns = np.array([pair for pair in pairs if all(map(math.isfinite, pair))])
        n = len(columns)
        for method, ranks in _METHODS.items():
            value = math.nan
            if n > 2:
                ordered = average_ranks(columns) if ranks else columns
                value = float(correlation_matrix(ordered)[0, 1])
            found = correlation_of_models(value, n, ranks=ranks)
            yield {**_pair(first, second), "method": method, **found, "n": n, "groups": None}


def correlate_measures(paired: PairedScores) -> pa.Table:
    """Correlate all pairs of measures of predictions: schema ``semantic_correlations``.

    Over sentences: the mean over models, in which both measures vary, of their correlation, with a
    95% interval over groups of documents (at most `BLOCKS` blocks left out one by one, on Fisher's
    scale). Over models: see `few_items_interval`; of corpus BLEU, and means of other measures.
    """
    rows: list[_Row] = []
    for split, held in paired.sentences.items():
        rows += [{"split": split, "over": "sentences", **row} for row in _over_sentences(held)]
        values = {
            (key.evaluator, key.measure): dict(zip(sums.models, model_values(sums), strict=True))
            for key, sums in paired.sums.items()
            if key.split == split and key.kind == semantics.PREDICTED
        }
        rows += [{"split": split, "over": "models", **row} for row in _over_models(values)]
    return pa.Table.from_pylist(rows, semantics.SEMANTIC_CORRELATIONS)
