"""What the contrastive entropy paper asserts, held against a run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import mode

import numpy as np
import pandas as pd

from beyond_perplexity.contrastive.differences import READINGS
from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.figures.measure_names import (
    CONTRAST_UNITS,
    Descriptions,
    normalized_models,
    parts_by,
    pick_contrasts,
    shown_level,
    table_levels,
    training_margins,
)
from beyond_perplexity.report.contrastive_pairs import ordered_accuracies, ordered_readings
from beyond_perplexity.report.findings import Answer, findings_table
from beyond_perplexity.report.layout import Table
from beyond_perplexity.schemas import contrastive
from beyond_perplexity.verdicts import ALIKE


@dataclass(frozen=True)
class ScoredModels:
    """What findings on contrastive entropy are made of: rows of ``contrasts``, which models have a
    likelihood, pairs of `ordered_readings`."""

    rows: pd.DataFrame
    known: set[str]
    levels: list[float]
    pairs: pd.DataFrame
    models: Descriptions
    perplexities: Descriptions
    labels: Labels

    @property
    def middle(self) -> float:
        """The level that single numbers are told of."""
        return self.levels[len(self.levels) // 2] if self.levels else 0.0

    @property
    def unit(self) -> str:
        """The unit that numbers are told in: words, unless the distortion changes their number."""
        return "word" if (self.rows["unit"] == "word").any() else "sentence"

    def at(self, unit: str, level: float) -> pd.DataFrame:
        """Return the rows of a unit and level by model, in the order of the labels."""
        chosen = self.rows[(self.rows["unit"] == unit) & (self.rows["level"] == level)]
        return chosen.set_index("model").loc[self.labels.sort_models(chosen["model"])]

    def others(self) -> list[str]:
        """List the models without a likelihood."""
        return [name for name in self.at("sentence", self.middle).index if name not in self.known]

    def readings(self, unit: str, first: str) -> dict[str, str]:
        """Return the reading of a model against each other one at the middle level."""
        own = self.pairs[(self.pairs["unit"] == unit) & (self.pairs["first"] == first)]
        own = own[(own["level"] == self.middle) & own["reading"].notna()]
        return dict(zip(own["second"], own["reading"], strict=True))


def _best(given: ScoredModels) -> Iterator[Answer]:
    """List the models with a likelihood by what they lose, and which differ from the first."""
    found = given.at(given.unit, given.middle)
    found = found[found.index.isin(given.known) & found["value"].notna()]
    if found.empty:
        yield Answer("", "", verdict="no model with a likelihood was scored")
        return
    ordered = found.sort_values("value", ascending=False, kind="stable")
    best = ordered.index[0]
    verdicts = dict.fromkeys(READINGS.values(), "differs from the highest")
    verdicts[ALIKE] = "no difference to the highest found"
    readings = given.readings(given.unit, best)
    said = {best: "the highest"} | {n: verdicts.get(read, "") for n, read in readings.items()}
    quantity = f"H_C at {shown_level(given.middle)} distortion, nats a {given.unit}"
    for name, value, low, high in ordered[["value", "low", "high"]].itertuples():
        numbers = value, low, high, None, len(found)
        about, verdict = given.labels.model(name), said.get(name, "")
        yield Answer(about, quantity, *numbers, verdict, first_page=name == best)


def _unnormalized(given: ScoredModels, unit: str, how: str) -> Iterator[Answer]:
    """Count how each model without a likelihood reads against those with one."""
    told = f"models with a likelihood against which {how} at"
    for name in given.others():
        readings = given.readings(unit, name)
        words = sorted(reading for other, reading in readings.items() if other in given.known)
        for word in dict.fromkeys(words or ["no reading"]):
            about, quantity = given.labels.model(name), f"{told} {shown_level(given.middle)}"
            count, number = words.count(word), len(words)
            yield Answer(about, quantity, found=count, of=number, verdict=word)


def order_agreement(one: Sequence[float], other: Sequence[float]) -> tuple[float, int, int]:
    """Compare two orders of the same things, by a number for each that is not NaN."""
    pairs = np.triu_indices(len(one), 1)
    outer = [(np.greater.outer(x, x).astype(int), np.less.outer(x, x)) for x in (one, other)]
    signs = [(more - less)[pairs] for more, less in outer]
    agreeing, against = (int((signs[0] * signs[1] == way).sum()) for way in (1, -1))
    untied = math.prod(int(np.count_nonzero(sign)) for sign in signs)
    tau = (agreeing - against) / math.sqrt(untied) if untied else math.nan
    return tau, agreeing, len(signs[0])


def _with_perplexity(given: ScoredModels) -> dict[str, float]:
    """Return the perplexities that compare: those of the vocabulary that most models have."""
    found = {
        name: (result["perplexity"]["word"], given.models.get(name, {}).get("vocabulary", {}))
        for name, result in given.perplexities.items()
        if name in given.known
    }
    most = mode(held.get("sha256") for _, held in found.values()) if found else None
    return {
        name: math.inf if value is None else value
        for name, (value, held) in found.items()
        if held.get("sha256") == most
    }


def _agreement(given: ScoredModels) -> Iterator[Answer]:
    """Count the pairs that contrastive entropy orders as perplexity does."""
    perplexities, told = _with_perplexity(given), False
    for level in given.levels:
        found = given.at(given.unit, level)["value"].dropna()
        found = found[found.index.isin(perplexities)]
        if len(found) < 3:
            continue
        tau, agreeing, pairs = order_agreement(
            found.tolist(), [-perplexities[name] for name in found.index]
        )
        told = True
        yield Answer(
            f"{len(found)} models with one vocabulary",
            f"Kendall's τ of H_C {CONTRAST_UNITS[given.unit]} at {shown_level(level)} and of "
            "perplexity, the lower the better; pairs in the same order",
            tau,
            found=agreeing,
            of=pairs,
            verdict="all alike" if math.isnan(tau) else "",
        )
    if not told:
        few = "fewer than three models share a vocabulary and have both"
        yield Answer("all models", "", verdict=few)


_RISES, _UNKNOWN = "rises at every step", "not known"


def _rise(own: pd.DataFrame) -> str:
    """Say whether H_C rises at every step of the distortion, or where it does not."""
    levels, values = [0.0, *own["level"]], np.array([0.0, *own["value"]])
    falls = np.flatnonzero(~(np.diff(values) > 0))
    if np.isnan(values).any() or not len(falls):
        return _UNKNOWN if len(falls) else _RISES
    return f"does not rise from {' to '.join(map(shown_level, levels[falls[0] :][:2]))}"


def _rising(given: ScoredModels) -> Iterator[Answer]:
    """Say of each model whether H_C rises with the distortion."""
    rows = given.rows[(given.rows["unit"] == "sentence") & (given.rows["level"] > 0)]
    held = parts_by(rows.sort_values("level", kind="stable"), "model")
    verdicts = {name: _rise(held[name]) for name in given.labels.sort_models(held)}
    known = [said for said in verdicts.values() if said != _UNKNOWN]
    counted = "models in which H_C rises at every step of the distortion"
    yield Answer("all models", counted, found=known.count(_RISES), of=len(known))
    for name, said in verdicts.items():
        yield Answer(given.labels.model(name), "H_C per sentence", verdict=said)


def _in_training(training: pd.DataFrame | None, labels: Labels) -> Iterator[Answer]:
    """Say in which direction H_C of the training text went."""
    if training is None:
        return
    rows = training[(training["split"] == "train") & training["contrastive_entropy"].notna()]
    for name in labels.sort_models(rows["model"]):
        own = rows[rows["model"] == name].sort_values("epoch", kind="stable")
        if len(own) < 2:
            continue
        first, last = own["contrastive_entropy"].iloc[[0, -1]]
        way = "rose" if last > first else "fell" if last < first else "stayed"
        for epoch, value, said in (("first", first, ""), ("last", last, way)):
            quantity = f"H_C of the {epoch} epoch, nats a sentence"
            yield Answer(labels.model(name), quantity, value, verdict=said)


def _by_margin(given: ScoredModels, sentence_models: Descriptions) -> Iterator[Answer]:
    """Say how H_C of the test text goes with the distortion of the training, within a size."""
    margins = training_margins(sentence_models)
    for size, held in groupby(sorted(margins, key=margins.__getitem__), lambda n: margins[n].size):
        names = list(held)
        for level in given.levels if len({margins[name].margin for name in names}) > 1 else ():
            found = given.at("sentence", level)["value"]
            values = {name: float(found[name]) for name in names if name in found}
            steps = np.diff([*values.values()])
            if not len(steps):
                continue
            way = "rises" if (steps > 0).all() else "falls" if (steps < 0).all() else "neither"
            for name, value in values.items():
                trained = shown_level(margins[name].margin)
                quantity = f"H_C at {shown_level(level)}; size {size}, trained at {trained}"
                yield Answer(given.labels.model(name), quantity, value, verdict=way)


def _external(pairs: pd.DataFrame | None, labels: Labels) -> Iterator[Answer]:
    """List the accuracy of every model on external pairs, over all phenomena."""
    if pairs is None:
        return
    for source, rows in parts_by(pairs, "source").items():
        told = rows.dropna(subset="accuracy")
        told = told.assign(compared=told["pairs"] - told["identical"])
        told = told.assign(right=told["accuracy"] * told["compared"])
        sums = told.groupby("model")[["right", "compared"]].sum()
        shares = sums["right"] / sums["compared"]
        ends = {shares.min(): "lowest", shares.max(): "highest"} if shares.nunique() > 1 else {}
        for name, share in shares.items():
            quantity = f"share of the pairs {source} of which it prefers the good side"
            yield Answer(labels.model(str(name)), quantity, share, verdict=ends.get(share, ""))


_LIMITS = (
    "Models without a likelihood have a scale of their own: their H_C compares with no other "
    "model's, their H_CR and accuracy do. Numbers per word and per sentence do not mix; "
    "perplexities of different vocabularies do not; a model loses nothing where a word that it "
    "reads as <unk> swaps positions with another such; and all of it is about this noise, words "
    "replaced and swapped at random, which says nothing of subtler faults. So few models prove "
    "no law."
)


def contrastive_findings_table(
    contrasts: pd.DataFrame,
    differences: pd.DataFrame | None,
    models: Descriptions,
    perplexities: Descriptions,
    training: pd.DataFrame | None,
    sentence_models: Descriptions,
    pair_contrasts: pd.DataFrame | None,
    labels: Labels,
) -> Table:
    """Hold the assertions of the paper against a run, a number with its verdict a row."""
    rows = pick_contrasts(contrasts, contrastive.CONTRASTIVE_ENTROPY)
    if differences is None:
        differences = contrastive.CONTRAST_DIFFERENCES.empty_table().to_pandas()
    pairs = pd.concat([ordered_readings(differences), ordered_accuracies(differences)])
    levels, known = table_levels(rows["level"].tolist()), normalized_models(contrasts)
    given = ScoredModels(rows, known, levels, pairs, models, perplexities, labels)
    own = "a scale of its own"
    scaled = (Answer(labels.model(name), "H_C", verdict=own) for name in given.others())
    found = {
        f"Tells text from noise best, {CONTRAST_UNITS[given.unit]}": (
            "RNN among models of words.",
            _best(given),
        ),
        "Without a likelihood": (
            "sRNN-75(10) and -150(10) are superior to all.",
            _unnormalized(given, "sentence", "Table 1 reads so (other scale), per sentence"),
        ),
        "Accuracy without a likelihood": (
            "",
            _unnormalized(given, contrastive.PAIRWISE_ACCURACY, "its accuracy is so,"),
        ),
        "Does it order models as perplexity does": (
            "H_C correlates negatively with perplexity (3 models).",
            _agreement(given),
        ),
        "Does H_C rise with distortion": ("It does.", _rising(given)),
        "H_C of the training text over training": (
            "The text says that it falls, Figure 2 that it rises.",
            _in_training(training, labels),
        ),
        "H_C and the distortion of the training": (
            "The text says that H_C rises with it; in Table 2 75(50) stands below 75(10) at every "
            "level.",
            _by_margin(given, sentence_models),
        ),
        "External pairs": ("", _external(pair_contrasts, labels)),
        "What does not compare": ("Other scales; other units.", scaled),
    }
    note = f"The paper: Arora & Rangarajan (2016), on the Penn Treebank. {_LIMITS}"
    return findings_table("contrastive_findings", "What was found", note, found)
