"""The type-token relation: distances at each exact length, their mean, permutations, resamples.

The distance at length t compares the distribution of the number of types u over documents of
exactly t tokens with the Poisson law of a Heaps fit, or with that of the reference's documents of
t tokens. The summary of a curve is its mean over lengths, each weighted with the samples'
documents of that length.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import pdtr

from beyond_perplexity.random_streams import stream
from beyond_perplexity.tendencies.definitions import tendencies_of
from beyond_perplexity.tendencies.power_laws import Heaps, fit_heaps
from beyond_perplexity.tendencies.statistics import Histogram, Statistics

HISTOGRAM_OF = {name: row.histogram for name, row in tendencies_of("types").items()}


def fit(histogram: Histogram) -> Heaps:
    """Fit Heaps' law to all documents of a histogram of (length, types)."""
    lengths, inverse = np.unique(histogram.lengths, return_inverse=True)
    documents = np.bincount(inverse, histogram.counts)
    types = np.bincount(inverse, histogram.counts * histogram.values)
    return fit_heaps(lengths, documents, types)


@dataclass(frozen=True)
class LengthCells:
    """Cells (length, types) of bodies of text, (C,), sorted; `starts` of each length: (G,)."""

    lengths: np.ndarray
    values: np.ndarray
    starts: np.ndarray

    @classmethod
    def of(cls, histogram: Histogram) -> LengthCells:
        """Take the cells of a histogram."""
        lengths = histogram.lengths
        starts = np.flatnonzero(np.diff(lengths, prepend=-1))
        return cls(lengths, histogram.values, starts)

    @property
    def group_lengths(self) -> np.ndarray:
        """Distinct lengths: int64, shape (G,)."""
        return self.lengths[self.starts]

    @property
    def _sizes(self) -> np.ndarray:
        return np.diff(self.starts, append=len(self.lengths))

    def totals(self, counts: np.ndarray) -> np.ndarray:
        """Sum counts (..., C) over each length: (..., G)."""
        return np.add.reduceat(counts, self.starts, axis=-1)

    def cdf(self, counts: np.ndarray) -> np.ndarray:
        """Return the distribution function of the values within each length: (..., C), float64."""
        cumulative = np.cumsum(counts, axis=-1)
        before = (cumulative - counts)[..., self.starts]
        totals = np.maximum(self.totals(counts), 1)
        return (cumulative - np.repeat(before, self._sizes, -1)) / np.repeat(
            totals, self._sizes, -1
        )

    def largest(self, differences: np.ndarray) -> np.ndarray:
        """Take the largest difference (..., C) of each length: (..., G)."""
        return np.maximum.reduceat(differences, self.starts, axis=-1)


def restrict(histogram: Histogram, maximum_length: int) -> Histogram:
    """Keep the documents of 1 to `maximum_length` tokens."""
    kept = (histogram.lengths >= 1) & (histogram.lengths <= maximum_length)
    return Histogram(histogram.keys[kept], histogram.counts[kept])


@dataclass(frozen=True)
class PairedCells:
    """Documents of two bodies of text by (length, types): (C,) each."""

    cells: LengthCells
    reference: np.ndarray
    samples: np.ndarray


def pair_by_length(
    reference: Statistics, samples: Statistics, tendency: str, maximum_length: int
) -> PairedCells | None:
    """Bring the (length, types) of two bodies of text to common cells; None when there is none."""
    name = HISTOGRAM_OF[tendency]
    first = restrict(reference.histograms[name], maximum_length)
    second = restrict(samples.histograms[name], maximum_length)
    pooled = first + second
    if len(pooled.keys) == 0:
        return None
    counts = np.zeros((2, len(pooled.keys)), np.int64)
    counts[0, np.searchsorted(pooled.keys, first.keys)] = first.counts
    counts[1, np.searchsorted(pooled.keys, second.keys)] = second.counts
    return PairedCells(LengthCells.of(pooled), counts[0], counts[1])


def ks_to_heaps(cells: LengthCells, counts: np.ndarray, law: Heaps) -> np.ndarray:
    """Compute sup |F_t - Poisson(alpha t^beta)| at each length t, of documents (..., C): (..., G).

    Where a length has no document its value has no meaning.
    """
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


def weighted_mean(distances: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Average distances (..., G) over lengths with weights (..., G); NaN without weight: (...)."""
    with np.errstate(invalid="ignore"):
        return np.sum(distances * weights, axis=-1) / np.sum(weights, axis=-1)


def summarize_lengths(
    paired: PairedCells, reference: np.ndarray, samples: np.ndarray, laws: Mapping[str, Heaps]
) -> dict[str, np.ndarray]:
    """Compute the document-weighted means of the curves of distances, of documents (..., C).

    ``ks_empirical``, over the lengths that occur in both, and one by the name of each law, over all
    lengths.
    """
    cells = paired.cells
    weights = cells.totals(samples)  # (..., G)
    common = np.where(cells.totals(reference) > 0, weights, 0)
    found = {"ks_empirical": weighted_mean(ks_between(cells, reference, samples), common)}
    for name, law in laws.items():
        found[name] = weighted_mean(ks_to_heaps(cells, samples, law), weights)
    return found


def permute_by_length(paired: PairedCells, n: int, seed: int, purpose: str) -> np.ndarray:
    """Draw ``ks_empirical`` under n permutations of the documents of equal length: (n,).

    Conditioning on the lengths keeps a difference in lengths out of the test. Length t draws all
    its permutations from the stream (`seed`, `purpose`, t). NaN when no length occurs in both.
    """
    cells = paired.cells
    ends = np.append(cells.starts[1:], len(cells.lengths))
    total, weight = np.zeros(n), 0
    for length, start, end in zip(cells.group_lengths, cells.starts, ends, strict=True):
        first, second = paired.reference[start:end], paired.samples[start:end]
        n_first, n_second = int(first.sum()), int(second.sum())
        if n_first == 0 or n_second == 0:
            continue
        rng = stream(seed, purpose, int(length))
        drawn = rng.multivariate_hypergeometric(first + second, n_first, size=n)  # (n, U)
        cdf = np.cumsum(drawn, axis=1) / n_first
        others = np.cumsum(first + second - drawn, axis=1) / n_second
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
    documents = cells.totals(counts)
    total = np.zeros(n)
    if n == 0:
        return total
    for length, size in zip(cells.group_lengths, documents, strict=True):
        if size == 0:
            continue
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
    places = np.minimum(numbers - int(values[0]), len(values) - 1)
    above = np.arange(1, size + 1) / size - cdf[places]
    below = np.concatenate([[0.0], cdf])[places] - np.arange(size) / size
    return np.maximum(above, below).max(axis=1)


def type_places(lengths: np.ndarray, types: np.ndarray, cells: LengthCells) -> np.ndarray:
    """Return the cell of each document (D,), int64; -1 for one of a length that has no cell."""
    width = max(int(held.max(initial=0)) for held in (types, cells.values)) + 1
    keys = cells.lengths * width + cells.values
    wanted = lengths.astype(np.int64) * width + types
    places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[places] == wanted, places, -1)
