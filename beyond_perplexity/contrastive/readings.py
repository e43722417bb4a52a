"""The paper's Table 1: how a model reads against another by H_C and its ratio H_CR."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from beyond_perplexity.inference.thresholds import VERDICT_LEVELS

NO_DIFFERENCE = "no difference found"
# By whether H_C is higher and whether H_CR is lower.
READINGS = {
    (True, False): "superior",
    (True, True): "scaling issues",
    (False, False): "indeterminate",
    (False, True): "inferior",
}


def read_table_1(value: float, p_adjusted: float | None, low: float, high: float) -> str | None:
    """Read the paper's Table 1 for a model against another.

    Parameters
    ----------
    value : float
        Difference of H_C.
    p_adjusted : float or None
        Of its test; None or NaN where there is no verdict.
    low, high : float
        95% limits of the paired difference of H_CR: similar, where they hold 0.

    Returns
    -------
    str or None
        One of `READINGS`; where H_C shows no difference, `NO_DIFFERENCE`; None where it is not
        known.
    """
    if p_adjusted is None or math.isnan(p_adjusted):
        return None
    if p_adjusted >= VERDICT_LEVELS[0]:
        return NO_DIFFERENCE
    if math.isnan(low) or math.isnan(high):
        return None
    return READINGS[value > 0, high < 0]


def turn_difference(row: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return the row of a difference, schema ``contrast_differences``, with models exchanged.

    Its reading is left out: Table 1 is not its own mirror, as what is superior at a similar H_CR
    makes the other model indeterminate.
    """
    names = {"first": row["second"], "second": row["first"], "reading": None}
    return {**row, **names, "value": -row["value"], "low": -row["high"], "high": -row["low"]}
