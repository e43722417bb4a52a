"""Coverage of the intervals of semantic measures and of correlations, by simulation.

Run ``python -m benchmarks.calibration_semantics [--repeats 1000]``: predictions are drawn from a
population where the values are known, sentences of pages that are easy or hard as a whole. The
random streams of a repeat are keyed by its number. Lines and exit status are those of
`benchmarks.calibration`.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import numpy as np

from benchmarks.calibration import Rate, exit_status
from benchmarks.levels import LEVEL
from beyond_perplexity.inference.correlations import (
    average_ranks,
    correlation_difference,
    correlation_matrix,
    pearson,
    spearman,
)
from beyond_perplexity.schemas.semantics import PREDICTED
from beyond_perplexity.semantics.bleu import LONGEST_NGRAM, bleu_intervals, bleu_of
from beyond_perplexity.semantics.differences import compare_semantics
from beyond_perplexity.semantics.model_measures import Fraction, fraction_intervals
from beyond_perplexity.semantics.paired_scores import GroupSums, PairedScores, ScoreKey

RATE, BASELINE = 0.35, 0.2  # share of words that are right, and of those that are by chance
BESIDE = 4  # further sentences of a page, on average
TILT = 0.1  # how much better a model is on large pages than on small ones
RESAMPLES = 199
CORRELATION = 0.6  # of items within pages and of pages alike
GOLD = (0.4, 0.3)  # a column of scores: steps of people, and how far a measure strays


class Covered(NamedTuple):
    """Whether intervals hold the truth: 1 or 0, or the share of repeats.

    Of a measure that is a mean over sentences, and its excess over the baseline; of BLEU and the
    excess of BLEU-2; of correlations of scores of sentences in pages, and with those of people
    (``_gold``, in steps, each pair by itself); and of a difference of Spearman's correlations
    of two measures.
    """

    mean: float
    excess: float
    bleu_2: float
    bleu_4: float
    bleu_excess: float
    pearson: float
    spearman: float
    pearson_gold: float
    spearman_gold: float
    difference: float


class Pages(NamedTuple):
    """Sentences of pages: the page and the length of each, and how easy its page is."""

    owner: np.ndarray
    words: np.ndarray
    ease: np.ndarray


def _pages(rng: np.random.Generator, groups: int) -> Pages:
    owner = np.repeat(np.arange(groups), 1 + rng.poisson(BESIDE, groups))
    words = np.clip(rng.lognormal(2.9, 0.4, len(owner)).astype(int), 4, 80)
    return Pages(owner, words, rng.beta(40, 40, groups)[owner] * 2)


def _statistics(rng: np.random.Generator, pages: Pages, rate: float) -> np.ndarray:
    """Draw what BLEU is made of: runs of right words are n-grams; (sentences, 10)."""
    places = np.arange(pages.words.max())
    inside = places < pages.words[:, None]
    right = inside & (rng.random(inside.shape) < (rate * pages.ease)[:, None])
    runs, matches = right, []
    for order in range(1, LONGEST_NGRAM + 1):
        matches.append(runs.sum(axis=1))
        runs = runs[:, :-1] & right[:, order:]
    totals = [np.maximum(0, pages.words - order + 1) for order in range(1, LONGEST_NGRAM + 1)]
    return np.stack([pages.words, pages.words, *matches, *totals], axis=1)


@cache
def _true_bleu(rate: float, order: int) -> float:
    """Return BLEU of the population: expected matches, given words and ease of many pages."""
    pages = _pages(np.random.default_rng(9), 200_000)
    totals = [np.maximum(0, pages.words - n + 1) for n in range(1, LONGEST_NGRAM + 1)]
    matches = [
        held @ (rate * pages.ease) ** n
        for n, held in zip(range(1, LONGEST_NGRAM + 1), totals, strict=True)
    ]
    words = pages.words.sum()
    sums = [words, words, *matches, *(held.sum() for held in totals)]
    return float(bleu_of(np.array(sums, float), order))


def _by_page(pages: Pages, columns: np.ndarray) -> np.ndarray:
    sums = np.zeros((pages.owner.max() + 1, *columns.shape[1:]), columns.dtype)
    np.add.at(sums, pages.owner, columns)
    return sums


def _holds(found: object, truth: float) -> float:
    low, high = (getattr(found, name) for name in ("low", "high"))
    return float(low <= truth <= high)


def _means(rng: np.random.Generator, pages: Pages) -> tuple[float, float]:
    """Judge a mean of skewed scores and its excess over scores of the same pages."""
    values = [
        rng.beta(rate * 6 * pages.ease + 0.01, 6 * (1 - rate * pages.ease / 2))
        for rate in (RATE, BASELINE)
    ]
    truths = [_true_mean(rate) for rate in (RATE, BASELINE)]
    sizes = _by_page(pages, np.ones(len(pages.owner)))
    parts = [Fraction(_by_page(pages, held), sizes) for held in values]
    found = fraction_intervals(parts[0], parts[1])
    return _holds(found.value, truths[0]), _holds(found.excess, truths[0] - truths[1])


@cache
def _true_mean(rate: float) -> float:
    pages = _pages(np.random.default_rng(8), 200_000)
    first, second = rate * 6 * pages.ease + 0.01, 6 * (1 - rate * pages.ease / 2)
    return float(np.mean(first / (first + second)))


def _bleu(rng: np.random.Generator, pages: Pages, seed: int) -> tuple[float, float, float]:
    own, baseline = (_by_page(pages, _statistics(rng, pages, rate)) for rate in (RATE, BASELINE))
    two, _, excess = bleu_intervals(own, baseline, 2, RESAMPLES, seed)
    four, _, _ = bleu_intervals(own, None, 4, RESAMPLES, seed)
    truth = _true_bleu(RATE, 2)
    difference = truth - _true_bleu(BASELINE, 2)
    return _holds(two, truth), _holds(four, _true_bleu(RATE, 4)), _holds(excess, difference)


def _in_pages(rng: np.random.Generator, pages: Pages) -> tuple[float, float]:
    """Judge correlations of two normal scores, half of whose variance is of the page."""
    size, count = len(pages.owner), pages.owner.max() + 1
    parts = (rng.normal(size=(2, count))[:, pages.owner], rng.normal(size=(2, size)))
    x, noise = (parts[0] + parts[1]) / math.sqrt(2)
    y = CORRELATION * x + math.sqrt(1 - CORRELATION**2) * noise
    ranks = 6 / math.pi * math.asin(CORRELATION / 2)
    linear, ranked = pearson(x, y, pages.owner), spearman(x, y, pages.owner)
    return _holds(linear, CORRELATION), _holds(ranked, ranks)


def _gold(rng: np.random.Generator, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw scores of people, in steps and with many at 0, and those of two measures, one worse."""
    real = np.maximum(0.0, rng.normal(0.5, 0.5, size))
    steps = np.round(real / GOLD[0]) * GOLD[0]
    first = np.minimum(1.0, real + rng.normal(0, GOLD[1], size))
    return steps, first, first + rng.normal(0, GOLD[1], size)


@cache
def _true_gold() -> tuple[float, float, float]:
    held = np.stack(_gold(np.random.default_rng(7), 1_000_000), 1)
    linear, ranked = correlation_matrix(held)[0], correlation_matrix(average_ranks(held))[0]
    return float(linear[1]), float(ranked[1]), float(ranked[1] - ranked[2])


def _people(rng: np.random.Generator, size: int) -> tuple[float, float, float]:
    """Judge correlations of measures with scores of people, and the difference of two."""
    gold, first, second = _gold(rng, size)
    linear, ranked, difference = _true_gold()
    found = spearman(gold, first)
    _, low, high = correlation_difference(found, spearman(gold, second))
    return (
        _holds(pearson(gold, first), linear),
        _holds(found, ranked),
        float(low <= difference <= high),
    )


def simulate(seed: int, groups: int) -> Covered:
    """Draw predictions of some pages and judge every interval."""
    rng = np.random.default_rng([seed, groups])
    pages = _pages(rng, groups)
    people = _people(rng, len(pages.owner))
    return Covered(*_means(rng, pages), *_bleu(rng, pages, seed), *_in_pages(rng, pages), *people)


def coverages(repeats: int, groups: int) -> Covered:
    """Return the shares of repeats in which each interval holds the truth."""
    found = np.array([simulate(seed, groups) for seed in range(repeats)])
    return Covered(*map(float, found.mean(axis=0)))


class Level(NamedTuple):
    """How often p <= .05 of a difference that is none: of right words, and of BLEU-2."""

    mean: float
    bleu_2: float


def _compared(seed: int, groups: int, tilt: float) -> list[bool]:
    """Compare two models, one better on large pages and one on small ones, on average alike."""
    rng = np.random.default_rng([seed, groups])
    pages = _pages(rng, groups)
    mean = 1 + BESIDE
    larger = np.bincount(pages.owner)[pages.owner] - (BESIDE + mean**2) / mean  # 0 in a sentence
    own = [
        _by_page(pages, _statistics(rng, pages._replace(ease=pages.ease * factor), RATE))
        for factor in (1 + tilt * larger / mean, 1 - tilt * larger / mean)
    ]
    counts = np.stack(own, axis=1).astype(float)  # (G, 2, K)
    shared = ["a", "b"], counts[:, :, 2], counts[:, 0, 0]
    told = len(pages.owner), 0
    sums = {
        ScoreKey("test", "words", "accuracy", PREDICTED): GroupSums(*shared, None, 0, *told),
        ScoreKey("test", "words", "bleu_2", PREDICTED): GroupSums(
            *shared, counts[:, :, None], 2, *told
        ),
    }
    rows = compare_semantics(PairedScores(sums, {"test": np.arange(groups)}, {})).to_pylist()
    return [row["p_value"] <= LEVEL for row in rows]


def levels(repeats: int, groups: int, tilt: float = TILT) -> Level:
    """Return the shares of repeats in which models that do not differ are said to."""
    found = np.array([_compared(seed, groups, tilt) for seed in range(repeats)])
    return Level(*map(float, found.mean(axis=0)))


def all_rates(repeats: int) -> Iterator[Rate]:
    """Yield coverages and levels of every case, with what is allowed."""
    for groups in (30, 60, 300):
        cases: dict[str, tuple[NamedTuple, str, tuple[float, float]]] = {
            f"{groups} pages": (coverages(repeats, groups), "0.95", (0.93, 1.0)),
        }
        for tilt in (0.0, TILT):
            case = f"{groups} pages, tilt {tilt:g}"
            cases[case] = levels(repeats, groups, tilt), f"{LEVEL:g}", (0.0, 0.075)
        for case, (found, nominal, limits) in cases.items():
            for measure, rate in found._asdict().items():
                yield Rate("semantics", case, measure, rate, nominal, limits, repeats)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=1000, help="repeats of every case")
    return exit_status(all_rates(parser.parse_args().repeats))


if __name__ == "__main__":
    sys.exit(main())
