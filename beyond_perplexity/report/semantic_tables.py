"""Tables I and II of the semantic evaluation paper with its values, and every measure.

Its values are copied by hand, each of the validation and of the test split; similarities are
multiplied by 100. What repeats and what contradicts itself in them is in `PUBLISHED_FAULTS`; all
are given as printed. The text at hand names neither title nor authors: it is cited as "the paper".
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.figures.measure_names import (
    SPLIT_TITLES,
    MeasureName,
    evaluator_family,
    evaluator_title,
    measure_title,
    pick_predicted,
    shown_split,
    sort_measures,
    sort_splits,
)
from beyond_perplexity.figures.numbers import shown, shown_interval, shown_range, shown_share
from beyond_perplexity.report.layout import Column, Table
from beyond_perplexity.schemas.semantics import PREDICTED, PROPER, SAMPLED, WORDS_EVALUATOR
from beyond_perplexity.semantics.measures import CROSS_ENTROPY, MEASURES
from beyond_perplexity.verdicts import facts_of

PAPER_MEASURES = (
    *("bleu_2", "bleu_3", "bleu_4", "cosine", "wmd"),
    *("infersent", "skipthought", "transformer", "perplexity"),
)
# What the paper calls its models, by their family.
_PAPER_FAMILIES = {"gru": "GRU", "lstm": "LSTM", "transformer-adaptive-softmax": "Transformer"}
_SCHEDULED = "-SS"
PAPER_MODELS = ("GRU", "GRU-SS", "LSTM", "LSTM-SS", "Transformer")
PAPER_SPLITS = ("valid", "test")

_PRINTED = {
    "Table I (Penn Treebank)": """
24.12/25.98 11.54/12.76 7.71/7.83 69.63/68.20 78.31/79.53 80.52/82.59 87.10/91.23 83.02/81.48 91.45/86.12
26.40/26.11 12.79/13.14 8.56/9.51 72.59/74.19 80.93/80.16 88.48/90.10 92.14/93.72 85.09/82.02 87.21/82.08
26.09/26.20 12.56/12.24 8.34/8.91 68.91/70.08 81.04/80.23 82.01/84.91 84.02/84.33 82.77/82.03 89.32/83.27
27.90/28.63 13.15/13.87 8.80/9.04 73.59/72.48 81.43/82.78 84.42/85.06 90.28/91.70 86.10/86.24 84.71/81.11
31.49/30.29 14.08/14.82 9.12/9.35 72.09/71.16 79.20/76.25 90.63/91.52 88.02/89.50 84.10/84.55 82.07/79.83
""",  # noqa: E501  lines of the paper
    "Table II (WikiText-2)": """
16.24/16.63 7.02/7.71 4.09/4.68 65.30/63.08 74.95/75.49 76.91/78.02 81.27/79.43 80.22/82.76 148.62/132.90
16.90/17.07 7.56/7.98 4.35/4.85 67.01/65.48 75.22/75.86 83.78/85.93 84.11/86.03 81.27/79.43 141.31/127.80
16.58/16.84 7.31/7.76 4.09/4.68 64.15/61.59 76.71/78.03 80.02/76.37 81.90/79.68 81.26/81.52 150.02/137.11
17.82/17.49 8.18/8.02 4.09/4.68 69.42/71.09 77.22/80.11 82.01/83.17 83.20/85.41 83.15/85.79 141.66/135.19
17.49/17.83 7.25/7.70 3.59/3.85 69.24/72.47 76.95/78.20 82.12/88.28 80.43/84.69 87.35/85.71 120.31/117.98
""",  # noqa: E501
}

PUBLISHED_FAULTS = (
    "In Table II BLEU-4 of GRU, LSTM and LSTM-SS is the same in both splits (4.09/4.68), and "
    "SkipThought of GRU is Transformer of GRU-SS (81.27/79.43). The caption of Table I says that "
    "perplexity is left out, but it stands there. The text says that the supervised evaluator "
    "scores lower: InferSent is below SkipThought in 15 of 20 cells, below Transformer in 11. The "
    "text has a cosine of .82 become .8; equation 13 makes .55 of it, and .88 of 1."
)


class PaperCell(NamedTuple):
    """A printed pair of numbers, of validation and test, as printed."""

    valid: float
    test: float


def _parse(text: str) -> dict[str, dict[str, PaperCell]]:
    rows = [line.split() for line in text.strip().splitlines()]
    cells = [[PaperCell(*map(float, cell.split("/"))) for cell in row] for row in rows]
    return {
        model: dict(zip(PAPER_MEASURES, row, strict=True))
        for model, row in zip(PAPER_MODELS, cells, strict=True)
    }


PUBLISHED_SEMANTICS = {table: _parse(text) for table, text in _PRINTED.items()}
# What a CSV calls them.
COLUMN_OF_TABLE = dict(
    zip(_PRINTED, ("published_penn_treebank", "published_wikitext_2"), strict=True)
)


def paper_model(description: Mapping[str, Any]) -> str | None:
    """Return the paper's model that a model (its ``model.json``) is the counterpart of."""
    name = _PAPER_FAMILIES.get(str(description.get("family")), "")
    name += _SCHEDULED if is_scheduled(description) else ""
    return name if name in PAPER_MODELS else None


def is_scheduled(description: Mapping[str, Any]) -> bool:
    """Tell whether a model was trained on its own words as well."""
    given = description.get("training", {}).get("scheduled_sampling")
    return given not in (None, "none")


def scheduled_pairs(models: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Pair models of one architecture and vocabulary: without scheduled sampling, with it."""

    def rest(description: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple(description.get(key) for key in ("family", "config", "vocabulary"))

    return [
        (plain, other)
        for plain, one in models.items()
        for other, two in models.items()
        if not is_scheduled(one) and is_scheduled(two) and rest(one) == rest(two)
    ]


def published_wins(table: str) -> tuple[int, int]:
    """Count the printed similarities that scheduled sampling makes higher, and all."""
    held = PUBLISHED_SEMANTICS[table]
    pairs = [
        (held[name][measure][split], held[f"{name}-SS"][measure][split])
        for name in ("GRU", "LSTM")
        for measure in PAPER_MEASURES[:-1]
        for split in range(len(PAPER_SPLITS))
    ]
    return sum(scheduled > plain for plain, scheduled in pairs), len(pairs)


def published_lower(measure: str, than: str) -> tuple[int, int]:
    """Count the printed cells in which a measure is below another, and all, of both tables."""
    pairs = [
        (row[measure][split], row[than][split])
        for held in PUBLISHED_SEMANTICS.values()
        for row in held.values()
        for split in range(len(PAPER_SPLITS))
    ]
    return sum(one < two for one, two in pairs), len(pairs)


_Models = Mapping[str, Mapping[str, Any]]

# The paper's columns: what they are called, families of evaluators that give them, the measure; of
# InferSent that of equation 6 where an evaluator was trained for it, else the cosine.
_WORD_VECTORS = ("vectors", "word2vec")
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


def _in_paper(column: str, value: float) -> float:
    """Put a value on the paper's scale: percent, or a perplexity."""
    return math.exp(value) if column == "perplexity" else 100 * value


def _own_row(
    rows: pd.DataFrame, names: Mapping[str, MeasureName], splits: Sequence[str]
) -> list[str]:
    cells = []
    for column in PAPER_MEASURES:
        evaluator, measure = names.get(column, ("", ""))
        own = rows[(rows["evaluator"] == evaluator) & (rows["measure"] == measure)]
        values = dict(zip(own["split"], own["value"], strict=True))
        texts = [
            shown(None if pd.isna(value) else _in_paper(column, value), 2) or "–"
            for value in (values.get(split, math.nan) for split in splits)
        ]
        cells.append("" if column not in names else " / ".join(texts))
    return cells


def paper_table(semantics: pd.DataFrame, models: _Models, labels: Labels) -> Table:
    """Make Tables I and II: models by measures as the paper has them, its numbers below ours.

    The paper's lines stand only where the data are the paper's.
    """
    shown_split(semantics["split"])
    rows = semantics[semantics["kind"] == PREDICTED]
    names, splits = paper_names(rows, labels), sort_splits(rows["split"])
    body = []
    for model in labels.sort_models(rows["model"]):
        own = _own_row(rows[rows["model"] == model], names, splits)
        body.append([labels.model(model), *["this run"] * labels.published, *own])
        counterpart = paper_model(models.get(model, {}))
        for table, printed in PUBLISHED_SEMANTICS.items():
            if counterpart and labels.published:
                row = printed[counterpart]
                cells = [f"{row[c].valid:.2f} / {row[c].test:.2f}" for c in PAPER_MEASURES]
                body.append(["", f"{counterpart}, {table}", *cells])
    heads = [
        Column("Model", text=True),
        *[Column("of", text=True)] * labels.published,
        *(Column(PAPER_COLUMNS[column][0]) for column in PAPER_MEASURES),
    ]
    evaluators = "; ".join(
        f"{PAPER_COLUMNS[column][0]} by {evaluator_title(name, labels)}"
        f"{' (trained head, equation 6)' if measure == 'head' else ''}"
        for column, (name, measure) in names.items()
        if name != WORDS_EVALUATOR
    )
    note = (
        f"Each cell: {' / '.join(SPLIT_TITLES.get(s, s) for s in splits)}. Predictions: the "
        "likeliest word at each place after the true words before it. Similarities times 100; "
        "BLEU over all sentences; Cosine by equation 13, Transformer by equation 9; perplexity of "
        f"these sentences' words in their documents. {evaluators}. Without floors these numbers "
        "say little: see the table of all measures."
    )
    tidy = _paper_tidy(rows, names, models)
    title = "Tables I and II: predictions against targets"
    said = (
        "Tables I and II are the paper's, with evaluators of its own: compare the pattern, not the "
        f"digits. {PUBLISHED_FAULTS}"
    )
    return Table("semantics_paper", title, note, heads, body, tidy, said)


def _paper_tidy(
    rows: pd.DataFrame, names: Mapping[str, MeasureName], models: _Models
) -> pd.DataFrame:
    """List our value, on the paper's scale, and its two for each cell."""
    columns = {name: column for column, name in names.items()}
    records = []
    for row in rows.to_dict("records"):
        column = columns.get((row["evaluator"], row["measure"]))
        if column is None:
            continue
        known = not pd.isna(row["value"])
        record = {
            "model": row["model"],
            "split": row["split"],
            "column": column,
            "evaluator": row["evaluator"],
            "value": _in_paper(column, row["value"]) if known else math.nan,
        }
        counterpart = paper_model(models.get(row["model"], {}))
        for table, printed in PUBLISHED_SEMANTICS.items():
            cell = printed[counterpart][column]._asdict() if counterpart else {}
            record[COLUMN_OF_TABLE[table]] = cell.get(row["split"], math.nan)
        records.append(record)
    return pd.DataFrame(records)


# ---- all measures ----


def _with_interval(row: Mapping[Any, Any] | None, name: str = "value") -> str:
    if row is None or pd.isna(row[name]):
        return ""
    limits = ("low", "high") if name == "value" else (f"{name}_low", f"{name}_high")
    return f"{shown(row[name])} {shown_interval(*(row[limit] for limit in limits))}".strip()


def _notes_of(rows: pd.DataFrame, labels: Labels) -> str:
    """Say each fact about measures once, with the models that it is said of."""
    said: dict[str, dict[str, None]] = {}
    for row in rows.to_dict("records"):
        for fact in facts_of(row["note"] or ""):
            said.setdefault(fact, {})[labels.model(row["model"])] = None
    return " ".join(f"{', '.join(models)}: {fact}." for fact, models in said.items())


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
    """Say of each measure in a line what it is, its range, direction, floor and evaluators."""
    rows = pick_predicted(semantics, shown_split(semantics["split"]))
    owners: dict[str, dict[str, None]] = {}
    for evaluator, measure in sort_measures(rows["name"]):
        if measure in MEASURES:
            owners.setdefault(measure, {})[evaluator_title(evaluator, labels)] = None
    body, tidy = [], []
    for measure, held in owners.items():
        row, floors = MEASURES[measure], rows.loc[rows["measure"] == measure, "floor"]
        equation = f" (equation {row.equation})" if row.equation else ""
        better = "higher" if row.higher else "lower"
        ends = shown(row.low, 2) or "0", "∞" if math.isinf(row.high) else shown(row.high, 2)
        cells = [row.title, f"{row.words}{equation}", ", ".join(held), " to ".join(ends), better]
        body.append([*cells, shown_range(floors) or "none", row.caution])
        tidy.append({"measure": measure, "words": row.words, "low": row.low, "high": row.high})
        tidy[-1] |= {"higher": row.higher, "floor_low": floors.min(), "floor_high": floors.max()}
    heads = [Column("Measure", text=True), Column("What it is", wraps=True)]
    heads += [Column("by", wraps=True), Column("Range", text=True), Column("Better", text=True)]
    heads += [Column("Floor"), Column("What it does not say", wraps=True)]
    note = (
        "Floor: what predictions get against unrelated sentences of like length, the lowest and "
        "the highest of the models and evaluators of this run. Ranges are with the paper's "
        "constants."
    )
    title = "Measures of meaning, in a line each"
    return Table("semantics_measures", title, note, heads, body, pd.DataFrame(tidy))


def values_table(semantics: pd.DataFrame, labels: Labels) -> Table:
    """Make the table of all values: each model's beside its floor.

    A row a measure, of the test split where there is one; all are in the CSV.
    """
    split = shown_split(semantics["split"])
    rows = semantics[semantics["split"] == split]
    found = {
        (r["evaluator"], r["measure"], r["kind"], r["model"]): r for r in rows.to_dict("records")
    }
    models = labels.sort_models(rows["model"])
    proper = any(kind == PROPER for _, _, kind, _ in found)
    body = []
    for name in sort_measures(pick_predicted(semantics, split)["name"]):
        line = [measure_title(name, labels)]
        for model in models:
            own = {kind: found.get((*name, kind, model)) for kind in (PREDICTED, SAMPLED, PROPER)}
            held = own[PREDICTED]
            line += [_with_interval(held), shown(held["floor"] if held else None)]
            line += [_with_interval(held, "excess"), _with_interval(own[SAMPLED])]
            line += [_with_interval(own[PROPER])] if proper else []
        body.append(line)
    own_heads = ["likeliest words", "floor", "above the floor", "samples"]
    own_heads += ["proper"] * proper
    heads = [Column("Measure", text=True)]
    heads += [Column(title, labels.model(model)) for model in models for title in own_heads]
    note = (
        f"Of the {SPLIT_TITLES.get(split, split)} split, with 95% intervals over documents or "
        "groups of them. Likeliest words: the prediction is the likeliest word at each place; "
        "floor: what the same predictions get against unrelated sentences of like length; samples: "
        "the expected score of words drawn from the model's distribution at each place; proper: "
        "that less half of what samples score against one another, which no model can have higher "
        "in expectation than the true distribution. The mean of BLEU over sentences is in the CSV "
        "(sentence_mean). "
        f"{_unknown(rows, labels)} {_notes_of(rows[rows['kind'] == PREDICTED], labels)}"
    )
    title = "All values, with their floors"
    return Table("semantics_values", title, note.strip(), heads, body, semantics)
