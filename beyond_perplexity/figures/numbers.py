"""How numbers and verdicts are shown: rounding, limits, stars, and what a measured row says."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from beyond_perplexity import verdicts
from beyond_perplexity.inference.p_values import draw_warning
from beyond_perplexity.tendencies.definitions import TENDENCIES, compares_texts, verdict_of

STAR_LEVELS = ((0.005, "**"), (0.05, "*"))
STAR_NOTE = "** adjusted p < 0.005, * adjusted p < 0.05"
MINUS = "\N{MINUS SIGN}"


def stars(p_value: float | None) -> str:
    """Return the stars of an adjusted p-value: ``**`` below 0.005, ``*`` below 0.05, else none."""
    if p_value is None or math.isnan(p_value):
        return ""
    return next((mark for level, mark in STAR_LEVELS if p_value < level), "")


def shown(value: object, digits: int = 3) -> str:
    """Round a number for a reader, None and NaN to nothing: 1,000 with separators, one decimal from
    100, else `digits`, below ``10**-digits`` scientific; texts stay."""
    if isinstance(value, str):
        return value
    if value is None or pd.isna(value):  # type: ignore[call-overload]
        return ""
    number = float(value)  # type: ignore[arg-type]
    size = abs(number)
    if math.isinf(number):
        text = f"{'-' * (number < 0)}∞"
    elif number == int(number) and (size >= 100 or size == 0):
        text = f"{int(number):,}"
    elif size >= 100:
        text = f"{number:,.1f}"
    elif size < 10**-digits:
        text = f"{number:.1e}".replace("e-0", "e-")
    else:
        text = f"{number:.{digits}f}"
    return text.replace("-", MINUS)


def shown_narrow(value: float) -> str:
    """Write a number of 0 or more in four characters, for a narrow cell: ``.123``, ``1.41``."""
    if 0 < value < 0.0005:
        return "≈0"
    return f"{value:.3f}"[1:] if value < 0.9995 else f"{value:.2f}"


def shown_signed(value: float | None, digits: int = 3) -> str:
    """Write a number with its sign and a fixed number of decimals, so that a column is level."""
    if value is None or pd.isna(value):
        return ""
    rounded = round(value, digits) + 0.0  # no negative zero
    return f"{rounded:+.{digits}f}".replace("-", MINUS) if rounded else f"{0:.{digits}f}"


def shown_interval(low: float | None, high: float | None, digits: int = 3) -> str:
    """Write limits: ``[low, high]``, of one alone ``≥ low`` or ``≤ high``, of none nothing."""
    bounds = shown(low, digits), shown(high, digits)
    if all(bounds):
        return f"[{bounds[0]}, {bounds[1]}]"
    return f"≥ {bounds[0]}" if bounds[0] else f"≤ {bounds[1]}" if bounds[1] else ""


def shown_range(
    values: Iterable[float], write: Callable[[float], str] = shown, between: str = "–"
) -> str:
    """Write the least and the most of numbers without NaN, or what all are shown as."""
    held = [value for value in values if not pd.isna(value)]
    return between.join(dict.fromkeys(write(pick(held)) for pick in (min, max))) if held else ""


def shown_share(share: float | None) -> str:
    """Write a share in percent, a positive one below 0.1% as that."""
    if share is None or pd.isna(share):
        return ""
    return "< 0.1%" if 0 < share < 0.0005 else f"{100 * share:.1f}%"


def shown_p(p_value: float | None) -> str:
    """Write a p-value with three decimals, small ones as ``< 0.001``."""
    if p_value is None or pd.isna(p_value):
        return ""
    return "< 0.001" if p_value < 0.001 else f"{p_value:.3f}"


_DISTANCES = {(name, row.distance) for name, row in TENDENCIES.items() if row.distance}
WITHHELD, UNCLEAR = "†", "?"
_MARKS = {verdicts.WITHOUT_VERDICT: WITHHELD, verdicts.CANNOT_TELL: UNCLEAR}


def reason_withheld(row: Mapping[Any, Any]) -> str:
    """Say why a test of a row of schema ``tendencies`` was not made, or nothing."""
    tested = verdicts.is_known(row["p_value"]) or not compares_texts(row["measure"])
    if tested or not verdicts.is_known(row["reason"]):
        return ""
    # The note of a largest difference names its word, which says nothing of the test.
    named = row["measure"].startswith("max_difference") or not verdicts.is_known(row["note"])
    return verdicts.joined_facts(verdicts.reason_text(row["reason"]), "" if named else row["note"])


def note_alone(row: Mapping[Any, Any]) -> str:
    """Return the note of a row whose verdict is not withheld."""
    return row["note"] if verdicts.is_known(row["note"]) and not reason_withheld(row) else ""


def too_few_permutations(rows: Iterable[Mapping[Any, Any]]) -> str:
    """Say that no star can appear, by the families of the tests and their draws, or nothing."""
    drawn = [row for row in rows if verdicts.is_known(row["draws"])]
    unclear = any(verdict(row) == verdicts.CANNOT_TELL for row in drawn)
    for row in drawn:
        if warning := draw_warning(int(row["family"]), int(row["draws"]), "permutations"):
            return f"{UNCLEAR} {verdicts.CANNOT_TELL}: {warning}" if unclear else warning
    return ""


def verdict(row: Mapping[Any, Any]) -> str:
    """Say what the test of a row found, by its adjusted p-value alone."""
    return verdict_of(row["measure"], row["p_value"], row["p_adjusted"], row["reason"])


def verdict_mark(row: Mapping[Any, Any]) -> str:
    """Return what stands behind the value of a row: stars, or the mark of no verdict."""
    said = verdict(row)
    return stars(row["p_adjusted"]) if said == verdicts.DIFFERS else _MARKS.get(said, "")


def beyond_baseline(row: Mapping[Any, Any]) -> int:
    """Say whether a distance, baseline plus excess, lies above (1), below (-1) or inside (0) the
    middle 95% of human text against itself."""
    if not (verdicts.is_known(row["baseline_low"]) and verdicts.is_known(row["baseline_high"])):
        return 0
    distance = row["baseline"] + row["excess"]
    return int(distance > row["baseline_high"]) - int(distance < row["baseline_low"])


def effect_table(table: pd.DataFrame) -> pd.DataFrame:
    """Take the rows that measure a distance to the test set: one per source and tendency."""
    chosen = [key in _DISTANCES for key in zip(table["tendency"], table["measure"], strict=True)]
    return table[pd.Series(chosen, table.index, dtype=bool)]


def baselines_of(rows: pd.DataFrame, key: tuple[str, str]) -> dict[str, str]:
    """Write the baseline of a distance (tendency, measure) by vocabulary: a range of sources."""
    chosen = rows[(rows["tendency"] == key[0]) & (rows["measure"] == key[1])]
    names = dict.fromkeys(rows["vocabulary"])
    return {name: shown_range(chosen[chosen["vocabulary"] == name]["baseline"]) for name in names}


# Of a shorter n-gram's occurrences in a longer one, from which on it says nothing more.
_WITHIN = 0.9
_LOOKED_AT = 10  # times as many as are shown, for longer ones


def named_words(words: pd.DataFrame, most: int) -> pd.DataFrame:
    """Take the n-grams that each source over-uses and under-uses farthest, without those that
    nearly always stand in a longer one which is named."""
    parts = [words.head(0)]
    for source, over in product(words["source"].unique(), (True, False)):
        chosen = (words["source"] == source) & (words["verdict"] == verdicts.DIFFERS)
        rows = words[chosen & ((words["log_odds"] > 0) == over)].head(_LOOKED_AT * most)
        counts = (rows["count"] + rows["count_reference"]).to_list()
        held = list(zip(rows["ngram"].map(" {} ".format), counts, strict=True))
        kept = [
            not any(name != other and name in other and n >= _WITHIN * count for other, n in held)
            for name, count in held
        ]
        parts.append(
            rows[np.array(kept, bool)].head(most).sort_values("log_odds", ascending=not over)
        )
    return pd.concat([part for part in parts if len(part)] or parts)
