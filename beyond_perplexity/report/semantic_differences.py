"""The differences of all pairs of models in every semantic measure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.figures.measure_names import (
    SPLIT_TITLES,
    evaluator_title,
    shown_split,
    sort_measures,
)
from beyond_perplexity.figures.numbers import STAR_NOTE, shown_signed, stars
from beyond_perplexity.report.layout import Column, Table
from beyond_perplexity.schemas.semantics import PREDICTED, WORDS_EVALUATOR
from beyond_perplexity.semantics.measures import MEASURES
from beyond_perplexity.semantics.paired_scores import EXCESS_KIND


def _difference_cell(row: Mapping[Any, Any] | None) -> str:
    if row is None or pd.isna(row["value"]):
        return ""
    half = (row["high"] - row["low"]) / 2
    spread = "" if pd.isna(half) else f" ± {half:.3f}"
    return f"{shown_signed(row['value'])}{spread}{stars(row['p_adjusted'])}"


def _group(evaluator: str, labels: Labels) -> str:
    return "" if evaluator == WORDS_EVALUATOR else evaluator_title(evaluator, labels)


def semantic_differences_table(differences: pd.DataFrame, labels: Labels) -> Table:
    """Make the table of differences: a row a pair of models, a column a measure.

    Of predictions, and of their excess over the floor, on the test split where there is one.
    """
    split = shown_split(differences["split"])
    rows = differences[differences["split"] == split]
    names = sort_measures(zip(rows["evaluator"], rows["measure"], strict=True))
    found = {
        (r["kind"], r["first"], r["second"], r["evaluator"], r["measure"]): r
        for r in rows.to_dict("records")
    }
    pairs = list(dict.fromkeys(zip(rows["first"], rows["second"], strict=True)))
    body, said = [], {PREDICTED: "value", EXCESS_KIND: "above the floor"}
    for first, second in pairs:
        for kind, title in said.items():
            cells = [_difference_cell(found.get((kind, first, second, *name))) for name in names]
            if any(cells):
                pair = f"{labels.model(first)} less {labels.model(second)}"
                body.append([pair if kind == PREDICTED else "", title, *cells])
    heads = [Column("Models", text=True), Column("of", text=True)]
    heads += [
        Column(MEASURES[measure].title if measure in MEASURES else measure, _group(owner, labels))
        for owner, measure in names
    ]
    notes = "; ".join(dict.fromkeys(note for note in rows["note"] if note))
    note = (
        f"On the same sentences of the {SPLIT_TITLES.get(split, split)} split; ± half the 95% "
        f"interval over documents or groups of them. {STAR_NOTE}, by sign-flips of these (BLEU: by "
        "swaps), adjusted for all pairs and measures of a kind. Of cross-entropy less is better. "
        f"About these trained models; one training of each says nothing of architectures. {notes}"
    )
    title = "Differences of models in measures of meaning"
    return Table("semantic_differences", title, note.strip(), heads, body, differences)
