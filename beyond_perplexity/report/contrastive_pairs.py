"""Tables of pairs of models and of external pairs; log Z by length, which a perplexity rests on."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from beyond_perplexity.contrastive.differences import HIGHER, read_table_1
from beyond_perplexity.figures import measure_names, numbers
from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.inference.weight_diagnostics import LEAST_EFFECTIVE
from beyond_perplexity.report import layout
from beyond_perplexity.report.contrastive_tables import logarithm_columns
from beyond_perplexity.schemas.contrastive import (
    CONTRASTIVE_ENTROPY,
    CONTRASTIVE_RATIO,
    PAIRWISE_ACCURACY,
)
from beyond_perplexity.verdicts import ALIKE

_ALIKE, _NOT_FOUND = "·", "–"
_TEXTS = layout.texts_beside(
    "contrastive_pairs.toml",
    logarithms=" and ".join(measure_names.LOGARITHMS),
    not_found=_NOT_FOUND,
)
_NOTE = _TEXTS["note"]


def pairs_table(contrasts: pd.DataFrame, labels: Labels) -> layout.Table:
    """Make the table of external pairs: a row for each phenomenon and model, in file order."""
    named = contrasts.groupby(["source", "phenomenon"], sort=False).ngroup()
    places = contrasts["model"].map(labels.sort_models(contrasts["model"]).index)
    rows = contrasts.iloc[np.lexsort([places, named])]
    columns = [
        *layout.text_columns("Pairs", of="source"),
        *layout.text_columns("Phenomenon", form=lambda name: name.replace("_", " ")),
        *layout.text_columns("Model", form=labels.model),
        *layout.under(
            "Pairs",
            layout.Column(
                "compared", of=("pairs", "identical"), form=lambda n, same: f"{n - same:,}"
            ),
            layout.Column("identical", form=","),
            layout.Column("of equal score", of="undecided", form=","),
        ),
        layout.Column("value", "Accuracy", of="accuracy", form=numbers.shown),
        layout.interval_column(group="Accuracy", of="accuracy_"),
        layout.Column("nats a pair", "H_C", of="contrastive_entropy", form=numbers.shown),
        layout.interval_column(group="H_C"),
        layout.Column("nats a word", "H_C", of="per_word", form=numbers.shown),
        layout.Column(
            "more words",
            "Good side",
            of="length_difference",
            form=partial(numbers.shown_signed, digits=2),
        ),
        layout.Column("shorter", "Good side", of="good_shorter", form=numbers.shown_share),
    ]
    tidy = logarithm_columns(
        rows.reset_index(drop=True), ("contrastive_entropy", "low", "high", "per_word")
    )
    shown_rows = layout.without_repeats(rows.to_dict("records"), "source", "phenomenon")
    return layout.lay_out("pairs", "Good and bad sides of pairs", _NOTE, columns, shown_rows, tidy)


_SHOWN = 8  # lengths of a model; all are in the CSV
_LENGTHS_NOTE = _TEXTS["lengths_note"]


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
    partitions: pd.DataFrame, given_lengths: measure_names.Descriptions, labels: Labels
) -> layout.Table:
    """Make the table of log Z by length: some lengths a model, evenly among the test sentences."""
    names = labels.sort_models(partitions["model"])
    chosen = [_lengths(partitions[partitions["model"] == name]) for name in names]
    rows = pd.concat(chosen).to_dict("records")
    columns = [
        *layout.text_columns("Model", "Proposal", form=lambda name: name and labels.model(name)),
        layout.Column("Length (words)", of="length", form=","),
        layout.Column("Test sentences", of="sentences", form=","),
        layout.Column("estimate", "log Z, nats", of="log_z", form=numbers.shown),
        layout.Column("debiased", "log Z, nats", of="log_z_debiased", form=numbers.shown),
        layout.Column("standard error", "log Z, nats", of="standard_error", form=numbers.shown),
        layout.Column(
            "Effective samples",
            of=("ess", "samples"),
            form=lambda ess, n: f"{numbers.shown(ess, 1)} of {n:,}",
        ),
        layout.Column("Pareto k", of="pareto_k", form=partial(numbers.shown, digits=2)),
    ]
    said = [_say_perplexity(labels.model(name), found) for name, found in given_lengths.items()]
    note = (_LENGTHS_NOTE + " ".join(said)).strip()
    title = "The partition function of models of sentences, by length"
    shown_rows = layout.without_repeats(rows, "model", "proposal")
    return layout.lay_out("partition", title, note, columns, shown_rows, partitions)


def _say_perplexity(name: str, found: Mapping[str, Any]) -> str:
    """Say the perplexity given the lengths, and of how many sentences it is not to be trusted."""
    value, (low, high) = found["perplexity_given_length"], found["interval"]
    number = "∞" if value is None else numbers.shown(value, 2)
    number += f" {numbers.shown_interval(low, high, 2)}" * (low is not None)
    particles = int(found.get("particles", 1))
    runs = f", from runs of {particles:,} particles" if particles > 1 else ""
    return (
        f"{name}: perplexity given the lengths, estimated, {number}{runs}; of "
        f"{found['sentences']:,} sentences {found['sentences_few_effective']:,} have a length with "
        f"fewer than {LEAST_EFFECTIVE:g} effective samples, "
        f"{found['sentences_pareto_k_above']:,} one with a Pareto k above its limit."
    )


# ---- how each pair of models reads by the rule of Table 1 ----

_DIFFERENCE = ("value", "low", "high")
_ACCURACY_COLUMNS = {end: f"accuracy_difference_{end}" for end in _DIFFERENCE}
_COLUMNS = [
    *("unit", "level", "base_level", "first", "second", "reading"),
    *(f"{CONTRASTIVE_ENTROPY}_{name}" for name in _DIFFERENCE),
    *("p_value", "p_adjusted"),
    *(f"{CONTRASTIVE_RATIO}_{name}" for name in _DIFFERENCE),
    *("groups", "note"),
]
_READINGS_NOTE = _TEXTS["readings_note"]


def ordered_readings(differences: pd.DataFrame) -> pd.DataFrame:
    """Read every ordered pair of models at every level that has a ratio to the base level."""
    of_ratio = differences["measure"] == CONTRASTIVE_RATIO
    read_by = {end: differences[f"{end}_adjusted"] for end in _DIFFERENCE[1:]}
    held = {end: differences[end].mask(of_ratio, limit) for end, limit in read_by.items()}
    both = measure_names.both_ways(differences.assign(**held)).iloc[::-1].sort_index(kind="stable")
    entropies, ratios = (
        both[both["measure"] == name]
        .set_index(["unit", "level", "first", "second"])
        .rename(columns={end: f"{name}_{end}" for end in _DIFFERENCE})
        for name in (CONTRASTIVE_ENTROPY, CONTRASTIVE_RATIO)
    )
    ends = [f"{CONTRASTIVE_RATIO}_{end}" for end in _DIFFERENCE]
    found = entropies.drop(columns="base_level").join(ratios[["base_level", *ends]]).reset_index()
    read = [f"{CONTRASTIVE_ENTROPY}_value", "p_adjusted", *ends[1:]]
    found["reading"] = [read_table_1(*row) for row in found[read].itertuples(index=False)]
    has_ratio = found["base_level"].notna() & (found["level"] != found["base_level"])
    return found.loc[has_ratio, _COLUMNS]


def ordered_accuracies(differences: pd.DataFrame) -> pd.DataFrame:
    """Say of every ordered pair whether the first has the higher accuracy; the unit is that."""
    found = measure_names.both_ways(differences[differences["measure"] == PAIRWISE_ACCURACY])
    found = found.rename(columns=_ACCURACY_COLUMNS)
    ways = (found[_ACCURACY_COLUMNS["value"]] > 0).map(HIGHER)
    clear = found["reading"].isin(HIGHER.values())
    return found.assign(unit=PAIRWISE_ACCURACY, reading=found["reading"].mask(clear, ways))


def readings_table(differences: pd.DataFrame, labels: Labels) -> layout.Table:
    """Make Table 1: the reading of every ordered pair of models, a block a unit and level."""
    pairs, accuracies = ordered_readings(differences), ordered_accuracies(differences)
    if len(accuracies):
        own = [*_COLUMNS[:-2], *_ACCURACY_COLUMNS.values(), *_COLUMNS[-2:]]
        pairs = pd.concat([pairs, accuracies])[own]
    models = labels.sort_models({*pairs["first"], *pairs["second"]})
    places = {name: str(place) for place, name in enumerate(models, start=1)}
    said = pairs["reading"].fillna("").replace({ALIKE: _NOT_FOUND})
    keys = zip(*(pairs[name] for name in ("unit", "level", "first", "second")), strict=True)
    read = dict(zip(keys, said, strict=True))
    held = set(zip(pairs["unit"], pairs["level"], pairs["first"], strict=True))
    rows = [
        {
            "unit": title,
            "distortion": measure_names.shown_level(level),
            "no.": places[first],
            "model": labels.model(first),
            **{second: read.get((unit, level, first, second), "") for second in models},
            first: _ALIKE,
        }
        for unit, title in {**measure_names.CONTRAST_UNITS, PAIRWISE_ACCURACY: "accuracy"}.items()
        for level in measure_names.table_levels(pairs["level"].tolist())
        for first in models
        if (unit, level, first) in held
    ]
    columns = [
        *layout.text_columns("Unit", "Distortion"),
        layout.Column("No."),
        *layout.text_columns("Model"),
        *(
            layout.Column(place, "against model no.", text=True, of=name)
            for name, place in places.items()
        ),
    ]
    title = "Table 1: What contrastive entropy and its ratio say of each pair of models"
    shown_rows = layout.without_repeats(rows, "unit", "distortion")
    return layout.lay_out("contrastive_readings", title, _READINGS_NOTE, columns, shown_rows, pairs)
