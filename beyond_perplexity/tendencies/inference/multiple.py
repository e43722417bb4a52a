"""Tests of one family: Holm's step-down correction, and what stars the draws can reach at all.

Primary tests of a body are its distances to the reference. Further tests of the same null are
children of one of them: a child is rejected only together with its parent, so a false rejection of
a child is one of the parent, and the error over all is that of the primary tests.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from beyond_perplexity.tendencies.inference.thresholds import VERDICT_LEVELS
from beyond_perplexity.tendencies.measured import SIGNED, MeasureKey, MeasureRow
from beyond_perplexity.tendencies.notes import joined_facts

_ROUNDING = 1e-9
# Measure -> the measure of the same tendency whose child it is.
PARENTS = {SIGNED: "ks", "tvd_1000": "tvd", "max_difference_known": "max_difference"}


def holm(p_values: Sequence[float], bodies: int = 1) -> np.ndarray:
    """Adjust p-values for their number by Holm's method.

    Parameters
    ----------
    p_values : sequence of float, shape (m,)
        The p-values of a family.
    bodies : int
        How many such families are one: a further factor (Bonferroni).

    Returns
    -------
    numpy.ndarray of float64, shape (m,)
        The i-th smallest is multiplied by m + 1 - i, made monotone, at most 1. Rejecting what is
        at most a level keeps the familywise error at the level, however the tests depend.

    References
    ----------
    Holm (1979). A simple sequentially rejective multiple test procedure.
    """
    given = np.asarray(p_values, float)
    order = np.argsort(given, kind="stable")
    steps = np.maximum.accumulate(given[order] * np.arange(len(given), 0, -1))
    adjusted = np.empty(len(given))
    adjusted[order] = np.minimum(steps * bodies, 1)
    return adjusted


def _parent(key: MeasureKey, tested: Mapping[MeasureKey, float]) -> MeasureKey:
    parent = key[0], PARENTS.get(key[1], key[1])
    return parent if parent in tested else key


def adjusted_p_values(
    p_values: Mapping[MeasureKey, float], bodies: int = 1
) -> dict[MeasureKey, float]:
    """Adjust the p-values of a body; see the module.

    Parameters
    ----------
    p_values : mapping of (tendency, measure) to float
        NaN where there is no test. A child whose parent has none is a primary test.
    bodies : int
        Bodies of text whose tests are one family.

    Returns
    -------
    dict of (tendency, measure) to float
        Of those that have a p-value.
    """
    tested = {key: p for key, p in p_values.items() if not math.isnan(p)}
    primary = [key for key in tested if _parent(key, tested) == key]
    found = dict(zip(primary, holm([tested[key] for key in primary], bodies), strict=True))
    return {key: max(float(found[_parent(key, tested)]), p) for key, p in tested.items()}


def adjusted_rows(
    rows: Sequence[MeasureRow], permutations: int, bodies: int = 1
) -> list[MeasureRow]:
    """Fill in the adjusted p-values of a body's rows, and say where no star can appear."""
    adjusted = adjusted_p_values({row.key: row.p_value for row in rows}, bodies)
    warning = star_warning(rows, permutations, bodies)
    found = []
    for row in rows:
        if row.key in adjusted:
            note = joined_facts(row.note, warning)
            row = row._replace(p_adjusted=adjusted[row.key], note=note)
        found.append(row)
    return found


def needed_draws(size: int, level: float, draws: int) -> int | None:
    """Return how many draws a star of a level needs in a family of tests; None where it can appear.

    The smallest adjusted p-value is size / (draws + 1), and a star needs one strictly below the
    level.
    """
    if size / (draws + 1) < level - _ROUNDING:
        return None
    return math.floor(size / level + _ROUNDING)


def star_warning(rows: Sequence[MeasureRow], permutations: int, bodies: int = 1) -> str:
    """Say which stars so few permutations cannot give to a body's rows; empty when all can appear.

    `bodies` is the number of bodies of text whose tests are one family.
    """
    tested = {row.key: row.p_value for row in rows if not math.isnan(row.p_value)}
    size = bodies * sum(_parent(key, tested) == key for key in tested)
    return draw_warning(size, permutations, "permutations")


def draw_warning(size: int, draws: int, name: str) -> str:
    """Say which stars so many draws of a name cannot give to a family of tests, or nothing."""
    needed = {level: needed_draws(size, level, draws) for level in VERDICT_LEVELS}
    beyond = [level for level in VERDICT_LEVELS if needed[level] is not None]
    if not beyond:
        return ""
    return (
        f"{draws:,} {name} cannot give p < {beyond[0]:g} in a family of {size} tests: "
        f"{needed[beyond[-1]]:,} are needed"
        f"{'' if len(beyond) == 1 else f' for p < {beyond[-1]:g}'}"
    )
