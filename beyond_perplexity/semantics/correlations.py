"""How the measures go together: over sentences, and over models.

N sentences, C measures, M models, B blocks of groups.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa

from beyond_perplexity.inference.correlations import (
    LEAST_ITEMS,
    average_ranks,
    correlation_matrix,
    few_items_interval,
)
from beyond_perplexity.inference.intervals import finite, jackknife_interval
from beyond_perplexity.schemas.semantics import PREDICTED, SEMANTIC_CORRELATIONS
from beyond_perplexity.semantics.differences import model_values
from beyond_perplexity.semantics.paired_scores import PairedScores, SentenceValues
from beyond_perplexity.verdicts import joined_facts

CORRELATED_SENTENCES = 20_000  # of each split; more say nothing new
BLOCKS = 50  # of groups, that are left out one by one
_METHODS = {"pearson": False, "spearman": True}
_Key = tuple[str, str]
_Row = dict[str, Any]


def _matrices(
    values: Sequence[np.ndarray], kept: Sequence[np.ndarray], *, ranks: bool
) -> np.ndarray:
    """Correlate the measures of each model, (M, C, C); values (N, C) of each, and kept rows."""
    parts = [own[rows] for own, rows in zip(values, kept, strict=True)]
    return np.stack([correlation_matrix(average_ranks(p) if ranks else p) for p in parts])


def _sentence_values(held: SentenceValues) -> tuple[list[_Key], list[np.ndarray]]:
    """Choose the measures that all models have, and the models' values of them.

    A measure that some model lacks altogether (of aligned words, for a model of subwords) is
    correlated over the others: the models that have fewer measures than most are left out.
    """
    known = {key: np.isfinite(found).any(axis=0) for key, found in held.values.items()}
    keys = [key for key, has in known.items() if has.any()]
    most = max((sum(known[key][m] for key in keys) for m in range(len(held.models))), default=0)
    models = [m for m in range(len(held.models)) if sum(known[k][m] for k in keys) == most > 0]
    keys = [key for key in keys if all(known[key][m] for m in models)]
    return keys, [
        np.stack([held.values[key][:, m] for key in keys], 1) for m in models
    ] if keys else []


def _over_sentences(held: SentenceValues) -> Iterator[_Row]:
    keys, values = _sentence_values(held)
    if not values:
        return
    complete = [np.isfinite(own).all(axis=1) for own in values]
    _, code = np.unique(held.groups, return_inverse=True)  # of hashes: in a random order
    block = code % BLOCKS
    sizes = np.bincount(block)
    counts = {
        "n": max(int(own.sum()) for own in complete),
        "groups": len(np.unique(held.groups)),
    }
    for method, ranks in _METHODS.items():
        whole = _matrices(values, complete, ranks=ranks)
        vary = np.isfinite(whole)  # of a model that always predicts the same word nothing does
        models = vary.sum(axis=0)
        without = np.stack(
            [
                np.where(vary, _matrices(values, kept, ranks=ranks), 0).sum(axis=0)
                for kept in (
                    [own & (block != left) for own in complete] for left in range(len(sizes))
                )
            ]
        )
        mean = np.where(vary, whole, 0).sum(axis=0)
        for one, two in combinations(range(len(keys)), 2):
            place, of = (one, two), int(models[one, two])
            found = _interval(mean[place], without[:, one, two], of, sizes)
            if 0 < of < len(values):
                found["note"] = joined_facts(found["note"], f"of {of} of {len(values)} models")
            yield {**_pair(keys[one], keys[two]), "method": method, **found, **counts}


def _interval(total: float, without: np.ndarray, models: int, sizes: np.ndarray) -> _Row:
    """Give a mean of models' correlations an interval on Fisher's scale.

    Given are the sums over these models, of all groups and without each block (B,).
    """
    if not models:
        return {"value": None, "low": None, "high": None, "note": "a measure does not vary"}
    value, without = total / models, without / models
    if abs(value) > 1 - 1e-12 or (np.abs(without) > 1 - 1e-12).any():
        return {"value": value, "low": value, "high": value, "note": "one follows from the other"}
    found = jackknife_interval(math.atanh(value), np.arctanh(without), sizes)
    if math.isnan(found.low):
        note = found.few_groups() or "a measure varies in few documents: no interval"
        return {"value": value, "low": None, "high": None, "note": note}
    return {"value": value, "low": math.tanh(found.low), "high": math.tanh(found.high), "note": ""}


def _pair(first: _Key, second: _Key) -> _Row:
    return {
        "first_evaluator": first[0],
        "first_measure": first[1],
        "second_evaluator": second[0],
        "second_measure": second[1],
    }


def _over_models(values: Mapping[_Key, Mapping[str, float]]) -> Iterator[_Row]:
    """Correlate measures over models: (evaluator, measure) to the value of each model."""
    for first, second in combinations(values, 2):
        shared = [
            model
            for model in values[first]
            if math.isfinite(values[first][model])
            and math.isfinite(values[second].get(model, math.nan))
        ]
        columns = np.array([[values[key][model] for key in (first, second)] for model in shared])
        few = f"fewer than {LEAST_ITEMS} models: no interval" if len(shared) < LEAST_ITEMS else ""
        for method, ranks in _METHODS.items():
            value = math.nan
            if len(shared) > 2:
                held = average_ranks(columns) if ranks else columns
                value = float(correlation_matrix(held)[0, 1])
            low, high = few_items_interval(value, len(shared), ranks=ranks)
            known = {"value": finite(value), "low": finite(low), "high": finite(high)}
            yield {
                **_pair(first, second),
                "method": method,
                **known,
                "n": len(shared),
                "groups": None,
                "note": few,
            }


def correlate_measures(paired: PairedScores) -> pa.Table:
    """Correlate all pairs of measures of predictions: schema ``semantic_correlations``.

    Over sentences: the mean over models, in which both measures vary, of the correlation of their
    sentences, with a 95% interval over documents or groups of them (at most `BLOCKS` blocks of
    these are left out one by one, on Fisher's scale). Over models: see `few_items_interval`; of
    corpus BLEU, and means of other measures.
    """
    rows: list[_Row] = []
    for split, held in paired.sentences.items():
        rows += [{"split": split, "over": "sentences", **row} for row in _over_sentences(held)]
        values = {
            (key.evaluator, key.measure): dict(zip(sums.models, model_values(sums), strict=True))
            for key, sums in paired.sums.items()
            if key.split == split and key.kind == PREDICTED
        }
        rows += [{"split": split, "over": "models", **row} for row in _over_models(values)]
    return pa.Table.from_pylist(rows, SEMANTIC_CORRELATIONS)
