"""What was found, a number with its verdict a row; the first page has a sentence of one of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from beyond_perplexity.errors import InputError
from beyond_perplexity.figures.numbers import shown, shown_interval
from beyond_perplexity.foreign_text import escape_rst
from beyond_perplexity.report import layout

FIRST_PAGE = "first_page"
_NUMBERS = ("value", "low", "high", "found", "of")


class Answer(NamedTuple):
    """A number that was found: of what, its quantity and unit, its value and 95% limits (NaN: none)
    or how many of how many, what was found, in a few words; whether the first page says it."""

    about: str
    quantity: str
    value: float = math.nan
    low: float = math.nan
    high: float = math.nan
    found: int | None = None
    of: int | None = None
    verdict: str = ""
    first_page: bool = False


def findings_table(
    name: str,
    title: str,
    note: str,
    found: Mapping[str, tuple[str, Iterable[Answer]]],
    *,
    paper: bool = True,
) -> layout.Table:
    """Lay out findings in the order of their questions, with what the `paper` answers to these."""
    rows = [(question, said, *one) for question, (said, held) in found.items() for one in held]
    tidy = pd.DataFrame(rows, columns=["question", "paper", *Answer._fields])
    tidy = tidy.astype({"found": "Int64", "of": "Int64"})
    if not paper:
        tidy = tidy.drop(columns="paper")
    columns = [
        layout.Column("Question", wraps=True),
        *[layout.Column("Paper", published=True, wraps=True)] * paper,
        layout.Column("Of", wraps=True, of="about"),
        layout.Column("What", wraps=True, of="quantity"),
        layout.Column("value", form=shown),
        layout.interval_column(),
        layout.Column(
            "count",
            of=("found", "of"),
            form=lambda *counts: " of ".join(f"{one:,}" for one in counts if not pd.isna(one)),
        ),
        layout.Column("Verdict", wraps=True),
    ]
    shown_rows = layout.without_repeats(tidy.to_dict("records"), *tidy.columns[: 1 + paper])
    return layout.lay_out(name, title, note, columns, shown_rows, tidy)


def read_findings(paths: Sequence[str | Path]) -> dict[str, pd.DataFrame]:
    """Read tables of findings, by the name of their folder: the corpus."""
    found = {}
    for path in paths:
        try:
            table = pd.read_csv(path, keep_default_na=False, na_values=dict.fromkeys(_NUMBERS, ""))
        except (OSError, ValueError) as error:
            raise InputError(f"{path}: not a readable CSV file ({error})") from error
        if list(table.columns) == [layout.NOTHING_COLUMN]:
            continue
        missing = {"question", *Answer._fields} - set(table.columns)
        if missing:
            raise InputError(f"{path}: lacks the column '{min(missing)}' of findings")
        found[Path(path).resolve().parent.name] = table
    return found


def first_sentence(template: str, findings: pd.DataFrame) -> str:
    """Write the finding that the first page is told of, as reStructuredText; empty without one."""
    for row in findings[findings[FIRST_PAGE].astype(bool)].to_dict("records"):
        texts = {name: escape_rst(str(row[name])) for name in ("about", "quantity", "verdict")}
        value = f"{shown(row['value'])} {shown_interval(row['low'], row['high'])}".strip()
        counts = {name: shown(row[name], 0) for name in ("found", "of")}
        return template.format(**texts, **counts, value=value)
    return ""
