"""The measures of one curve per document, whose documents are cut to one size."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from beyond_perplexity.inference import mean_curves
from beyond_perplexity.inference.limits import Spread, upper_limit
from beyond_perplexity.inference.permuted_units import (
    DOCUMENTS_AT_LENGTHS,
    CommonGroups,
    Groups,
)
from beyond_perplexity.tendencies.definitions import (
    MeasureKey,
    MeasureRow,
    tendencies_of,
)
from beyond_perplexity.tendencies.document_statistics import ABSENT, Sized
from beyond_perplexity.tendencies.pairs import Measuring, SampleSetPair
from beyond_perplexity.tendencies.statistics import Statistics
from beyond_perplexity.verdicts import joined_facts, reason

_DISTANCE = "max_difference"


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
        return self.sized.tendency, _DISTANCE

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
    def has_documents(self) -> bool:
        """Whether the curves of single documents are held."""
        documents = self.pair.documents
        return documents is not None and self.sized.name in documents.values(0)

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
        name = self.sized.name
        return self.pair.documents.values(0)[name], self.pair.documents.values(1)[name]

    def of_parts(self, *parts: tuple[int, np.ndarray]) -> list[np.ndarray]:
        """Compute the mean curves of some documents of a text each: (K,)."""
        found = []
        for sample_set, documents in parts:
            chosen = np.zeros(len(self.kept[sample_set]), bool)
            chosen[documents] = True
            own = self.curves[sample_set][chosen[self.kept[sample_set]]]
            found.append(own.mean(axis=0) if len(own) else np.full(own.shape[1], np.nan))
        return found

    def randomized(self, how: Measuring) -> dict[str, np.ndarray]:
        """Compare both under the randomizations of `how`, and last as they are: (B + 1,) each."""
        units = how.units
        if units is not None:
            both = zip(units.codes, self.kept, strict=True)
            first, second = (codes[kept] for codes, kept in both)
            units = replace(units, codes=(first, second))
        n = how.options.permutations
        return mean_curves.permuted_curves(self.curves, units, n, how.seed)

    def drawn(self, how: Measuring) -> np.ndarray:
        """Draw the largest difference as it varies: (r,)."""
        both = list(zip(self.pair.groups, self.kept, strict=True))
        first, second = (None if codes is None else codes[kept] for codes, kept in both)
        groups: Groups = first, second
        if first is not None and second is not None and self.pair.prompted:
            groups = CommonGroups((first, second))
        return mean_curves.drawn_differences(self.curves, groups, how.options.bootstrap, how.seed)


def curve_comparisons(pair: SampleSetPair) -> Iterator[CurveComparison]:
    """Yield every curve that both texts have."""
    for tendency in tendencies_of("curve"):
        sized = pair.sizes.get(tendency)
        if sized and all(one.documents_of(sized.name) for one in pair.sample_sets):
            yield CurveComparison(pair, sized)


def randomized_curves(how: Measuring, *, tested: bool = True) -> dict[MeasureKey, np.ndarray]:
    """Draw the largest |t| of each curve, or the largest difference, and last that of the data."""
    name = "t" if tested else _DISTANCE
    return {
        held.key: held.randomized(how)[name]
        for held in curve_comparisons(how.pair)
        if held.has_documents
    }


def size_told(pair: SampleSetPair, sized: Sized) -> tuple[str, str]:
    """Say what documents are cut to and how many are compared; else why these are too few."""
    n = [one.documents_of(sized.name) for one in pair.sample_sets]
    both = zip(n, pair.sample_sets, ("reference", "samples"), strict=True)
    held = [f"{m:,} of {one.n_documents:,} documents of the {name}" for m, one, name in both]
    note = f"cut to {sized.size} {sized.row.measured_in}: {' and '.join(held)}"
    if min(n) >= DOCUMENTS_AT_LENGTHS:
        return note, ""
    return note, reason("few_of_size", n=min(n), size=sized.size, least=DOCUMENTS_AT_LENGTHS)


def curve_rows(how: Measuring) -> Iterator[MeasureRow]:
    """Measure every curve; p-values are filled in by `measures`."""
    for held in curve_comparisons(how.pair):
        tendency, value, high = held.sized.tendency, held.value, math.nan
        if how.options.bootstrap and held.has_documents:
            spread = Spread(1.0, how.spread.df)  # what is drawn knows of few groups
            high = upper_limit(value, held.drawn(how), how.options.confidence, spread)
        told, why = size_told(how.pair, held.sized)
        reference, samples = held.means
        place = int(np.argmax(np.abs(samples - reference)))
        where = f"at {held.sized.places[place]}: {samples[place]:.4f} here, "
        where += f"{reference[place]:.4f} in the reference"
        fact = joined_facts(where if value else "", told)
        yield MeasureRow(*held.key, value, high=high, fact=fact, reason=why)
        yield MeasureRow(tendency, "mean", float(samples.mean()))
        yield MeasureRow(tendency, "mean_reference", float(reference.mean()))
