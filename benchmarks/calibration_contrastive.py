"""Coverage and level of what is said of contrastive entropy, by simulation.

Run ``python -m benchmarks.calibration_contrastive [--repeats 2000]``: three models that are alike
are drawn from a population where H_C, H_CR and accuracy are known, documents of pages that are hard
or easy for all models alike, and for each by itself. The random streams of a repeat are keyed by
its number.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

import numpy as np

from benchmarks.calibration import Rate, exit_status
from beyond_perplexity.contrastive.differences import compare_contrasts
from beyond_perplexity.contrastive.entropy import ContrastSums, LevelSums, measure_contrasts
from beyond_perplexity.inference.intervals import fieller_limits
from beyond_perplexity.inference.limits import share_difference_test

RATES = {0.1: 0.5, 0.3: 1.2}  # nats a word that both models lose on average
ACCURACIES = {0.1: 0.7, 0.3: 0.97}  # of both, on pairs of sentences
DRAWS = 5
TILTS = {"a": 1.0, "b": -1.0, "c": 0.0}  # how the rate of each model grows with the size of a page


class Found(NamedTuple):
    """Whether intervals hold the truth, and whether p ≤ 0.05 of a difference that is none.

    1 or 0, or the share of repeats. Those of any are over all pairs of three models and all levels,
    after adjustment: of accuracies a star, of H_CR limits without 0.
    """

    entropy: float
    ratio: float
    accuracy: float
    high_accuracy: float
    difference: float
    rejected: float
    accuracy_rejected: float
    any_accuracy: float
    any_ratio: float
    rare: float  # an interval of accuracies that two documents on average tell apart either way
    rare_rejected: float
    hardly_above: float  # of H_CR by an H_C of 2.5 standard errors, where it has limits


def _pages(rng: np.random.Generator, groups: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw the group and the words of each document: pages of 1 to many paragraphs."""
    owner = np.repeat(np.arange(groups), 1 + rng.poisson(2, groups))
    return owner, np.maximum(5, rng.lognormal(4.2, 0.5, len(owner))).astype(int)


def _tilt() -> tuple[float, float]:
    """Return the mean size of a page, and that of the page of a word."""
    owner, words = _pages(np.random.default_rng(1), 100_000)
    sizes = np.bincount(owner, words)
    return float(sizes.mean()), float(np.square(sizes).sum() / sizes.sum())


def _model(
    rng: np.random.Generator,
    owner: np.ndarray,
    words: np.ndarray,
    shared: np.ndarray,
    tilt: float = 0.0,
) -> ContrastSums:
    """Draw what a model loses: pages are hard for all models alike, and for each by itself.

    With a tilt large pages are harder for it and small ones easier, so that its H_C stays.
    """
    own = rng.gamma(50, 1 / 50, owner.max() + 1)
    if tilt:
        mean, of_a_word = SIZES
        own += tilt * (np.bincount(owner, words) - of_a_word) / mean
    levels, sentences = {0.0: LevelSums(np.zeros(len(words)), np.zeros(1))}, -(-words // 20)
    for level, rate in RATES.items():
        mean = rate * words * (shared * own)[owner]
        lost = mean[:, None] + np.sqrt(words)[:, None] * rng.normal(size=(len(words), DRAWS))
        right = _won(rng, owner, sentences, ACCURACIES[level])
        pairs = np.stack([np.full(right.shape, sentences[:, None]), right])  # (2, N, DRAWS)
        sums = pairs.sum(2), pairs.sum(1)
        levels[level] = LevelSums(lost.sum(1), lost.sum(0), pairs=sums[0], draw_pairs=sums[1])
    counts = {"words": words, "sentences": sentences}
    counts |= dict.fromkeys(("one_word", "unknown"), np.zeros(len(words), int))
    return ContrastSums(np.arange(len(words)), owner, -5.0 * words, counts, levels, False)


def _won(
    rng: np.random.Generator, owner: np.ndarray, sentences: np.ndarray, accuracy: float
) -> np.ndarray:
    """Count the sentences that win, (N, DRAWS): some pages are easy, and some sentences of them."""
    ease = rng.beta(20 * accuracy, 20 * (1 - accuracy), owner.max() + 1).clip(1e-3, 1 - 1e-3)
    document = np.repeat(np.arange(len(owner)), sentences)
    own = 5 * ease[owner[document]]
    won = rng.random((len(document), DRAWS)) < rng.beta(own, 5 - own)[:, None]
    found = np.zeros((len(owner), DRAWS))
    np.add.at(found, document, won)
    return found


def _scarce(rng: np.random.Generator, groups: int) -> tuple[float, float, float]:
    """Return the last three of `Found`, of independent documents of 1 to 10 pairs."""
    size = rng.integers(1, 11, groups).astype(float)
    apart = rng.choice([0, 1, -1], groups, p=[1 - 4 / groups, 2 / groups, 2 / groups])
    found = share_difference_test(apart * rng.binomial(size.astype(int), 0.7), size)
    below, above = rng.normal(np.array([[1], [3]]) * 2.5 / np.sqrt(groups), size=(2, groups))
    low, high = fieller_limits(above, below, np.ones(groups))
    limits, holds = found.interval, low <= 3 <= high
    return limits.low <= 0 <= limits.high, found.p_value <= 0.05, holds if low <= high else np.nan


SIZES = _tilt()


def simulate(seed: int, groups: int, tilt: float = 0.0) -> Found:
    """Draw three models that are alike and read what the tables would say of them, per word."""
    rng = np.random.default_rng([seed, groups])
    owner, words = _pages(rng, groups)
    shared = rng.gamma(20, 1 / 20, groups)
    sums = {k: _model(rng, owner, words, shared, tilt * own) for k, own in TILTS.items()}
    rows = measure_contrasts(sums["a"], "a", 0.1).to_pylist()
    held = {(row["unit"], row["measure"], row["level"]): row for row in rows}
    entropy = held["word", "contrastive_entropy", 0.3]
    ratio = held["word", "ratio", 0.3]
    found = [row for row in compare_contrasts(sums).to_pylist() if row["unit"] == "sentence"]
    own = {(r["measure"], r["level"]): r for r in found if (r["first"], r["second"]) == ("a", "b")}
    pair = own["contrastive_entropy", 0.3]
    accuracies = {level: held["sentence", "accuracy", level] for level in ACCURACIES}
    return Found(
        entropy["low"] <= RATES[0.3] <= entropy["high"],
        ratio["low"] <= RATES[0.3] / RATES[0.1] <= ratio["high"],
        accuracies[0.1]["low"] <= ACCURACIES[0.1] <= accuracies[0.1]["high"],
        accuracies[0.3]["low"] <= ACCURACIES[0.3] <= accuracies[0.3]["high"],
        pair["low"] <= 0 <= pair["high"],
        pair["p_value"] <= 0.05,
        own["accuracy", 0.3]["p_value"] <= 0.05,
        any(r["p_adjusted"] <= 0.05 for r in found if r["measure"] == "accuracy"),
        any(not r["low_adjusted"] <= 0 <= r["high_adjusted"] for r in found if r["low_adjusted"]),
        *_scarce(rng, groups),
    )


def rates(repeats: int, groups: int, tilt: float = 0.0) -> Found:
    """Return the shares of repeats in which each is true."""
    found = np.array([simulate(seed, groups, tilt) for seed in range(repeats)], float)
    return Found(*map(float, np.nanmean(found, axis=0)))


# What each rate is by the method, and what it may be.
COVERAGE, LEVEL, ANY = ("0.95", (0.93, 1.0)), ("0.05", (0.0, 0.075)), ("0.05", (0.0, 0.06))
GOALS = [*[COVERAGE] * 5, LEVEL, LEVEL, ANY, ANY, COVERAGE, LEVEL, COVERAGE]
CASES = [(groups, tilt) for groups in (40, 100, 300) for tilt in (0.0, 0.5)]  # pages


def rates_with_goals(repeats: int, groups: int, tilt: float) -> Iterator[Rate]:
    """Yield the rates of a case, with what is allowed."""
    found = rates(repeats, groups, tilt)
    for name, rate, goal in zip(Found._fields, tuple(found), GOALS, strict=True):
        yield Rate("contrastive", f"{groups} pages, tilt {tilt:g}", name, rate, *goal, repeats)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=2000, help="repeats of every case")
    given = parser.parse_args()
    found = (rates_with_goals(given.repeats, *case) for case in CASES)
    return exit_status(chain.from_iterable(found))


if __name__ == "__main__":
    sys.exit(main())
