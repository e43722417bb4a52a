"""What the contrastive entropy paper asserts, held against a run: perplexity, noise, training."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, groupby
from typing import Any

import numpy as np
import pandas as pd

from beyond_perplexity.figures.contrastive_rows import CONTRAST_UNITS, shown_level, training_margins
from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.figures.numbers import shown

ModelDescriptions = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class ScoredModels:
    """What lines on contrastive entropy are made of.

    Attributes
    ----------
    rows : pandas.DataFrame
        Schema ``contrasts``, those of contrastive entropy.
    known : set of str
        The models that have a likelihood.
    levels : list of float
        Levels of distortion that are told of.
    pairs : pandas.DataFrame
        As `report.contrastive_readings.ordered_readings` makes them.
    models, perplexities : dict
        ``model.json`` and results of the perplexity command, by name of the model.
    labels : Labels
        Names and order.
    """

    rows: pd.DataFrame
    known: set[str]
    levels: list[float]
    pairs: pd.DataFrame
    models: ModelDescriptions
    perplexities: ModelDescriptions
    labels: Labels

    @property
    def middle(self) -> float:
        """The level that single numbers are told of."""
        return self.levels[len(self.levels) // 2] if self.levels else 0.0

    @property
    def unit(self) -> str:
        """The unit that numbers are told in: words, unless the distortion changes their number."""
        return "word" if (self.rows["unit"] == "word").any() else "sentence"

    def at(self, unit: str, level: float) -> dict[str, dict[Any, Any]]:
        """Return the rows of a unit and level by model, in the order of the labels."""
        chosen = self.rows[(self.rows["unit"] == unit) & (self.rows["level"] == level)]
        found = {row["model"]: row for row in chosen.to_dict("records")}
        return {name: found[name] for name in self.labels.sort_models(found)}

    def names(self, models: Sequence[str]) -> str:
        """Write the names of models."""
        return ", ".join(self.labels.model(name) for name in models)


def order_agreement(one: Sequence[float], other: Sequence[float]) -> tuple[float, int, int]:
    """Compare two orders of the same things.

    Parameters
    ----------
    one, other : sequence of float
        A number for each thing; none is NaN.

    Returns
    -------
    tau : float
        Kendall's tau-b; NaN where all numbers of a side are equal.
    agreeing, pairs : int
        Pairs of things that both put in the same order, and all pairs.
    """
    signs = [
        (_sign(one[i], one[j]), _sign(other[i], other[j]))
        for i, j in combinations(range(len(one)), 2)
    ]
    agreeing = sum(a * b > 0 for a, b in signs)
    against = sum(a * b < 0 for a, b in signs)
    untied = math.prod(sum(pair[side] != 0 for pair in signs) for side in (0, 1))
    tau = (agreeing - against) / math.sqrt(untied) if untied else math.nan
    return tau, agreeing, len(signs)


def _sign(one: float, other: float) -> int:
    return int(one > other) - int(one < other)


def _vocabulary(model: Mapping[str, Any] | None) -> object:
    return None if model is None else model.get("vocabulary", {}).get("sha256")


def _with_perplexity(given: ScoredModels) -> dict[str, float]:
    """Return the perplexities that compare: those of the vocabulary that most models have."""
    found = {
        name: math.inf if result["perplexity"]["word"] is None else result["perplexity"]["word"]
        for name, result in given.perplexities.items()
        if name in given.known
    }
    shared = [_vocabulary(given.models.get(name)) for name in found]
    most = max(shared, key=shared.count, default=None)
    return {n: value for n, value in found.items() if _vocabulary(given.models.get(n)) == most}


def perplexity_agreement(given: ScoredModels) -> str:
    """Say how far contrastive entropy orders models as perplexity does."""
    perplexities, said, count = _with_perplexity(given), [], 0
    for level in given.levels:
        found = given.at(given.unit, level)
        names = [n for n in found if n in perplexities and not pd.isna(found[n]["value"])]
        if len(names) < 3:
            continue
        tau, agreeing, pairs = order_agreement(
            [float(found[name]["value"]) for name in names], [-perplexities[name] for name in names]
        )
        order = "all alike" if math.isnan(tau) else f"τ = {shown(tau, 2)}"
        said.append(f"{agreeing} of {pairs} pairs at {shown_level(level)} ({order})")
        count = max(count, len(names))
    if not said:
        return "fewer than three models share a vocabulary and have both; no order is compared."
    return (
        f"of {count} models with one vocabulary, the one with the lower perplexity has the higher "
        f"H_C {CONTRAST_UNITS[given.unit]} in {', '.join(said)}; τ is Kendall's, 1 for equal "
        "orders, and so few models prove no law."
    )


def rising_entropy(given: ScoredModels) -> str:
    """Say in how many models H_C rises at every step of the distortion."""
    rows = given.rows[(given.rows["unit"] == "sentence") & (given.rows["level"] > 0)]
    falls, rising, unknown = [], 0, []
    for name in given.labels.sort_models(rows["model"]):
        own = rows[rows["model"] == name].sort_values("level")
        levels, values = [0.0, *own["level"]], np.array([0.0, *own["value"]])
        steps = np.diff(values)
        if np.isnan(values).any():
            unknown.append(name)
        elif (steps > 0).all():
            rising += 1
        else:
            place = int(np.argmax(steps <= 0))
            way = f"{shown_level(levels[place])} to {shown_level(levels[place + 1])}"
            falls.append(f"{given.labels.model(name)} from {way}")
    said = [f"it rises at every step in {rising} of {rising + len(falls)} models"]
    said += [f"not in {', '.join(falls)}"] * bool(falls)
    said += [f"not known of {given.names(unknown)}"] * bool(unknown)
    return f"{'; '.join(said)}."


def entropy_in_training(training: pd.DataFrame | None, labels: Labels) -> str:
    """Say in which direction H_C of the training text went."""
    if training is None:
        return ""
    rows = training[(training["split"] == "train") & training["contrastive_entropy"].notna()]
    said = []
    for name in labels.sort_models(rows["model"]):
        own = rows[rows["model"] == name].sort_values("epoch", kind="stable")
        first, last = own["contrastive_entropy"].iloc[[0, -1]]
        if len(own) > 1:
            way = "rose" if last > first else "fell" if last < first else "stayed"
            said.append(f"{labels.model(name)} {way} from {shown(first)} to {shown(last)}")
    return f"{'; '.join(said)} (nats a sentence, first to last epoch)." if said else ""


def entropy_by_training_margin(given: ScoredModels, sentence_models: ModelDescriptions) -> str:
    """Say how H_C of the test text goes with the distortion of the training."""
    margins, said = training_margins(sentence_models), []
    order = sorted(margins, key=lambda name: margins[name])
    for size, held in groupby(order, key=lambda name: margins[name].size):
        names = list(held)
        if len({margins[name].margin for name in names}) < 2:
            continue
        for level in given.levels:
            found = given.at("sentence", level)
            values = [(margins[n].margin, found[n]["value"]) for n in names if n in found]
            if len(values) < 2:
                continue
            way = _way([value for _, value in values])
            listed = ", ".join(f"{shown_level(m)}: {shown(value)}" for m, value in values)
            said.append(f"size {size}, test at {shown_level(level)}: {way} ({listed})")
    return f"{'; '.join(said)}." if said else ""


def _way(numbers: Sequence[float]) -> str:
    steps = np.diff(numbers)
    return "rises" if (steps > 0).all() else "falls" if (steps < 0).all() else "neither"
