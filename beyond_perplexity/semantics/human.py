"""How an evaluator agrees with people: correlations with the scores that they gave to pairs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from beyond_perplexity.inference.thresholds import EFFECTIVE_GROUPS
from beyond_perplexity.schemas.semantics import HUMAN_CORRELATIONS, HUMAN_SCORES
from beyond_perplexity.semantics.associations import correlation_difference, pearson, spearman
from beyond_perplexity.semantics.evaluators.contract import Evaluator, Floats
from beyond_perplexity.semantics.human_pairs import ScoredPair
from beyond_perplexity.verdicts import joined_facts

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
        for name, found in evaluator.score(list(zip(first, second, strict=True))).items():
            values[name].append(found)
        gold.append(np.array([pair.gold for pair in batch]))
    joined = {name: np.concatenate(parts) for name, parts in values.items()}
    return HumanScored(np.concatenate(gold), joined)


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def correlation_row(gold: Floats, values: Floats) -> dict[str, Any]:
    """Correlate the scores of a measure with those of people.

    Parameters
    ----------
    gold, values : ndarray of float64, shape (N,)
        Pairs without a value are left out and counted.

    Returns
    -------
    dict
        Columns of schema ``human_correlations``, without names.
    """
    known = np.isfinite(values)
    row: dict[str, Any] = {"pairs": int(known.sum()), "undefined": int((~known).sum())}
    for name, correlate in (("pearson", pearson), ("spearman", spearman)):
        found = correlate(gold[known], values[known])
        limits = _number(found.low), _number(found.high)
        row |= {name: _number(found.value), f"{name}_low": limits[0], f"{name}_high": limits[1]}
    few = known.sum() < EFFECTIVE_GROUPS
    note = joined_facts(
        f"fewer than {EFFECTIVE_GROUPS} pairs: no interval" if few else "",
        "" if row["pearson"] is not None else "scores do not vary: no correlation",
        f"{row['undefined']:,} pairs have no value" if row["undefined"] else "",
    )
    return row | {"note": note}


def rank_surplus(gold: Floats, values: Floats, others: Floats) -> tuple[float, float, float]:
    """Return by how much one measure's Spearman correlation exceeds another's, low and high.

    Parameters
    ----------
    gold, values, others : ndarray of float64, shape (N,)
        Of people and of the two measures, of the same pairs; those without a value are left out.

    Returns
    -------
    tuple of float
        NaN where it is not defined.
    """
    known = np.isfinite(values) & np.isfinite(others)
    own, other = (spearman(gold[known], held[known]) for held in (values, others))
    return correlation_difference(own, other)


def correlate_people(scored: HumanScored, evaluator: str, file: str) -> pa.Table:
    """Return the correlations of all measures on a file, schema ``human_correlations``."""
    names = {"evaluator": evaluator, "file": file}
    rows = [
        names | {"measure": measure} | correlation_row(scored.gold, values)
        for measure, values in scored.values.items()
    ]
    return pa.Table.from_pylist(rows, HUMAN_CORRELATIONS)


def list_pair_scores(scored: HumanScored, evaluator: str, file: str) -> pa.Table:
    """Return the scores of all pairs of a file, schema ``human_scores``."""
    size, columns = len(scored.gold), HUMAN_SCORES.names
    tables = []
    for measure, values in scored.values.items():
        names = {"evaluator": evaluator, "measure": measure, "file": file}
        held: dict[str, Any] = {name: [text] * size for name, text in names.items()}
        held |= {"pair": np.arange(size), "gold": scored.gold}
        held["value"] = pa.array(values, from_pandas=True)  # NaN is null
        tables.append(pa.table({name: held[name] for name in columns}, HUMAN_SCORES))
    return pa.concat_tables(tables)
