"""Populations of documents with a shift of one tendency, from which pairs of samples are drawn.

A population is made of the reference's documents. One sample of n documents is drawn from it, the
other from the population with a shift x >= 0 in one tendency:

=============== ====================================================================================
tendency        shift x
=============== ====================================================================================
length          every document is longer by the factor 1 + x
a share         every token that is none of the class becomes one with probability x, so that the
                share of a document grows
a number        every document's number is larger by x standard deviations of documents; of whole
                words or bytes over the size a part of one is rounded at random
a curve         every document's curve is higher by x standard deviations, at each place its own
unigram         a share x of the documents has its words swapped by a fixed random permutation of
                all types: the mixture (1 - x) p + x q of the unigrams p with the permuted ones q
rank_frequency  a token of probability p is kept with probability (p / largest p)^x, else replaced
                by a draw of the kept ones: p becomes p^(1 + x) up to a factor, rare words become
                rarer, Zipf's exponent grows, and documents stay as long
shared_ngrams   a token is replaced as for rank_frequency, so that documents share more words
type_token      every document has fewer types by the factor 1 - x (Heaps' alpha), parts of a type
                rounded at random
=============== ====================================================================================

Lengths and shares are those of a smoothed reference (`smoothed`): in a few hundred documents single
values, which distances of distribution functions are taken at, are too frequent or missing by
chance. Sampling is exact for any n without holding n documents: a sample of a histogram is one
multinomial draw, and a sample of whole documents a draw of how often each document of the
population occurs, so that the words of a document stay together (see `document_shifts`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.stats import binom

from beyond_perplexity.inference.permuted_units import side_by_side
from beyond_perplexity.inference.two_sample_test import ks
from beyond_perplexity.random_streams import stream
from beyond_perplexity.tendencies import type_token
from beyond_perplexity.tendencies.definitions import LENGTH, SHARES
from beyond_perplexity.tendencies.statistics import Histogram

MeasureDraws = dict[str, np.ndarray]
_COPIES = 20_000  # documents of a smoothed reference
_LEVELS = 200  # quantiles at which their distribution function is looked at
_SHARES = 500  # values at which the distribution function of a share is looked at, at most
_AT_LENGTH = 4_000  # documents of a length that are drawn
_NEIGHBOURS = 400  # documents of nearly equal length whose repeats are pooled
_NEAR = 0.4  # of all documents, at most
_LENGTHS = 8  # times that lengths are drawn of samples of few documents
_ENOUGH = 2_000  # documents of which one draw of lengths is as good as another
_POOLED = 60  # pairs whose distances show those of randomizations
_TAIL = 1e-12
FINE = 1e-9  # step of a number of any size


@dataclass(frozen=True)
class PairDraw:
    """Which pairs of samples of n documents each are drawn."""

    n: int
    pairs: int
    # Streams are keyed by the seed, this purpose and the number of the pair, of the first of
    # `SIDE_BY_SIDE` pairs, or of the length, so that different shifts draw from the same ones.
    seed: int
    purpose: str


class Shift(ABC):
    """A population and its shifts in one tendency."""

    tendency: str
    measures: tuple[str, ...]  # that test the shift
    unit: str  # of `size`
    largest: float = 1.0  # shift that makes sense
    # The measures are scores, standard normal where nothing differs: no draws under the null
    # hypothesis are needed.
    is_score: bool = False
    effort: float = 1.0  # pairs of samples that are worth their time, relative to the options'
    share: float = 1.0  # of the documents, that are long enough to be measured
    only_n: int = 0  # documents of a sample, where the population is that of these alone

    @abstractmethod
    def draw(self, how: PairDraw, x: float, null: bool = False) -> MeasureDraws:
        """Compute the measures of pairs of samples, the second shifted by x: each (pairs,).

        Under the null hypothesis both are drawn from equal parts of the population and the shifted
        one: so are the halves into which a permutation splits the pooled documents.
        """

    @abstractmethod
    def size(self, measure: str, x: float) -> tuple[float, float]:
        """Return the shift x in the unit, and relative to the value of the reference."""


def smoothed_numbers(
    numbers: np.ndarray, codes: np.ndarray, rng: np.random.Generator, alike: float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """Make varied copies of numbers and their groups, of documents (D,): (D',) each.

    Numbers are moved by a normal kernel of half of Silverman's width, and drawn to their mean so
    that the variance stays; NaN stays NaN. The group of copy r of a document is `codes` + P r, with
    P groups. Of the kernel's variance documents of a group have the share `alike` in common.
    """
    copies, n_groups = max(1, round(_COPIES / len(codes))), int(codes.max()) + 1
    groups = (codes + n_groups * np.arange(copies)[:, None]).ravel()
    noise = rng.normal(size=len(groups))
    if alike:
        common = rng.normal(size=n_groups * copies)[groups]
        noise = math.sqrt(alike) * common + math.sqrt(1 - alike) * noise
    mean, width = np.nanmean(numbers), 0.53 * np.sum(~np.isnan(numbers)) ** -0.2
    moved = np.tile(numbers - mean, copies) + width * np.nanstd(numbers) * noise
    return mean + moved / math.sqrt(1 + width**2), groups


def smoothed(
    values: Mapping[str, np.ndarray], codes: np.ndarray, seed: int, alike: float = 0.0
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Make varied copies of documents, by their length and the tokens of classes: (D,) each.

    Lengths are moved as `smoothed_numbers` are; shares of classes are kept, up to a rounding at
    random.
    """
    rng, length = stream(seed, "sensitivity/smoothed"), values[LENGTH]
    moved, groups = smoothed_numbers(length, codes, rng, alike)
    copies, shortest = len(groups) // len(codes), length.min()
    moved = shortest + np.abs(np.floor(moved + rng.random(len(moved))).astype(int) - shortest)
    found = {LENGTH: moved}
    for row in SHARES.values():
        if row.histogram in values:  # a class may not be counted
            exact = np.tile(values[row.histogram] / np.maximum(length, 1), copies) * moved
            found[row.histogram] = np.floor(exact + rng.random(len(exact))).astype(int)
    return found, groups


class _HistogramShift(Shift):
    """One number per document: a sample is one multinomial draw of a histogram."""

    measures = ("ks",)
    effort = 4.0
    _edges: np.ndarray  # a cell ends with each, (C - 1,)

    @abstractmethod
    def probabilities(self, x: float) -> np.ndarray:
        """Return the shifted probabilities over fixed increasing cells: (C,)."""

    @abstractmethod
    def moments(self, x: float) -> tuple[float, float]:
        """Return mean and variance of the shifted population."""

    def cells_of(self, numbers: np.ndarray, codes: np.ndarray, n_groups: int) -> np.ndarray:
        """Count documents with a number (D,) in groups (D,) by cell: float64, (n_groups, C)."""
        cells = np.zeros((n_groups, len(self._edges) + 1))
        np.add.at(cells, (codes, np.searchsorted(self._edges, numbers)), 1)
        return cells

    def size(self, measure: str, x: float) -> tuple[float, float]:
        mean = self.moments(0)[0]
        change = self.moments(x)[0] - mean
        return change, change / mean if mean else math.nan

    def draw(self, how: PairDraw, x: float, null: bool = False) -> MeasureDraws:
        both = [self.probabilities(0), self.probabilities(x)]
        if null:
            both = [(both[0] + both[1]) / 2] * 2
        parts = []
        for items in side_by_side(how.pairs):
            rng = stream(how.seed, how.purpose, items.start)
            parts.append(ks(*(rng.multinomial(how.n, p, size=len(items)) for p in both)))
        return {"ks": np.concatenate(parts)}


class LengthShift(_HistogramShift):
    """Longer documents."""

    tendency = LENGTH
    unit = "tokens"

    def __init__(self, histogram: Histogram) -> None:
        self._pmf = np.bincount(histogram.lengths, histogram.counts / histogram.counts.sum())
        lengths = np.arange(len(self._pmf))
        self._mean = float(self._pmf @ lengths)
        self._variance = float(self._pmf @ (lengths - self._mean) ** 2)
        self._edges = np.arange(2 * len(lengths) - 1)

    def probabilities(self, x: float) -> np.ndarray:
        """Return the shares of lengths 0 to twice the longest, rounded right on average: (C,)."""
        stretched = np.arange(len(self._pmf)) * (1 + x)
        lower = stretched.astype(int)
        above = (stretched - lower) * self._pmf
        shares = np.bincount(lower, self._pmf - above, 2 * len(self._pmf))
        return shares + np.bincount(lower + 1, above, 2 * len(self._pmf))

    def moments(self, x: float) -> tuple[float, float]:
        """Return mean (tokens) and variance of the lengths of the stretched documents."""
        return self._mean * (1 + x), self._variance * (1 + x) ** 2


class ShareShift(_HistogramShift):
    """A larger share of the tokens of a class, from documents by (length, tokens of the class)."""

    unit = "share of the tokens"

    def __init__(self, tendency: str, histogram: Histogram) -> None:
        self.tendency = tendency
        filled = histogram.lengths > 0
        self._lengths, self._values = histogram.lengths[filled], histogram.values[filled]
        self._weights = histogram.counts[filled] / histogram.counts[filled].sum()
        self._shares = self._values / self._lengths
        self._mean = float(self._weights @ self._shares)
        order = np.argsort(self._shares)
        cdf = np.cumsum(self._weights[order])
        indices = np.searchsorted(cdf, np.arange(1, _SHARES) / _SHARES)
        self._edges = np.unique(self._shares[order][indices])

    def probabilities(self, x: float) -> np.ndarray:
        """Return the shares of documents between quantiles of the unshifted ones: (C,)."""
        others = self._lengths - self._values
        most = int(binom.ppf(1 - _TAIL, others.max(), x)) if x else 0
        shares = np.zeros(len(self._edges) + 1)
        for more in range(most + 1):
            possible = others >= more
            weights = self._weights[possible] * binom.pmf(more, others[possible], x)
            moved = (self._values[possible] + more) / self._lengths[possible]
            indices = np.searchsorted(self._edges, moved)
            shares += np.bincount(indices, weights, len(shares))
        return shares / shares.sum()

    def moments(self, x: float) -> tuple[float, float]:
        """Return mean and variance of the share."""
        variance = float(self._weights @ (self._shares - self._mean) ** 2)
        coins = float(self._weights @ ((1 - self._shares) / self._lengths))
        mean = self._mean + x * (1 - self._mean)
        return mean, (1 - x) ** 2 * variance + x * (1 - x) * coins


def step_of(numbers: np.ndarray, size: int, unit: float) -> float:
    """Return of what numbers, in whole units, are multiples: words or bytes over the size."""
    whole = np.abs(numbers - np.rint(numbers * size) / size).max() < 0.6 * unit
    return 1 / size if whole else FINE


class NumberShift(_HistogramShift):
    """Larger numbers, from those of documents: float64, (D,)."""

    unit = "its own unit"

    def __init__(
        self, tendency: str, numbers: np.ndarray, share: float, step: float = FINE
    ) -> None:
        """Take numbers, which are multiples of a step, before and behind a shift."""
        numbers = np.rint(numbers / step) * step
        self.tendency, self.share, self.step = tendency, share, step
        self._sorted = np.sort(numbers)
        self._mean, self.spread = float(numbers.mean()), float(numbers.std())
        levels = np.arange(1, _LEVELS) / _LEVELS
        self._edges = np.unique(np.quantile(numbers, levels, method="lower")) + step / 2

    def _rises(self, x: float) -> tuple[np.ndarray, np.ndarray]:
        """Return by how much numbers are larger, and of which shares: rounded right on average."""
        steps, part = divmod(x * self.spread / self.step, 1)
        return np.array([steps, steps + 1]) * self.step, np.array([1 - part, part])

    def probabilities(self, x: float) -> np.ndarray:
        """Return the shares of documents between quantiles of the unshifted ones: (C,)."""
        rises, shares = self._rises(x)
        below = shares @ np.searchsorted(self._sorted, self._edges - rises[:, None], side="right")
        return np.diff(below, prepend=0, append=len(self._sorted)) / len(self._sorted)

    def moments(self, x: float) -> tuple[float, float]:
        """Return mean and variance of the numbers."""
        rises, shares = self._rises(x)
        mean = float(shares @ rises)
        return self._mean + mean, self.spread**2 + float(shares @ (rises - mean) ** 2)


def half_step(null: np.ndarray) -> float:
    """Return half of the step of a distance, (n,), in deviations: one that is met is reached.

    Two normal numbers with deviation s, rounded to steps of h, are equal with the probability
    h / (2 s sqrt(pi)).
    """
    counts = np.unique(np.round(null, 9), return_counts=True)[1]
    return float(np.sum(counts * (counts - 1)) / (len(null) * (len(null) - 1)) * math.sqrt(math.pi))


def _distances(rng: np.random.Generator, sizes: np.ndarray, laws: np.ndarray, n: int) -> np.ndarray:
    """Draw the distances of n pairs of samples (2,), by two distributions (2, U): (n,)."""
    first, second = (rng.multinomial(k, law, n) for k, law in zip(sizes, laws, strict=True))
    return np.asarray(sizes[1] * ks(first, second))


class TypeTokenShift(Shift):
    """Fewer types in documents of equal length, from documents by (length, types).

    Lengths, of up to `HEAPS_MAXIMUM_LENGTH` tokens, are smoothed: of a few documents, more would
    seem to have one in common. As few have exactly length l, the types there are those of the
    nearest documents in length, of which repeats are lost or added as a power law of them says.
    Repeats, unlike types, keep their bound: where nearly all types differ, no document has more of
    them than it can have.
    Shifts of less than a type are rounded at random.
    """

    measures = ("ks_empirical",)
    unit = "share of the types"
    largest = 0.9
    is_score = True
    effort = 0.25

    def __init__(self, tendency: str, histogram: Histogram) -> None:
        self.tendency, self._law = tendency, type_token.fit_repeats(tendency, histogram)
        self._kept = kept = type_token.restrict(histogram)
        self.share = float(kept.counts.sum() / histogram.counts.sum())
        self._sorted = np.repeat(kept.lengths, kept.counts)  # (D,)
        moved, _ = smoothed({LENGTH: self._sorted}, np.arange(len(self._sorted)), 0)
        kept_lengths = moved[LENGTH][moved[LENGTH] <= type_token.HEAPS_MAXIMUM_LENGTH]
        self._lengths, totals = np.unique(kept_lengths, return_counts=True)  # (G,) each
        self._shares = totals / totals.sum()
        self._plain = lru_cache(None)(self._without_shift)

    def _without_shift(self, group: int) -> np.ndarray:
        """Return the probabilities of 0, 1, ... types at the length of a group: (U,)."""
        kept, length, n = self._kept, self._lengths[group], len(self._sorted)
        half = min(_NEIGHBOURS, _NEAR * n) / 2
        centre = np.mean(
            [np.searchsorted(self._sorted, length, side) for side in ("left", "right")]
        )
        around = np.clip(centre, half, n - half) + np.array([-half, half])
        shortest, longest = self._sorted[np.clip(around.astype(int), 0, n - 1)]
        (own,) = np.nonzero((kept.lengths >= shortest) & (kept.lengths <= longest))
        rng = stream(0, f"sensitivity/{self.tendency}/types", int(length))
        own = rng.choice(own, _AT_LENGTH, p=kept.counts[own] / kept.counts[own].sum())
        repeats = type_token.repeats_of(self.tendency, kept.lengths[own], kept.values[own])
        rates = self._law.rate(kept.lengths[own]), self._law.rate(length)
        repeats = type_token.moved_repeats(repeats, *rates, rng)
        types = np.maximum(type_token.repeats_of(self.tendency, length, repeats), 0)
        return np.asarray(np.bincount(types, minlength=int(length) + 1) / len(own))

    def _pmf(self, group: int, x: float) -> np.ndarray:
        """Return the probabilities of 0, 1, ... types with a share x fewer: (U,)."""
        plain = self._plain(group)
        lower, part = np.divmod(np.arange(len(plain)) * (1 - x), 1)
        lower[1], part[1] = 1, 0  # a document has a type
        shares = np.bincount(lower.astype(int), plain * (1 - part), len(plain))
        shares += np.bincount(lower.astype(int) + 1, plain * part, len(plain) + 1)[:-1]
        return shares

    def lengths(self, how: PairDraw, number: int) -> np.ndarray:
        """Draw how many documents of each length the samples of some pairs have: int64, (2, G)."""
        rng = stream(how.seed, f"sensitivity/{self.tendency}/lengths/{how.n}", number)
        return rng.multinomial(how.n, self._shares, size=2)

    def draw(self, how: PairDraw, x: float, null: bool = False) -> MeasureDraws:
        """Draw the scores of pairs, of which some have the same lengths; see `_scores`.

        Samples of a few documents have few lengths in common, others in each pair.
        """
        many = max(1, min(_LENGTHS, _ENOUGH // how.n))
        parts = np.array_split(np.arange(how.pairs), many)
        scores = [self._scores(how, number, len(part), x) for number, part in enumerate(parts)]
        return {"ks_empirical": np.concatenate(scores)}

    def _scores(self, how: PairDraw, number: int, pairs: int, x: float) -> np.ndarray:
        """Score pairs by the distribution of pooled pairs of the same lengths: (pairs,).

        A distance is a sum over the lengths, and so are the moments of one: the normal score is
        that of Cornish and Fisher's (1938) expansion.
        """
        found, null, moments = np.zeros(pairs), np.zeros(_POOLED), np.zeros(3)
        for group, sizes in enumerate(self.lengths(how, number).T):
            if sizes.all():
                rng = stream(how.seed, f"{how.purpose}/{number}", group)
                laws = np.stack([self._pmf(group, 0), self._pmf(group, x)])
                laws = laws[:, laws.any(axis=0)]
                found += _distances(rng, sizes, laws, pairs)
                pooled = _distances(rng, sizes, np.stack([laws.mean(axis=0)] * 2), _POOLED)
                null, errors = null + pooled, pooled - pooled.mean()
                moments += [pooled.mean(), np.mean(errors**2), np.mean(errors**3)]
        mean, variance, third = moments
        error = math.sqrt(variance) or _TAIL
        skewness = max(float(third / error**3), _TAIL)
        score = np.minimum((found - mean) / error - half_step(null), 3 / skewness)
        return np.asarray(score - skewness * (score**2 - 1) / 6)

    def size(self, measure: str, x: float) -> tuple[float, float]:
        """Return x twice: it is a share."""
        return x, x
