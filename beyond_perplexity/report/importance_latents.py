"""What latents are found, and which words they help with."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from beyond_perplexity.corpus.latent_instances import document_of
from beyond_perplexity.errors import NothingToShowError
from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.inference.exchanged_units import EFFECTIVE_GROUPS
from beyond_perplexity.inference.intervals import ratio_interval, sum_groups
from beyond_perplexity.models.families import FAMILIES
from beyond_perplexity.report.layout import Column, Table

_COUNTS = ["annotated", "found", "matched", "same_entity"]
_SOURCES = {"posterior": "under the posterior", "proposal": "of the proposal itself"}
_PARTICLES = "smc"  # how the posterior was drawn from, in column `method`
_METHODS = {
    _PARTICLES: "particles",
    "importance_sampling": "weighted samples",
    "samples": "samples",
}

_LATENTS_NOTE = (
    "Means over samples, summed over instances (micro-averages); the interval is over "
    f"documents by the jackknife, and there is none with fewer than {EFFECTIVE_GROUPS} "
    "effective ones. A mention is found where it has exactly the annotated words. Its entity "
    "is right where it has the annotated name or, of entities that are numbered in a document, "
    "where it refers back to the same mention, or to none. Phrases of trees have several words "
    "and are not the whole sentence; labels do not count; both trees are as the model has them "
    "(a binary model: the annotation is binarized too). The latents of the posterior are "
    "weighted: with few effective ones they are those of the proposal that fit best. The "
    "annotation is what the model was trained on, made by a program where the tables say so; it is "
    "without the mentions that the model's maximum_length (words) and maximum_entities leave out."
)

_WORDS_NOTE = (
    "With latent variables: log p̂(x) of one run of particles is the sum of what each word adds "
    "to log p̂(x_1, ..., x_t), which is summed here over the words inside annotated mentions, "
    "over the others, and over the ends. So the parts add up to an estimate of the same kind "
    "as sequential Monte Carlo has, while each part alone is an estimate and no bound: what a "
    "resampling loses is charged to the word where it shows. The annotation only says which "
    "words are counted; particles do not see it. Without latent "
    "variables ('beside'): exact, on the same words. A model that does not go word by word has "
    "no row; trees have no mentions."
)


def _share(part: float, whole: float) -> float:
    return part / whole if whole else math.nan


def _agreement(rows: pd.DataFrame, unit: str) -> dict[str, Any]:
    """Compute what the spans of some instances have in common with the annotation."""
    held = rows.dropna(subset=_COUNTS)
    documents = np.array([document_of(number, unit) for number in held["instance_id"]])
    annotated, found, matched, same = held[_COUNTS].sum().astype(float)
    entities = rows["structure"].iloc[0] == "mentions"
    double = (2 * held["matched"]).to_numpy(float)
    both = (held["found"] + held["annotated"]).to_numpy(float)
    interval = None
    if both.sum():
        top, bottom = sum_groups(documents, double, both)
        interval = ratio_interval(top, bottom)
    return {
        "structure": rows["structure"].iloc[0],
        "n_instances": len(held),
        "annotated": annotated,
        "found": found,
        "precision": _share(matched, found),
        "recall": _share(matched, annotated),
        "f1": math.nan if interval is None else interval.value,
        "f1_low": math.nan if interval is None else interval.low,
        "f1_high": math.nan if interval is None else interval.high,
        "entity_accuracy": _share(same, matched) if entities else math.nan,
        "effective_median": float(rows["effective"].median()),
    }


def _percent(value: float) -> str:
    return "–" if math.isnan(value) else f"{100 * value:.1f}"


def latents_table(posteriors: pd.DataFrame, labels: Labels) -> Table:
    """Lay out how far latents agree with the annotation."""
    if posteriors.empty:
        raise NothingToShowError("there are no latents to compare; draw more instances")
    records, rows = [], []
    keys = ["model", "proposal", "source"]
    for (model, proposal, source), group in posteriors.groupby(keys, sort=False):
        family = labels.families.get(str(model), str(model))
        unit = FAMILIES[family].unit if family in FAMILIES else "document"
        method = _METHODS[group["method"].iloc[0]]
        found: dict[str, Any] = {
            "model": model,
            "proposal": proposal,
            "source": source,
            "method": method,
        }
        found |= {"n_samples": int(group["n_samples"].max()), **_agreement(group, unit)}
        records.append(found)
        effective = found["effective_median"]
        interval = f"{_percent(found['f1_low'])} to {_percent(found['f1_high'])}"
        rows.append(
            [
                str(model),
                f"{proposal}, {_SOURCES[str(source)]}",
                f"{found['n_samples']:,} {method}",
                "–" if pd.isna(effective) else f"{effective:,.1f}",
                str(found["structure"]),
                f"{found['annotated']:,.0f}",
                f"{found['found']:,.1f}",
                *(_percent(found[name]) for name in ("precision", "recall", "f1")),
                "–" if math.isnan(found["f1_low"]) else interval,
                _percent(found["entity_accuracy"]),
            ]
        )
    columns = [
        *(Column(title, text=True) for title in ("Model", "Latents", "From")),
        Column("Effective, median"),
        Column("of", group="Spans", text=True),
        Column("annotated", group="Spans"),
        Column("found", group="Spans"),
        *(Column(title, group="Agreement, %") for title in ("precision", "recall", "F1")),
        Column("95% interval", group="Agreement, %"),
        Column("Right entity, %"),
    ]
    title = "Latents under the posterior and of the proposals, against the annotation"
    return Table("importance-latents", title, _LATENTS_NOTE, columns, rows, pd.DataFrame(records))


# ---- words ----


def _classes(rows: pd.DataFrame) -> dict[str, tuple[float, int]]:
    """Sum log-likelihoods and counts of words inside mentions, of other words, and of ends."""
    inside = rows["n_inside"].notna()
    held = rows[inside]
    end = rows["log_likelihood_end"].astype(float)
    counted = (rows["n_tokens"] > rows["n_words"]).to_numpy()
    words = rows["log_likelihood"].astype(float) - np.where(counted, end, 0.0)
    within = held["log_likelihood_inside"].astype(float).sum()
    n_inside = int(held["n_inside"].sum())
    return {
        "inside": (float(within), n_inside),
        "outside": (float(words[inside].sum() - within), int(held["n_words"].sum()) - n_inside),
        "words": (float(words.sum()), int(rows["n_words"].sum())),
        "end": (float(end.sum()), len(rows)),
    }


def _word_record(model: str, by: str, rows: pd.DataFrame) -> dict[str, Any]:
    found: dict[str, Any] = {"model": model, "by": by, "n_instances": len(rows)}
    for name, (total, count) in _classes(rows).items():
        found[f"n_{name}"] = count
        found[f"log_likelihood_{name}"] = total
        found[f"perplexity_{name}"] = math.exp(-total / count) if count else math.nan
    return found


def _word_records(
    posteriors: pd.DataFrame, beside: pd.DataFrame | None, labels: Labels
) -> Iterator[dict[str, Any]]:
    """Decompose log p̂ of every model by its runs of particles, then log p of those beside it."""
    runs = posteriors[(posteriors["source"] == "posterior") & (posteriors["method"] == _PARTICLES)]
    for model, own in runs.groupby("model", sort=False):
        for proposal, rows in own.groupby("proposal", sort=False):
            finite = rows[rows["log_likelihood"].notna()]
            if len(finite) == len(rows):
                yield _word_record(str(model), f"{proposal}, particles", finite)
        if beside is None:
            continue
        for name, rows in beside[beside["model"] == model].groupby("beside", sort=False):
            same = rows["instance_id"].isin(set(own["instance_id"]))
            yield _word_record(str(model), f"{labels.model(str(name))}, beside", rows[same])


def words_table(posteriors: pd.DataFrame, beside: pd.DataFrame | None, labels: Labels) -> Table:
    """Lay out perplexity of words inside annotated mentions and of the others."""
    records = list(_word_records(posteriors, beside, labels))
    rows = []
    for found in records:
        cells = [found["model"], found["by"]]
        for name in ("inside", "outside", "words"):
            value = found[f"perplexity_{name}"]
            cells += [f"{found[f'n_{name}']:,}"] if name != "words" else []
            cells.append("–" if math.isnan(value) else f"{value:,.1f}")
        ends = -found["log_likelihood_end"] / found["n_end"]
        rows.append([*map(str, cells), f"{ends:.2f}"])
    columns = [
        *(Column(title, text=True) for title in ("Instances of", "Scored by")),
        *(Column(title, group="Words inside mentions") for title in ("words", "perplexity")),
        *(Column(title, group="Other words") for title in ("words", "perplexity")),
        Column("perplexity", group="All words"),
        Column("nats each", group="Ends"),
    ]
    title = "Words inside annotated mentions and other words"
    return Table("importance-words", title, _WORDS_NOTE, columns, rows, pd.DataFrame(records))
