"""How an evaluator agrees with people: correlations with the scores that they gave to pairs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from beyond_perplexity.schemas.semantics import HUMAN_CORRELATIONS, HUMAN_SCORES
from beyond_perplexity.semantics.associations import pearson, spearman
from beyond_perplexity.semantics.evaluators.contract import Evaluator, Floats
from beyond_perplexity.semantics.human_pairs import ScoredPair
from beyond_perplexity.tendencies.inference.thresholds import EFFECTIVE_GROUPS
from beyond_perplexity.tendencies.notes import joined_facts

_BATCH = 512  # pairs that are scored at once


class HumanScored(NamedTuple):
    """Pairs of a file as people and an evaluator score them.

    Attributes
    ----------
    gold : ndarray of float64, shape (N,)
        Of people.
    values : dict of str to ndarray of float64, shape (N,)
        Of the evaluator, by measure; NaN where a pair has none.
    """

    gold: Floats
    values: dict[str, Floats]


def clean_texts(evaluator: Evaluator, texts: Sequence[str]) -> list[str]:
    """Turn raw texts into what an evaluator reads."""
    return list(texts) if evaluator.texts == "raw" else evaluator.cleaning.apply(texts)


def score_pairs(evaluator: Evaluator, pairs: Iterable[ScoredPair]) -> HumanScored:
    """Score pairs of raw texts; some numbers of each are held.

    Parameters
    ----------
    evaluator : Evaluator
    pairs : iterable of ScoredPair
    """
    stream, gold = iter(pairs), [np.zeros(0)]
    values: dict[str, list[Floats]] = {name: [np.zeros(0)] for name in evaluator.measures}
    while batch := list(islice(stream, _BATCH)):
        first = clean_texts(evaluator, [pair.first for pair in batch])
        second = clean_texts(evaluator, [pair.second for pair in batch])
        .select(HUMAN_SCORES.names)
        .cast(HUMAN_SCORES)
        for measure, values in scored.values.items()
    )
    return correlations, tables


def correlation_table(rows: Iterable[dict[str, Any]]) -> pa.Table:
    """Return rows of correlations as a table of schema ``human_correlations``."""
    return pa.Table.from_pylist(list(rows), HUMAN_CORRELATIONS)
