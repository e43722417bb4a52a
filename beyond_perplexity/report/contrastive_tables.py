"""Tables 2 and 3 of the contrastive entropy paper beside its values, and cross-entropy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pandas as pd

from beyond_perplexity.errors import NothingToShowError
from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.figures.measure_names import (
    CONTRAST_UNITS,
    LOGARITHMS,
    Descriptions,
    by_key,
    normalized_models,
    pick_contrasts,
    shown_level,
    table_levels,
    training_margins,
)
from beyond_perplexity.figures.numbers import shown, shown_interval, shown_share
from beyond_perplexity.inference.weight_diagnostics import LEAST_EFFECTIVE
from beyond_perplexity.report import layout
from beyond_perplexity.report.published import (
    COLUMN,
    OWN,
    PAPER,
    PUBLISHED_CONTRASTS,
    PublishedContrasts,
)
from beyond_perplexity.schemas import contrastive

_TEXTS = layout.texts_beside("contrastive_tables.toml")
CONTRAST_NOTE = _TEXTS["contrast_note"]


def published_contrasts(models: Descriptions) -> dict[str, PublishedContrasts]:
    """Find the rows of the paper that models (``model.json`` by name) are the counterparts of."""
    margins, found = training_margins(models), {}
    for name, model in models.items():
        made = model.get("config", {}).get("architecture", {})
        said = [made.get("order"), "classes" if made.get("classes") else None]
        if trained := margins.get(name):
            said = [trained.size, f"{trained.margin:g}"]
        key = " ".join(str(part) for part in (model.get("family"), *said) if part)
        if key in PUBLISHED_CONTRASTS:
            found[name] = PUBLISHED_CONTRASTS[key]
    return found


INTERVAL_NOTE = _TEXTS["interval_note"]
SCALE_NOTE = _TEXTS["scale_note"]
_ACCURACY_NOTE = _TEXTS["accuracy_note"]
_LOGARITHM_NOTE = "In nats; bits and log10 are in the CSV."
_UNIT_NOTE = _TEXTS["unit_note"]
_BOUND_NOTE = _TEXTS["bound_note"]
_WITHOUT = " ◇"


def logarithm_columns(rows: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Add to columns of nats the same ones in bits and in log10, and name all three."""
    units = LOGARITHMS.items()
    others = {f"{name}_{unit}": rows[name] / size for unit, size in units for name in names}
    return rows.rename(columns={name: f"{name}_nats" for name in names}).assign(**others)


def _notes(rows: pd.DataFrame, labels: Labels) -> str:
    pairs = zip(rows["model"], rows["note"], strict=True)
    return layout.said_once((labels.model(model), note) for model, note in pairs if note)


def _perplexities(perplexities: Descriptions, given_lengths: Descriptions) -> pd.DataFrame:
    """Return what a table says of the perplexity of each model, which is the index."""
    rows = {}
    for name, result in perplexities.items():
        limits = result.get("interval", {}).get("perplexity", {}).get("word", (None, None))
        what = "of the words and the end of each document"
        rows[name] = (result["perplexity"]["word"], *limits, what)
    for name, result in given_lengths.items():
        what = f"given the lengths, a stochastic {result['bound']} bound"
        rows[name] = (result["perplexity_given_length"], *result["interval"], what)
    names = ["perplexity", "perplexity_low", "perplexity_high", "perplexity_is"]
    found = pd.DataFrame.from_dict(rows, "index", columns=names)
    return found.assign(perplexity=found["perplexity"].astype(float).fillna(math.inf))


def _mean(row: Mapping[Any, Any]) -> str:
    if not row or pd.isna(row["value"]):
        return ""
    deviation = "" if pd.isna(row["deviation"]) else f" ± {shown(row['deviation'])}"
    return shown(row["value"]) + deviation


def _interval(row: Mapping[Any, Any]) -> str:
    return shown_interval(row["low"], row["high"]) if row else ""


def _level_columns(rows: pd.DataFrame, titles: Mapping[float, str]) -> list[layout.Column]:
    """Make three columns for each level: mean over draws, interval, published value."""
    held = by_key(rows, "unit", "model", "level")

    def at(line: Mapping[str, Any], level: float) -> dict[Any, Any]:
        return held.get((line["unit"], line["model"], level), {})

    columns = []
    for level, title in titles.items():
        of = partial(at, level=level)
        columns += [
            layout.Column(f"{OWN} ±", title, of=of, form=_mean),
            layout.Column("95% interval", title, of=of, form=_interval),
            layout.Column(
                PAPER, title, published=True, of=of, form=lambda row: shown(row.get(COLUMN))
            ),
        ]
    return columns


_NAME_COLUMN = layout.Column("its name in the paper", text=True, published=True, of="named")


def _with_published(rows: pd.DataFrame, papers: Mapping[str, PublishedContrasts]) -> pd.DataFrame:
    """Add the paper's value to every row of a model in the unit that the paper has it in."""
    found: list[float | None] = []
    for row in rows.to_dict("records"):
        paper = papers.get(row["model"])
        printed = paper and paper.find(row["measure"], row["level"], row["base_level"])
        found.append(printed if paper and paper.unit == row["unit"] else None)
    return rows.assign(**{COLUMN: pd.Series(found, rows.index, dtype=float)})


def _distrust(given_lengths: Descriptions, labels: Labels) -> str:
    """Name the models whose partition function rests on few samples."""
    few = [
        f"{labels.model(name)} ({found['sentences_few_effective']:,} of {found['sentences']:,})"
        for name, found in given_lengths.items()
        if found["sentences_few_effective"]
    ]
    least = f"with fewer than {LEAST_EFFECTIVE:g} effective samples of Z"
    said = f"Not to be trusted where sentences have a length {least}: {', '.join(few)}. "
    return said if few else ""


def entropy_table(
    contrasts: pd.DataFrame,
    models: Descriptions,
    perplexities: Descriptions,
    given_lengths: Descriptions,
    labels: Labels,
) -> layout.Table:
    """Make Table 2: perplexity, and contrastive entropy at each level of distortion."""
    papers, known = published_contrasts(models), normalized_models(contrasts)
    named = {(name, paper.unit): paper.title for name, paper in papers.items()}
    rows = _with_published(pick_contrasts(contrasts, contrastive.CONTRASTIVE_ENTROPY), papers)
    found = _perplexities(perplexities, given_lengths)
    lines = [
        {"unit": unit, "title": title, "model": model, "named": named.get((model, unit), "")}
        for unit, title in CONTRAST_UNITS.items()
        for model in labels.sort_models(rows.loc[rows["unit"] == unit, "model"])
    ]
    levels = table_levels(rows["level"].tolist())

    def perplexity(model: str) -> str:
        bounded = "est. " if model in given_lengths else ""
        return bounded + shown(found["perplexity"][model], 2) if model in found.index else ""

    def printed(line: Mapping[str, Any]) -> str:
        known = papers[line["model"]].perplexity if line["named"] else None
        return f"{known:.2f}" if known else ""

    columns = [
        layout.Column("Unit", text=True, of="title"),
        layout.Column(
            "Model", text=True, form=lambda n: labels.model(n) + ("" if n in known else _WITHOUT)
        ),
        layout.Column(OWN, "Perplexity per word", of="model", form=perplexity),
        layout.Column(PAPER, "Perplexity per word", published=True, of=printed),
        _NAME_COLUMN,
        *_level_columns(rows, {level: f"H_C at {shown_level(level)}" for level in levels}),
    ]
    bound = f"{_BOUND_NOTE} {_distrust(given_lengths, labels)}" if given_lengths else ""
    note = (
        "H_C: the mean loss of log score when the test text is distorted; higher tells text from "
        f"noise better, at one scale. {_LOGARITHM_NOTE} {_UNIT_NOTE} {INTERVAL_NOTE} {bound}"
        f"{SCALE_NOTE} {_notes(rows, labels)}"
    ).strip()
    tidy = logarithm_columns(rows, ("value", "low", "high", "deviation")).join(found, on="model")
    tidy[f"{COLUMN}_perplexity"] = rows["model"].map(
        {name: paper.perplexity for name, paper in papers.items()}
    )
    title, told = "Table 2: Perplexity and contrastive entropy", {"published_note": CONTRAST_NOTE}
    shown_lines = layout.without_repeats(lines, "title")
    return layout.lay_out("contrastive_entropy", title, note, columns, shown_lines, tidy, **told)


def ratio_table(contrasts: pd.DataFrame, models: Descriptions, labels: Labels) -> layout.Table:
    """Make Table 3: the ratio of contrastive entropy to that at the base level, and accuracy."""
    papers = published_contrasts(models)
    right = contrasts[contrasts["measure"] == contrastive.PAIRWISE_ACCURACY]
    rows = contrasts[contrasts["measure"] == contrastive.CONTRASTIVE_RATIO]
    if len(rows) or right.empty:  # of a single level there is none
        rows = pick_contrasts(contrasts, contrastive.CONTRASTIVE_RATIO)
    rows = _with_published(rows[rows["level"] != rows["base_level"]], papers)
    base = shown_level(float(rows["base_level"].iloc[0])) if len(rows) else ""
    names = labels.sort_models(pd.concat([rows["model"], right["model"]]))
    # N cancels, so that a row of the unit that the paper has stands for both.
    lines = [
        {"model": name, "named": paper.title if paper else ""}
        | {"unit": paper.unit if paper else "sentence"}
        for name, paper in zip(names, map(papers.get, names), strict=True)
    ]
    levels = table_levels(rows["level"].tolist())
    titles = {level: f"H_CR, {shown_level(level)} to {base}" for level in levels}
    right = pick_contrasts(right, contrastive.PAIRWISE_ACCURACY) if len(right) else right
    shown = table_levels(right["level"].tolist())
    accuracies = {level: f"Accuracy at {shown_level(level)}" for level in shown}
    columns = [*layout.text_columns("Model", form=labels.model), _NAME_COLUMN]
    columns += _level_columns(rows, titles)
    both = pd.concat([right.assign(unit=unit) for unit in CONTRAST_UNITS])  # as lines have it
    columns += [one for one in _level_columns(both, accuracies) if not one.published]
    ratio = (
        "H_CR: H_C over that at the base level; it has no unit, is the same per word and per "
        "sentence, and stays when scores are scaled. It is no measure of quality alone: see "
        "Table 1. "
    )
    shown_rows = pd.concat([rows, right]) if len(right) else rows
    note = (
        f"{ratio if len(rows) else ''}{_ACCURACY_NOTE if len(right) else ''}{INTERVAL_NOTE} "
        f"{_notes(rows if len(rows) else right, labels)}"
    ).strip()
    printed = (
        f"{CONTRAST_NOTE} The 50% to 10% that is printed for sRNN-75(10), 5.257, is not the ratio "
        "of its printed H_C, which is 4.707."
    )
    return layout.lay_out(
        "contrastive_ratio",
        "Table 3: Ratio of contrastive entropy to that at the base level",
        note,
        columns,
        lines,
        shown_rows,
        published_note=printed,
    )


_PARTS_NOTE = _TEXTS["parts_note"]


def parts_table(contrasts: pd.DataFrame, labels: Labels) -> layout.Table:
    """Make the table of what H_C has of each event, and of the parts of an event."""
    rows = contrasts[
        (contrasts["measure"] == contrastive.CONTRASTIVE_PART) & (contrasts["unit"] == "sentence")
    ]
    if rows.empty:
        raise NothingToShowError("the contrasts were not split by event")
    # of an event and of its parts, so that all are counted twice
    whole = rows.groupby("model")["value"].transform("sum") / 2
    hit = rows["value"] * rows["sentences"] * rows["draws"] / rows["words_hit"]
    rows = rows.assign(share_of_entropy=rows["value"] / whole, per_event=hit)
    order = rows["model"].map(labels.sort_models(rows["model"]).index)
    rows = rows.iloc[order.argsort(kind="stable")]
    columns = [
        *layout.text_columns("Model", form=labels.model),
        *layout.text_columns("Event", of="event", form=lambda name: name or ""),
        layout.Column("nats a sentence", "H_C", of="value", form=shown),
        layout.interval_column(group="H_C"),
        layout.Column("share", "H_C", of="share_of_entropy", form=shown_share),
        layout.Column("Words hit", of="words_hit", form=partial(shown, digits=0)),
        layout.Column("nats a word hit", of="per_event", form=shown),
    ]
    level = shown_level(float(rows["level"].iloc[0]))
    shown_rows = layout.without_repeats(rows.to_dict("records"), "model")
    title = f"H_C at {level} by event, frequency and distance"
    return layout.lay_out("contrastive_parts", title, _PARTS_NOTE, columns, shown_rows, rows)


def cross_entropy_table(contrasts: pd.DataFrame, labels: Labels) -> layout.Table:
    """Make the table of the cross-entropy per sentence (equation 6) and per word."""
    rows = contrasts[contrasts["measure"] == contrastive.SENTENCE_CROSS_ENTROPY]
    found = by_key(rows, "unit", "model")

    def value(model: str, unit: str, size: float) -> str:
        return shown(found[unit, model]["value"] / size if (unit, model) in found else None)

    columns = [layout.Column("Model", text=True, of=labels.model)]
    for unit in reversed(CONTRAST_UNITS):
        sizes = {"nats": 1, **LOGARITHMS}.items()
        nats, *others = (
            layout.Column(name, of=partial(value, unit=unit, size=x)) for name, x in sizes
        )
        of = partial(lambda unit, model: found.get((unit, model), {}), unit)
        interval = layout.Column("95% interval", of=of, form=_interval)
        columns += layout.under(f"Cross-entropy {CONTRAST_UNITS[unit]}", nats, interval, *others)
    note = (
        "Minus the log-likelihood of the test text, with the end of each sentence (or document) "
        "that the model scores, by the number of sentences (equation 6 of the paper, which has a "
        "minus where an equals sign is meant) and by that of words. It compares models of one "
        f"vocabulary. {_notes(rows, labels)}"
    ).strip()
    tidy = logarithm_columns(rows, ("value", "low", "high"))
    models = labels.sort_models(rows["model"])
    return layout.lay_out(
        "cross_entropy", "Cross-entropy per sentence", note, columns, models, tidy
    )
