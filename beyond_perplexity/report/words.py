"""The table of words and phrases that samples over- and under-use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.figures.numbers import (
    STAR_NOTE,
    shown_p,
    shown_share,
    shown_signed,
    stars,
)
from beyond_perplexity.figures.words import named_words
from beyond_perplexity.report.layout import Column, Table, empty_table, interval_column, lay_out
from beyond_perplexity.verdicts import DIFFERS, is_known, no_verdict_text

SHOWN_WORDS = 12  # of a sample set in either direction
_TITLE = "Words and phrases that are over- and under-used"
_NOTE = (
    "Log odds: natural, of the samples less the reference, with the prior of Monroe, Colaresi and "
    "Quinn (2008) and intervals over documents or groups: above 0 the samples have more. Adjusted "
    f"p: for all of them, by max-T. q: false discovery rate, approximate. {STAR_NOTE}. What nearly "
    "always stands in a longer phrase is not shown beside it."
)


def words_told(words: pd.DataFrame) -> str:
    """Say how many n-grams of a sample set were tested, and how many are named, or why none."""
    if words.empty:
        return "No word stands in enough documents of both texts to be tested."
    row, named = words.iloc[0], words["verdict"] == DIFFERS
    told = (
        f"{len(words):,} words and phrases of up to three words stand in at least "
        f"{row['least_documents']:,} documents and occur at least {row['least_occurrences']:,} "
        "times in both texts together"
    )
    if is_known(row["reason"]):
        return f"{told}; {no_verdict_text(row['reason'])}."
    if not row["draws"]:
        return f"{told}; they were not tested."
    over, under = (
        int((named & side).sum()) for side in (words["log_odds"] > 0, words["log_odds"] <= 0)
    )
    if not over + under:
        return f"{told}; none is over- or under-used beyond chance."
    return f"{told}; the samples over-use {over:,} and under-use {under:,} of them."


def _context(row: Mapping[Any, Any]) -> str:
    return " · ".join(row[name] for name in ("example_1", "example_2") if is_known(row[name]))


def named_words_table(
    words: pd.DataFrame, labels: Labels, most: int = SHOWN_WORDS, *, quoted: bool = True
) -> Table:
    """Make the table of named n-grams: so many of either direction, with quotations."""
    rows, several = named_words(words, most), words["source"].nunique() > 1
    columns = [
        Column("Samples", text=True, of="source", form=labels.source),
        Column("Word or phrase", text=True, of="ngram"),
        Column(
            "Log odds", of=lambda row: shown_signed(row["log_odds"], 2) + stars(row["p_adjusted"])
        ),
        interval_column(),
        Column("Documents: samples", of="document_share", form=shown_share),
        Column("reference", of="document_share_reference", form=shown_share),
        Column("Adjusted p", of="p_adjusted", form=shown_p),
        Column("q", of="q_value", form=shown_p),
        Column("In context", text=True, wraps=True, of=_context),
    ]
    told = " ".join(
        f"{labels.source(str(source))}: {words_told(own)}" if several else words_told(own)
        for source, own in words.groupby("source", sort=False)
    )
    told = told or words_told(words)
    if rows.empty:
        return empty_table("words", _TITLE, told)
    return lay_out(
        "words",
        _TITLE,
        f"{told} {_NOTE}",
        columns[not several : None if quoted else -1],
        rows,
        words[words["verdict"] == DIFFERS],
    )
