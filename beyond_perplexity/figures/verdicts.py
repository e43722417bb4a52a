"""What a measured row says: whether the texts differ, and how far human text is from itself."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pandas as pd

from beyond_perplexity.figures.numbers import stars

# Distances have a floor: how far human text is from human text of the same size.
FLOORED = ("ks_empirical", "ks", "tvd", "tvd_1000", "max_difference", "max_difference_known")
TESTED = (*FLOORED, "mean_difference")
WITHHELD = "†"
DIFFERS, ALIKE, NO_VERDICT, UNTESTED = "differs", "no difference found", "no verdict", "not tested"
# What the note of a largest difference says besides: which word it is.
_WORD = re.compile(r"(^|; )word \".*\": [^;]*$", flags=re.DOTALL)
_SHARED = re.compile(r"^[0-9,]+ shared lengths with [0-9,]+ of [0-9,]+ documents(; |$)")


def _is_known(value: Any) -> bool:
    return value is not None and not pd.isna(value)


def reason_withheld(row: Mapping[Any, Any]) -> str:
    """Return why a test was not made, by the note of its row.

    Parameters
    ----------
    row : mapping
        Of the schema ``tendencies``.

    Returns
    -------
    str
        Empty where it was made, where nobody asked for it, and where the row compares no texts.
    """
    if row["measure"] not in TESTED or _is_known(row["p_value"]) or not _is_known(row["note"]):
        return ""
    reason = _WORD.sub("", _SHARED.sub("", str(row["note"]))).strip()
    return reason.removeprefix(f"{NO_VERDICT}: ")


def verdict(row: Mapping[Any, Any]) -> str:
    """Say what the test of a row found, by its adjusted p-value alone.

    Parameters
    ----------
    row : mapping
        Of the schema ``tendencies``.

    Returns
    -------
    str
        One of `DIFFERS`, `ALIKE`, `NO_VERDICT`, `UNTESTED`.
    """
    if _is_known(row["p_adjusted"]) and row["measure"] in TESTED:
        return DIFFERS if stars(row["p_adjusted"]) else ALIKE
    return NO_VERDICT if reason_withheld(row) else UNTESTED


def verdict_mark(row: Mapping[Any, Any]) -> str:
    """Return what stands behind the value of a row: stars, or the mark of a withheld verdict."""
    said = verdict(row)
    if said == DIFFERS:
        return stars(row["p_adjusted"])
    return WITHHELD if said == NO_VERDICT else ""


def beyond_floor(row: Mapping[Any, Any]) -> int:
    """Say where a distance lies: 1 above the middle 95% of human text against itself, -1 below it.

    Returns
    -------
    int
        0 inside the band, or where there is none.
    """
    if not (_is_known(row["floor_low"]) and _is_known(row["floor_high"])):
        return 0
    return int(row["value"] > row["floor_high"]) - int(row["value"] < row["floor_low"])
