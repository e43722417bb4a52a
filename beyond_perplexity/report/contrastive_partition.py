"""The table of log Z by length: what the perplexity of a model of sentences rests on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from beyond_perplexity.errors import NothingToShowError
from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.figures.numbers import shown, shown_interval
from beyond_perplexity.inference.weight_diagnostics import LEAST_EFFECTIVE
from beyond_perplexity.report.layout import Column, Table

_SHOWN = 8  # lengths of a model; all are in the CSV
_NOTE = (
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
    note = (_NOTE + " ".join(said)).strip()
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
