"""Rank correlations of all measures, over rows that share models."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
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
from beyond_perplexity.schemas.relations import RELATION_CORRELATIONS
from beyond_perplexity.verdicts import joined_facts

OVER_ROWS, WITHIN_DECODINGS = "rows", "within"
_LEAST_ROWS = 3
_Place = tuple[str, str | None]  # model, decoding
_Values = Mapping[_Place, float]


def _by_measure(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[_Place, float]]:
    """Sort known values by measure, signed so that more is better."""
    found: dict[str, dict[_Place, float]] = {}
    for row in rows:
        if row["value"] is not None:
            held = found.setdefault(row["measure"], {})
            held[row["model"], row["decoding"]] = row["direction"] * row["value"]
    return found


def _shared(first: _Values, second: _Values) -> dict[_Place, tuple[float, float]]:
    """Pair the values of two measures: one of the model alone counts under every decoding."""
    places = dict.fromkeys([*first, *second])
    decoded = any(decoding for _, decoding in first) or any(decoding for _, decoding in second)
    pairs = {}
    for model, decoding in places:
        if decoded and decoding is None and not model.startswith("external/"):
            continue
        one, two = (
            held.get((model, decoding), held.get((model, None))) for held in (first, second)
        )
        if one is not None and two is not None:
            pairs[model, decoding] = (one, two)
    return pairs


def _spearman(pairs: Sequence[tuple[float, float]]) -> float:
    if len(pairs) < _LEAST_ROWS:
        return math.nan
    return float(correlation_matrix(average_ranks(np.array(pairs)))[0, 1])


def _within(pairs: Mapping[_Place, tuple[float, float]]) -> float:
    """Return the mean over decodings of the correlation over models."""
    decodings = dict.fromkeys(decoding for _, decoding in pairs)
    found = [_spearman([pair for (_, d), pair in pairs.items() if d == one]) for one in decodings]
    known = [value for value in found if math.isfinite(value)]
    return float(np.mean(known)) if known else math.nan


def correlate_ranks(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Correlate the ranks of all pairs of measures, over all rows and within decodings.

    The rows of a model are not independent, so that an interval counts models and not rows: it is
    that of as many independent items (`few_items_interval`), which is what rows of perfectly
    dependent models would give, and too wide where they depend less. Decodings are taken as given:
    over rows of several, a measure that tells decodings apart correlates with any other that does.
    """
    held = _by_measure(rows)
    found = []
    for first, second in combinations(held, 2):
        pairs = _shared(held[first], held[second])
        models = len({model for model, _ in pairs})
        few = f"fewer than {LEAST_ITEMS} models: no interval" if models < LEAST_ITEMS else ""
        for scope, value in (
            (OVER_ROWS, _spearman([*pairs.values()])),
            (WITHIN_DECODINGS, _within(pairs)),
        ):
            low, high = few_items_interval(value, models, ranks=True)
            numbers = {"value": value, "low": low, "high": high}
            unknown = len(pairs) >= _LEAST_ROWS and math.isnan(value)
            found.append(
                {
                    "first": first,
                    "second": second,
                    "scope": scope,
                    **{name: n if math.isfinite(n) else None for name, n in numbers.items()},
                    "rows": len(pairs),
                    "models": models,
                    "note": joined_facts(few, "a measure does not vary" if unknown else ""),
                }
            )
    return pa.Table.from_pylist(found, RELATION_CORRELATIONS)
