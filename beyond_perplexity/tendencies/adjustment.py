"""Which tests of a sample set find a difference, once all of them are adjusted for.

Primary tests of a sample set are its distances to the reference. A further test of a part of the
same null is the child of one of them: it is tested once its parent is rejected, at the level that
the parent had, so that the error over all tests is that of the primary ones (`holm_chains`). The
tests of each `family` of tendencies are adjusted for by themselves.

A distance differs only where it also lies above the band of two human texts of its size, and its
children only where it differs; the total variation, whose test is another one, above their mean. Of
curves the test alone decides: what it sees may be at another place than the largest difference.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from beyond_perplexity import verdicts
from beyond_perplexity.inference.p_values import draw_warning, holm_chains, needed_draws
from beyond_perplexity.inference.permuted_units import VERDICT_LEVELS
from beyond_perplexity.tendencies.definitions import (
    SIGNED,
    SIMILARITY,
    MeasureKey,
    MeasureRow,
    family_of,
    tendencies_of,
)

# Measure -> the measure of the same tendency whose child it is.
PARENTS = {
    SIGNED: "ks",
    SIMILARITY: "mmd",
    "tvd_1000": "tvd",
    "max_difference_known": "max_difference",
}
HELD_OUT = "tested by the held-out distance"


def _chains(tested: Iterable[MeasureKey]) -> list[list[MeasureKey]]:
    """Put every child behind its parent; one whose parent has no test is a primary test."""
    chains = dict[MeasureKey, list[MeasureKey]]()
    for key in sorted(tested, key=lambda key: key[1] in PARENTS):
        parent = key[0], PARENTS.get(key[1], key[1])
        chains.setdefault(parent if parent in chains else key, []).append(key)
    return list(chains.values())


def adjusted_p_values(
    p_values: Mapping[MeasureKey, float], sample_sets: int = 1
) -> dict[MeasureKey, float]:
    """Adjust the p-values of a sample set by tendency and measure; NaN where there is no test."""
    chains = _chains(key for key, p in p_values.items() if not math.isnan(p))
    found = holm_chains([[p_values[key] for key in chain] for chain in chains], sample_sets)
    both = zip(chains, found, strict=True)
    return {key: p for chain, own in both for key, p in zip(chain, own, strict=True)}


def adjusted_rows(
    rows: Sequence[MeasureRow], permutations: int, sample_sets: int = 1
) -> list[MeasureRow]:
    """Fill in the adjusted p-values of a sample set, and what says which stars can appear.

    A distance that two human texts of its size have too is no difference, whatever its p-value.
    """
    found: dict[MeasureKey, MeasureRow] = {}
    for own in _families(rows):
        held = _adjusted_family(own, permutations, sample_sets)
        found |= {row.key: row for row in held}
    return [found[row.key] for row in rows]


def _families(rows: Sequence[MeasureRow]) -> list[list[MeasureRow]]:
    """Put the rows together whose tests are one family."""
    found = defaultdict[str, list[MeasureRow]](list)
    for row in rows:
        found[family_of(row.tendency)].append(row)
    return list(found.values())


def _adjusted_family(
    rows: Sequence[MeasureRow], permutations: int, sample_sets: int
) -> list[MeasureRow]:
    adjusted = adjusted_p_values({row.key: row.p_value for row in rows}, sample_sets)
    family, drawn = _family(rows, sample_sets), _family(_drawn(rows), sample_sets)
    needed = needed_draws(drawn, VERDICT_LEVELS[0], permutations)
    numbers = {"draws": permutations, "level": VERDICT_LEVELS[0], "family": drawn}
    few = verdicts.reason(verdicts.TOO_FEW, **numbers, needed=needed) if needed else ""
    inside = _inside_band(rows, adjusted)
    found = []
    for row in rows:
        if row.key in adjusted:
            # What is left out is of rows that are adjusted anew.
            old = "" if verdicts.is_of_test(row.reason) else row.reason
            why = inside.get(row.key) or (few if few and _drawn([row]) else old)
            row = row._replace(p_adjusted=adjusted[row.key], family=family, draws=permutations)
            row = row._replace(reason=why)
        found.append(row)
    return found


def _inside_band(
    rows: Sequence[MeasureRow], adjusted: Mapping[MeasureKey, float]
) -> dict[MeasureKey, str]:
    """Return the reasons why small p-values are no difference: two human texts are as far apart."""
    small = [row for row in rows if adjusted.get(row.key, 1.0) < VERDICT_LEVELS[0]]
    found = dict[MeasureKey, str]()
    for row in small:
        # The held-out distance finds more than the distance that is shown, which is above the
        # baseline on average where the texts differ, however far the band reaches.
        most = row.baseline_high if _drawn([row]) else row.baseline
        if row.tendency not in tendencies_of("curve", "pairs") and row.value <= most:
            found[row.key] = verdicts.reason(verdicts.INSIDE_BAND, value=row.value, high=most)
    for row in small:
        parent = PARENTS.get(row.measure, "")
        if row.key not in found and (row.tendency, parent) in found:
            found[row.key] = verdicts.reason(verdicts.PARENT_INSIDE, parent=parent)
    return found


def star_warning(rows: Sequence[MeasureRow], permutations: int, sample_sets: int = 1) -> str:
    """Say which stars so few permutations cannot give to the rows of a sample set, or nothing."""
    sizes = [_family(_drawn(own), sample_sets) for own in _families(rows)]
    return draw_warning(max(sizes, default=0), permutations, "permutations")


def _drawn(rows: Sequence[MeasureRow]) -> list[MeasureRow]:
    """Leave out the held-out distance: its p needs no draws, and a small one is of no other's."""
    return [row for row in rows if not row.fact.startswith(HELD_OUT)]


def _family(rows: Sequence[MeasureRow], sample_sets: int) -> int:
    """Count the primary tests of so many sample sets with these rows."""
    return sample_sets * len(_chains(row.key for row in rows if not math.isnan(row.p_value)))
