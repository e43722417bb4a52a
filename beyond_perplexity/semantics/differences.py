"""Models on the same sentences: paired differences of every measure, their intervals and tests.

What is claimed is about the trained models, on texts like these. G groups of documents, M models.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, groupby
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from beyond_perplexity.inference.intervals import RatioInterval, jackknife_interval, ratio_interval
from beyond_perplexity.inference.p_values import (
    EXACT_GROUPS,
    TIE,
    draw_warning,
    flipped_sums,
    holm,
    sign_flip_p_values,
)
from beyond_perplexity.schemas.semantics import SEMANTIC_DIFFERENCES
from beyond_perplexity.semantics.bleu import bleu_of
from beyond_perplexity.semantics.paired_scores import GroupSums, PairedScores, ScoreKey
from beyond_perplexity.verdicts import joined_facts

FLIPPED = 2_000  # units of groups whose signs are flipped, at most: more change no p-value
_Row = dict[str, Any]


class SemanticTests(NamedTuple):
    """How models are compared: drawn sign-flips of each test."""

    flips: int = 49_999  # drawn sign-flips of each test
    seed: int = 1


def _pooled(sums: GroupSums, counts: np.ndarray) -> np.ndarray:
    """Return BLEU of counts (..., P, K), less that of the partner where there is one; (...)."""
    found, *partner = (
        bleu_of(counts[..., part, :], sums.order) for part in range(counts.shape[-2])
    )
    return found - partner[0] if partner else found


def model_values(sums: GroupSums) -> np.ndarray:
    """Return the value of every model, float64, (M,); NaN where no sentence counts."""
    if sums.counts is not None:
        return _pooled(sums, sums.counts.sum(axis=0))
    size = sums.sizes.sum()
    return sums.numerators.sum(axis=0) / size if size else np.full(len(sums.models), math.nan)


def _difference(sums: GroupSums, one: int, two: int) -> RatioInterval:
    held = sums.sizes > 0
    sizes = sums.sizes[held]
    if sums.counts is None:
        own = sums.numerators[held]
        return ratio_interval(own[:, one] - own[:, two], sizes)
    counts = sums.counts[held][:, (one, two)]
    total = counts.sum(axis=0)
    first, second = _pooled(sums, total)
    rest = _pooled(sums, total - counts)
    return jackknife_interval(float(first - second), rest[:, 0] - rest[:, 1], sizes)


def _bundled(values: np.ndarray) -> np.ndarray:
    """Add groups (G, ...) up to at most `FLIPPED` units.

    Where models can be exchanged in each group, they can be in a unit of several. Groups are in the
    order of hashes, which is a random one.
    """
    if len(values) <= FLIPPED:
        return values
    units = np.zeros((FLIPPED, *values.shape[1:]))
    np.add.at(units, np.arange(len(values)) % FLIPPED, values)
    return units


def _swap_p_values(
    sums: GroupSums, pairs: Sequence[tuple[int, int]], tests: SemanticTests
) -> list[float]:
    """Test pooled measures: the outputs of two models are swapped in random groups.

    The share of swaps whose difference is as large; exact where models could be exchanged.

    Source: Riezler, Maxwell (2005). On some pitfalls in automatic evaluation and significance
    testing for MT.
    """
    assert sums.counts is not None
    first, second = (np.array([pair[side] for pair in pairs], int) for side in (0, 1))
    units = _bundled(sums.counts)  # (U, M, P, K)
    total = units.sum(axis=0)
    middle = (total[first] + total[second]) / 2

    def gap(flipped: np.ndarray) -> np.ndarray:
        moved = (flipped[..., first, :, :] - flipped[..., second, :, :]) / 2
        return _pooled(sums, middle + moved) - _pooled(sums, middle - moved)

    least = np.abs(gap(total)) - TIE
    larger, drawn = np.zeros(len(pairs), np.int64), 0
    for part in flipped_sums(units.reshape(len(units), -1), tests.flips, tests.seed):
        found = np.abs(gap(part.reshape(-1, *total.shape)))
        larger += np.count_nonzero(found >= least, axis=0)
        drawn += len(part)
    own = 0 if len(units) <= EXACT_GROUPS else 1
    return [float((count + own) / (drawn + own)) for count in larger]


def _mean_p_values(held: Sequence[GroupSums], tests: SemanticTests) -> list[list[float]]:
    """Test measures that are means, all with the same flips."""
    if not held:
        return []
    columns, pairs, first = [], [], 0
    for sums in held:
        size = np.abs(sums.numerators).sum() or 1.0
        columns.append(_bundled(sums.numerators / size))  # measures of any scale, of one size
        places = range(first, first + len(sums.models))
        pairs += list(combinations(places, 2))
        first = places.stop
    found = iter(sign_flip_p_values(np.hstack(columns), pairs, tests.flips, tests.seed))
    return [[next(found) for _ in combinations(sums.models, 2)] for sums in held]


def _family(held: Mapping[ScoreKey, GroupSums], tests: SemanticTests) -> Iterator[_Row]:
    """Make the rows of a family: all pairs and measures of a split and kind."""
    means = {key: sums for key, sums in held.items() if sums.counts is None}
    p_values = (
        dict(zip(means, _mean_p_values(list(means.values()), tests), strict=True)) if means else {}
    )
    for key, sums in held.items():
        pairs = list(combinations(range(len(sums.models)), 2))
        tested = p_values.get(key) or _swap_p_values(sums, pairs, tests)
        for (one, two), p_value in zip(pairs, tested, strict=True):
            yield _row(key, sums, (one, two), p_value)


def _row(key: ScoreKey, sums: GroupSums, pair: tuple[int, int], p_value: float) -> _Row:
    found = _difference(sums, *pair)
    total = sums.sentences + sums.left_out
    left_out = f"{sums.left_out:,} of {total:,} sentences left out: a model has no value"
    return {
        **key._asdict(),
        "first": sums.models[pair[0]],
        "second": sums.models[pair[1]],
        **found.columns("value", "low", "high"),
        "p_value": p_value,
        "p_adjusted": None,
        "sentences": sums.sentences,
        "groups": found.groups,
        "groups_effective": found.effective,
        "note": joined_facts(found.few_groups(), left_out if sums.left_out else ""),
    }


def compare_semantics(paired: PairedScores, tests: SemanticTests) -> pa.Table:
    """Compare models pair by pair in every measure: schema ``semantic_differences``.

    The difference of means has a jackknife interval over groups and a p-value by sign-flips, that
    of BLEU one by swaps of whole groups. P-values are adjusted (Holm) over all pairs and measures
    of a split and kind; with fewer than 20 effective groups there is neither an interval nor an
    adjusted p.
    """
    held = {
        key: sums for key, sums in paired.sums.items() if len(sums.models) > 1 and sums.sentences
    }
    order = {split: place for place, split in enumerate(paired.groups)}
    kinds = list(dict.fromkeys(key.kind for key in held))

    def family(key: ScoreKey) -> tuple[int, int]:
        return order[key.split], kinds.index(key.kind)

    rows: list[_Row] = []
    for _, keys in groupby(sorted(held, key=family), family):
        own = list(_family({key: held[key] for key in keys}, tests))
        tested = [row for row in own if row["low"] is not None]
        warning = draw_warning(len(tested), tests.flips, "flips")
        for row, adjusted in zip(tested, holm([row["p_value"] for row in tested]), strict=True):
            row["p_adjusted"] = float(adjusted)
            row["note"] = joined_facts(row["note"], warning)
        rows += own
    return pa.Table.from_pylist(rows, SEMANTIC_DIFFERENCES)
