"""What tables and figures pick from their rows, and how they call measures."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from beyond_perplexity.errors import InputError, NothingToShowError
from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.models.families import FAMILIES
from beyond_perplexity.schemas.contrastive import SENTENCE_CROSS_ENTROPY
from beyond_perplexity.schemas.semantics import PREDICTED, WORDS_EVALUATOR
from beyond_perplexity.semantics.measures import MEASURES
from beyond_perplexity.training.options import ContrastiveTrainingOptions

Descriptions = Mapping[str, Mapping[str, Any]]  # JSON objects, such as ``model.json``, by name
CONTRAST_UNITS = {"word": "per word", "sentence": "per sentence"}
# What a number of nats is divided by to be of another logarithm.
LOGARITHMS = {"bits": math.log(2), "log10": math.log(10)}

FEW_MODELS = 8  # fewer independent ones are drawn one by one
PAPER_LEVELS = (0.1, 0.3, 0.5)
_FEW = 4  # levels that a table has room for


def by_key(rows: pd.DataFrame, *names: str) -> dict[Any, dict[Any, Any]]:
    """Return rows by what some columns hold (of one column that itself); of equal ones the last."""
    records = rows.to_dict("records")
    return dict(zip(map(itemgetter(*names), records), records, strict=True))


def parts_by(rows: pd.DataFrame, *names: str) -> dict[Any, pd.DataFrame]:
    """Return the rows of each value of some columns, in the order of first appearance."""
    by: Any = names[0] if len(names) == 1 else list(names)
    return dict(iter(rows.groupby(by, sort=False)))


def both_ways(pairs: pd.DataFrame) -> pd.DataFrame:
    """Add to differences of first less second those of the other direction."""
    names = {"first": "second", "second": "first", "low": "high", "high": "low"}
    turned = pairs.rename(columns=names)
    turned[["value", "low", "high"]] = -turned[["value", "low", "high"]]
    return pd.concat([pairs, turned])


def pick_contrasts(contrasts: pd.DataFrame, measure: str) -> pd.DataFrame:
    """Take the rows of a measure; of a level that has two, those with the most draws."""
    chosen = contrasts[contrasts["measure"] == measure]
    if chosen.empty:
        held = ", ".join(sorted(set(contrasts["measure"]))) or "none"
        raise NothingToShowError(f"the contrasts have no '{measure}' (they have: {held})")
    ordered = chosen.sort_values("draws", ascending=False, kind="stable")
    return ordered.drop_duplicates(["model", "unit", "level", "base_level"]).sort_index()


def normalized_models(contrasts: pd.DataFrame) -> set[str]:
    """Name the models that have a likelihood: those alone have a cross-entropy."""
    return set(contrasts.loc[contrasts["measure"] == SENTENCE_CROSS_ENTROPY, "model"])


def table_levels(levels: Sequence[float]) -> list[float]:
    """Choose the levels of a table, without 0: all, or of a curve the paper's or as many."""
    found = sorted({float(level) for level in levels if level > 0})
    if len(found) <= _FEW:
        return found
    printed = [level for level in found if any(math.isclose(level, one) for one in PAPER_LEVELS)]
    places = np.linspace(0, len(found) - 1, len(PAPER_LEVELS)).round().astype(int)
    return printed or [found[place] for place in places]


class TrainedOn(NamedTuple):
    """How a model that is trained against distorted sentences was made: its row in the paper."""

    size: int
    margin: float


def training_margins(models: Mapping[str, Mapping[str, Any]]) -> dict[str, TrainedOn]:
    """Return latent size and training distortion of models (``model.json``) trained against it."""
    found = {}
    for name, model in models.items():
        row = FAMILIES.get(str(model.get("family")))
        if row is None or row.kind != "unnormalized":
            continue
        try:
            default = ContrastiveTrainingOptions.distortion
            margin = float(model["training"].get("distortion", default))
            found[name] = TrainedOn(int(model["config"]["architecture"]["size"]), margin)
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"the description of model '{name}' lacks {error}") from error
    return found


def shown_level(level: float) -> str:
    """Write a level of distortion in percent."""
    return f"{100 * level:.4g}%"


SPLIT_TITLES = {"train": "training", "valid": "validation", "test": "test"}
# Of several forms of one measure the figures show another one.
SHORT_OF = frozenset(
    {"bleu_3", "aligned_cosine", "cosine", "greedy_precision", "greedy_recall", "inner"}
)
EVALUATOR_LABEL = "evaluator/{}"  # the key of an evaluator's title and family among the labels

MeasureName = tuple[str, str]  # evaluator, measure


def evaluator_title(name: str, labels: Labels) -> str:
    """Return the printed label of an evaluator."""
    return labels.names.get(EVALUATOR_LABEL.format(name), name.replace("_", " "))


def evaluator_family(name: str, labels: Labels) -> str:
    """Return the family of an evaluator; one that nothing is known of has its own name."""
    return labels.families.get(EVALUATOR_LABEL.format(name), name)


def measure_title(name: MeasureName, labels: Labels) -> str:
    """Return the printed label of a measure by an evaluator."""
    evaluator, measure = name
    title = MEASURES[measure].title if measure in MEASURES else measure.replace("_", " ")
    if evaluator == WORDS_EVALUATOR:
        return title
    own = evaluator_title(evaluator, labels)
    if measure == "similarity":
        return own
    return f"{own}: {title if title[1:2].isupper() else title[0].lower() + title[1:]}"


def sort_measures(names: Iterable[MeasureName]) -> list[MeasureName]:
    """Sort measures: those of the words themselves first, then by evaluator as they come."""
    given = list(dict.fromkeys(names))
    evaluators = list(dict.fromkeys(evaluator for evaluator, _ in given))
    evaluators.sort(key=lambda name: name != WORDS_EVALUATOR)
    order = list(MEASURES)
    return sorted(
        given,
        key=lambda n: (evaluators.index(n[0]), order.index(n[1]) if n[1] in order else len(order)),
    )


def shown_split(splits: Iterable[str]) -> str:
    """Choose the split that is shown where there is room for one: the test split, or the last."""
    found = list(dict.fromkeys(splits))
    if not found:
        raise NothingToShowError("there are no semantic measures to show")
    return "test" if "test" in found else found[-1]


def sort_splits(splits: Iterable[str]) -> list[str]:
    """Sort splits: training, validation, test, then others."""
    order = list(SPLIT_TITLES)
    return sorted(set(splits), key=lambda s: (order.index(s) if s in order else len(order), s))


def pick_predicted(semantics: pd.DataFrame, split: str) -> pd.DataFrame:
    """Take the rows of predictions on a split, with a column ``name`` of `MeasureName`."""
    rows = semantics[(semantics["split"] == split) & (semantics["kind"] == PREDICTED)]
    return rows.assign(
        name=pd.Series([*zip(rows["evaluator"], rows["measure"], strict=True)], rows.index, object)
    )


def relation_titles(measures: pd.DataFrame, labels: Labels) -> dict[str, str]:
    """Return the printed label of every related measure, by its key."""
    found = {}
    for row in measures.drop_duplicates("measure").to_dict("records"):
        key, title = row["measure"], row["title"]
        if row["subject"] == "semantics":
            evaluator, _, measure = key.removeprefix("semantics/").partition(".")
            title = measure_title((evaluator, measure), labels)
        found[key] = title
    return found
