"""Tables of brought pairs, and of log Z by length, which a perplexity of sentences rests on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from beyond_perplexity.errors import NothingToShowError
from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.figures.measure_names import LOGARITHMS
from beyond_perplexity.figures.numbers import shown, shown_interval, shown_share, shown_signed
from beyond_perplexity.inference.weight_diagnostics import LEAST_EFFECTIVE
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


_SHOWN = 8  # lengths of a model; all are in the CSV
_LENGTHS_NOTE = (
    "Z of a length n is the sum of exp(−S) over all sequences of n words; it is estimated from K "
    "samples of the proposal, or as many runs of particles that it proposes the words of. By "
    "Jensen's inequality the logarithm of the estimate is too low in "
    "expectation, so that the log-likelihood is too high and the perplexity too low: it is a "
    "stochastic lower bound; debiased is by the jackknife and no bound. Few effective samples or "
    "a high Pareto k (its limit is min(1 − 1/log10 K, 0.7)) say that a few samples decide the "
    "estimate, and that its error is not to be trusted. Over all lengths the sum may diverge, as "
    "training leaves the scale of S free: nothing here compares the probabilities of sentences "
    "of different lengths. "
)


def _lengths(rows: pd.DataFrame) -> pd.DataFrame:
    """Choose the lengths of a model that are shown: evenly among its test sentences."""
    ordered = rows.sort_values("length", kind="stable").reset_index(drop=True)
    if len(ordered) <= _SHOWN:
        return ordered
    counts = np.cumsum(ordered["sentences"].to_numpy())
    wanted = np.linspace(0, 1, _SHOWN) * max(counts[-1], 1)
    places = np.minimum(np.searchsorted(counts, wanted), len(ordered) - 1)
    return ordered.iloc[np.unique([0, *places, len(ordered) - 1])]


def partition_table(
    partitions: pd.DataFrame, given_lengths: Mapping[str, Mapping[str, Any]], labels: Labels
) -> Table:
    """Make the table of log Z by length: some lengths a model, evenly among the test sentences."""
    if partitions.empty:
        raise NothingToShowError("the partition functions have no length")
    body = []
    for model in labels.sort_models(partitions["model"]):
        own = partitions[partitions["model"] == model]
        for place, row in enumerate(_lengths(own).to_dict("records")):
            names = [labels.model(model), labels.model(row["proposal"])] if place == 0 else ["", ""]
            body.append(
                [
                    *names,
                    f"{row['length']:,}",
                    f"{row['sentences']:,}",
                    shown(row["log_z"]),
                    shown(row["log_z_debiased"]),
                    shown(row["standard_error"]),
                    f"{shown(row['ess'], 1)} of {row['samples']:,}",
                    shown(row["pareto_k"], 2),
                ]
            )
    heads = [
        *(Column(title, text=True) for title in ("Model", "Proposal")),
        Column("Length (words)"),
        Column("Test sentences"),
        *(Column(title, "log Z, nats") for title in ("estimate", "debiased", "standard error")),
        Column("Effective samples"),
        Column("Pareto k"),
    ]
    said = [_say_perplexity(labels.model(name), found) for name, found in given_lengths.items()]
    note = (_LENGTHS_NOTE + " ".join(said)).strip()
    title = "The partition function of models of sentences, by length"
    return Table("partition", title, note, heads, body, partitions)


def _say_perplexity(name: str, found: Mapping[str, Any]) -> str:
    """Say the perplexity given the lengths, and of how many sentences it is not to be trusted."""
    value, (low, high) = found["perplexity_given_length"], found["interval"]
    number = "∞" if value is None else shown(value, 2)
    number += f" {shown_interval(low, high, 2)}" * (low is not None)
    particles = int(found.get("particles", 1))
    runs = f", from runs of {particles:,} particles" if particles > 1 else ""
    return (
        f"{name}: perplexity given the lengths ≥ {number}{runs}; of "
        f"{found['sentences']:,} sentences {found['sentences_few_effective']:,} have a length with "
        f"fewer than {LEAST_EFFECTIVE:g} effective samples, "
        f"{found['sentences_pareto_k_above']:,} one with a Pareto k above its limit."
    )
