"""Table 1 of the contrastive entropy paper: how each pair of models reads by its rule."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from beyond_perplexity.contrastive.differences import NO_DIFFERENCE, read_table_1, turn_difference
from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.figures.measure_names import CONTRAST_UNITS, shown_level, table_levels
from beyond_perplexity.report.layout import Column, Table
from beyond_perplexity.schemas.contrastive import CONTRASTIVE_ENTROPY, CONTRASTIVE_RATIO

_ALIKE, _NOT_FOUND = "·", "–"
_DIFFERENCE = ("value", "low", "high")
_COLUMNS = [
    *("unit", "level", "base_level", "first", "second", "reading"),
    *(f"{CONTRASTIVE_ENTROPY}_{name}" for name in _DIFFERENCE),
    *("p_value", "p_adjusted"),
    *(f"{CONTRASTIVE_RATIO}_{name}" for name in _DIFFERENCE),
    *("groups", "note"),
]
_READINGS_NOTE = (
    "The model of the row against that of the column, by the rule of the paper's Table 1: higher "
    "H_C with a higher or similar H_CR reads superior, with a lower H_CR scaling issues; lower H_C "
    "with a higher or similar H_CR indeterminate, with a lower one inferior. Higher and lower: the "
    "difference of H_C has an adjusted p below 0.05 (sign-flips over documents or groups of them, "
    f"Holm over all pairs and levels of a unit), else {_NOT_FOUND}, no difference found, which is "
    "no proof of equality. Similar: the paired 95% interval of the difference of H_CR holds 0. The "
    "rule is not its own mirror: what is superior at a similar H_CR makes the other indeterminate. "
    "It reads two trained models on this text and this noise, for a choice among models of one "
    "scale, such as models with a likelihood, or one family at other settings. Multiplying the "
    "scores of a model moves it from inferior to scaling issues and from indeterminate to "
    "superior: where scales differ, only what H_CR says is left."
)


def _both_directions(
    differences: pd.DataFrame, measure: str
) -> dict[tuple[str, str, str, float], dict[Any, Any]]:
    """Return the rows of a measure by unit, first, second and level, also with models exchanged."""
    found: dict[tuple[str, str, str, float], dict[Any, Any]] = {}
    for row in differences[differences["measure"] == measure].to_dict("records"):
        for one in (turn_difference(row), row):
            found[one["unit"], one["first"], one["second"], float(one["level"])] = one
    return found


def ordered_readings(differences: pd.DataFrame) -> pd.DataFrame:
    """Read every ordered pair of models at every level that has a ratio to the base level.

    Takes schema ``contrast_differences``; returns the reading with the differences of H_C and H_CR,
    their intervals, and the p-values of the former.
    """
    entropies, ratios = (
        _both_directions(differences, name) for name in (CONTRASTIVE_ENTROPY, CONTRASTIVE_RATIO)
    )
    records = []
    for (unit, first, second, level), row in entropies.items():
        ratio = ratios.get((unit, first, second, level))
        limits = [math.nan] * 2 if ratio is None else [ratio["low"], ratio["high"]]
        records.append(
            {
                "unit": unit,
                "level": level,
                "base_level": ratio and ratio["base_level"],
                "first": first,
                "second": second,
                "reading": read_table_1(row["value"], row["p_adjusted"], *limits),
                **{f"{CONTRASTIVE_ENTROPY}_{name}": row[name] for name in _DIFFERENCE},
                **{name: row[name] for name in ("p_value", "p_adjusted")},
                **{f"{CONTRASTIVE_RATIO}_{name}": ratio and ratio[name] for name in _DIFFERENCE},
                "groups": row["groups"],
                "note": row["note"],
            }
        )
    found = pd.DataFrame(records, columns=_COLUMNS)
    return found[found["base_level"].notna() & (found["level"] != found["base_level"])]


def readings_table(differences: pd.DataFrame, labels: Labels) -> Table:
    """Make Table 1: the reading of every ordered pair of models that share a unit.

    A block of rows for each unit and level; a row has a model against all others. Without rows
    where no pair of models has both a difference of H_C and one of H_CR.
    """
    pairs = ordered_readings(differences)
    models = labels.sort_models({*pairs["first"], *pairs["second"]})
    levels, body = table_levels(pairs["level"].tolist()), []
    for unit, level in ((unit, level) for unit in CONTRAST_UNITS for level in levels):
        held = pairs[(pairs["unit"] == unit) & (pairs["level"] == level)]
        read = held.dropna(subset="reading")
        found = {(one["first"], one["second"]): one["reading"] for one in read.to_dict("records")}
        begin = [CONTRAST_UNITS[unit], shown_level(level)]
        for place, first in enumerate(models, start=1):
            if first not in set(held["first"]):
                continue
            cells = [found.get((first, second), "") for second in models]
            cells = [_NOT_FOUND if cell == NO_DIFFERENCE else cell for cell in cells]
            cells[place - 1] = _ALIKE
            body.append([*begin, str(place), labels.model(first), *cells])
            begin = ["", ""]
    heads = [Column("Unit", text=True), Column("Distortion", text=True)]
    heads += [Column("No."), Column("Model", text=True)]
    against = (str(place) for place in range(1, len(models) + 1))
    heads += [Column(place, "against model no.", text=True) for place in against]
    title = "Table 1: What contrastive entropy and its ratio say of each pair of models"
    return Table("contrastive_readings", title, _READINGS_NOTE, heads, body, pairs)
