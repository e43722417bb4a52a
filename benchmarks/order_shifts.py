"""Pairs whose second side has a larger number, curve or Taylor slope, as `tendencies.shifts` says.

What was counted of documents is shifted, not their words: no change of words raises a curve by a
given amount at each place, or a number by the same amount in every document. D documents, K places.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from benchmarks.populations import Drawn, count
from beyond_perplexity.inference.permuted_units import Groups
from beyond_perplexity.tendencies.curve_comparison import sums_by_place
from beyond_perplexity.tendencies.definitions import OF_FAMILIES, SHARED_NGRAMS, TAYLOR, TENDENCIES
from beyond_perplexity.tendencies.document_counts import DocumentCounts
from beyond_perplexity.tendencies.document_statistics import ABSENT, Sized
from beyond_perplexity.tendencies.document_values import value_counter
from beyond_perplexity.tendencies.pairs import SampleSetPair
from beyond_perplexity.tendencies.statistics import Statistics, histograms_of
from beyond_perplexity.tendencies.tokens import TokenBatch
from beyond_perplexity.tendencies.word_classes import ClassOptions

RISES = {*OF_FAMILIES} - {SHARED_NGRAMS}  # what documents share is of their words
_OF_WHOLE = ("repetition", "compression")  # a whole number of words or bytes, over the size


@dataclass(frozen=True)
class Larger:
    """A tendency that every document has more of: by the `rise` of each place, (K,).

    Documents are cut to the size of the reference that the rise is of (`sizes`, by tendency).
    """

    tendency: str
    sizes: Mapping[str, Sized]
    rise: np.ndarray

    @classmethod
    def of(cls, reference: Statistics, tendency: str, x: float) -> Larger:
        """Rise by x; a curve so where it varies most, elsewhere in proportion to its deviation."""
        sizes, spread = reference.sizes(), np.ones(1)
        sizes = {name: own for name, own in sizes.items() if name == tendency}
        if TENDENCIES[tendency].kind == "curve":
            n, total, squares = sums_by_place(reference, sizes[tendency]).T
            spread = np.sqrt(squares / n - (total / n) ** 2)
        return cls(tendency, sizes, x * spread / spread.max())

    def moved(self, values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Shift what was counted, (D,) or (D, K); parts of a word or byte are rounded at random."""
        unit = TENDENCIES[self.tendency].unit
        step = 1 / self.sizes[self.tendency].size if self.tendency in _OF_WHOLE else unit
        kept = (values if values.ndim == 1 else values[:, 0]) != ABSENT
        whole = np.rint(values[kept] * unit / step)
        whole += np.floor(self.rise / step + rng.random(whole.shape))
        moved = values.copy()
        moved[kept] = np.rint(whole * step / unit)
        return moved

    @contextmanager
    def opened(
        self,
        human: Drawn,
        model: Drawn,
        classes: ClassOptions,
        groups: Groups,
        rng: np.random.Generator,
    ) -> Iterator[SampleSetPair]:
        """Bring documents together for tests of numbers, curves and slopes, the second shifted."""
        counted = value_counter(classes, {sized.name: sized for sized in self.sizes.values()})
        batches = [TokenBatch(side.types, side.ids, side.offsets) for side in (human, model)]
        values = list(map(counted, batches))
        if self.tendency == TAYLOR:
            laws = [count(side, classes, {}).slope_counter() for side in (human, model)]
            for own, batch in zip(values, batches, strict=True):
                own[TAYLOR] = np.stack([law(batch) for law in laws if law], axis=1)
        name = TAYLOR if self.tendency == TAYLOR else self.sizes[self.tendency].name
        values[1][name] = self.moved(values[1][name], rng)
        types, counts = pa.array([], pa.string()), np.zeros((2, 0), np.int64)
        with DocumentCounts(types, counts[0]) as documents:
            for side, own in enumerate(values):
                documents.add_numbers(side, own)
            one, other = (Statistics(types, counts[0], histograms_of(own)) for own in values)
            yield SampleSetPair(one, other, types, counts, documents, groups, held_sizes=self.sizes)
