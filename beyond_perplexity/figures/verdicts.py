"""What a measured row says: whether the texts differ, and how far human text is from itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pandas as pd

from beyond_perplexity.figures.numbers import shown, shown_range, stars
from beyond_perplexity.inference.p_values import draw_warning
from beyond_perplexity.tendencies.definitions import TENDENCIES, compares_texts, verdict_of
from beyond_perplexity.verdicts import DIFFERS, WITHOUT_VERDICT, is_known, joined_facts, reason_text

_DISTANCES = {(name, row.distance) for name, row in TENDENCIES.items() if row.distance}
WITHHELD = "†"


def reason_withheld(row: Mapping[Any, Any]) -> str:
    """Say why a test of a row of schema ``tendencies`` was not made, in words.

    Empty where it was made, where nobody asked for it, and where the row compares no texts.
    """
    tested = is_known(row["p_value"]) or not compares_texts(row["measure"])
    if tested or not is_known(row["reason"]):
        return ""
    # The note of a largest difference names its word, which says nothing of the test.
    named = row["measure"].startswith("max_difference") or not is_known(row["note"])
    return joined_facts(reason_text(row["reason"]), "" if named else row["note"])


def note_alone(row: Mapping[Any, Any]) -> str:
    """Return the note of a row whose verdict is not withheld."""
    return row["note"] if is_known(row["note"]) and not reason_withheld(row) else ""


def too_few_permutations(rows: Iterable[Mapping[Any, Any]]) -> str:
    """Say that no star can appear, by the families of the tests and their draws, or nothing."""
    drawn = ((row["family"], row["draws"]) for row in rows if is_known(row["draws"]))
    found = (draw_warning(int(family), int(draws), "permutations") for family, draws in drawn)
    return next(filter(None, found), "")


def verdict(row: Mapping[Any, Any]) -> str:
    """Say what the test of a row found, by its adjusted p-value alone."""
    return verdict_of(row["measure"], row["p_value"], row["p_adjusted"], row["reason"])


def verdict_mark(row: Mapping[Any, Any]) -> str:
    """Return what stands behind the value of a row: stars, or the mark of a withheld verdict."""
    said = verdict(row)
    if said == DIFFERS:
        return stars(row["p_adjusted"])
    return WITHHELD if said == WITHOUT_VERDICT else ""


def beyond_floor(row: Mapping[Any, Any]) -> int:
    """Say where a distance lies: 1 above the middle 95% of human text against itself, -1 below it.

    The distance is that at the size of the floor: floor plus excess.

    Returns 0 inside the band, or where there is none.
    """
    if not (is_known(row["floor_low"]) and is_known(row["floor_high"])):
        return 0
    distance = row["floor"] + row["excess"]
    return int(distance > row["floor_high"]) - int(distance < row["floor_low"])


def effect_table(table: pd.DataFrame) -> pd.DataFrame:
    """Take the rows that measure a distance to the test set: one per source and tendency."""
    chosen = [key in _DISTANCES for key in zip(table["tendency"], table["measure"], strict=True)]
    return table[pd.Series(chosen, table.index, dtype=bool)]


def human_floors(
    rows: pd.DataFrame, key: tuple[str, str], write: Callable[[float], str] = shown
) -> dict[str, str]:
    """Write the floor of a distance for each vocabulary: one number, or the range of its sources.

    Floors differ where the compared texts have different sizes.

    `rows`: schema ``tendencies``; `key`: tendency and measure; `write`: how a number is written.

    Returns by vocabulary; an empty text where none has a floor.
    """
    chosen = rows[(rows["tendency"] == key[0]) & (rows["measure"] == key[1])]
    return {
        name: shown_range(chosen[chosen["vocabulary"] == name]["floor"], write)
        for name in dict.fromkeys(rows["vocabulary"])
    }
