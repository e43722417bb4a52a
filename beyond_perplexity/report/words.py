"""The table of words and phrases that samples over- and under-use."""

from __future__ import annotations

import pandas as pd

from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.figures.numbers import (
    STAR_NOTE,
    named_words,
    shown_p,
    shown_share,
    shown_signed,
    stars,
)
from beyond_perplexity.report.layout import Column, Table, empty_table, interval_column, lay_out
from beyond_perplexity.verdicts import DIFFERS, is_known, no_verdict_text

# N-grams in either direction: of a single sample set, of each of several, on a terminal.
_SHOWN = (12, 5, 3)
_TITLE = "Words and phrases that are over- and under-used"
_NOTE = (
    "Log odds: natural, of the samples less the reference, with the prior of Monroe, Colaresi and "
    "Quinn (2008) and intervals over documents or groups; above 0 samples have more. In samples "
    "and reference: share of the documents that have it. Adjusted p: for all of them, by max-T. "
    f"q: false discovery rate, approximate. {STAR_NOTE}. What nearly always stands in a longer "
    "phrase is not shown beside it."
)


def _counted(words: pd.DataFrame) -> str:
    """Say how many n-grams of a sample set were tested and are named, or why none."""
    row, named = words.iloc[0], words["verdict"] == DIFFERS
    if is_known(row["reason"]):
        return f"{len(words):,}, {no_verdict_text(row['reason'])}"
    if not row["draws"]:
        return f"{len(words):,}, not tested"
    over = int((named & (words["log_odds"] > 0)).sum())
    under = int(named.sum()) - over
    return f"{len(words):,}, of which {over:,} are over-used and {under:,} under-used"


def words_told(words: pd.DataFrame, labels: Labels) -> str:
    """Say how many n-grams were tested, of each sample set, and how many are named."""
    least = words[["least_documents", "least_occurrences"]].min()
    parts = {str(source): _counted(own) for source, own in words.groupby("source", sort=False)}
    found = "; ".join(f"{labels.source(source)}: {own}" for source, own in parts.items())
    return (
        f"Words and phrases of up to three words in at least {least.iloc[0]:,} documents and with "
        f"at least {least.iloc[1]:,} occurrences in both texts together: "
        f"{found if len(parts) > 1 else next(iter(parts.values()))}."
    )


def named_words_table(words: pd.DataFrame, labels: Labels, *, terminal: bool = False) -> Table:
    """Make the table of the farthest named n-grams, with quotations but on a terminal."""
    if words.empty:
        return empty_table("words", _TITLE, "No word is frequent enough to be tested.")
    several = words["source"].nunique() > 1
    rows = named_words(words, _SHOWN[2 if terminal else several])
    columns = [
        Column("Samples", text=True, of="source", form=labels.source),
        Column("Word or phrase", text=True, of="ngram"),
        Column(
            "Log odds", of=lambda row: shown_signed(row["log_odds"], 2) + stars(row["p_adjusted"])
        ),
        interval_column(),
        Column("In samples", of="document_share", form=shown_share),
        Column("In reference", of="document_share_reference", form=shown_share),
        Column("Adjusted p", of="p_adjusted", form=shown_p),
        Column("q", of="q_value", form=shown_p),
        Column(
            "In context",
            text=True,
            wraps=True,
            of=lambda row: " · ".join(x for k in (1, 2) if is_known(x := row[f"example_{k}"])),
        ),
    ]
    if rows.empty:
        return empty_table("words", _TITLE, words_told(words, labels))
    return lay_out(
        "words",
        _TITLE,
        f"{words_told(words, labels)} {_NOTE}",
        columns[not several : -1 if terminal else None],
        rows,
        words[words["verdict"] == DIFFERS],
    )
