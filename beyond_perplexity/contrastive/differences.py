"""Two models on the same distorted text: differences of H_C, H_CR, accuracy; the paper's Table 1.

Per word only models that score words are compared, per sentence all. G groups, M models.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa

from beyond_perplexity.contrastive import entropy
from beyond_perplexity.errors import InputError
from beyond_perplexity.inference.intervals import (
    INTERVAL_LEVEL,
    RatioInterval,
    RatioTest,
    finite,
    jackknife_interval,
    ratio_test,
    sum_groups,
)
from beyond_perplexity.inference.limits import share_difference_test
from beyond_perplexity.inference.p_values import adjust_rows
from beyond_perplexity.inference.permuted_units import VERDICT_LEVELS
from beyond_perplexity.schemas import contrastive
from beyond_perplexity.signature import refuse_mixed
from beyond_perplexity.verdicts import ALIKE, joined_facts

# By whether H_C is higher and whether H_CR is lower.
READINGS = {
    (True, False): "superior",
    (True, True): "scaling issues",
    (False, False): "indeterminate",
    (False, True): "inferior",
}
HIGHER = {True: "higher", False: "lower"}  # of accuracies


def read_table_1(value: float, p_adjusted: float | None, low: float, high: float) -> str | None:
    """Read the paper's Table 1 from a difference of H_C, its adjusted p, and adjusted limits of
    that of H_CR, similar if 0 is inside: `READINGS`, `ALIKE` by H_C, None if unknown."""
    if p_adjusted is None or math.isnan(p_adjusted):
        return None
    if p_adjusted >= VERDICT_LEVELS[0]:
        return ALIKE
    if math.isnan(low) or math.isnan(high):
        return None
    return READINGS[value > 0, high < 0]


_Row = dict[str, Any]


def compare_contrasts(
    sums: Mapping[str, entropy.ContrastSums], base_level: float = 0.1
) -> pa.Table:
    """Compare models pair by pair, at every level above 0: schema ``contrast_differences``.

    H_C, and accuracy, which needs no finite scores, have p-values over groups
    (`inference.intervals.ratio_test`), adjusted (Holm) over all pairs and levels of a unit, none
    with fewer than 20 effective groups. H_CR, the ratio to `base_level`, has limits that hold for
    all pairs and levels of a unit at once (Bonferroni).
    """
    _check_same(sums)
    rows: list[_Row] = []
    for unit in entropy.MEASURED_UNITS:
        of_unit = list(_compare(sums, unit, base_level))
        adjust_rows([r for r in of_unit if r["measure"] == contrastive.CONTRASTIVE_ENTROPY])
        _read(of_unit)
        rows += of_unit
    accuracies = list(_compare_accuracies(sums))
    adjust_rows(accuracies)
    for row in accuracies:
        said = read_table_1(row["value"], row["p_adjusted"], 0.0, 0.0)
        row["reading"] = said if said in (None, ALIKE) else HIGHER[row["value"] > 0]
    rows += accuracies
    kept = [{name: row[name] for name in contrastive.CONTRAST_DIFFERENCES.names} for row in rows]
    return pa.Table.from_pylist(kept, contrastive.CONTRAST_DIFFERENCES)


def _check_same(sums: Mapping[str, entropy.ContrastSums]) -> None:
    refuse_mixed({path: line for one in sums.values() for path, line in one.signatures.items()})
    (first, one), *others = sums.items()
    for name, other in others:
        if _scored_texts(other) != _scored_texts(one):
            wrong = f"{name}: was scored on other texts or distortions than {first}"
            raise InputError(f"{wrong}; score both on the same split, subset, levels and draws")


def _scored_texts(sums: entropy.ContrastSums) -> list[object]:
    """List what two models on the same texts and distortions share."""
    columns = (sums.unit_ids, sums.groups, sums.counts["words"], sums.counts["sentences"])
    levels = {
        level: (len(held.draws), held.events.tolist(), held.pairs[0].tolist())
        for level, held in sums.levels.items()
    }
    return [*(column.tolist() for column in columns), levels]


def _compare_accuracies(sums: Mapping[str, entropy.ContrastSums]) -> Iterator[_Row]:
    """Compare all models on the sentences that the distortion changed, each by itself."""
    names, pairs = list(sums), list(combinations(range(len(sums)), 2))
    first = sums[names[0]]
    for level in first.paired_levels() if pairs else ():
        held = [one.levels[level].pairs for one in sums.values()]
        size, *columns = sum_groups(first.groups, held[0][0], *(right for _, right in held))
        right = np.stack(columns, 1)  # (G, M)
        for one, two in pairs:
            given = {"first": names[one], "second": names[two], "unit": "sentence", "level": level}
            found = share_difference_test(right[:, one] - right[:, two], size)
            yield _tested_row(given, contrastive.PAIRWISE_ACCURACY, found)


def _compare(
    sums: Mapping[str, entropy.ContrastSums], unit: str, base_level: float
) -> Iterator[_Row]:
    """Compare the models that have a unit and whose scores are all finite."""
    held = {
        name: one
        for name, one in sums.items()
        if unit in one.measured_units()
        and not (unit == "word" and one.sentence_level)
        and np.isfinite(one.scores).all()
        and not any(level.impossible for level in one.levels.values())
    }
    names, pairs = list(held), list(combinations(range(len(held)), 2))
    if not pairs:
        return
    first = held[names[0]]
    size = sum_groups(first.groups, first.size(unit))[0]  # (G,)
    losses = {
        level: np.stack(sum_groups(first.groups, *(one.mean(level) for one in held.values())), 1)
        for level in first.levels
        if level > 0
    }  # (G, M) each
    ratios = len(pairs) * len(losses.keys() - {base_level})
    for level, lost in losses.items():
        for one, two in pairs:
            given = {"first": names[one], "second": names[two], "unit": unit, "level": level}
            found = ratio_test(lost[:, one] - lost[:, two], size)
            yield _tested_row(given, contrastive.CONTRASTIVE_ENTROPY, found)
            if base_level in losses and level != base_level:
                base = losses[base_level][:, (one, two)]
                at_both = given | {"base_level": base_level}
                yield _ratio_difference(at_both, lost[:, (one, two)], base, size, ratios)


def _ratio_difference(
    given: Mapping[str, Any], lost: np.ndarray, base: np.ndarray, size: np.ndarray, compared: int
) -> _Row:
    """Make the row of the difference of two H_CR, one of so many; losses (G, 2)."""
    (first, without_first), (second, without_second) = (
        entropy.ratios(lost[:, side], base[:, side]) for side in (0, 1)
    )
    apart = first - second, without_first - without_second, size
    shares = (1 - INTERVAL_LEVEL), (1 - INTERVAL_LEVEL) / compared
    found, adjusted = (jackknife_interval(*apart, 1 - share) for share in shares)
    clear = all(entropy.is_clear(entropy.entropy_of(base[:, side], size)) for side in (0, 1))
    unclear = "" if clear or found.few_groups() else entropy.unclear_base(given["base_level"])
    if not clear:
        found, adjusted = (one._replace(low=math.nan, high=math.nan) for one in (found, adjusted))
    said = joined_facts(found.few_groups(), unclear)
    row = _row(given, contrastive.CONTRASTIVE_RATIO, found, None, said)
    names = "low_adjusted", "high_adjusted"
    return row | dict(zip(names, map(finite, (adjusted.low, adjusted.high)), strict=True))


def _tested_row(given: Mapping[str, Any], measure: str, found: RatioTest) -> _Row:
    interval = found.interval
    return _row(given, measure, interval, finite(found.p_value), interval.few_groups())


def _row(
    given: Mapping[str, Any], measure: str, found: RatioInterval, p_value: float | None, note: str
) -> _Row:
    known = found.columns("value", "low", "high")
    empty = dict.fromkeys(contrastive.CONTRAST_DIFFERENCES.names)
    own = {"measure": measure, "p_value": p_value, "groups": found.groups, "note": note}
    return {**empty, **given, **known, **own}


def _read(rows: Sequence[_Row]) -> None:
    """Fill in the reading of differences of H_C that have one of H_CR: not at the base level."""
    keys = ("first", "second", "unit", "level")
    measured = [row for row in rows if row["measure"] == contrastive.CONTRASTIVE_RATIO]
    ends = ("low_adjusted", "high_adjusted")
    limits = {tuple(row[k] for k in keys): tuple(row[end] for end in ends) for row in measured}
    for row in rows:
        found = limits.get(tuple(row[key] for key in keys))
        if row["measure"] == contrastive.CONTRASTIVE_ENTROPY and found:
            low, high = (math.nan if limit is None else limit for limit in found)
            row["reading"] = read_table_1(row["value"], row["p_adjusted"], low, high)
