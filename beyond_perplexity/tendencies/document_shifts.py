"""Shifts of unigrams and of rank and frequency: whole documents are drawn, and words changed.

See `shifts` for their definitions. V types, D documents, w pairs of samples at a time.
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from scipy.sparse import csc_matrix

from beyond_perplexity.inference.distances import rank_ks
from beyond_perplexity.inference.exchanged_units import SIDE_BY_SIDE
from beyond_perplexity.inference.p_values import joined_draws
from beyond_perplexity.random_streams import stream
from beyond_perplexity.tendencies.power_laws import fit_zipf
from beyond_perplexity.tendencies.shifts import MeasureDraws, PairDraw, Shift
from beyond_perplexity.tendencies.word_distances import top_ranks, unigram_distances


class _DocumentShift(Shift):
    """Whole documents: a sample says how often each document of the population is drawn.

    Parameters
    ----------
    counts : scipy.sparse.csc_matrix of float64, shape (V, D)
        Occurrences of the types in the documents of the population.
    ranks : int or None
        Ranks that the measures of rank and frequency compare.
    """

    def __init__(self, counts: csc_matrix, ranks: int | None) -> None:
        totals = np.asarray(counts.sum(axis=1)).ravel()
        order = np.argsort(-totals, kind="stable")  # frequent types first, which is faster
        self.counts = counts.tocsr()[order].tocsc()
        self._shares = totals[order] / totals.sum()
        self._ranks = ranks

    @abstractmethod
    def _second(self, rngs: list[np.random.Generator], n: int, x: float) -> np.ndarray:
        """Draw n shifted documents for each pair: counts, (V, w)."""

    def _sample(self, sizes: np.ndarray, rngs: list[np.random.Generator]) -> np.ndarray:
        """Draw documents with replacement, as many as `sizes` says of each column: (V, w)."""
        n_documents = self.counts.shape[1]
        uniform = np.full(n_documents, 1 / n_documents)
        drawn = [rng.multinomial(n, uniform) for rng, n in zip(rngs, sizes, strict=True)]
        sample: np.ndarray = self.counts @ np.stack(drawn, axis=1).astype(float)
        return sample

    def draw(self, how: PairDraw, x: float, null: bool = False) -> MeasureDraws:
        parts: list[MeasureDraws] = []
        shifted = (how.n // 2,) * 2 if null else (0, how.n)
        for start in range(0, how.pairs, SIDE_BY_SIDE):
            items = range(start, min(start + SIDE_BY_SIDE, how.pairs))
            rngs = [stream(how.seed, how.purpose, i) for i in items]
            first, second = (
                self._sample(np.full(len(items), how.n - n), rngs) + self._second(rngs, n, x)
                for n in shifted
            )
            parts.append(self._measure(first, second))
        return joined_draws(parts)

    @abstractmethod
    def _measure(self, first: np.ndarray, second: np.ndarray) -> MeasureDraws:
        """Compute the measures of pairs of samples (V, w): each (w,)."""


class UnigramShift(_DocumentShift):
    """Exchanged words; the permutation of types is drawn from a stream of its own.

    Parameters
    ----------
    counts, ranks
        See the base class.
    seed : int
        Seed of the permutation.
    """

    tendency = "unigram"
    measures = ("tvd", "max_difference")
    unit = "distance"

    def __init__(self, counts: csc_matrix, ranks: int | None, seed: int) -> None:
        super().__init__(counts, ranks)
        self.exchange = stream(seed, "sensitivity/exchange").permutation(len(self._shares))
        difference = np.abs(self._shares - self._shares[self.exchange])
        self._distance = {"tvd": difference.sum() / 2, "max_difference": difference.max()}

    def _second(self, rngs: list[np.random.Generator], n: int, x: float) -> np.ndarray:
        exchanged = np.array([rng.binomial(n, x) for rng in rngs])
        plain = self._sample(n - exchanged, rngs)
        return plain + self._sample(exchanged, rngs)[self.exchange] if x else plain

    def exchanged(self, rng: np.random.Generator, n: int, x: float) -> np.ndarray:
        """Draw n documents, a share x of them with exchanged words: counts, (V,)."""
        counts: np.ndarray = self._second([rng], n, x)[:, 0]
        return counts

    def _measure(self, first: np.ndarray, second: np.ndarray) -> MeasureDraws:
        return unigram_distances(first, second)

    def size(self, measure: str, x: float) -> tuple[float, float]:
        """Return the distance of the shifted population in the measure, and x itself."""
        return float(x * self._distance[measure]), x


class RankShift(_DocumentShift):
    """Rare words become rarer."""

    tendency = "rank_frequency"
    measures = ("ks_empirical",)
    unit = "Zipf's s"

    def _second(self, rngs: list[np.random.Generator], n: int, x: float) -> np.ndarray:
        kept = (self._shares / self._shares[0]) ** x
        sample = self._sample(np.full(len(rngs), round(n / (kept @ self._shares))), rngs)
        if x:
            for column, rng in enumerate(rngs):
                sample[:, column] = rng.binomial(sample[:, column].astype(np.int64), kept)
        return sample

    def _measure(self, first: np.ndarray, second: np.ndarray) -> MeasureDraws:
        tops = (top_ranks(side, self._ranks) for side in (first, second))
        return {"ks_empirical": rank_ks(*tops)}

    def size(self, measure: str, x: float) -> tuple[float, float]:
        """Return the difference of the exponents fitted to the two populations."""
        s = fit_zipf(self._shares[: self._ranks])
        change = fit_zipf(self._shares[: self._ranks] ** (1 + x)) - s
        return change, change / s
