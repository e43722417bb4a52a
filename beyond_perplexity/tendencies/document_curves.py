"""The measures of one curve per document, whose documents are cut to one size."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from beyond_perplexity.inference import mean_curves
from beyond_perplexity.inference.limits import Spread, upper_limit
from beyond_perplexity.inference.permuted_units import (
    DOCUMENTS_AT_LENGTHS,
    DOCUMENTS_OF_CURVES,
    CommonGroups,
    Groups,
    PermutedUnits,
    scheme_of,
    single_documents,
)
from beyond_perplexity.tendencies import shared_ngrams, taylor
from beyond_perplexity.tendencies.definitions import (
    SHARED_NGRAMS,
    TAYLOR,
    TENDENCIES,
    MeasureKey,
    MeasureRow,
    tendencies_of,
)
from beyond_perplexity.tendencies.document_statistics import ABSENT, Sized
from beyond_perplexity.tendencies.pairs import Measuring, SampleSetPair
from beyond_perplexity.tendencies.statistics import Statistics
from beyond_perplexity.verdicts import joined_facts, reason

_BETWEEN = "between documents, as they have few segments: topics more than order"
# Of the documents that are long enough, where documents of groups are drawn beside single ones:
# swaps mix both texts, whose draws are not alike by as much (p <= .05 in .053 of the cases with a
# ratio of 1.3 to 1.5, in .095 of those with more).
_RATIO_OF_LONG = 1.4
SLOPE = Sized(TAYLOR, TENDENCIES[TAYLOR], taylor.SEGMENT)


def sums_by_place(statistics: Statistics, sized: Sized) -> np.ndarray:
    """Return documents, sums and sums of squares at each place of a curve: float64, (K, 3)."""
    sums = statistics.histograms[sized.name].counts.reshape(-1, 3).astype(float)
    return sums * sized.row.unit ** np.arange(3)


@dataclass(frozen=True)
class CurveComparison:
    """One curve of both texts, cut to one size."""

    pair: SampleSetPair
    sized: Sized

    @property
    def key(self) -> MeasureKey:
        """Tendency and distance."""
        return self.sized.tendency, self.sized.row.distance

    @cached_property
    def means(self) -> tuple[np.ndarray, np.ndarray]:
        """The mean curves of the reference and the samples: float64, (K,)."""
        sums = [sums_by_place(one, self.sized) for one in self.pair.sample_sets]
        return sums[0][:, 1] / sums[0][:, 0], sums[1][:, 1] / sums[1][:, 0]

    @property
    def value(self) -> float:
        """The largest difference of the mean curves."""
        return float(mean_curves.largest_difference(*self.means))

    @property
    def name(self) -> str:
        """What is kept of every document."""
        return self.sized.name

    @property
    def has_documents(self) -> bool:
        """Whether the curves of single documents are held."""
        documents = self.pair.documents
        return documents is not None and self.name in documents.values(0)

    @cached_property
    def kept(self) -> tuple[np.ndarray, np.ndarray]:
        """Which documents of both texts are as long as the size: bool, (D,)."""
        first, second = (values[:, 0] != ABSENT for values in self._units)
        return first, second

    @cached_property
    def curves(self) -> mean_curves.Curves:
        """The curves of these documents: float64, (D', K)."""
        both = zip(self._units, self.kept, strict=True)
        first, second = (own[kept] * self.sized.row.unit for own, kept in both)
        return first, second

    @cached_property
    def _units(self) -> tuple[np.ndarray, np.ndarray]:
        assert self.pair.documents is not None
        return self.pair.documents.values(0)[self.name], self.pair.documents.values(1)[self.name]

    def of_parts(self, sample_set: int, parts: Sequence[np.ndarray]) -> np.ndarray:
        """Compute the mean curve of each of w parts of a text, documents of it: (w, K)."""
        found = []
        for documents in parts:
            chosen = np.zeros(len(self.kept[sample_set]), bool)
            chosen[documents] = True
            own = self.curves[sample_set][chosen[self.kept[sample_set]]]
            found.append(own.mean(axis=0) if len(own) else np.full(own.shape[1], np.nan))
        return np.array(found)

    def randomized(self, how: Measuring) -> dict[str, np.ndarray]:
        """Compare both under the randomizations of `how`, and last as they are: (B + 1,) each."""
        units, n = self._units_kept(how), how.options.permutations
        return mean_curves.permuted_curves(self.curves, units, n, how.seed)

    def differences(self, how: Measuring) -> np.ndarray:
        """Draw the largest difference under the randomizations of `how`, for no test: (B,)."""
        return self.randomized(how)["max_difference"][:-1]

    def _units_kept(self, how: Measuring) -> PermutedUnits | None:
        """Return the units of the documents that are compared; None for single ones."""
        if how.units is None:
            return None
        both = zip(how.units.codes, self.kept, strict=True)
        first, second = (codes[kept] for codes, kept in both)
        return replace(how.units, codes=(first, second))

    def told(self, how: Measuring) -> tuple[str, str]:
        """Say where the curves differ most and what is compared; else why there is no verdict.

        The test sees another place where what differs there varies less.
        """
        swapped = how.units is not None and how.units.scheme == "swaps"
        least = DOCUMENTS_OF_CURVES if swapped else DOCUMENTS_AT_LENGTHS
        told, why = size_told(self.pair, self.sized, least=least)
        why = why or self._unlike()
        reference, samples = self.means
        where = {int(np.argmax(np.abs(samples - reference))): "at"}
        if self.has_documents and how.options.permutations and not why:
            once = replace(how, options=replace(how.options, permutations=0))
            where.setdefault(int(self.randomized(once)["place"][-1]), "most surely at")
        facts = [
            f"{word} {self.sized.places[place]}: {samples[place]:.4f} here, "
            f"{reference[place]:.4f} in the reference"
            for place, word in where.items()
        ]
        return joined_facts(*facts[: len(facts) * bool(self.value)], told), why

    def _unlike(self) -> str:
        """Return the `reason` why draws of one document per group allow no verdict, or nothing."""
        groups = self.pair.groups[1]
        if scheme_of(self.pair.groups) != "draws" or groups is None:
            return ""
        of_groups = np.bincount(groups, self.kept[1]) / np.bincount(groups)
        shares = sorted([float(self.kept[0].mean()), float(of_groups.mean())])
        ratio = shares[1] / shares[0]
        if ratio <= _RATIO_OF_LONG:
            return ""
        return reason("unlike_lengths", ratio=ratio, size=self.sized.size, most=_RATIO_OF_LONG)

    def described(self, how: Measuring) -> Iterator[MeasureRow]:
        """Yield the means over places of both curves."""
        for ending, mean in zip(("_reference", ""), self.means, strict=True):
            yield MeasureRow(self.key[0], f"mean{ending}", float(mean.mean()))

    def drawn(self, how: Measuring) -> np.ndarray:
        """Draw the largest difference as it varies: (r,)."""
        both = list(zip(self.pair.groups, self.kept, strict=True))
        first, second = (None if codes is None else codes[kept] for codes, kept in both)
        groups: Groups = first, second
        if first is not None and second is not None and self.pair.prompted:
            groups = CommonGroups((first, second))
        return mean_curves.drawn_differences(self.curves, groups, how.options.bootstrap, how.seed)


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
    def value(self) -> float:
        """The difference of the slopes."""
        return abs(self.fits[1].alpha - self.fits[0].alpha)

    @cached_property
    def curves(self) -> mean_curves.Curves:
        """The pseudo-values of documents with a segment, by their text's fitted law: (D', 1)."""
        sides = zip(self._units, self.kept, (0, 1), strict=True)
        first, second = (own[kept, law, None] * taylor.UNIT for own, kept, law in sides)
        return first, second

    def of_parts(self, sample_set: int, parts: Sequence[np.ndarray]) -> np.ndarray:
        """Fit the slope of each of w parts of a text: (w, 1)."""
        documents = np.arange(self.pair.n_documents[sample_set])
        labels = np.zeros((len(documents), len(parts)), bool)
        for column, part in enumerate(parts):
            labels[part, column] = True
        return taylor.fit_slopes(*self._labelled(sample_set, labels, documents))

    def differences(self, how: Measuring) -> np.ndarray:
        """Draw the difference of slopes that are fitted anew at every randomization: (B,)."""
        units, found = how.units or single_documents(self.pair.n_documents), []
        free = units if units.scheme == "prompts" else replace(units, strata=None)
        total, segments = self._both(units, np.ones((sum(units.n), 1), bool))
        for labels in free.labels(how.options.permutations, how.seed):
            sums, n = self._both(units, labels)
            sides = taylor.fit_slopes(sums, n), taylor.fit_slopes(total - sums, segments - n)
            found.append(mean_curves.largest_difference(*sides))
        return np.concatenate(found)

    def _both(self, units: PermutedUnits, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Add up what `_labelled` does over both texts, by labels of units (U, w)."""
        first, second = (self._labelled(b, labels, codes) for b, codes in enumerate(units.codes))
        return first[0] + second[0], first[1] + second[1]

    def _labelled(
        self, sample_set: int, labels: np.ndarray, codes: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Add up counts in segments and their squares, (w, 2, V), and segments, (w,).

        Of the documents whose unit (D,) has a label (U, w).
        """
        assert self.pair.documents is not None
        held = self.pair.documents.segments
        sums = np.array([one.sums_of(sample_set, labels, codes) for one in held], float)
        n = taylor.segments_of(self.pair.document_lengths[sample_set])
        return sums.transpose(2, 0, 1), n @ labels[codes]

    def told(self, how: Measuring) -> tuple[str, str]:
        """Say of how many segments the slopes are; else why there are none."""
        n = [one.n_segments for one in self.pair.sample_sets]
        if min(n) < taylor.LEAST_SEGMENTS:
            return "", reason("few_segments", n=min(n), least=taylor.LEAST_SEGMENTS)
        filled = [one.n_with_segments for one in self.pair.sample_sets]
        told = f"{n[0]:,} segments of {taylor.SEGMENT} words of the reference, {n[1]:,} of samples"
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
    return {held.key: held.differences(how) for held in known}


def size_told(
    pair: SampleSetPair, sized: Sized, n: Sequence[int] = (), least: int = DOCUMENTS_AT_LENGTHS
) -> tuple[str, str]:
    """Say what documents are cut to and how many are compared; else why these are too few."""
    n = n or [one.documents_of(sized.name) for one in pair.sample_sets]
    both = zip(n, pair.sample_sets, ("reference", "samples"), strict=True)
    held = [f"{m:,} of {one.n_documents:,} documents of the {name}" for m, one, name in both]
    note = f"cut to {sized.size} {sized.row.measured_in}: {' and '.join(held)}"
    if min(n) >= least:
        return note, ""
    return note, reason("few_of_size", n=min(n), size=sized.size, least=least)


def curve_rows(how: Measuring) -> Iterator[MeasureRow]:
    """Measure every curve and slope; p-values are filled in by `measures`."""
    for held in curve_comparisons(how.pair):
        high = math.nan
        if how.options.bootstrap and held.has_documents:
            spread = Spread(1.0, how.spread.df)  # what is drawn knows of few groups
            high = upper_limit(held.value, held.drawn(how), how.options.confidence, spread)
        fact, why = held.told(how)
        yield MeasureRow(*held.key, held.value, high=high, fact=fact, reason=why)
        yield from held.described(how)
