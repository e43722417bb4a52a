"""Numbers and curves of documents that are cut to one length, counted for any tendency.

A further tendency of this kind is a file and a row. The file has a function that takes what texts
are counted by (`ClassOptions`) and returns a `DocumentCount`, or None where it cannot be counted.
That takes a batch, the size that documents are cut to, and the places of the row, up to half of
the size; it returns which documents are as long, bool, (D,), and what each of them has, (D', K):

- of a *number* (kind ``number``) one column, at least 0: compared by the KS distance of both
  distributions and by their means;
- of a *curve* (kind ``curve``) a column for each place: compared by the largest difference of the
  mean curves, tested by the largest studentized one.

The row names the function (`statistic`), the sizes and the places, and the unit of the whole
numbers that are held. All else follows from it: what a shard holds, the test, baseline, minimum
detectable effect, columns of tables and figures.

Sizes: what is counted of a document depends on its length, which is a tendency of its own. So both
texts are cut to one size, the largest of the row that half of the reference's documents have, and
shorter documents are left out. A shard does not know the reference: it counts every size.

In a statistics file a number is a histogram (`length` the size, `value` in units) and a curve three
sums at each place (`length`): `value` 0 the documents, 1 their values, 2 the squares of these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pkgutil import resolve_name
from typing import NamedTuple

import numpy as np

from beyond_perplexity.tendencies.definitions import STATISTICS_OF_DOCUMENTS, Tendency
from beyond_perplexity.tendencies.tokens import TokenBatch
from beyond_perplexity.tendencies.word_classes import ClassOptions

DocumentCount = Callable[[TokenBatch, int, np.ndarray], tuple[np.ndarray, np.ndarray]]
ABSENT = int(np.iinfo(np.int32).min)  # in the place of the value of a shorter document
_BLOCK = 4096  # documents that are counted at a time


class Sized(NamedTuple):
    """A tendency whose documents are cut to one size."""

    tendency: str
    row: Tendency
    size: int

    @property
    def name(self) -> str:
        """What is counted, as statistics files call it."""
        return f"{self.row.histogram}_{self.size}"

    @property
    def places(self) -> np.ndarray:
        """The places of a curve, those up to half of the size; 0 of a number: (K,)."""
        places = np.array(self.row.places or (0,))
        return places[places <= self.size // 2]


SIZED = {
    sized.name: sized
    for tendency, row in STATISTICS_OF_DOCUMENTS.items()
    for sized in (Sized(tendency, row, size) for size in row.sizes)
}
CURVE_NAMES = {name for name, sized in SIZED.items() if sized.row.kind == "curve"}


def chosen_size(
    sizes: Sequence[int], lengths: np.ndarray, documents: np.ndarray | None = None
) -> int:
    """Choose the largest size that half of all documents have, so many of each length; else the
    least."""
    held = np.ones(len(lengths), int) if documents is None else documents
    enough = (size for size in sizes if 2 * held[lengths >= size].sum() >= held.sum())
    return max(enough, default=sizes[0])


def first_tokens(batch: TokenBatch, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Cut documents to so many tokens: which are as long, bool, (D,), and their ids, (D', size)."""
    kept = batch.lengths >= size
    return kept, batch.ids[batch.offsets[:-1][kept, None] + np.arange(size)]


def sized_counter(
    classes: ClassOptions, names: Mapping[str, Sized] = SIZED
) -> Callable[[TokenBatch], dict[str, np.ndarray]]:
    """Return what counts some of `SIZED` of every document, in units: int64, (D,) or (D, K)."""
    counts = {
        tendency: resolve_name(row.statistic)(classes)
        for tendency, row in STATISTICS_OF_DOCUMENTS.items()
        if row.statistic
    }

    def count(batch: TokenBatch) -> dict[str, np.ndarray]:
        found, n = {}, max(len(batch.lengths), 1)
        blocks = [(start, min(start + _BLOCK, n)) for start in range(0, n, _BLOCK)]
        for name, sized in names.items():
            if (own := counts.get(sized.tendency)) is not None:
                parts = [_units(batch.documents(*block), own, sized) for block in blocks]
                found[name] = np.concatenate(parts)
        return found

    return count


def _units(batch: TokenBatch, count: DocumentCount, sized: Sized) -> np.ndarray:
    kept, values = count(batch, sized.size, sized.places)
    found = np.full((len(batch.lengths), len(sized.places)), ABSENT, np.int64)
    found[kept] = np.rint(values / sized.row.unit)
    return found if sized.row.kind == "curve" else found[:, 0]


def curve_sums(values: np.ndarray) -> np.ndarray:
    """Add up documents, values and squares of a curve of documents (D, K): int64, (K, 3)."""
    held = values[values[:, 0] != ABSENT].astype(np.int64)  # (D', K)
    powers = np.ones_like(held), held, held**2
    return np.stack([own.sum(axis=0) for own in powers], axis=1)
