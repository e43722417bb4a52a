"""Tables of pairs of models and of brought pairs; log Z by length, which a perplexity rests on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from beyond_perplexity.contrastive.differences import NO_DIFFERENCE, read_table_1, turn_difference
from beyond_perplexity.errors import NothingToShowError
from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.figures.measure_names import (
    CONTRAST_UNITS,
    LOGARITHMS,
    shown_level,
    table_levels,
)
from beyond_perplexity.figures.numbers import shown, shown_interval, shown_share, shown_signed
from beyond_perplexity.inference.weight_diagnostics import LEAST_EFFECTIVE
from beyond_perplexity.report.contrastive_tables import logarithm_columns
from beyond_perplexity.report.inputs import read_tables
from beyond_perplexity.report.layout import Column, Table, lay_out, under, without_repeats
from beyond_perplexity.schemas.contrastive import (
    CONTRASTIVE_ENTROPY,
    CONTRASTIVE_RATIO,
    PAIR_CONTRASTS,
)

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
    keys = [*zip(contrasts["source"], contrasts["phenomenon"], strict=True)]
    first = {key: at for at, key in reversed([*enumerate(keys)])}
    order = contrasts.assign(at=[first[key] for key in keys], place=contrasts["model"].map(place))
    rows = contrasts.loc[order.sort_values(["at", "place"], kind="stable").index]
    columns = [
        Column("Pairs", text=True, of="source"),
        Column("Phenomenon", text=True, of="phenomenon", form=lambda n: n.replace("_", " ")),
        Column("Model", text=True, of="model", form=labels.model),
        *under(
            "Pairs",
            Column("compared", of=lambda row: row["pairs"] - row["identical"], form=","),
            Column("identical", of="identical", form=","),
            Column("of equal score", of="undecided", form=","),
        ),
        *under(
            "Accuracy",
            Column("value", of="accuracy", form=shown),
            Column(
                "95% interval", of=lambda r: shown_interval(r["accuracy_low"], r["accuracy_high"])
            ),
        ),
        *under(
            "H_C",
            Column("nats a pair", of="contrastive_entropy", form=shown),
            Column("95% interval", of=lambda row: shown_interval(row["low"], row["high"])),
            Column("nats a word", of="per_word", form=shown),
        ),
        *under(
            "Good side",
            Column("more words", of="length_difference", form=partial(shown_signed, digits=2)),
            Column("shorter", of="good_shorter", form=shown_share),
        ),
    ]
    tidy = logarithm_columns(
        rows.reset_index(drop=True), ("contrastive_entropy", "low", "high", "per_word")
    )
    shown_rows = without_repeats(rows.to_dict("records"), "source", "phenomenon")
    return lay_out("pairs", "Good and bad sides of pairs", _NOTE, columns, shown_rows, tidy)


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
    rows = [
        {**row, **{name: labels.model(row[name]) for name in ("model", "proposal")}}
        if place == 0
        else {**row, "model": "", "proposal": ""}
        for model in labels.sort_models(partitions["model"])
        for place, row in enumerate(
            _lengths(partitions[partitions["model"] == model]).to_dict("records")
        )
    ]
    columns = [
        *(Column(name.capitalize(), text=True, of=name) for name in ("model", "proposal")),
        Column("Length (words)", of="length", form=","),
        Column("Test sentences", of="sentences", form=","),
        *under(
            "log Z, nats",
            Column("estimate", of="log_z", form=shown),
            Column("debiased", of="log_z_debiased", form=shown),
            Column("standard error", of="standard_error", form=shown),
        ),
        Column("Effective samples", of=lambda r: f"{shown(r['ess'], 1)} of {r['samples']:,}"),
        Column("Pareto k", of="pareto_k", form=partial(shown, digits=2)),
    ]
    said = [_say_perplexity(labels.model(name), found) for name, found in given_lengths.items()]
    note = (_LENGTHS_NOTE + " ".join(said)).strip()
    title = "The partition function of models of sentences, by length"
    return lay_out("partition", title, note, columns, rows, partitions)


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


# ---- how each pair of models reads by the rule of Table 1 ----

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
    read = {
        (row["unit"], row["level"], row["first"], row["second"]): row["reading"]
        for row in pairs.dropna(subset="reading").to_dict("records")
    }
    held = set(zip(pairs["unit"], pairs["level"], pairs["first"], strict=True))
    rows = [
        {
            "unit": title,
            "level": shown_level(level),
            "place": str(place),
            "model": labels.model(first),
            **{second: read.get((unit, level, first, second), "") for second in models},
            first: _ALIKE,
        }
        for unit, title in CONTRAST_UNITS.items()
        for level in table_levels(pairs["level"].tolist())
        for place, first in enumerate(models, start=1)
        if (unit, level, first) in held
    ]
    columns = [
        Column("Unit", text=True, of="unit"),
        Column("Distortion", text=True, of="level"),
        Column("No.", of="place"),
        Column("Model", text=True, of="model"),
        *under(
            "against model no.",
            *(
                Column(
                    str(place),
                    text=True,
                    of=second,
                    form=lambda said: _NOT_FOUND if said == NO_DIFFERENCE else said,
                )
                for place, second in enumerate(models, start=1)
            ),
        ),
    ]
    title = "Table 1: What contrastive entropy and its ratio say of each pair of models"
    shown_rows = without_repeats(rows, "unit", "level")
    return lay_out("contrastive_readings", title, _READINGS_NOTE, columns, shown_rows, pairs)
