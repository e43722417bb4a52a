"""What was found of contrastive entropy, in lines of which the first page has some."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from beyond_perplexity.contrastive.differences import NO_DIFFERENCE, READINGS
from beyond_perplexity.errors import InputError
from beyond_perplexity.figures.contrastive_rows import (
    CONTRAST_UNITS,
    normalized_models,
    pick_contrasts,
    shown_level,
    table_levels,
)
from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.figures.numbers import shown, shown_interval, shown_share
from beyond_perplexity.report.contrastive_assertions import (
    ModelDescriptions,
    ScoredModels,
    entropy_by_training_margin,
    entropy_in_training,
    perplexity_agreement,
    rising_entropy,
)
from beyond_perplexity.report.contrastive_readings import ordered_readings
from beyond_perplexity.report.layout import NOTHING_COLUMN, Column, Table
from beyond_perplexity.schemas.contrastive import CONTRASTIVE_ENTROPY

FIRST_PAGE = "first_page"
_Line = tuple[str, str, str, bool]


def _best(given: ScoredModels, unit: str) -> str:
    """Say which model with a likelihood loses most, and which others cannot be told from it."""
    found = given.at(unit, given.middle)
    found = {n: row for n, row in found.items() if n in given.known and not pd.isna(row["value"])}
    if not found:
        return "no model with a likelihood was scored."
    best = max(found, key=lambda name: found[name]["value"])
    row, others = found[best], [name for name in found if name != best]
    said = (
        f"{given.labels.model(best)}, which loses {shown(row['value'])} nats a {unit} "
        f"{shown_interval(row['low'], row['high'])} at {shown_level(given.middle)} distortion"
    )
    if not others:
        return f"{said}; it is the only model with a likelihood."
    readings = _readings(given, unit, best)
    alike = [name for name in others if readings.get(name) == NO_DIFFERENCE]
    apart = [name for name in others if readings.get(name) in READINGS.values()]
    said += f", the most of {len(found)} models with a likelihood"
    if apart:
        said += f"; a difference (adjusted p < 0.05) was found to {given.names(apart)}"
    if alike:
        said += f"; none to {given.names(alike)}"
    return f"{said}."


def _readings(given: ScoredModels, unit: str, first: str) -> dict[str, str]:
    """Return the reading of a model against each other one at the middle level."""
    pairs = given.pairs
    own = pairs[(pairs["unit"] == unit) & (pairs["first"] == first)]
    own = own[(own["level"] == given.middle) & own["reading"].notna()]
    return dict(zip(own["second"], own["reading"], strict=True))


def _unnormalized(given: ScoredModels) -> str:
    """Say how the models without a likelihood read against those with one."""
    found = [name for name in given.at("sentence", given.middle) if name not in given.known]
    if not found:
        return ""
    said = []
    for name in found:
        readings = _readings(given, "sentence", name)
        words = sorted(readings[other] for other in readings if other in given.known)
        counts = ", ".join(f"{word} against {words.count(word)}" for word in dict.fromkeys(words))
        said.append(f"{given.labels.model(name)}: {counts or 'no reading'}")
    return (
        f"by Table 1, per sentence at {shown_level(given.middle)}, against the models with a "
        f"likelihood: {'; '.join(said)}."
    )


def _brought(pair_contrasts: pd.DataFrame | None, labels: Labels) -> str:
    """Say the lowest and highest accuracy on brought pairs, over all phenomena."""
    if pair_contrasts is None:
        return ""
    said = []
    for source, rows in pair_contrasts.groupby("source", sort=False):
        told = rows.dropna(subset="accuracy")
        told = told.assign(compared=told["pairs"] - told["identical"])
        told = told.assign(right=told["accuracy"] * told["compared"])
        sums = told.groupby("model")[["right", "compared"]].sum()
        shares = sums["right"] / sums["compared"]
        if len(shares):
            high, low = str(shares.idxmax()), str(shares.idxmin())
            said.append(
                f"{source}: {labels.model(high)} prefers the good side in "
                f"{shown_share(shares.max())} of the pairs, {labels.model(low)} in "
                f"{shown_share(shares.min())}"
            )
    return f"{'; '.join(said)}." if said else ""


def _limits(given: ScoredModels) -> str:
    """Say what of all this does not compare."""
    others = [name for name in given.at("sentence", given.middle) if name not in given.known]
    scales = (
        f"{given.names(others)} have no likelihood and so a scale of their own: their H_C compares "
        "with no other model's, their H_CR and accuracy do; "
        if others
        else ""
    )
    return (
        f"{scales}numbers per word and per sentence do not mix; perplexities of different "
        "vocabularies do not; a model loses nothing where a word that it reads as <unk> changes "
        "places with another such; and all of it is about this noise, words replaced and exchanged "
        "at random, which says nothing of subtler faults."
    )


def _read_lines(given: ScoredModels) -> list[_Line]:
    """Make the lines that need no more than the scores: question, paper, found, on first page."""
    return [
        (
            f"Tells text from noise best, {CONTRAST_UNITS[given.unit]}",
            "RNN among models of words.",
            _best(given, given.unit),
            True,
        ),
        (
            "Without a likelihood",
            "sRNN-75(10) and -150(10) are superior to all.",
            _unnormalized(given),
            True,
        ),
        (
            "Does it order models as perplexity does",
            "H_C correlates negatively with perplexity (3 models).",
            perplexity_agreement(given),
            True,
        ),
        ("Does H_C rise with distortion", "It does.", rising_entropy(given), True),
    ]


def findings_table(
    contrasts: pd.DataFrame,
    differences: pd.DataFrame | None,
    models: ModelDescriptions,
    perplexities: ModelDescriptions,
    training: pd.DataFrame | None,
    sentence_models: ModelDescriptions,
    pair_contrasts: pd.DataFrame | None,
    labels: Labels,
) -> Table:
    """Say what was found, in lines of which the first page of the report has some.

    Parameters
    ----------
    contrasts : pandas.DataFrame
        Schema ``contrasts``, of all models.
    differences : pandas.DataFrame or None
        Schema ``contrast_differences``; None where there is a single model.
    models, perplexities : dict
        ``model.json`` and results of the perplexity command, by name of the model.
    training : pandas.DataFrame or None
        Schema ``training`` with one more column, ``model``.
    sentence_models : dict
        ``model.json`` of the models that are trained against distorted sentences.
    pair_contrasts : pandas.DataFrame or None
        As `report.contrastive_pairs.read_pair_contrasts` reads them.
    labels : Labels
        Names and order.

    Returns
    -------
    Table
        A row for each question: what the paper says, and what was found here.

    Raises
    ------
    InputError
        When there is no contrastive entropy.
    """
    rows = pick_contrasts(contrasts, CONTRASTIVE_ENTROPY)
    pairs = ordered_readings(
        pd.DataFrame(columns=["measure"]) if differences is None else differences
    )
    levels = table_levels(rows["level"].tolist())
    given = ScoredModels(
        rows, normalized_models(contrasts), levels, pairs, models, perplexities, labels
    )
    lines = [
        *_read_lines(given),
        (
            "H_C of the training text over training",
            "The text says that it falls, Figure 2 that it rises.",
            entropy_in_training(training, labels),
            False,
        ),
        (
            "H_C and the distortion of the training",
            "The text says that H_C rises with it; in Table 2 75(50) stands below 75(10) at every "
            "level.",
            entropy_by_training_margin(given, sentence_models),
            False,
        ),
        ("Pairs that were brought", "", _brought(pair_contrasts, labels), False),
        ("What does not compare", "Other scales; other units.", _limits(given), True),
    ]
    tidy = pd.DataFrame(
        [line for line in lines if line[2]], columns=["question", "paper", "found", FIRST_PAGE]
    )
    heads = [
        Column("Question", wraps=True),
        Column("Paper", published=True, wraps=True),
        Column("Here", wraps=True),
    ]
    body = [[line[0], line[1], line[2]] for line in lines if line[2]]
    note = (
        f"Single numbers are of {shown_level(given.middle)} distortion. The paper: Arora & "
        "Rangarajan (2016), on the Penn Treebank."
    )
    return Table("contrastive_findings", "What was found", note, heads, body, tidy)


def read_findings(paths: Sequence[str | Path]) -> dict[str, pd.DataFrame]:
    """Read tables that `findings_table` made, by the name of their folder: the corpus.

    Raises
    ------
    InputError
        When a file is no such table.
    """
    found = {}
    for path in paths:
        try:
            table = pd.read_csv(path, keep_default_na=False)
        except (OSError, ValueError) as error:
            raise InputError(f"{path}: not a readable CSV file ({error})") from error
        if list(table.columns) == [NOTHING_COLUMN]:
            continue
        missing = {"question", "found", FIRST_PAGE} - set(table.columns)
        if missing:
            raise InputError(f"{path}: lacks the column '{min(missing)}' of contrastive findings")
        found[Path(path).resolve().parent.name] = table
    return found
