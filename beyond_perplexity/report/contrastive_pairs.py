"""The table of pairs that were brought: which side a model finds likelier, by phenomenon."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from beyond_perplexity.errors import NothingToShowError
from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.figures.measure_names import LOGARITHMS
from beyond_perplexity.figures.numbers import shown, shown_interval, shown_share, shown_signed
from beyond_perplexity.report.contrastive_tables import logarithm_columns
from beyond_perplexity.report.inputs import read_tables
from beyond_perplexity.report.layout import Column, Table
from beyond_perplexity.schemas.contrastive import PAIR_CONTRASTS

_NOTE = (
    "Accuracy: share of the pairs in which the good side has the higher log score, an equal score "
    "counting as half; 0.5 is chance. H_C: log score of the good side less that of the bad one, a "
    f"mean over pairs in nats, and by their words; {' and '.join(LOGARITHMS)} are in the CSV. "
    "Identical pairs are counted and left out. A log score falls with every word, so that sums "
    "favour the shorter side: beside are the mean number of words that the good side has more, and "
    "the share of pairs in which it is the shorter one. Intervals: 95%; why one is missing is in "
    "the note of the CSV."
)


def read_pair_contrasts(paths: Sequence[str | Path]) -> pd.DataFrame:
    """Read the results of brought pairs, each with the name of its pairs: that of its folder."""
    parts = [
        read_tables([path], PAIR_CONTRASTS).assign(source=Path(path).resolve().parent.name)
        for path in paths
    ]
    return pd.concat(parts, ignore_index=True)


def pairs_table(contrasts: pd.DataFrame, labels: Labels) -> Table:
    """Make the table of brought pairs: a row for each phenomenon and model, in the files' order."""
    if contrasts.empty:
        raise NothingToShowError("the contrasts of pairs have no row")
    place = {name: at for at, name in enumerate(labels.sort_models(contrasts["model"]))}
    phenomena = list(dict.fromkeys(zip(contrasts["source"], contrasts["phenomenon"], strict=True)))
    at = {key: number for number, key in enumerate(phenomena)}
    rows = sorted(
        contrasts.to_dict("records"),
        key=lambda row: (at[row["source"], row["phenomenon"]], place[row["model"]]),
    )
    body, before = [], None
    for row in rows:
        key = (row["source"], row["phenomenon"])
        body.append(
            [
                *(
                    ["", ""]
                    if key == before
                    else [row["source"], row["phenomenon"].replace("_", " ")]
                ),
                labels.model(row["model"]),
                f"{row['pairs'] - row['identical']:,}",
                f"{row['identical']:,}",
                f"{row['undecided']:,}",
                shown(row["accuracy"]),
                shown_interval(row["accuracy_low"], row["accuracy_high"]),
                shown(row["contrastive_entropy"]),
                shown_interval(row["low"], row["high"]),
                shown(row["per_word"]),
                shown_signed(row["length_difference"], 2),
                shown_share(row["good_shorter"]),
            ]
        )
        before = key
    heads = [
        *(Column(title, text=True) for title in ("Pairs", "Phenomenon", "Model")),
        *(Column(title, "Pairs") for title in ("compared", "identical", "of equal score")),
        Column("value", "Accuracy"),
        Column("95% interval", "Accuracy"),
        Column("nats a pair", "H_C"),
        Column("95% interval", "H_C"),
        Column("nats a word", "H_C"),
        Column("more words", "Good side"),
        Column("shorter", "Good side"),
    ]
    tidy = logarithm_columns(pd.DataFrame(rows), ("contrastive_entropy", "low", "high", "per_word"))
    return Table("pairs", "Good and bad sides of pairs", _NOTE, heads, body, tidy)
