"""The type-token relation: distances at each exact length, their mean, permutations, resamples.

The distance at length t compares the distribution of the number of types u over documents of
exactly t tokens with the Poisson law of a Heaps fit, or with that of the reference's documents of
t tokens. The summary of a curve is its mean over lengths, each weighted with the samples'
documents of that length.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import pdtr

from beyond_perplexity.random_streams import stream
from beyond_perplexity.tendencies.definitions import tendencies_of
from beyond_perplexity.tendencies.power_laws import Heaps, fit_heaps
from beyond_perplexity.tendencies.statistics import Histogram, Statistics

HISTOGRAM_OF = {name: row.histogram for name, row in tendencies_of("types").items()}
_BIGRAMS = "type_token_bigrams"
# Of the distances, which are taken at each exact length; fits use all lengths.
HEAPS_MAXIMUM_LENGTH = 500


def fit(histogram: Histogram) -> Heaps:
    """Fit Heaps' law to all documents of a histogram of (length, types)."""
    return _fitted(histogram, histogram.values)


def _fitted(histogram: Histogram, numbers: np.ndarray) -> Heaps:
    lengths, inverse = np.unique(histogram.lengths, return_inverse=True)
    documents = np.bincount(inverse, histogram.counts)
    return fit_heaps(lengths, documents, np.bincount(inverse, histogram.counts * numbers))


def repeats_of(tendency: str, lengths: np.ndarray, types: np.ndarray) -> np.ndarray:
    """Count the n-grams of documents that repeat one, of any shape; of repeats, the types."""
    found: np.ndarray = lengths - (tendency == _BIGRAMS) - types
    return found


def fit_repeats(tendency: str, histogram: Histogram) -> Heaps:
    """Fit a power law to the n-grams that repeat one, as `fit` does; 1 where there are none."""
    law = _fitted(histogram, repeats_of(tendency, histogram.lengths, histogram.values))
    return Heaps(1.0, 0.0) if math.isnan(law.beta) else law


def moved_repeats(
    repeats: np.ndarray, before: np.ndarray, behind: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Draw repeats of documents, of any shape, as their expected number changes.

    A Poisson law stays one: each is kept with the ratio, or as many come to them as are expected.
    """
    kept = rng.binomial(repeats, np.minimum(behind / before, 1))
    return kept + rng.poisson(np.maximum(behind - before, 0), kept.shape)


@dataclass(frozen=True)
class LengthCells:
    """Cells (length, types) of sample sets, (C,), sorted; `starts` of each length: (G,)."""

    lengths: np.ndarray
    values: np.ndarray
    starts: np.ndarray

    @classmethod
    def of(cls, histogram: Histogram) -> LengthCells:
        """Take the cells of a histogram."""
        starts = np.flatnonzero(np.diff(histogram.lengths, prepend=-1))
        return cls(histogram.lengths, histogram.values, starts)

    @property
    def group_lengths(self) -> np.ndarray:
        """Distinct lengths: int64, shape (G,)."""
        return self.lengths[self.starts]

    def totals(self, counts: np.ndarray) -> np.ndarray:
        """Sum counts (..., C) over each length: (..., G)."""
        return np.add.reduceat(counts, self.starts, axis=-1)

    def cdf(self, counts: np.ndarray) -> np.ndarray:
        """Return the distribution function of the values within each length: (..., C), float64."""
        sizes = np.diff(self.starts, append=len(self.lengths))
        cumulative = np.cumsum(counts, axis=-1)
        before = np.repeat((cumulative - counts)[..., self.starts], sizes, -1)
        return (cumulative - before) / np.repeat(np.maximum(self.totals(counts), 1), sizes, -1)

    def largest(self, differences: np.ndarray) -> np.ndarray:
        """Take the largest difference (..., C) of each length: (..., G)."""
        return np.maximum.reduceat(differences, self.starts, axis=-1)


def restrict(histogram: Histogram) -> Histogram:
    """Keep the documents of 1 to `HEAPS_MAXIMUM_LENGTH` tokens."""
    kept = (histogram.lengths >= 1) & (histogram.lengths <= HEAPS_MAXIMUM_LENGTH)
    return Histogram(histogram.keys[kept], histogram.counts[kept])


def pair_by_length(
    reference: Statistics, samples: Statistics, tendency: str
) -> tuple[LengthCells, np.ndarray] | None:
    """Count the documents of two texts in common cells: int64, (2, C); None when there is none."""
    name = HISTOGRAM_OF[tendency]
    sides = [restrict(sample_set.histograms[name]) for sample_set in (reference, samples)]
    pooled = sides[0] + sides[1]
    if len(pooled.keys) == 0:
        return None
    counts = np.zeros((2, len(pooled.keys)), np.int64)
    for row, side in zip(counts, sides, strict=True):
        row[np.searchsorted(pooled.keys, side.keys)] = side.counts
    return LengthCells.of(pooled), counts


def ks_to_heaps(cells: LengthCells, counts: np.ndarray, law: Heaps) -> np.ndarray:
    """Compute sup |F_t - Poisson(alpha t^beta)| at each length t, of (..., C): (..., G)."""
    rate = law.rate(cells.lengths)  # (C,)
    cdf = cells.cdf(counts)  # (..., C)
    before = np.roll(cdf, 1, axis=-1)  # (..., C)
    before[..., cells.starts] = 0
    # Between two values that occur F stays and the Poisson law rises: its ends bound the
    # difference.
    at = np.abs(cdf - _poisson_cdf(cells.values, rate))
    below = np.abs(before - _poisson_cdf(cells.values - 1, rate))
    return cells.largest(np.maximum(at, below))


def ks_between(cells: LengthCells, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Compute sup |F1_t - F2_t| at each length t, for counts (..., C): (..., G)."""
    return cells.largest(np.abs(cells.cdf(first) - cells.cdf(second)))


def _weighted_mean(distances: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Average distances (..., G) over lengths with weights (..., G); NaN without weight: (...)."""
    with np.errstate(invalid="ignore"):
        return np.sum(distances * weights, axis=-1) / np.sum(weights, axis=-1)


def summarize_lengths(
    cells: LengthCells, reference: np.ndarray, samples: np.ndarray, laws: Mapping[str, Heaps]
) -> dict[str, np.ndarray]:
    """Compute the document-weighted means of the curves of distances, of documents (..., C).

    ``ks_empirical``, over lengths that occur in both, and one by the name of each law, over all.
    """
    weights = cells.totals(samples)  # (..., G)
    common = np.where(cells.totals(reference) > 0, weights, 0)
    found = {"ks_empirical": _weighted_mean(ks_between(cells, reference, samples), common)}
    for name, law in laws.items():
        found[name] = _weighted_mean(ks_to_heaps(cells, samples, law), weights)
    return found


def scaled_distance(
    cells: LengthCells, reference: np.ndarray, samples: np.ndarray
) -> dict[str, np.ndarray]:
    """Compute ``ks_empirical`` as a test of groups compares it, of documents (..., C).

    A distance of few documents is large by chance, and these change with the groups of a side. With
    h_t = n m / (n + m), of n and m documents of length t, √h_t D_t is about as large whatever they
    are; this is its mean over lengths, each weighted with √h_t.
    """
    n, m = cells.totals(reference), cells.totals(samples)  # (..., G)
    scale = np.sqrt(n * m / np.maximum(n + m, 1))
    return {"ks_empirical": _weighted_mean(scale * ks_between(cells, reference, samples), scale)}


def permute_by_length(
    cells: LengthCells, counts: np.ndarray, n: int, seed: int, purpose: str
) -> np.ndarray:
    """Draw ``ks_empirical`` under n permutations of the documents (2, C) of equal length: (n,).

    This keeps a difference in lengths out of the test. Length t draws from the stream (`seed`,
    `purpose`, t). NaN when no length occurs in both.
    """
    total, weight = np.zeros(n), 0
    for length, (first, second) in zip(
        cells.group_lengths, np.split(counts, cells.starts[1:], axis=1), strict=True
    ):
        n_first, n_second = int(first.sum()), int(second.sum())
        if n_first == 0 or n_second == 0:
            continue
        pooled, rng = first + second, stream(seed, purpose, int(length))
        drawn = rng.multivariate_hypergeometric(pooled, n_first, size=n)  # (n, U)
        cdf = np.cumsum(drawn, axis=1) / n_first
        others = np.cumsum(pooled - drawn, axis=1) / n_second
        total += n_second * np.abs(cdf - others).max(axis=1)
        weight += n_second
    return total / weight if weight else np.full(n, np.nan)


def draw_from_heaps(
    cells: LengthCells, counts: np.ndarray, law: Heaps, n: int, seed: int, purpose: str
) -> np.ndarray:
    """Draw the summary distance of samples of the fitted Poisson laws from these laws: (n,).

    The parameters are taken as known; with two of them fitted to many documents the p-values are,
    if anything, too large. Length t draws from the stream (`seed`, `purpose`, t). See Wood and
    Altavela (1978) for discrete Kolmogorov-Smirnov statistics.
    """
    documents, total = cells.totals(counts), np.zeros(n)
    if n == 0:
        return total
    for length, size in zip(cells.group_lengths, documents, strict=True):
        if size:
            rate = float(law.rate(np.array(length)))
            total += size * _poisson_ks(stream(seed, purpose, int(length)), rate, int(size), n)
    return total / documents.sum()


def _poisson_cdf(values: np.ndarray, rate: np.ndarray | float) -> np.ndarray:
    """Return P(X <= value) under Poisson(rate)."""
    return np.where(values < 0, 0.0, pdtr(values, rate))  # of a negative value `pdtr` is NaN


def _poisson_ks(rng: np.random.Generator, rate: float, size: int, n: int) -> np.ndarray:
    """Draw sup |F - Poisson(rate)| of n samples of `size` numbers: float64, shape (n,)."""
    spread = 12 * np.sqrt(rate) + 30  # beyond it lies a mass below the accuracy of a float
    values = np.arange(max(0.0, np.floor(rate - spread)), np.ceil(rate + spread))
    cdf = _poisson_cdf(values, rate)  # (U,)
    if size > len(values):
        drawn = rng.multinomial(size, np.diff(cdf, prepend=0), size=n)  # (n, U)
        return np.abs(np.cumsum(drawn, axis=1) / size - cdf).max(axis=1)
    numbers = np.sort(rng.poisson(rate, (n, size)), axis=1)  # (n, size)
    indices = np.minimum(numbers - int(values[0]), len(values) - 1)
    above = np.arange(1, size + 1) / size - cdf[indices]
    below = np.concatenate([[0.0], cdf])[indices] - np.arange(size) / size
    return np.maximum(above, below).max(axis=1)


def type_places(lengths: np.ndarray, types: np.ndarray, cells: LengthCells) -> np.ndarray:
    """Return the cell of each document (D,), int64; -1 for one of a length that has no cell."""
    width = max(int(held.max(initial=0)) for held in (types, cells.values)) + 1
    keys = cells.lengths * width + cells.values
    wanted = lengths.astype(np.int64) * width + types
    indices = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[indices] == wanted, indices, -1)
