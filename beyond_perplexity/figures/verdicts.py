"""What a measured row says: whether the texts differ, and how far human text is from itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pandas as pd

from beyond_perplexity.figures.numbers import shown, shown_range, stars
from beyond_perplexity.tendencies.definitions import TENDENCIES, compares_texts
from beyond_perplexity.verdicts import (
    REASON_FOLLOWS,
    draws_too_few,
    facts_of,
    is_exchange,
    joined_facts,
    names_word,
)

_DISTANCES = {(name, row.distance) for name, row in TENDENCIES.items() if row.distance}
WITHHELD = "†"
DIFFERS, ALIKE, WITHOUT_VERDICT, UNTESTED = (
    "differs",
    "no difference found",
    "no verdict",
    "not tested",
)


def _is_known(value: Any) -> bool:
    return value is not None and not pd.isna(value)


def _facts(note: Any) -> list[str]:
    return facts_of(note) if _is_known(note) else []


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
    first, *further = _facts(row["note"]) or [""]
    tested = _is_known(row["p_value"]) or not compares_texts(row["measure"])
    if tested or not first.startswith(REASON_FOLLOWS):
        return ""
    rest = (fact for fact in further if not names_word(fact))
    return joined_facts(first.removeprefix(REASON_FOLLOWS), *rest)


def note_alone(row: Mapping[Any, Any]) -> str:
    """Return what a note says beside what a page says once, and the reason of no verdict.

    That is what was exchanged, and that permutations are too few for a star.
    """
    if reason_withheld(row):
        return ""
    told = (fact for fact in _facts(row["note"]) if not (draws_too_few(fact) or is_exchange(fact)))
    return joined_facts(*told)


def too_few_permutations(notes: Iterable[str | None]) -> str:
    """Return the warning that no star can appear, as the notes of the rows have it, or nothing."""
    found = (fact for note in notes for fact in _facts(note) if draws_too_few(fact))
    return next(found, "")


def verdict(row: Mapping[Any, Any]) -> str:
    """Say what the test of a row found, by its adjusted p-value alone.

    Parameters
    ----------
    row : mapping
        Of the schema ``tendencies``.

    Returns
    -------
    str
        One of `DIFFERS`, `ALIKE`, `WITHOUT_VERDICT`, `UNTESTED`.
    """
    if _is_known(row["p_adjusted"]) and compares_texts(row["measure"]):
        return DIFFERS if stars(row["p_adjusted"]) else ALIKE
    return WITHOUT_VERDICT if reason_withheld(row) else UNTESTED


def verdict_mark(row: Mapping[Any, Any]) -> str:
    """Return what stands behind the value of a row: stars, or the mark of a withheld verdict."""
    said = verdict(row)
    if said == DIFFERS:
        return stars(row["p_adjusted"])
    return WITHHELD if said == WITHOUT_VERDICT else ""


def beyond_floor(row: Mapping[Any, Any]) -> int:
    """Say where a distance lies: 1 above the middle 95% of human text against itself, -1 below it.

    The distance is that at the size of the floor: floor plus excess.

    Returns
    -------
    int
        0 inside the band, or where there is none.
    """
    if not (_is_known(row["floor_low"]) and _is_known(row["floor_high"])):
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

    Parameters
    ----------
    rows : pandas.DataFrame
        Schema ``tendencies``.
    key : tuple of str
        Tendency and measure.
    write : callable
        How a number is written.

    Returns
    -------
    dict of str to str
        By vocabulary; an empty text where none has a floor.
    """
    chosen = rows[(rows["tendency"] == key[0]) & (rows["measure"] == key[1])]
    return {
        name: shown_range(chosen[chosen["vocabulary"] == name]["floor"], write)
        for name in dict.fromkeys(rows["vocabulary"])
    }
