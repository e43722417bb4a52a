"""Shifts of curves: of what is counted of each document at several places.

See `document_shifts` and, for the definitions, `shifts`. D documents, D' of them with a curve of K
places, in P groups.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache

import numpy as np

from beyond_perplexity.inference import permuted_units
from beyond_perplexity.random_streams import stream
from beyond_perplexity.tendencies import shared_ngrams
from beyond_perplexity.tendencies.definitions import LENGTH, SHARED_NGRAMS, TENDENCIES
from beyond_perplexity.tendencies.document_shifts import NO_VERDICT, GroupedDocuments, rarer_law
from beyond_perplexity.tendencies.document_statistics import ABSENT
from beyond_perplexity.tendencies.shifts import MeasureDraws, PairDraw, Shift
from beyond_perplexity.tendencies.statistics import Statistics
from beyond_perplexity.tendencies.tokens import TokenBatch

_REPLACED = 2_000  # documents whose words are replaced, or more
_ROUNDING = 1e-12  # of the mean square: what equal numbers may seem to vary by


class CurveShift(Shift):
    """Higher curves, of documents (D', K) in groups, or of single ones as groups of one.

    The largest |t| is drawn from the normal distribution that mean curves have.
    """

    unit = "its own unit"
    effort = 16.0  # a draw is of a few numbers

    def __init__(
        self,
        tendency: str,
        distance: str,
        curves: np.ndarray,
        groups: GroupedDocuments,
        only_n: int = 0,
    ) -> None:
        """Take the groups of all documents of the population, `weights` those that have a curve."""
        self.tendency, self.measures, self._groups = tendency, (distance,), groups
        self.only_n = only_n
        kept = groups.weights > 0
        self._held = self.share = float(kept.mean())  # of the documents in the groups
        self.spread = curves.std(axis=0)
        self._mean, residuals = curves.mean(axis=0), curves - curves.mean(axis=0)
        self._squares = (curves**2).mean(axis=0)
        of_groups = np.zeros((len(groups.sizes), curves.shape[1]))
        np.add.at(of_groups, groups.codes[kept], residuals)
        # n documents: the variance of the difference of both means, times n.
        self._covariance = (of_groups.T @ of_groups + residuals.T @ residuals) / len(curves)

    def draw(self, how: PairDraw, x: float, null: bool = False) -> MeasureDraws:
        """Draw pairs; with too few effective groups they have no verdict."""
        weights = np.bincount(self._groups.codes, self._groups.weights)
        effective = permuted_units.effective_groups(weights) / len(weights)
        effective *= self._groups.n_groups(round(how.n / self._held))
        few = effective < permuted_units.EFFECTIVE_GROUPS
        if self._groups.sizes.max() > 1:  # swapped with documents
            few |= how.n < permuted_units.DOCUMENTS_OF_CURVES
        if not null and few:
            return {self.measures[0]: np.full(how.pairs, NO_VERDICT)}
        # Where all documents are alike, no difference can be seen: unigrams of a known vocabulary.
        varied = np.diag(self._covariance) > _ROUNDING * self._squares
        if not varied.any():
            return {self.measures[0]: np.full(how.pairs, 0.0 if null else NO_VERDICT)}
        covariance = self._covariance[np.ix_(varied, varied)]
        variances = np.diag(covariance)
        correlation = covariance / np.sqrt(np.outer(variances, variances))
        rng, zeros = stream(how.seed, how.purpose, how.pairs), np.zeros(len(variances))
        t = rng.multivariate_normal(zeros, correlation, how.pairs, method="svd")
        # One design effect for all places: where groups vary little by chance, the largest |t| of
        # a shift would seem larger than it is.
        effect = np.mean(variances / self.spread[varied] ** 2)
        shifted = 0.0 if null else self._rise(x)[varied] * math.sqrt(how.n / effect)
        return {self.measures[0]: np.abs(t + shifted).max(axis=1)}

    def _rise(self, x: float) -> np.ndarray:
        """Return by how much curves are higher, in deviations of documents: (K,)."""
        return np.full(len(self.spread), x)

    def size(self, measure: str, x: float) -> tuple[float, float]:
        """Return the largest difference of the mean curves, and relative to the highest place."""
        change = float(np.max(self._rise(x) * self.spread))
        return change, change / float(np.abs(self._mean).max() or math.nan)


class SharedShift(CurveShift):
    """Rare words become rarer, so that documents share more words: as `RankShift` has it.

    The pseudo-values of documents are curves. Pairs are drawn of single documents; those of answers
    to prompts `prompt_shifts` draws, of which codes are the groups.
    """

    def __init__(self, words: np.ndarray, codes: np.ndarray, share: float = 1.0) -> None:
        """Take the first words of documents that are long enough, int32, (D', N), in groups (D',).

        `share` are these of all documents that are drawn.
        """
        row = TENDENCIES[SHARED_NGRAMS]
        self._words, self._codes, self._longest = words, codes, len(row.places)
        self.plain = self._shared(words)
        self.rarer = lru_cache(None)(self._rarer)
        groups = GroupedDocuments(codes, np.ones(len(codes)))
        super().__init__(SHARED_NGRAMS, row.distance, self.plain, groups)
        self.share = share

    def _shared(self, words: np.ndarray) -> np.ndarray:
        return shared_ngrams.shared_by_document(words, self._codes, self._longest)

    def _rarer(self, x: float) -> np.ndarray:
        """Return the curves of documents in which rare words are replaced: (R, D', K).

        Of a few documents it is done R times, as the words that are drawn vary what is shared.
        """
        words, rng = self._words, stream(0, "sensitivity/rarer")
        types, ids, counts = np.unique(words, return_inverse=True, return_counts=True)
        kept, law = rarer_law(counts, x)
        stays = kept[ids.reshape(words.shape)]
        found = []
        for _ in range(-(-_REPLACED // len(words))):
            others = types[rng.choice(len(types), words.shape, p=law)]
            found.append(self._shared(np.where(rng.random(words.shape) < stays, words, others)))
        return np.stack(found)

    def _more(self, x: float) -> np.ndarray:
        """Return how much more documents share: (K,)."""
        return np.asarray(self.rarer(x).mean(axis=(0, 1)) - self._mean)

    def _rise(self, x: float) -> np.ndarray:
        """Return it; of documents of both texts, as those that share more vary more."""
        both = np.sqrt((self.rarer(x).var(axis=1).mean(axis=0) + self.spread**2) / 2)
        return self._more(x) / np.maximum(both, math.sqrt(_ROUNDING))

    def size(self, measure: str, x: float) -> tuple[float, float]:
        """Return the largest difference of what is shared, and relative to what most is."""
        change = float(np.max(self._more(x)))
        return change, change / float(self._mean.max() or math.nan)

    def draw(self, how: PairDraw, x: float, null: bool = False) -> MeasureDraws:
        """Draw pairs of as many documents as are compared."""
        n = min(how.n, shared_ngrams.MOST_COMPARED)
        return super().draw(replace(how, n=n), x, null)


def first_words(reference: Statistics, batches: Iterable[TokenBatch]) -> dict[str, np.ndarray]:
    """Keep of documents what `shared_shifts` reads: the first words, int32, (D, N)."""
    size = shared_ngrams.compared_size(reference.histograms[LENGTH])
    return {SHARED_NGRAMS: np.concatenate([shared_ngrams.beginnings(x, size) for x in batches])}


def shared_shifts(values: Mapping[str, np.ndarray], least: int) -> Iterator[Shift]:
    """Yield that of shared n-grams, where so many documents are long enough."""
    beginnings = values[SHARED_NGRAMS]
    long = beginnings[:, 0] != ABSENT
    if long.sum() >= least:
        words = beginnings[shared_ngrams.spread_over(long)]
        yield SharedShift(words, np.arange(len(words)), float(long.mean()))
