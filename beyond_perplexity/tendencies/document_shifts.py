"""Shifts for which whole documents, or whole groups of them, are drawn, and words changed.

Where the reference has groups, its n documents come as groups, drawn with replacement; the shifted
sample is of as many independent documents. Tests of one number per document swap groups with
pseudo-groups of as many documents: under the null hypothesis either side has the groups that were
kept and the documents of those that were swapped (`inference.permuted_units`); so does that of the
largest difference of unigrams, but how it varies a few hundred groups do not tell: the words that
stand out are those of their largest groups, and the power would seem too small. Without groups,
tests of words permute documents of about one length: samples have as many of each stratum of
lengths. The total variation is tested by the held-out distance, of documents too, whose p-value
becomes a normal score. Draws with too few effective units have no verdict: no shift is found in
them. See `shifts` for the definitions. V types, D documents, P groups, G groups of a sample, w
pairs of samples at a time.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial

import numpy as np
from scipy.sparse import csc_matrix, csr_matrix, hstack
from scipy.stats import norm
from scipy.stats import t as student

from beyond_perplexity.inference import permuted_units
from beyond_perplexity.inference.held_out import combine, combine_pairs, halvings
from beyond_perplexity.inference.p_values import joined_draws
from beyond_perplexity.inference.permuted_units import HALVINGS, STRATA, STRATUM
from beyond_perplexity.inference.two_sample_test import ks, rank_ks, studentized_difference
from beyond_perplexity.random_streams import stream
from beyond_perplexity.tendencies.power_laws import fit_zipf
from beyond_perplexity.tendencies.shifts import (
    LengthShift,
    MeasureDraws,
    NumberShift,
    PairDraw,
    ShareShift,
    Shift,
)
from beyond_perplexity.tendencies.word_distances import top_ranks

NO_VERDICT = -math.inf
Inner = LengthShift | ShareShift | NumberShift


def rarer_law(counts: np.ndarray, x: float) -> tuple[np.ndarray, np.ndarray]:
    """Give types (V,) of probability p one like p^(1 + x): what stays, what replaces the rest.

    These are the share of each type that stays and the probabilities of what comes in place of what
    does not, (V,) each.
    """
    kept = (counts / counts.max()) ** x
    return kept, kept * counts / (kept @ counts)


class RankShift(Shift):
    """Rare words become rarer; a sample says how often each document of the population is drawn."""

    tendency = "rank_frequency"
    measures = ("ks_empirical",)
    unit = "Zipf's s"

    def __init__(self, counts: csc_matrix, ranks: int | None) -> None:
        """Take the ranks to compare, and occurrences of types in documents, float64, (V, D).

        Frequent types first are faster. A sample has as many documents of each length as the
        population.
        """
        self.counts, self._ranks = counts, ranks
        totals = np.asarray(counts.sum(axis=1)).ravel()
        self._shares = totals / totals.sum()
        by_length = np.argsort(np.asarray(counts.sum(axis=0)).ravel(), kind="stable")
        n = min(STRATA, max(1, len(by_length) // STRATUM))
        self._strata = np.array_split(by_length, n)

    def _sample(self, n: int, rngs: list[np.random.Generator]) -> np.ndarray:
        """Draw n documents with replacement for each pair: how often each is, (D, w)."""
        drawn = np.zeros((self.counts.shape[1], len(rngs)), np.int64)
        ends = np.cumsum([0, *map(len, self._strata)]) / len(drawn)
        for column, rng in enumerate(rngs):
            of_each = np.diff(np.floor(n * ends + rng.random())).astype(int)
            for stratum, k in zip(self._strata, of_each, strict=True):
                drawn[stratum, column] = rng.multinomial(k, np.full(len(stratum), 1 / len(stratum)))
        return drawn

    def draw(self, how: PairDraw, x: float, null: bool = False) -> MeasureDraws:
        """Draw pairs; under the null hypothesis half of the documents of each are shifted."""
        parts: list[MeasureDraws] = []
        shifted = (how.n // 2,) * 2 if null else (0, how.n)
        for items in permuted_units.side_by_side(how.pairs):
            rngs = [stream(how.seed, how.purpose, i) for i in items]
            first, second = (
                self.counts @ self._sample(how.n - n, rngs).astype(float) + self._second(rngs, n, x)
                for n in shifted
            )
            parts.append(self.measure(first, second))
        return joined_draws(parts)

    def _second(self, rngs: list[np.random.Generator], n: int, x: float) -> np.ndarray:
        return self.thinned(self.counts @ self._sample(n, rngs).astype(float), rngs, x)

    def thinned(self, sample: np.ndarray, rngs: list[np.random.Generator], x: float) -> np.ndarray:
        """Shift the counts of samples, (V, w), in place."""
        kept, law = rarer_law(self._shares, x)
        for column, rng in enumerate(rngs if x else []):
            stays = rng.binomial(sample[:, column].astype(np.int64), kept)
            lost = int(sample[:, column].sum() - stays.sum())
            sample[:, column] = stays + rng.multinomial(lost, law)
        return sample

    def measure(self, first: np.ndarray, second: np.ndarray) -> MeasureDraws:
        """Measure pairs of counts, (V, w) each."""
        tops = (top_ranks(side, self._ranks) for side in (first, second))
        return {"ks_empirical": rank_ks(*tops)}

    def size(self, measure: str, x: float) -> tuple[float, float]:
        """Return the difference of the exponents fitted to the two populations."""
        ranked = np.sort(self._shares[self._shares > 0])[::-1][: self._ranks]
        s = fit_zipf(ranked)
        change = fit_zipf(ranked ** (1 + x)) - s
        return change, change / s


MOST_HALVED = 4_000  # documents for which held-out distances are drawn; beyond, shifts are scaled


@dataclass(frozen=True)
class GroupedDocuments:
    """The groups of a population: the group, from 0 on, of every document, (D,).

    `weights` (D,) are what counts for the effective number of groups: tokens of words, else ones.
    """

    codes: np.ndarray
    weights: np.ndarray

    @cached_property
    def sizes(self) -> np.ndarray:
        """Documents of each group: int64, shape (P,)."""
        return np.bincount(self.codes)

    @cached_property
    def members(self) -> csr_matrix:
        """Ones where a document is of a group: float64, shape (D, P)."""
        return csr_matrix((np.ones(len(self.codes)), (np.arange(len(self.codes)), self.codes)))

    def n_groups(self, n: int) -> int:
        """Return how many groups have n documents on average."""
        return max(2, round(n / self.sizes.mean()))

    def draw(self, rng: np.random.Generator, n: int, null: bool) -> np.ndarray:
        """Draw how often each group is kept and how often it is swapped: int64, shape (2, P)."""
        total = self.n_groups(n)
        swapped = int(rng.binomial(total, 0.5)) if null else 0
        law = np.full(len(self.sizes), 1 / len(self.sizes))
        return np.stack([rng.multinomial(k, law) for k in (total - swapped, swapped)])

    def is_enough(self, drawn: np.ndarray) -> bool:
        """Say whether groups that are drawn so often (2, P) allow a verdict."""
        weights = np.repeat(np.bincount(self.codes, self.weights), drawn.sum(axis=0))
        return permuted_units.effective_groups(weights) >= permuted_units.EFFECTIVE_GROUPS


class DrawnShift(Shift):
    """A shift of documents that are drawn in units; `inner` is that of independent documents."""

    def __init__(self, inner: Shift) -> None:
        self.tendency, self.unit, self.largest = inner.tendency, inner.unit, inner.largest
        self.share, self._inner = inner.share, inner

    def size(self, measure: str, x: float) -> tuple[float, float]:
        """Return that of the shift of independent documents."""
        return self._inner.size(measure, x)

    def draw(self, how: PairDraw, x: float, null: bool = False) -> MeasureDraws:
        """Draw pairs of samples one by one."""
        rngs = (stream(how.seed, how.purpose, item) for item in range(how.pairs))
        parts = [self._pair(rng, how.n, x, null) for rng in rngs]
        return {name: np.array([part[name] for part in parts]) for name in self.measures}

    @abstractmethod
    def _pair(self, rng: np.random.Generator, n: int, x: float, null: bool) -> dict[str, float]:
        """Draw a pair of samples of about n documents and measure it."""


class SwapShift(DrawnShift):
    """A shift of whole groups that is tested by swaps; too few effective ones have no verdict."""

    def __init__(self, inner: Shift, groups: GroupedDocuments) -> None:
        super().__init__(inner)
        self._groups = groups

    def _pair(self, rng: np.random.Generator, n: int, x: float, null: bool) -> dict[str, float]:
        drawn = self._groups.draw(rng, n, null)
        found = self._measure(rng, drawn, x)
        enough = null or self._groups.is_enough(drawn)
        return found if enough else dict.fromkeys(found, NO_VERDICT)

    @abstractmethod
    def _measure(self, rng: np.random.Generator, drawn: np.ndarray, x: float) -> dict[str, float]:
        """Measure a pair with groups that are drawn so often (2, P)."""


class NumberSwapShift(SwapShift):
    """One number per document: length, or the share of the tokens of a class, (D,)."""

    measures = ("ks", "mean_difference")
    _inner: Inner

    def __init__(self, inner: Inner, groups: GroupedDocuments, numbers: np.ndarray) -> None:
        super().__init__(inner, groups)
        self._law = lru_cache(1)(inner.probabilities)  # one shift has many pairs
        kept, n_groups = ~np.isnan(numbers), len(groups.sizes)
        codes, numbers = groups.codes[kept], numbers[kept]
        self._cells = csr_matrix(inner.cells_of(numbers, codes, n_groups))  # (P, C), mostly zeros
        self._sizes = np.bincount(codes, minlength=n_groups)
        self._sums = np.bincount(codes, numbers, minlength=n_groups)

    def _measure(self, rng: np.random.Generator, drawn: np.ndarray, x: float) -> dict[str, float]:
        law, (mean, variance) = self._law(x), self._inner.moments(x)
        documents = [rng.multinomial(n, law) for n in drawn @ self._sizes]
        # Either side: its groups that were kept, and the documents of those that were swapped.
        cells = drawn @ self._cells
        distance = ks(cells[0] + documents[1], cells[1] + documents[0])
        units = np.repeat(np.tile(np.arange(len(self._sizes)), 2), drawn.ravel())  # (G,)
        sizes = self._sizes[units]
        others = rng.normal(sizes * mean, np.sqrt(sizes * variance))
        kept = np.arange(len(units)) < drawn[0].sum()
        first, sums = np.append(kept, ~kept), np.append(self._sums[units], others)
        t = studentized_difference(first, ~first, sums, np.tile(sizes, 2))
        return {"ks": float(distance), "mean_difference": abs(float(t))}


class HeldOutShift(Shift):
    """Swapped words, tested by the held-out total variation: the score of its p-value.

    Independent documents are groups of one. What a shift changes depends on x * sqrt(n) alone when
    n is large: with more than `MOST_HALVED` documents the draws are those of so many, with a shift
    that is larger by the root.
    """

    tendency = "unigram"
    measures = ("tvd",)
    unit = "distance"
    is_score = True
    effort = 0.25

    def __init__(self, counts: csc_matrix, groups: GroupedDocuments, seed: int) -> None:
        """Take occurrences of types in documents, float64, (V, D).

        The permutation of types is drawn from a stream of its own.
        """
        totals = np.asarray(counts.sum(axis=1)).ravel()
        self.swap = stream(seed, "sensitivity/exchange").permutation(len(totals))
        self._distance = float(np.abs(totals - totals[self.swap]).sum() / totals.sum() / 2)
        self._groups, self._pages = groups, counts @ groups.members  # (V, P)
        self.texts = hstack([counts, counts[self.swap]], "csc")  # (V, 2 D)

    def size(self, measure: str, x: float) -> tuple[float, float]:
        """Return the distance of the shifted population, and x itself."""
        return x * self._distance, x

    def draw(self, how: PairDraw, x: float, null: bool = False) -> MeasureDraws:
        """Draw the scores of pairs; there are none of the null hypothesis."""
        n = min(how.n, MOST_HALVED)
        scaled = min(self.largest, x * math.sqrt(how.n / n))
        rngs = (stream(how.seed, how.purpose, i) for i in range(how.pairs))
        return {"tvd": np.array([self._score(rng, n, scaled) for rng in rngs])}

    def _score(self, rng: np.random.Generator, n: int, x: float) -> float:
        sizes, n_documents = self._groups.sizes, len(self._groups.codes)
        chosen = rng.integers(len(sizes), size=self._groups.n_groups(n))
        documents = rng.integers(n_documents, size=int(sizes[chosen].sum()))
        swapped = n_documents * (rng.random(len(documents)) < x)  # those with swapped words
        # Copies of a group stay in one half: what one learns the other must not have read.
        halves = halvings(len(sizes), [rng] * HALVINGS)
        pages = Side(self._pages, chosen, halves[chosen])
        texts = Side(self.texts, documents + swapped, halves[self._groups.codes[documents]])
        return held_out_score(pages, texts)


class Side:
    """Units drawn with replacement from the columns of counts (V, U), and their halves."""

    def __init__(self, counts: csc_matrix, chosen: np.ndarray, halves: np.ndarray) -> None:
        self._counts, self._chosen, self._halves = counts, chosen, halves
        self.tokens = np.asarray(counts.sum(axis=0)).ravel()[chosen]

    def half(self, h: int, first: bool) -> np.ndarray:
        """Sum the counts of a half of halving h: float64, shape (V,)."""
        kept = self._chosen[self._halves[:, h] == first]
        times = np.bincount(kept, minlength=self._counts.shape[1]).astype(float)
        return np.asarray(self._counts @ times)

    def inside(self, marks: np.ndarray, h: int, first: bool) -> np.ndarray:
        """Count marked tokens of the units of a half, 0 for the others: (len(chosen),)."""
        found = np.asarray(self._counts.T @ marks)[self._chosen]
        return np.where(self._halves[:, h] == first, found, 0)


def held_out_score(pages: Side, texts: Side, prompts: np.ndarray | None = None) -> float:
    """Return the normal score of the p-value of the held-out distance of two samples.

    Of pairs of answers to `prompts` (K,): of as many units of both samples.
    """

    def of_units(*held: np.ndarray) -> list[np.ndarray]:
        return [own if prompts is None else np.bincount(prompts, own) for own in held]

    tokens = of_units(pages.tokens, texts.tokens)
    if min(map(permuted_units.effective_groups, tokens)) < permuted_units.EFFECTIVE_GROUPS:
        return NO_VERDICT
    combined = partial(combine, sample_groups=False) if prompts is None else combine_pairs
    tails = []
    for h in range(HALVINGS):
        y, inside = np.zeros(len(pages.tokens)), np.zeros(len(texts.tokens))
        for half in (False, True):
            human, model = pages.half(h, half), texts.half(h, half)
            marks = (human / human.sum() > model / model.sum()).astype(float)
            y += pages.inside(marks, h, not half)
            inside += texts.inside(marks, h, not half)
        y, inside = of_units(y, inside)
        e, error, df = combined(y, tokens[0], inside, tokens[1])
        tails.append(float(student.sf(e / error, df)))
    score = float(norm.isf(np.median(tails)))
    return NO_VERDICT if math.isnan(score) else score
