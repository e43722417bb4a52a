"""Tables I and II of the semantic evaluation paper with its values, and every measure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pandas as pd

from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.figures.measure_names import (
    SPLIT_TITLES,
    Descriptions,
    MeasureName,
    by_key,
    evaluator_family,
    evaluator_title,
    measure_title,
    pick_predicted,
    shown_split,
    sort_measures,
    sort_splits,
)
from beyond_perplexity.figures.numbers import shown, shown_interval, shown_range, shown_share
from beyond_perplexity.report.layout import Column, Table, lay_out, said_once, text_columns
from beyond_perplexity.report.published import PAPER_MEASURES, PAPER_MODELS, PUBLISHED_SEMANTICS
from beyond_perplexity.schemas.semantics import PREDICTED, PROPER, SAMPLED, WORDS_EVALUATOR
from beyond_perplexity.semantics.measures import CROSS_ENTROPY, MEASURES
from beyond_perplexity.verdicts import facts_of

# What the paper calls its models, by their family.
_PAPER_FAMILIES = {"gru": "GRU", "lstm": "LSTM", "transformer-adaptive-softmax": "Transformer"}
_SCHEDULED = "-SS"
PUBLISHED_FAULTS = (
    "In Table II BLEU-4 of GRU, LSTM and LSTM-SS is the same in both splits (4.09/4.68), and "
    "SkipThought of GRU is Transformer of GRU-SS (81.27/79.43). The text says that the supervised "
    "evaluator scores lower: InferSent is below SkipThought in 15 of 20 cells, below Transformer "
    "in 11. The text has a cosine of .82 become .8; equation 13 makes .55 of it, and .88 of 1."
)
# What a CSV calls the paper's tables.
COLUMN_OF_TABLE = dict(
    zip(PUBLISHED_SEMANTICS, ("published_penn_treebank", "published_wikitext_2"), strict=True)
)


def paper_model(description: Mapping[str, Any]) -> str | None:
    """Return the paper's model that a model (its ``model.json``) is the counterpart of."""
    name = _PAPER_FAMILIES.get(str(description.get("family")), "")
    name += _SCHEDULED if is_scheduled(description) else ""
    return name if name in PAPER_MODELS else None


def is_scheduled(description: Mapping[str, Any]) -> bool:
    """Tell whether a model was trained on its own words as well."""
    return description.get("training", {}).get("scheduled_sampling") not in (None, "none")


def scheduled_pairs(models: Descriptions) -> list[tuple[str, str]]:
    """Pair models of one architecture and vocabulary: without scheduled sampling, with it."""

    def rest(description: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple(description.get(key) for key in ("family", "config", "vocabulary"))

    return [
        (plain, other)
        for plain, one in models.items()
        for other, two in models.items()
        if not is_scheduled(one) and is_scheduled(two) and rest(one) == rest(two)
    ]


_WORD_VECTORS = ("vectors", "word2vec")
# The paper's columns: what they are called, families of evaluators that give them, the measure; of
# InferSent that of equation 6 where an evaluator was trained for it, else the cosine.
PAPER_COLUMNS: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "bleu_2": ("BLEU-2", (WORDS_EVALUATOR,), ("bleu_2",)),
    "bleu_3": ("BLEU-3", (WORDS_EVALUATOR,), ("bleu_3",)),
    "bleu_4": ("BLEU-4", (WORDS_EVALUATOR,), ("bleu_4",)),
    "cosine": ("Cosine", _WORD_VECTORS, ("cosine_scaled",)),
    "wmd": ("WMD", _WORD_VECTORS, ("wmd",)),
    "infersent": ("InferSent", ("infersent",), ("head", "similarity")),
    "skipthought": ("SkipThought", ("skipthought",), ("similarity",)),
    "transformer": ("Transformer", ("transformer",), ("inner",)),
    "perplexity": ("Perplexity", (WORDS_EVALUATOR,), (CROSS_ENTROPY,)),
}


def paper_names(rows: pd.DataFrame, labels: Labels) -> dict[str, MeasureName]:
    """Find what the run has for each column of the paper; of several evaluators the first."""
    found: dict[str, MeasureName] = {}
    for column, (_, families, measures) in PAPER_COLUMNS.items():
        for measure in measures:
            for evaluator in dict.fromkeys(rows.loc[rows["measure"] == measure, "evaluator"]):
                if evaluator_family(evaluator, labels) in families:
                    found.setdefault(column, (str(evaluator), measure))
    return found


def paper_table(semantics: pd.DataFrame, models: Descriptions, labels: Labels) -> Table:
    """Make Tables I and II: our numbers, and the paper's below where the data are the paper's."""
    shown_split(semantics["split"])
    rows = semantics[semantics["kind"] == PREDICTED]
    names, splits = paper_names(rows, labels), sort_splits(rows["split"])
    tidy = _paper_tidy(rows, names, models)
    found = by_key(tidy, "model", "column", "split")

    def ours(model: str, column: str) -> str:
        own = (found.get((model, column, split), {}).get("value") for split in splits)
        return " / ".join(shown(value, 2) or "–" for value in own) if column in names else ""

    lines: list[dict[str, str]] = []
    for model in labels.sort_models(rows["model"]):
        own = {column: ours(model, column) for column in PAPER_MEASURES}
        lines.append({"model": labels.model(model), "of": "this run", **own})
        counterpart = paper_model(models.get(model, {}))
        for table, printed in PUBLISHED_SEMANTICS.items() if labels.published else ():
            if counterpart:
                pairs = printed[counterpart].items()
                cells = {name: f"{cell.valid:.2f} / {cell.test:.2f}" for name, cell in pairs}
                lines.append({"model": "", "of": f"{counterpart}, {table}", **cells})
    columns = [
        *text_columns("Model", *["of"] * labels.published),
        *(Column(PAPER_COLUMNS[name][0], of=name) for name in PAPER_MEASURES),
    ]
    evaluators = "; ".join(
        f"{PAPER_COLUMNS[column][0]} by {evaluator_title(name, labels)}"
        f"{' (trained head, equation 6)' if measure == 'head' else ''}"
        for column, (name, measure) in names.items()
        if name != WORDS_EVALUATOR
    )
    note = (
        f"Each cell: {' / '.join(SPLIT_TITLES.get(s, s) for s in splits)}. Predictions: the "
        "argmax word at each position after the true words before it. Similarities times 100; "
        "BLEU over all sentences; Cosine by equation 13, Transformer by equation 9; perplexity of "
        f"these sentences' words in their documents. {evaluators}. Without baselines these numbers "
        "say little: see the table of all measures."
    )
    title = "Tables I and II: predictions against targets"
    said = (
        "Tables I and II are the paper's, with evaluators of its own: compare the pattern, not the "
        f"digits. {PUBLISHED_FAULTS}"
    )
    return lay_out("semantics_paper", title, note, columns, lines, tidy, published_note=said)


def _paper_tidy(
    rows: pd.DataFrame, names: Mapping[str, MeasureName], models: Descriptions
) -> pd.DataFrame:
    """List our value, on the paper's scale, and its two for each cell."""
    columns = {name: column for column, name in names.items()}
    records = []
    for row in rows.to_dict("records"):
        column, value = columns.get((row["evaluator"], row["measure"])), row["value"]
        if column is None:
            continue
        counterpart = paper_model(models.get(row["model"], {}))
        record = {name: row[name] for name in ("model", "split")}
        record |= {"column": column, "evaluator": row["evaluator"]}
        # On the paper's scale: percent, or a perplexity.
        record["value"] = math.exp(value) if column == "perplexity" else 100 * value
        for table, printed in PUBLISHED_SEMANTICS.items():
            cell = printed[counterpart][column]._asdict() if counterpart else {}
            record[COLUMN_OF_TABLE[table]] = cell.get(row["split"], math.nan)
        records.append(record)
    return pd.DataFrame(records)


# ---- all measures ----


def _range(measure: str) -> str:
    row = MEASURES[measure]
    high = "∞" if math.isinf(row.high) else shown(row.high, 2)
    return f"{shown(row.low, 2) or '0'} to {high}"


def _with_interval(row: Mapping[Any, Any], name: str = "value") -> str:
    if pd.isna(row.get(name)):
        return ""
    limits = ("low", "high") if name == "value" else (f"{name}_low", f"{name}_high")
    return f"{shown(row[name])} {shown_interval(*(row[limit] for limit in limits))}".strip()


def _notes_of(rows: pd.DataFrame, labels: Labels) -> str:
    """Say each fact about measures once, with the models that it is said of."""
    notes = zip(rows["model"], rows["note"].fillna(""), strict=True)
    return said_once((labels.model(n), fact) for n, note in notes for fact in facts_of(note))


def _unknown(rows: pd.DataFrame, labels: Labels) -> str:
    known = rows.dropna(subset="unknown_target").drop_duplicates("model")
    parts = [
        f"{labels.model(row['model'])} {shown_share(row['unknown_target'])} and "
        f"{shown_share(row['unknown_predicted'])}"
        for row in known.to_dict("records")
    ]
    return (
        "Words that the models' vocabularies lack, of the targets and of the predictions: "
        f"{', '.join(parts)}; they match nothing."
        if parts
        else ""
    )


def measures_table(semantics: pd.DataFrame, labels: Labels) -> Table:
    """Say of each measure in a line what it is, its range, direction, baseline and evaluators."""
    rows = pick_predicted(semantics, shown_split(semantics["split"]))
    owners: dict[str, list[str]] = {}
    for evaluator, measure in sort_measures(rows["name"]):
        if measure in MEASURES:
            owners.setdefault(measure, []).append(evaluator_title(evaluator, labels))
    baselines = {measure: rows.loc[rows["measure"] == measure, "baseline"] for measure in owners}
    tidy = [
        {
            "measure": measure,
            **{name: getattr(row, name) for name in ("words", "low", "high", "higher")},
            "baseline_low": baselines[measure].min(),
            "baseline_high": baselines[measure].max(),
        }
        for measure, row in ((name, MEASURES[name]) for name in owners)
    ]

    def words(measure: str) -> str:
        row = MEASURES[measure]
        return row.words + (f" (equation {row.equation})" if row.equation else "")

    columns = [
        *text_columns("Measure", of=lambda name: MEASURES[name].title),
        Column("What it is", wraps=True, of=words),
        Column("by", wraps=True, of=lambda name: ", ".join(dict.fromkeys(owners[name]))),
        *text_columns("Range", of=_range),
        *text_columns("Better", of=lambda name: "higher" if MEASURES[name].higher else "lower"),
        Column("Baseline", of=lambda name: shown_range(baselines[name]) or "none"),
        Column("What it does not say", wraps=True, of=lambda name: MEASURES[name].caution),
    ]
    note = (
        "Baseline: what predictions get against unrelated sentences of like length, the lowest and "
        "the highest of the models and evaluators of this run. Ranges are with the paper's "
        "constants."
    )
    title = "Measures of meaning, in a line each"
    return lay_out("semantics_measures", title, note, columns, owners, pd.DataFrame(tidy))


def values_table(semantics: pd.DataFrame, labels: Labels) -> Table:
    """Make the table of all values, each model's beside its baseline: a row a measure."""
    split = shown_split(semantics["split"])
    rows = semantics[semantics["split"] == split]
    found = by_key(rows, "evaluator", "measure", "kind", "model")
    names = sort_measures(pick_predicted(semantics, split)["name"])
    kinds: list[tuple[str, str, Callable[..., str]]] = [
        ("argmax words", PREDICTED, _with_interval),
        ("baseline", PREDICTED, lambda row: shown(row.get("baseline"))),
        ("above the baseline", PREDICTED, partial(_with_interval, name="excess")),
        ("samples", SAMPLED, _with_interval),
    ]
    kinds += [("proper", PROPER, _with_interval)] * (PROPER in set(rows["kind"]))
    columns = [Column("Measure", text=True, of=lambda name: measure_title(name, labels))]
    for model in labels.sort_models(rows["model"]):
        for title, kind, write in kinds:
            of = partial(lambda kind, model, n: found.get((*n, kind, model), {}), kind, model)
            columns.append(Column(title, labels.model(model), of=of, form=write))
    note = (
        f"Of the {SPLIT_TITLES.get(split, split)} split, with 95% intervals over documents or "
        "groups of them. Argmax words: the prediction is the argmax word at each position; "
        "baseline: the same predictions against unrelated sentences of like length; samples: "
        "the expected score of words drawn from the model's distribution at each position; proper: "
        "that less half of what samples score against one another, which no model can have higher "
        "in expectation than the true distribution. The mean of BLEU over sentences is in the CSV "
        "(sentence_mean). "
        f"{_unknown(rows, labels)} {_notes_of(rows[rows['kind'] == PREDICTED], labels)}"
    ).strip()
    title = "All values, with their baselines"
    return lay_out("semantics_values", title, note, columns, names, semantics)
