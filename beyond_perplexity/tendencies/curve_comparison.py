"""One curve per document of two texts, whose documents are cut to one size, compared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from beyond_perplexity.inference import mean_curves
from beyond_perplexity.inference.counted_units import counted_units
from beyond_perplexity.inference.halves import SAMPLE_SETS
from beyond_perplexity.inference.permuted_units import (
    DOCUMENTS_AT_LENGTHS,
    DOCUMENTS_OF_CURVES,
    CommonGroups,
    Groups,
    PermutedUnits,
    scheme_of,
)
from beyond_perplexity.random_streams import stream
from beyond_perplexity.tendencies.definitions import MeasureKey, MeasureRow
from beyond_perplexity.tendencies.document_statistics import ABSENT, Sized
from beyond_perplexity.tendencies.pairs import Measuring, SampleSetPair
from beyond_perplexity.tendencies.statistics import Statistics
from beyond_perplexity.verdicts import joined_facts, reason

# Of the documents that are long enough, where documents of groups are drawn beside single ones:
# swaps mix both texts, whose draws are not alike by as much (p <= .05 in .053 of the cases with a
# ratio of 1.3 to 1.5, in .095 of those with more).
_RATIO_OF_LONG = 1.4


def sums_by_place(statistics: Statistics, sized: Sized) -> np.ndarray:
    """Return documents, sums and sums of squares at each place of a curve: float64, (K, 3)."""
    sums = statistics.histograms[sized.name].counts.reshape(-1, 3).astype(float)
    return sums * sized.row.unit ** np.arange(3)


def most_of(how: Measuring, name: str) -> int | None:
    """Return how many documents of the second text count, by what is counted; None for all."""
    share = (how.shares or {}).get(name)
    return None if share is None else max(1, round(share * how.pair.samples.n_documents))


def at_most(counted: np.ndarray, n: int | None, name: str) -> np.ndarray:
    """Keep n random ones, by the name of what is counted, of some documents: bool, (D,)."""
    if n is None or counted.sum() <= n:
        return counted
    kept, own = np.zeros(len(counted), bool), np.flatnonzero(counted)
    kept[stream(0, f"floor/long/{name}").permutation(own)[:n]] = True
    return kept


@dataclass(frozen=True)
class CurveComparison:
    """One curve of both texts, cut to one size."""

    pair: SampleSetPair
    sized: Sized
    most: int | None = None  # documents of the second text that are compared

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
        return first, at_most(second, self.most, self.name)

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

    def cut(self, parts: list[np.ndarray], rng: np.random.Generator) -> list[np.ndarray]:
        """Cut the parts of a split, documents in random order, to as many that are long enough."""
        held = [part[self.kept[b][part]] for b, part in zip(SAMPLE_SETS, parts, strict=True)]
        least = min(map(len, held))
        return [own[:least] for own in held]

    def differences(self, how: Measuring) -> np.ndarray:
        """Draw the largest difference under the randomizations of `how`, for no test: (B,)."""
        return self.randomized(how)["max_difference"][:-1]

    def _units_kept(self, how: Measuring) -> PermutedUnits | None:
        """Return the units of the documents that are compared; None for single ones."""
        return None if how.units is None else counted_units(how.units, self.kept)

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
