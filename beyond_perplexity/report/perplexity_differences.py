"""Differences of models in bits per byte: the table of a run, and the text of the command."""

from __future__ import annotations

import math
from collections.abc import Sequence
from textwrap import fill

import pandas as pd

from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.figures.numbers import MINUS, STAR_NOTE, shown, shown_p, stars
from beyond_perplexity.report.layout import Column, Table, to_text

_CLAIM = (
    "A difference is a claim about these two trained models on texts like these; about two "
    "architectures only several trainings (seeds) of each can say something."
)
_NOTE = (
    "Bits per byte of UTF-8 with the end of each document; the difference is that of the first "
    "model less the second, so that below 0 the first is better. Groups are pages (or what the "
    "scores name so); where none are named, each document is one, and what is said holds for "
    "further documents of the same pages, not for new pages. Interval: 95%, jackknife over groups, "
    "Student's t with the effective number of groups. p: sign-flips over groups; adjusted for all "
    f"pairs (Holm): {STAR_NOTE}. Smallest: the true difference that a test of level .05 finds in "
    "80% of the cases, from the standard error and Student's t."
)
_TITLE = "Differences between models in bits per byte"
_DIGITS = 4
_HEADS = (
    Column("Text", text=True),
    Column("Model", text=True),
    Column("less model", text=True),
    Column("bits per byte"),
    Column("95% interval"),
    Column("p"),
    Column("p adjusted"),
    Column("smallest found"),
    Column("groups"),
    Column("note", text=True),
)


def is_pair(differences: pd.DataFrame) -> pd.Series:
    """Tell the rows of pairs from those of the models' own bits per byte."""
    return differences["second"].notna()


def _bits(value: float, signed: bool) -> str:
    if not signed or not math.isfinite(value) or value == 0:
        return shown(value, _DIGITS)
    return f"{value:+.{_DIGITS}f}".replace("-", MINUS)


def _cells(row: pd.Series, labels: Labels) -> list[str]:
    pair = row["second"] is not None and not pd.isna(row["second"])
    groups = "" if pd.isna(row["groups"]) else f"{int(row['groups']):,}"
    if groups and row["groups_effective"] < 0.95 * row["groups"]:
        groups += f" ({row['groups_effective']:.0f} effective)"
    limits = [_bits(row[end], pair) for end in ("low", "high")]
    return [
        row["scored_text"] or "",
        labels.model(row["first"]),
        labels.model(row["second"]) if pair else "",
        _bits(row["value"], pair) + stars(row["p_adjusted"]),
        "" if pd.isna(row["low"]) else f"[{', '.join(limits)}]",
        shown_p(row["p_value"]),
        shown_p(row["p_adjusted"]),
        shown(row["detectable"], _DIGITS),
        groups,
        row["note"] or "",
    ]


def sorted_differences(differences: pd.DataFrame, labels: Labels) -> pd.DataFrame:
    """Sort rows by text, then own ones before pairs, then as the labels do."""
    names = {*differences["first"], *differences["second"].dropna()}
    order = {name: place for place, name in enumerate(labels.sort_models(names))}
    keys = pd.DataFrame(
        {
            "text": differences["scored_text"].fillna(""),
            "pair": is_pair(differences),
            "first": differences["first"].map(order),
            "second": differences["second"].map(order).fillna(-1),
        }
    )
    return differences.loc[
        keys.sort_values(["text", "pair", "first", "second"], kind="stable").index
    ]


def differences_table(differences: pd.DataFrame, labels: Labels) -> Table:
    """Make the table of bits per byte and their differences: a row a model, then one a pair."""
    ordered = sorted_differences(differences, labels).astype({"groups": "Int64"})
    body = [_cells(row, labels) for _, row in ordered.iterrows()]
    return Table("perplexity_differences", _TITLE, f"{_NOTE} {_CLAIM}", _HEADS, body, ordered)


def _shorter(table: Table) -> str:
    """Write a table for a terminal: no column that is empty in all rows, notes beneath."""
    *rest, _ = range(len(table.columns))
    kept = [place for place in rest if any(row[place] for row in table.rows)]
    columns = [table.columns[place] for place in kept]
    rows = [[row[place] for place in kept] for row in table.rows]
    notes = dict.fromkeys(row[-1] for row in table.rows if row[-1])
    return "\n".join([to_text(Table("", "", "", columns, rows, table.tidy)), *notes])


def _matrix(pairs: pd.DataFrame, names: Sequence[str], labels: Labels) -> str:
    """Write differences of row less column, with stars."""
    cells = {}
    for _, row in pairs.iterrows():
        mark = stars(row["p_adjusted"])
        cells[row["first"], row["second"]] = _bits(row["value"], True) + mark
        cells[row["second"], row["first"]] = _bits(-row["value"], True) + mark
    heads = [Column("", text=True), *(Column(labels.model(name)) for name in names)]
    rows = [[labels.model(one), *(cells.get((one, two), "") for two in names)] for one in names]
    return to_text(Table("matrix", "", "", heads, rows, pairs))


def describe_differences(differences: pd.DataFrame, labels: Labels) -> str:
    """Say for a terminal how models differ (of many, in a matrix), and what may be claimed."""
    parts = []
    for text, held in differences.groupby(differences["scored_text"].fillna(""), sort=False):
        if text:
            parts.append(f"On {text} text:")
        pairs = held[is_pair(held)]
        both = (held[~is_pair(held)], pairs)
        unnamed = (rows.assign(scored_text="") for rows in both if len(rows))
        parts += [_shorter(differences_table(rows, labels)) for rows in unnamed]
        names = labels.sort_models({*pairs["first"], *pairs["second"]})
        if len(names) > 2:
            parts.append("Row less column:\n" + _matrix(pairs, names, labels))
    return "\n\n".join([*parts, fill(_NOTE, 100), fill(_CLAIM, 100)])
