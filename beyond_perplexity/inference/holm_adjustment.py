"""Holm's step-down correction of a family of tests, and what stars its draws can reach at all."""

from __future__ import annotations

import math
from collections.abc import MutableMapping, Sequence
from typing import Any

import numpy as np

from beyond_perplexity.inference.thresholds import VERDICT_LEVELS
from beyond_perplexity.verdicts import joined_facts

_ROUNDING = 1e-9


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

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03]).tolist()
    [0.03, 0.06, 0.06]
    """
    given = np.asarray(p_values, float)
    order = np.argsort(given, kind="stable")
    steps = np.maximum.accumulate(given[order] * np.arange(len(given), 0, -1))
    adjusted = np.empty(len(given))
    adjusted[order] = np.minimum(steps * bodies, 1)
    return adjusted


def needed_draws(size: int, level: float, draws: int) -> int | None:
    """Return how many draws a star of a level needs in a family of tests; None where it can appear.

    The smallest adjusted p-value is size / (draws + 1), and a star needs one strictly below the
    level.

    Examples
    --------
    >>> needed_draws(8, 0.005, 999), needed_draws(8, 0.05, 999)
    (1600, None)
    """
    if size / (draws + 1) < level - _ROUNDING:
        return None
    return math.floor(size / level + _ROUNDING)


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


def adjust_rows(rows: Sequence[MutableMapping[str, Any]], draws: int, name: str) -> None:
    """Adjust the p-values of rows with an interval as one family; note the stars out of reach."""
    tested = [row for row in rows if row["low"] is not None]
    warning = draw_warning(len(tested), draws, name)
    for row, adjusted in zip(tested, holm([row["p_value"] for row in tested]), strict=True):
        row["p_adjusted"] = float(adjusted)
        row["note"] = joined_facts(row["note"], warning)
