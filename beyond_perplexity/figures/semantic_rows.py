"""What figures and tables of semantic measures share: names, order, the paper's constants."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from beyond_perplexity.errors import NothingToShowError
from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.schemas.semantics import PREDICTED, WORDS_EVALUATOR
from beyond_perplexity.semantics.measures import MEASURES

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
    """Return the printed label of every related measure, by its key.

    Parameters
    ----------
    measures : pandas.DataFrame
        Schema ``relation_measures``.
    labels : Labels
        Names of evaluators.
    """
    found = {}
    for row in measures.drop_duplicates("measure").to_dict("records"):
        key, title = row["measure"], row["title"]
        if row["subject"] == "semantics":
            evaluator, _, measure = key.removeprefix("semantics/").partition(".")
            title = measure_title((evaluator, measure), labels)
        found[key] = title
    return found
