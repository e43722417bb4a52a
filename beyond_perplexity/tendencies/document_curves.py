"""The measures of one curve per document, whose documents are cut to one size."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from beyond_perplexity.inference import mean_curves
from beyond_perplexity.inference.halves import SAMPLE_SETS
from beyond_perplexity.inference.histogram_draws import documents_within
from beyond_perplexity.inference.limits import Spread, upper_limit
from beyond_perplexity.inference.permuted_units import PermutedUnits, single_documents
from beyond_perplexity.random_streams import stream
from beyond_perplexity.tendencies import shared_ngrams, taylor
from beyond_perplexity.tendencies.curve_comparison import CurveComparison, most_of, size_told
from beyond_perplexity.tendencies.definitions import (
    LENGTH,
    SHARED_NGRAMS,
    TAYLOR,
    TENDENCIES,
    MeasureKey,
    MeasureRow,
    tendencies_of,
)
from beyond_perplexity.tendencies.document_statistics import Sized
from beyond_perplexity.tendencies.pairs import Measuring, SampleSetPair
from beyond_perplexity.verdicts import joined_facts, reason

_BETWEEN = "between documents, as they have few segments: topics more than order"
SLOPE = Sized(TAYLOR, TENDENCIES[TAYLOR], taylor.SEGMENT)


@dataclass(frozen=True)
class SlopeComparison(CurveComparison):
    """Taylor's law of both texts: the slope of a document is a curve of one place."""

    @property
    def name(self) -> str:
        """What is kept of every document."""
        return TAYLOR

    @cached_property
    def fits(self) -> tuple[taylor.TaylorFit, taylor.TaylorFit]:
        """The fitted laws of the reference and of the samples."""
        reference, samples = self.pair.sample_sets
        return reference.taylor_fit(), samples.taylor_fit()

    @cached_property
    def shuffled(self) -> tuple[taylor.TaylorFit, taylor.TaylorFit]:
        """The same of words shuffled in their documents."""
        reference, samples = self.pair.sample_sets
        return reference.taylor_fit(shuffled=True), samples.taylor_fit(shuffled=True)

    @property
    def means(self) -> tuple[np.ndarray, np.ndarray]:
        """The slopes of as many segments of both texts, where documents are known: (1,)."""
        return self._compared[:2]

    @cached_property
    def _compared(self) -> tuple[np.ndarray, np.ndarray, int]:
        """These slopes, and the segments of either text that they are of, at least."""
        if self.pair.documents is None or not self.pair.documents.segments:
            least = min(one.n_segments for one in self.pair.sample_sets)
            return np.array([self.fits[0].alpha]), np.array([self.fits[1].alpha]), least
        groups, sizes = self.pair.groups, self.pair.n_documents
        first, second = (
            np.arange(n) if own is None or self.pair.prompted else own
            for own, n in zip(groups, sizes, strict=True)
        )
        n = int(first.max()) + 1, int(second.max()) + 1
        units = PermutedUnits("groups", (first, second + n[0]), n, (1.0, 1.0))
        rng, own = stream(0, "taylor/segments"), np.arange(sum(n)) < n[0]
        (reference, samples), least = self._equal_slopes(units, own[:, None], rng)
        return reference[0], samples[0], least

    @cached_property
    def curves(self) -> mean_curves.Curves:
        """The pseudo-values of documents with a segment, around the slope: (D', 1)."""
        sides = zip(self._units, self.kept, (0, 1), strict=True)
        both = (own[kept, law, None] * taylor.UNIT for own, kept, law in sides)
        if not self._is_cut:
            first, second = both
            return first, second
        first, second = (x - x.mean() + mean for x, mean in zip(both, self.means, strict=True))
        return first, second

    def cut(self, parts: list[np.ndarray], rng: np.random.Generator) -> list[np.ndarray]:
        """Cut the parts of a split to as many segments, by random documents."""
        held = [self._segments[b][part] for b, part in zip(SAMPLE_SETS, parts, strict=True)]
        least, both = min(int(own.sum()) for own in held), zip(parts, held, strict=True)
        return [part[documents_within(own, least, rng)] for part, own in both]

    @cached_property
    def _segments(self) -> tuple[np.ndarray, np.ndarray]:
        """Segments that are counted of each document of both texts: (D,)."""
        documents = self.pair.documents
        assert documents is not None
        held = documents.segments[0] if documents.segments else documents
        first, second = (taylor.segments_of(held.values(k)[LENGTH]) for k in (0, 1))
        return first, second

    @cached_property
    def _unequal(self) -> bool:
        """Whether slopes are of other numbers of segments."""
        return taylor.unequal([int(own.sum()) for own in self._segments])

    @property
    def _is_cut(self) -> bool:
        """Whether slopes are not of all segments of both texts."""
        documents = self.pair.documents
        if documents is None or not documents.shares:
            return False
        return self._unequal or min(documents.shares) < 1

    def _equal_slopes(
        self, units: PermutedUnits, labels: np.ndarray, rng: np.random.Generator
    ) -> tuple[np.ndarray, int]:
        """Fit slopes to as many segments of both sides of labels of units, (U, w): (2, w, 1).

        Of the side with more of them the mean over random units that have as many. Returns also the
        least number of segments.
        """
        segments = np.zeros(sum(units.n), np.int64)
        for codes, own in zip(units.codes, self._segments, strict=True):
            np.add.at(segments, codes, own)
        drawn, n = [], []
        for _ in range(taylor.EQUAL_PARTS if self._unequal else 1):
            sides = labels.copy(), ~labels
            for column in zip(*(side.T for side in sides), strict=True) if self._unequal else ():
                least = min(int(segments[own].sum()) for own in column)
                for own in column:
                    own[own] = documents_within(segments[own], least, rng)
            for side in sides:
                one, two = (self._labelled(k, side, codes) for k, codes in enumerate(units.codes))
                n.append(one[1] + two[1])
                drawn.append(taylor.fit_slopes(one[0] + two[0], n[-1]))
        return np.mean([drawn[::2], drawn[1::2]], axis=1), int(np.min(n))

    def of_parts(self, sample_set: int, parts: Sequence[np.ndarray]) -> np.ndarray:
        """Fit the slope of each of w parts of a text: (w, 1)."""
        documents = np.arange(self.pair.n_documents[sample_set])
        labels = np.zeros((len(documents), len(parts)), bool)
        for column, part in enumerate(parts):
            labels[part, column] = True
        return taylor.fit_slopes(*self._labelled(sample_set, labels, documents))

    def differences(self, how: Measuring) -> np.ndarray:
        """Draw the difference of slopes that are fitted anew at every randomization: (B,)."""
        units = how.units or single_documents(self.pair.n_documents)
        free = units if units.scheme == "prompts" else replace(units, strata=None)
        rng = stream(how.seed, "taylor/baseline")
        drawn = free.labels(how.options.permutations, how.seed)
        slopes = (self._equal_slopes(units, labels, rng)[0] for labels in drawn)
        return np.concatenate([mean_curves.largest_difference(*both) for both in slopes])

    def _labelled(
        self, sample_set: int, labels: np.ndarray, codes: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Add up counts in segments and their squares, (w, 2, V), and segments, (w,).

        Of the documents whose unit (D,) has a label (U, w), and of types that can be fitted.
        """
        assert self.pair.documents is not None
        held, often = self.pair.documents.segments, self.pair.pooled >= taylor.LEAST_COUNTED
        sums = np.array([one.sums_of(sample_set, labels, codes)[often] for one in held], float)
        return sums.transpose(2, 0, 1), self._segments[sample_set] @ labels[codes]

    def told(self, how: Measuring) -> tuple[str, str]:
        """Say of how many segments the slopes are; else why there are none."""
        n = [one.n_segments for one in self.pair.sample_sets]
        if (compared := self._compared[2]) < taylor.LEAST_SEGMENTS:
            return "", reason("few_segments", n=compared, least=taylor.LEAST_SEGMENTS)
        filled = [one.n_with_segments for one in self.pair.sample_sets]
        told = f"{n[0]:,} segments of {taylor.SEGMENT} words of the reference, {n[1]:,} of samples"
        if self._is_cut:
            least = min(int(own.sum()) for own in self._segments)
            reference, samples = (f"{float(slope[0]):.3f}" for slope in self.means)
            told += f"; of {least:,} of either: α {samples} here, {reference} in the reference"
        few = any(taylor.has_few(*own) for own in zip(n, filled, strict=True))
        alpha = [f"{fit.alpha:.3f}" for fit in self.shuffled]
        kept = f"words shuffled in their documents: α {alpha[1]} here, {alpha[0]} in the reference"
        return joined_facts(told, kept, _BETWEEN * bool(few)), ""

    def described(self, how: Measuring) -> Iterator[MeasureRow]:
        """Yield the slopes of both texts, and of their words shuffled in their documents."""
        held = zip(("_reference", ""), self.fits, self.shuffled, strict=True)
        for ending, fit, shuffled in held:
            yield MeasureRow(TAYLOR, f"alpha{ending}", fit.alpha)
            yield MeasureRow(TAYLOR, f"alpha_shuffled{ending}", shuffled.alpha)


@dataclass(frozen=True)
class SharedComparison(CurveComparison):
    """Shared n-grams of both texts: the share of a text is a mean over pairs of documents."""

    @property
    def name(self) -> str:
        """What is kept of every document: its first tokens."""
        return SHARED_NGRAMS

    @cached_property
    def kept(self) -> tuple[np.ndarray, np.ndarray]:
        """Which documents of both texts are compared: bool, (D,)."""
        first, second = map(shared_ngrams.spread_over, super().kept)
        return first, second

    @cached_property
    def curves(self) -> mean_curves.Curves:
        """The pseudo-values of these documents, each text by itself: (D', K)."""
        found, longest = [], len(self.sized.places)
        for own, kept, codes in zip(self._units, self.kept, self.pair.groups, strict=True):
            groups = np.arange(kept.sum()) if codes is None else codes[kept]
            found.append(shared_ngrams.shared_by_document(own[kept], groups, longest))
        return found[0], found[1]

    @cached_property
    def means(self) -> tuple[np.ndarray, np.ndarray]:
        """The shares of both texts: (K,)."""
        return self.curves[0].mean(axis=0), self.curves[1].mean(axis=0)

    def randomized(self, how: Measuring) -> dict[str, np.ndarray]:
        """Compare both under the randomizations of `how`, and last as they are: (B + 1,) each."""
        first, second = (own[kept] for own, kept in zip(self._units, self.kept, strict=True))
        units = self._units_kept(how) or single_documents((len(first), len(second)))
        given = units, len(self.sized.places), how.options.permutations, how.seed
        return shared_ngrams.permuted_shares((first, second), *given)

    def told(self, how: Measuring) -> tuple[str, str]:
        """Say what is shared at every n and what is compared; else why there is no verdict."""
        told, why = size_told(self.pair, self.sized, [*map(len, self.curves)])
        both = zip(self.sized.places, *self.means, strict=True)
        shares = [f"n = {n}: {own:.3g} here, {x:.3g} in the reference" for n, x, own in both]
        return joined_facts(*shares, told), why


def curve_comparisons(pair: SampleSetPair) -> Iterator[CurveComparison]:
    """Yield every curve that both texts have, their slopes of Taylor's law and shared n-grams."""
    for tendency in tendencies_of("curve"):
        sized = pair.sizes.get(tendency)
        if sized and all(one.documents_of(sized.name) for one in pair.sample_sets):
            yield CurveComparison(pair, sized)
    slope = SlopeComparison(pair, SLOPE)
    if slope.has_documents or all(one.n_segments for one in pair.sample_sets):
        yield slope
    kept = {} if pair.documents is None else pair.documents.values(0)
    if SHARED_NGRAMS in kept:
        size = kept[SHARED_NGRAMS].shape[1]
        shared = SharedComparison(pair, Sized(SHARED_NGRAMS, TENDENCIES[SHARED_NGRAMS], size))
        if min(own.sum() for own in shared.kept) > 1:
            yield shared


def randomized_curves(how: Measuring) -> dict[MeasureKey, np.ndarray]:
    """Draw the largest |t| of each curve, and last that of the data: (B + 1,)."""
    known = (held for held in curve_comparisons(how.pair) if held.has_documents)
    return {held.key: held.randomized(how)["t"] for held in known}


def curve_differences(how: Measuring) -> dict[MeasureKey, np.ndarray]:
    """Draw the largest difference of each curve under randomizations, for baselines: (B,)."""
    known = (held for held in curve_comparisons(how.pair) if held.has_documents)
    cut = (replace(held, most=most_of(how, held.name)) for held in known)
    return {held.key: held.differences(how) for held in cut}


def curve_rows(how: Measuring) -> Iterator[MeasureRow]:
    """Measure every curve and slope; p-values are filled in by `measures`."""
    for held in curve_comparisons(how.pair):
        high = math.nan
        if how.options.bootstrap and held.has_documents and not math.isnan(held.value):
            spread = Spread(1.0, how.spread.df)  # what is drawn knows of few groups
            high = upper_limit(held.value, held.drawn(how), how.options.confidence, spread)
        fact, why = held.told(how)
        yield MeasureRow(*held.key, held.value, high=high, fact=fact, reason=why)
        yield from held.described(how)
