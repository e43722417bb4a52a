"""Tables 2 and 3 of the contrastive entropy paper with its values, and its cross-entropy.

The values are copied by hand from Arora, Rangarajan (2016), Contrastive Entropy: A new evaluation
metric for unnormalized language models, arXiv:1601.00248: of sections 23 and 24 of the Penn
Treebank's Wall Street Journal (82,000 tokens), 10,000 words. The base of the logarithm is printed
nowhere; H_C is per word of the models of words, per sentence of those of sentences. The authors'
program for the latter prints H_C of each draw, and last 2 to the power of their mean: which of them
the tables have cannot be told. Of sRNN-75(10) the ratio at 50% is not that of Table 2, 4.71.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.figures.measure_names import (
    CONTRAST_UNITS,
    LOGARITHMS,
    PAPER_LEVELS,
    TrainedOn,
    normalized_models,
    pick_contrasts,
    shown_level,
    table_levels,
    training_margins,
)
from beyond_perplexity.figures.numbers import shown, shown_interval
from beyond_perplexity.inference.weight_diagnostics import LEAST_EFFECTIVE
from beyond_perplexity.report.layout import Column, Table
from beyond_perplexity.schemas.contrastive import (
    CONTRASTIVE_ENTROPY,
    CONTRASTIVE_RATIO,
    SENTENCE_CROSS_ENTROPY,
)

CONTRAST_CITATION = "Arora & Rangarajan 2016"
CONTRAST_COLUMN = "published"
CONTRAST_NOTE = (
    f"Columns 'published': {CONTRAST_CITATION}, on the Penn Treebank (82,000 test words, 10,000 "
    "types), in a logarithm that they do not name; of sentence RNNs their program prints 2 to the "
    "power of H_C: compare the pattern, not the digits."
)


class PublishedContrasts(NamedTuple):
    """A row of both tables, with the paper's name of the model and the unit of its entropies.

    Entropies are at `PAPER_LEVELS`, ratios those of the levels after the first to the first; the
    perplexity is None where the paper has a dash.
    """

    title: str
    unit: str
    perplexity: float | None
    entropies: tuple[float, ...]
    ratios: tuple[float, ...]

    def find(self, measure: str, level: float, base_level: float | None = None) -> float | None:
        """Return the printed value of a measure at a level; None where there is none."""
        levels = PAPER_LEVELS if measure == CONTRASTIVE_ENTROPY else PAPER_LEVELS[1:]
        values = self.entropies if measure == CONTRASTIVE_ENTROPY else self.ratios
        if measure != CONTRASTIVE_ENTROPY and not _same(base_level, PAPER_LEVELS[0]):
            return None
        return next((v for at, v in zip(levels, values, strict=True) if _same(at, level)), None)


def _same(one: float | None, other: float) -> bool:
    return one is not None and math.isclose(one, other)


PUBLISHED_CONTRASTS = {
    "kneser-ney 3": PublishedContrasts(
        "3-gram KN", "word", 148.28, (1.993, 4.179, 5.279), (2.096, 2.649)
    ),
    "kneser-ney 5": PublishedContrasts(
        "5-gram KN", "word", 141.46, (2.021, 4.198, 5.308), (2.077, 2.626)
    ),
    "rnn classes": PublishedContrasts("RNN", "word", 141.31, (2.546, 5.339, 6.609), (2.097, 2.596)),
    "sentence-rnn 75 0.5": PublishedContrasts(
        "sRNN-75(50)", "sentence", None, (1.978, 3.961, 6.477), (2.002, 3.275)
    ),
    "sentence-rnn 75 0.1": PublishedContrasts(
        "sRNN-75(10)", "sentence", None, (2.339, 6.759, 11.01), (2.890, 5.257)
    ),
    "sentence-rnn 150 0.1": PublishedContrasts(
        "sRNN-150(10)", "sentence", None, (2.547, 7.581, 12.925), (2.976, 5.074)
    ),
}


def published_contrasts(
    models: Mapping[str, Mapping[str, Any]],
) -> dict[str, PublishedContrasts]:
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


Descriptions = Mapping[str, Mapping[str, Any]]

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
_OWN, _PUBLISHED = "this run", "published"


def logarithm_columns(rows: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Add to columns of nats the same ones in bits and in log10, and name all three."""
    others = {
        f"{name}_{unit}": rows[name] / size for unit, size in LOGARITHMS.items() for name in names
    }
    return rows.rename(columns={name: f"{name}_nats" for name in names}).assign(**others)


def _rows_of_units(rows: pd.DataFrame, labels: Labels) -> list[tuple[str, str]]:
    """List unit and model of every row of a table: unit by unit, models as the labels sort them."""
    return [
        (unit, model)
        for unit in CONTRAST_UNITS
        for model in labels.sort_models(rows.loc[rows["unit"] == unit, "model"])
    ]


def _found(rows: pd.DataFrame) -> dict[tuple[str, str, float], dict[Any, Any]]:
    records = rows.to_dict("records")
    return {(row["unit"], row["model"], float(row["level"])): row for row in records}


def _mean(row: Mapping[Any, Any] | None) -> str:
    if row is None or pd.isna(row["value"]):
        return ""
    deviation = row["deviation"]
    return shown(row["value"]) + ("" if pd.isna(deviation) else f" ± {shown(deviation)}")


def _interval(row: Mapping[Any, Any] | None) -> str:
    return "" if row is None else shown_interval(row["low"], row["high"])


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
    found: dict[str, dict[str, Any]] = {}
    for name, result in perplexities.items():
        value = result["perplexity"]["word"]
        low, high = result.get("interval", {}).get("perplexity", {}).get("word", (None, None))
        found[name] = {
            "perplexity": math.inf if value is None else float(value),
            "perplexity_low": low,
            "perplexity_high": high,
            "perplexity_is": "of the words and the end of each document",
            "bounded": "",
        }
    for name, result in given_lengths.items():
        value, (low, high) = result["perplexity_given_length"], result["interval"]
        found[name] = {
            "perplexity": math.inf if value is None else float(value),
            "perplexity_low": low,
            "perplexity_high": high,
            "perplexity_is": f"given the lengths, a stochastic {result['bound']} bound",
            "bounded": "≥ ",
        }
    return found


def _level_cells(
    found: Mapping[tuple[str, str, float], dict[Any, Any]],
    unit: str,
    model: str,
    levels: Sequence[float],
    paper: PublishedContrasts | None,
) -> list[str]:
    """Write three cells for each level: mean over draws, interval, published value."""
    cells = []
    for level in levels:
        row = found.get((unit, model, level))
        printed = paper.find(row["measure"], level, row["base_level"]) if paper and row else None
        cells += [_mean(row), _interval(row), shown(printed)]
    return cells


def _level_heads(titles: Sequence[str]) -> list[Column]:
    return [
        column
        for title in titles
        for column in (
            Column(f"{_OWN} ±", title),
            Column("95% interval", title),
            Column(_PUBLISHED, title, published=True),
        )
    ]


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
    return rows.assign(**{CONTRAST_COLUMN: pd.Series(found, rows.index, dtype=float)})


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
    return pd.concat([rows, own, column.rename(f"{CONTRAST_COLUMN}_perplexity")], axis=1)


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


def _entropy_body(
    rows: pd.DataFrame,
    levels: Sequence[float],
    known: set[str],
    papers: Mapping[str, PublishedContrasts],
    perplexities: Mapping[str, Mapping[str, Any]],
    labels: Labels,
) -> list[list[str]]:
    """Lay out the rows of Table 2: unit by unit, a row for each model."""
    found, body, before = _found(rows), [], None
    for unit, model in _rows_of_units(rows, labels):
        paper, own = _of_unit(papers, model, unit), perplexities.get(model)
        body.append(
            [
                "" if unit == before else CONTRAST_UNITS[unit],
                labels.model(model) + ("" if model in known else _WITHOUT),
                own["bounded"] + shown(own["perplexity"], 2) if own else "",
                f"{paper.perplexity:.2f}" if paper and paper.perplexity else "",
                paper.title if paper else "",
                *_level_cells(found, unit, model, levels, paper),
            ]
        )
        before = unit
    return body


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
    levels, papers = table_levels(rows["level"].tolist()), published_contrasts(models)
    found = _perplexities(perplexities, given_lengths)
    body = _entropy_body(rows, levels, normalized_models(contrasts), papers, found, labels)
    heads = [
        Column("Unit", text=True),
        Column("Model", text=True),
        Column(_OWN, "Perplexity per word"),
        Column(_PUBLISHED, "Perplexity per word", published=True),
        Column("its name in the paper", text=True, published=True),
        *_level_heads([f"H_C at {shown_level(level)}" for level in levels]),
    ]
    bound = f"{_BOUND_NOTE} {_distrust(given_lengths, labels)}" if given_lengths else ""
    note = (
        "H_C: the mean loss of log score when the test text is distorted; higher tells text from "
        f"noise better, at one scale. {_LOGARITHM_NOTE} {_UNIT_NOTE} {INTERVAL_NOTE} {bound}"
        f"{SCALE_NOTE} {_notes(rows, labels)}"
    )
    tidy = logarithm_columns(_with_published(rows, papers), ("value", "low", "high", "deviation"))
    title = "Table 2: Perplexity and contrastive entropy"
    tidy = _with_perplexities(tidy, found, papers)
    return Table("contrastive_entropy", title, note.strip(), heads, body, tidy, CONTRAST_NOTE)


def ratio_table(contrasts: pd.DataFrame, models: Descriptions, labels: Labels) -> Table:
    """Make Table 3: the ratio of contrastive entropy to that at the base level."""
    rows = pick_contrasts(contrasts, CONTRASTIVE_RATIO)
    rows = rows[rows["level"] != rows["base_level"]]
    levels, papers = table_levels(rows["level"].tolist()), published_contrasts(models)
    base = shown_level(float(rows["base_level"].iloc[0])) if len(rows) else ""
    # N cancels, so that a row of the unit that the paper has stands for both.
    at, body = _found(rows), []
    for model in labels.sort_models(rows["model"]):
        paper = papers.get(model)
        unit = paper.unit if paper else "sentence"
        cells = _level_cells(at, unit, model, levels, paper)
        body.append([labels.model(model), paper.title if paper else "", *cells])
    heads = [
        Column("Model", text=True),
        Column("its name in the paper", text=True, published=True),
        *_level_heads([f"H_CR, {shown_level(level)} to {base}" for level in levels]),
    ]
    tidy = _with_published(rows, papers)
    note = (
        "H_CR: H_C over that at the base level; it has no unit, is the same per word and per "
        "sentence, and stays when scores are scaled. It is no measure of quality alone: see "
        f"Table 1. {INTERVAL_NOTE} {_notes(rows, labels)}"
    )
    printed = (
        f"{CONTRAST_NOTE} The 50% to 10% that is printed for sRNN-75(10), 5.257, is not the ratio "
        "of its printed H_C, which is 4.707."
    )
    title = "Table 3: Ratio of contrastive entropy to that at the base level"
    return Table("contrastive_ratio", title, note.strip(), heads, body, tidy, printed)


def cross_entropy_table(contrasts: pd.DataFrame, labels: Labels) -> Table:
    """Make the table of the cross-entropy per sentence (equation 6) and per word."""
    rows = contrasts[contrasts["measure"] == SENTENCE_CROSS_ENTROPY]
    found = {(row["unit"], row["model"]): row for row in rows.to_dict("records")}
    heads, body = [Column("Model", text=True)], []
    for unit in reversed(CONTRAST_UNITS):
        group = f"Cross-entropy {CONTRAST_UNITS[unit]}"
        heads += [Column(title, group) for title in ("nats", "95% interval", *LOGARITHMS)]
    for model in labels.sort_models(rows["model"]):
        cells = [labels.model(model)]
        for unit in reversed(CONTRAST_UNITS):
            row = found.get((unit, model))
            value = math.nan if row is None else float(row["value"])
            others = [shown(value / size) for size in LOGARITHMS.values()]
            cells += [shown(value), _interval(row), *others]
        body.append(cells)
    tidy = logarithm_columns(rows, ("value", "low", "high"))
    note = (
        "Minus the log-likelihood of the test text, with the end of each sentence (or document) "
        "that the model scores, by the number of sentences (equation 6 of the paper, which has a "
        "minus where an equals sign is meant) and by that of words. It compares models of one "
        f"vocabulary. {_notes(rows, labels)}"
    )
    title = "Cross-entropy per sentence"
    return Table("cross_entropy", title, note.strip(), heads, body, tidy)
