"""Tables 2 and 3 of the contrastive entropy paper beside its values, and cross-entropy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.figures.measure_names import (
    CONTRAST_UNITS,
    LOGARITHMS,
    TrainedOn,
    normalized_models,
    pick_contrasts,
    shown_level,
    table_levels,
    training_margins,
)
from beyond_perplexity.figures.numbers import shown, shown_interval
from beyond_perplexity.inference.weight_diagnostics import LEAST_EFFECTIVE
from beyond_perplexity.report.layout import Column, Table, lay_out, under, without_repeats
from beyond_perplexity.report.published import (
    COLUMN,
    OWN,
    PAPER,
    PUBLISHED_CONTRASTS,
    PublishedContrasts,
)
from beyond_perplexity.schemas.contrastive import (
    CONTRASTIVE_ENTROPY,
    CONTRASTIVE_RATIO,
    SENTENCE_CROSS_ENTROPY,
)

CONTRAST_NOTE = (
    "Columns 'published': Arora & Rangarajan 2016, on the Penn Treebank (82,000 test words, 10,000 "
    "types), in a logarithm that they do not name; of sentence RNNs their program prints 2 to the "
    "power of H_C: compare the pattern, not the digits."
)

Descriptions = Mapping[str, Mapping[str, Any]]


def published_contrasts(models: Descriptions) -> dict[str, PublishedContrasts]:
    """Find the rows of the paper that models (``model.json`` by name) are the counterparts of."""
    margins = training_margins(models)
    keys = {name: _key(model, margins.get(name)) for name, model in models.items()}
    return {n: PUBLISHED_CONTRASTS[key] for n, key in keys.items() if key in PUBLISHED_CONTRASTS}


def _key(model: Mapping[str, Any], margin: TrainedOn | None) -> str:
    """Name a model as the rows are named: by family and what the paper says of it."""
    family, architecture = str(model.get("family")), model.get("config", {}).get("architecture", {})
    if margin:
        return f"{family} {margin.size} {margin.margin:g}"
    order, classes = architecture.get("order"), "classes" if architecture.get("classes") else None
    return " ".join(str(part) for part in (family, order, classes) if part)


INTERVAL_NOTE = (
    "± is the standard deviation over draws of the distortion. Interval: 95%, of the mean over "
    "draws, jackknife over documents (or groups of them)."
)
SCALE_NOTE = (
    "Scores of models without a likelihood (marked ◇) have a scale of their own: multiplied by k, "
    "H_C is k times as large and H_CR stays."
)
_LOGARITHM_NOTE = "In nats; bits and log10 are in the CSV."
_UNIT_NOTE = (
    "Per word: sums of log scores by the number of words; per sentence: by that of sentences. "
    "Only numbers of one unit compare."
)
_BOUND_NOTE = (
    "≥: given the lengths of the sentences, and so without their ends, which all others have; from "
    "an estimate of log Z that is too low in expectation, so that this perplexity is too."
)
_WITHOUT = " ◇"


def logarithm_columns(rows: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Add to columns of nats the same ones in bits and in log10, and name all three."""
    others = {
        f"{name}_{unit}": rows[name] / size for unit, size in LOGARITHMS.items() for name in names
    }
    return rows.rename(columns={name: f"{name}_nats" for name in names}).assign(**others)


def _notes(rows: pd.DataFrame, labels: Labels) -> str:
    """List each remark once, with the models that it is of."""
    said: dict[str, dict[str, None]] = {}
    for row in rows[["model", "note"]].to_dict("records"):
        if row["note"]:
            said.setdefault(str(row["note"]), {})[labels.model(row["model"])] = None
    return " ".join(f"{', '.join(models)}: {note}." for note, models in said.items())


def _perplexities(
    perplexities: Descriptions, given_lengths: Descriptions
) -> dict[str, dict[str, Any]]:
    """Return what a table says of the perplexity of each model."""
    told = {}
    for name, result in perplexities.items():
        limits = result.get("interval", {}).get("perplexity", {}).get("word", (None, None))
        what = "of the words and the end of each document"
        told[name] = (result["perplexity"]["word"], *limits, what, "")
    for name, result in given_lengths.items():
        what = f"given the lengths, a stochastic {result['bound']} bound"
        told[name] = (result["perplexity_given_length"], *result["interval"], what, "≥ ")
    return {
        name: {
            "perplexity": math.inf if value is None else float(value),
            "perplexity_low": low,
            "perplexity_high": high,
            "perplexity_is": what,
            "bounded": bounded,
        }
        for name, (value, low, high, what, bounded) in told.items()
    }


def _mean(row: Mapping[Any, Any] | None) -> str:
    if row is None or pd.isna(row["value"]):
        return ""
    deviation = row["deviation"]
    return shown(row["value"]) + ("" if pd.isna(deviation) else f" ± {shown(deviation)}")


def _interval(row: Mapping[Any, Any] | None) -> str:
    return "" if row is None else shown_interval(row["low"], row["high"])


def _level_columns(rows: pd.DataFrame, titles: Mapping[float, str]) -> list[Column]:
    """Make three columns for each level: mean over draws, interval, published value."""
    records = rows.to_dict("records")
    held = {(row["unit"], row["model"], float(row["level"])): row for row in records}

    def found(row: Mapping[Any, Any], level: float) -> dict[Any, Any] | None:
        return held.get((row["unit"], row["model"], level))

    def printed(row: Mapping[Any, Any], level: float) -> str:
        one, paper = found(row, level), row["paper"]
        return shown(
            paper.find(one["measure"], level, one["base_level"]) if paper and one else None
        )

    return [
        column
        for level, title in titles.items()
        for column in under(
            title,
            Column(f"{OWN} ±", of=lambda row, level=level: _mean(found(row, level))),
            Column("95% interval", of=lambda row, level=level: _interval(found(row, level))),
            Column(PAPER, published=True, of=lambda row, level=level: printed(row, level)),
        )
    ]


_NAME_COLUMN = Column(
    "its name in the paper",
    text=True,
    published=True,
    of=lambda row: row["paper"].title if row["paper"] else "",
)


def _of_unit(
    papers: Mapping[str, PublishedContrasts], model: str, unit: str
) -> PublishedContrasts | None:
    """Return the paper's row of a model, if its numbers are of that unit."""
    paper = papers.get(model)
    return paper if paper and paper.unit == unit else None


def _with_published(rows: pd.DataFrame, papers: Mapping[str, PublishedContrasts]) -> pd.DataFrame:
    """Add the paper's value to every row that it has one for."""
    found: list[float | None] = []
    for row in rows.to_dict("records"):
        paper = _of_unit(papers, row["model"], row["unit"])
        base = row["base_level"]
        found.append(paper.find(row["measure"], row["level"], base) if paper else None)
    return rows.assign(**{COLUMN: pd.Series(found, rows.index, dtype=float)})


def _with_perplexities(
    rows: pd.DataFrame,
    found: Mapping[str, Mapping[str, Any]],
    papers: Mapping[str, PublishedContrasts],
) -> pd.DataFrame:
    """Add the perplexity of its model to every row, and the paper's."""
    names = ["perplexity", "perplexity_low", "perplexity_high", "perplexity_is"]
    records = [found.get(name, {}) for name in rows["model"]]
    own = pd.DataFrame(records, index=rows.index, columns=names)
    printed = [papers[n].perplexity if n in papers else None for n in rows["model"]]
    column = pd.Series(printed, rows.index, dtype=float)
    return pd.concat([rows, own, column.rename(f"{COLUMN}_perplexity")], axis=1)


def _distrust(given_lengths: Descriptions, labels: Labels) -> str:
    """Name the models whose partition function rests on few samples."""
    few = [
        f"{labels.model(name)} ({found['sentences_few_effective']:,} of {found['sentences']:,})"
        for name, found in given_lengths.items()
        if found["sentences_few_effective"]
    ]
    least = f"with fewer than {LEAST_EFFECTIVE:g} effective samples of Z"
    return (
        f"Not to be trusted where sentences have a length {least}: {', '.join(few)}. "
        if few
        else ""
    )


def _perplexity_columns(found: Mapping[str, Mapping[str, Any]]) -> list[Column]:
    """Show the perplexity of a row's model, and the paper's."""

    def published(row: Mapping[str, Any]) -> str:
        known = row["paper"] and row["paper"].perplexity
        return f"{known:.2f}" if known else ""

    def own(one: Mapping[str, Any] | None) -> str:
        return one["bounded"] + shown(one["perplexity"], 2) if one else ""

    return under(
        "Perplexity per word",
        Column(OWN, of=lambda row: found.get(row["model"]), form=own),
        Column(PAPER, published=True, of=published),
    )


def entropy_table(
    contrasts: pd.DataFrame,
    models: Descriptions,
    perplexities: Descriptions,
    given_lengths: Descriptions,
    labels: Labels,
) -> Table:
    """Make Table 2: perplexity, and contrastive entropy at each level of distortion.

    The descriptions say which row of the paper a model is the counterpart of; `given_lengths` is
    what is known of the perplexity of a model without likelihood.
    """
    rows = pick_contrasts(contrasts, CONTRASTIVE_ENTROPY)
    papers, known = published_contrasts(models), normalized_models(contrasts)
    found = _perplexities(perplexities, given_lengths)
    lines = [
        {"unit": unit, "title": title, "model": model, "paper": _of_unit(papers, model, unit)}
        for unit, title in CONTRAST_UNITS.items()
        for model in labels.sort_models(rows.loc[rows["unit"] == unit, "model"])
    ]
    levels = table_levels(rows["level"].tolist())
    columns = [
        Column("Unit", text=True, of="title"),
        Column(
            "Model",
            text=True,
            of="model",
            form=lambda n: labels.model(n) + _WITHOUT * (n not in known),
        ),
        *_perplexity_columns(found),
        _NAME_COLUMN,
        *_level_columns(rows, {level: f"H_C at {shown_level(level)}" for level in levels}),
    ]
    bound = f"{_BOUND_NOTE} {_distrust(given_lengths, labels)}" if given_lengths else ""
    note = (
        "H_C: the mean loss of log score when the test text is distorted; higher tells text from "
        f"noise better, at one scale. {_LOGARITHM_NOTE} {_UNIT_NOTE} {INTERVAL_NOTE} {bound}"
        f"{SCALE_NOTE} {_notes(rows, labels)}"
    ).strip()
    tidy = logarithm_columns(_with_published(rows, papers), ("value", "low", "high", "deviation"))
    return lay_out(
        "contrastive_entropy",
        "Table 2: Perplexity and contrastive entropy",
        note,
        columns,
        without_repeats(lines, "title"),
        _with_perplexities(tidy, found, papers),
        published_note=CONTRAST_NOTE,
    )


def ratio_table(contrasts: pd.DataFrame, models: Descriptions, labels: Labels) -> Table:
    """Make Table 3: the ratio of contrastive entropy to that at the base level."""
    rows = pick_contrasts(contrasts, CONTRASTIVE_RATIO)
    rows = rows[rows["level"] != rows["base_level"]]
    levels, papers = table_levels(rows["level"].tolist()), published_contrasts(models)
    base = shown_level(float(rows["base_level"].iloc[0])) if len(rows) else ""
    # N cancels, so that a row of the unit that the paper has stands for both.
    lines = [
        {"model": model, "paper": paper, "unit": paper.unit if paper else "sentence"}
        for model in labels.sort_models(rows["model"])
        for paper in [papers.get(model)]
    ]
    titles = {level: f"H_CR, {shown_level(level)} to {base}" for level in levels}
    note = (
        "H_CR: H_C over that at the base level; it has no unit, is the same per word and per "
        "sentence, and stays when scores are scaled. It is no measure of quality alone: see "
        f"Table 1. {INTERVAL_NOTE} {_notes(rows, labels)}"
    ).strip()
    printed = (
        f"{CONTRAST_NOTE} The 50% to 10% that is printed for sRNN-75(10), 5.257, is not the ratio "
        "of its printed H_C, which is 4.707."
    )
    model = Column("Model", text=True, of="model", form=labels.model)
    return lay_out(
        "contrastive_ratio",
        "Table 3: Ratio of contrastive entropy to that at the base level",
        note,
        [model, _NAME_COLUMN, *_level_columns(rows, titles)],
        lines,
        _with_published(rows, papers),
        published_note=printed,
    )


def cross_entropy_table(contrasts: pd.DataFrame, labels: Labels) -> Table:
    """Make the table of the cross-entropy per sentence (equation 6) and per word."""
    rows = contrasts[contrasts["measure"] == SENTENCE_CROSS_ENTROPY]
    found = {(row["unit"], row["model"]): row for row in rows.to_dict("records")}

    def value(model: str, unit: str, size: float) -> str:
        return shown(found[unit, model]["value"] / size if (unit, model) in found else None)

    columns = [Column("Model", text=True, of=labels.model)]
    for unit in reversed(CONTRAST_UNITS):
        columns += under(
            f"Cross-entropy {CONTRAST_UNITS[unit]}",
            Column("nats", of=lambda model, unit=unit: value(model, unit, 1)),
            Column("95% interval", of=lambda model, unit=unit: _interval(found.get((unit, model)))),
            *(
                Column(name, of=lambda model, unit=unit, size=size: value(model, unit, size))
                for name, size in LOGARITHMS.items()
            ),
        )
    note = (
        "Minus the log-likelihood of the test text, with the end of each sentence (or document) "
        "that the model scores, by the number of sentences (equation 6 of the paper, which has a "
        "minus where an equals sign is meant) and by that of words. It compares models of one "
        f"vocabulary. {_notes(rows, labels)}"
    ).strip()
    tidy = logarithm_columns(rows, ("value", "low", "high"))
    models = labels.sort_models(rows["model"])
    return lay_out("cross_entropy", "Cross-entropy per sentence", note, columns, models, tidy)
