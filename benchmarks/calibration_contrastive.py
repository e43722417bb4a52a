"""Coverage and level of what is said of contrastive entropy, by simulation.

Run ``python -m benchmarks.calibration_contrastive [--repeats 1000]``: two models that are alike are
drawn from a population where H_C and H_CR are known, documents of pages that are hard or easy for
all models alike, and for each by itself. The random streams of a repeat are keyed by its number.
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

import numpy as np

from beyond_perplexity.contrastive.differences import ContrastTests, compare_contrasts
from beyond_perplexity.contrastive.entropy import ContrastSums, LevelSums, measure_contrasts

RATES = {0.1: 0.5, 0.3: 1.2}  # nats a word that both models lose on average
DRAWS = 5


class Found(NamedTuple):
    """Whether intervals hold the truth, and whether p ≤ 0.05 of a difference that is none.

    1 or 0, before adjustment; or the share of repeats.
    """

    entropy: float
    ratio: float
    difference: float
    rejected: float


def _pages(rng: np.random.Generator, groups: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw the group and the words of each document: pages of 1 to many paragraphs."""
    owner = np.repeat(np.arange(groups), 1 + rng.poisson(2, groups))
    return owner, np.maximum(5, rng.lognormal(4.2, 0.5, len(owner))).astype(int)


def _model(
    rng: np.random.Generator, owner: np.ndarray, words: np.ndarray, shared: np.ndarray
) -> ContrastSums:
    """Draw what a model loses: pages are hard for all models alike, and for each by itself."""
    own = rng.gamma(50, 1 / 50, owner.max() + 1)
    levels = {0.0: LevelSums(np.zeros(len(words)), np.zeros(1))}
    for level, rate in RATES.items():
        mean = rate * words * (shared * own)[owner]
        lost = mean[:, None] + np.sqrt(words)[:, None] * rng.normal(size=(len(words), DRAWS))
        levels[level] = LevelSums(lost.sum(1), lost.sum(0))
    counts = {"words": words, "sentences": -(-words // 20)}
    counts |= dict.fromkeys(("one_word", "unknown"), np.zeros(len(words), int))
    return ContrastSums(np.arange(len(words)), owner, -5.0 * words, counts, levels, False)


def simulate(seed: int, groups: int) -> Found:
    """Draw two models that are alike and read what the tables would say of them, per word."""
    rng = np.random.default_rng([seed, groups])
    owner, words = _pages(rng, groups)
    shared = rng.gamma(20, 1 / 20, groups)
    sums = {name: _model(rng, owner, words, shared) for name in "ab"}
    rows = measure_contrasts(sums["a"], "a", 0.1).to_pylist()
    held = {(row["unit"], row["measure"], row["level"]): row for row in rows}
    entropy = held["word", "contrastive_entropy", 0.3]
    ratio = held["word", "ratio", 0.3]
    tests = ContrastTests(flips=199, seed=seed)
    (pair,) = (
        row
        for row in compare_contrasts(sums, tests).to_pylist()
        if (row["unit"], row["measure"], row["level"]) == ("word", "contrastive_entropy", 0.3)
    )
    return Found(
        entropy["low"] <= RATES[0.3] <= entropy["high"],
        ratio["low"] <= RATES[0.3] / RATES[0.1] <= ratio["high"],
        pair["low"] <= 0 <= pair["high"],
        pair["p_value"] <= 0.05,
    )


def rates(repeats: int, groups: int) -> Found:
    """Return the shares of repeats in which each is true."""
    found = np.array([simulate(seed, groups) for seed in range(repeats)])
    return Found(*map(float, found.mean(axis=0)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=1000, help="repeats of every case")
    given = parser.parse_args()
    for groups in (40, 100, 300):
        print(f"{groups} pages: {rates(given.repeats, groups)}", flush=True)


if __name__ == "__main__":
    main()
