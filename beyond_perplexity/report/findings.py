"""What was found, a number with its verdict a row; the first page has a sentence of one of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from beyond_perplexity.errors import InputError
from beyond_perplexity.figures.numbers import shown, shown_interval
from beyond_perplexity.foreign_text import escape_rst
from beyond_perplexity.report.layout import NOTHING_COLUMN, Column, Table

FIRST_PAGE = "first_page"
_NUMBERS = ("value", "low", "high", "found", "of")


class Answer(NamedTuple):
    """A number that was found, and what it says.

    Attributes
    ----------
    question, about, quantity : str
        What it answers, of which models or measures it is, and what it is, with its unit.
    value, low, high : float
        The number with the limits of its 95% interval; NaN where there is none.
    found, of : int or None
        How many of how many things.
    verdict : str
        What was found, in a few words.
    first_page : bool
        Whether the first page has its sentence.
    """

    question: str
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
    findings: Sequence[Answer],
    paper: Mapping[str, str] | None = None,
) -> Table:
    """Lay out findings in the order of their questions, with what a paper answers to these."""
    heads = [Column("Question", wraps=True)]
    heads += [] if paper is None else [Column("Paper", published=True, wraps=True)]
    heads += [Column("Of", wraps=True), Column("What", wraps=True), Column("value")]
    heads += [Column("95% interval"), Column("count"), Column("Verdict", wraps=True)]
    body, before = [], ""
    for one in findings:
        asked = [one.question] if paper is None else [one.question, paper.get(one.question, "")]
        asked = [""] * len(asked) if one.question == before else asked
        share = " of ".join(f"{int(n):,}" for n in (one.found, one.of) if n is not None)
        numbers = [shown(one.value), shown_interval(one.low, one.high), share]
        body.append([*asked, one.about, one.quantity, *numbers, one.verdict])
        before = one.question
    tidy = pd.DataFrame(findings, columns=Answer._fields).astype({"found": "Int64", "of": "Int64"})
    if paper is not None:
        tidy.insert(1, "paper", tidy["question"].map(lambda one: paper.get(one, "")))
    return Table(name, title, note, heads, body, tidy)


def read_findings(paths: Sequence[str | Path]) -> dict[str, pd.DataFrame]:
    """Read tables of findings, by the name of their folder: the corpus."""
    found = {}
    for path in paths:
        try:
            table = pd.read_csv(path, keep_default_na=False, na_values=dict.fromkeys(_NUMBERS, ""))
        except (OSError, ValueError) as error:
            raise InputError(f"{path}: not a readable CSV file ({error})") from error
        if list(table.columns) == [NOTHING_COLUMN]:
            continue
        missing = set(Answer._fields) - set(table.columns)
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
