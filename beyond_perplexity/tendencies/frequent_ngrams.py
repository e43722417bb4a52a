"""N-grams of one to three words that are frequent in two texts together, counted in each document.

Texts are read twice, and once more for quotations. Memory holds the occurrences of frequent n-grams
in documents alone: a first reading finds by counts of hashes which can be frequent (Park, Chen and
Yu 1995). N-grams that hold ``<unk>`` count for nothing. W n-grams, D documents, T tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy.sparse import csr_matrix, vstack

from beyond_perplexity.tendencies.tokens import (
    UNKNOWN_WORD,
    TokenBatch,
    string_hashes,
    tokenize_batch,
)

# Fixed before any text was looked at.
LONGEST = 3  # words of an n-gram
LEAST_DOCUMENTS = 10  # of both texts together that an n-gram stands in
LEAST_SHARE = 0.001  # likewise, of all of them
LEAST_OCCURRENCES = 20
MOST_GRAMS = 10_000  # those in most documents
_CELLS = 22  # bits of a hash that n-grams are counted by at first
_BASE = np.uint64(0x9E3779B97F4A7C15)
_AROUND = 8  # words of an example on either side
QUOTED = 2

TextStream = Callable[[], Iterable[pa.Array]]
TextStreams = tuple[TextStream, TextStream]  # of the reference and of the samples
ReadTokens = Callable[[pa.Array], TokenBatch]


class Grams(NamedTuple):
    """The n-grams of a batch of documents, one an occurrence: (G,) each."""

    hashes: np.ndarray
    starts: np.ndarray  # places of their first words in the batch
    documents: np.ndarray
    n: int

    @property
    def cells(self) -> np.ndarray:
        """The first bits of the hashes."""
        return (self.hashes >> np.uint64(64 - _CELLS)).astype(np.int64)

    def quote(self, batch: TokenBatch, occurrence: int, around: int = 0) -> str:
        """Return an occurrence, with so many words around it in brackets between these."""
        document, start = self.documents[occurrence], self.starts[occurrence]
        ends = batch.offsets[document : document + 2]
        cuts = (
            max(ends[0], start - around),
            start,
            start + self.n,
            min(ends[1], start + self.n + around),
        )
        before, own, after = (_words(batch, *cut) for cut in pairwise(cuts))
        if not around:
            return " ".join(own)
        dots = [["…"] if cut else [] for cut in (cuts[0] > ends[0], cuts[3] < ends[1])]
        return " ".join([*dots[0], *before, f"[{' '.join(own)}]", *after, *dots[1]])


def _words(batch: TokenBatch, start: int, end: int) -> list[str]:
    found: list[str] = batch.types.take(pa.array(batch.ids[start:end])).to_pylist()
    return found


def grams_of(batch: TokenBatch) -> list[Grams]:
    """List the n-grams of 1 to `LONGEST` words of documents, without those of unknown words."""
    documents = np.repeat(np.arange(len(batch.lengths)), batch.lengths)  # (T,)
    known = ~np.asarray(pc.equal(batch.types, UNKNOWN_WORD))[batch.ids]
    words = string_hashes(batch.types)[batch.ids]
    found, hashes, whole = [], words, known
    for n in range(1, LONGEST + 1):
        if n > 1:
            hashes = hashes[:-1] * _BASE + words[n - 1 :]
            whole = whole[:-1] & known[n - 1 :] & (documents[n - 1 :] == documents[: 1 - n])
        starts = np.flatnonzero(whole)
        found.append(Grams(hashes[starts], starts, documents[starts], n))
    return found


@dataclass(frozen=True)
class GramCounts:
    """N-grams of two texts and their occurrences in each document."""

    names: Sequence[str]  # words joined by blanks: (W,)
    lengths: np.ndarray  # words of each: (W,)
    counts: tuple[csr_matrix, csr_matrix]  # of the reference and the samples: (D, W)
    sizes: tuple[np.ndarray, np.ndarray]  # n-grams of every length in each document: (D, LONGEST)

    def documents(self) -> np.ndarray:
        """Count the documents of either text that have each n-gram: (2, W)."""
        return np.stack([np.bincount(x.indices, minlength=x.shape[1]) for x in self.counts])

    def occurrences(self) -> np.ndarray:
        """Count the occurrences in either text: (2, W)."""
        return np.stack([np.asarray(x.sum(axis=0)).ravel() for x in self.counts])

    def totals(self) -> np.ndarray:
        """Count the n-grams of the length of each in either text: (2, W)."""
        return np.stack([x.sum(axis=0)[self.lengths - 1] for x in self.sizes])

    def chosen(self, kept: np.ndarray) -> GramCounts:
        """Keep some n-grams, given by their places."""
        names = [self.names[place] for place in kept]
        first, second = (x[:, kept].tocsr() for x in self.counts)
        return GramCounts(names, self.lengths[kept], (first, second), self.sizes)


def least_documents(n_documents: int) -> int:
    """Return in how many of the documents of both texts an n-gram must stand."""
    return max(LEAST_DOCUMENTS, int(np.ceil(LEAST_SHARE * n_documents)))


def _frequent_cells(texts: Iterable[pa.Array], read: ReadTokens, least: int) -> np.ndarray:
    """Mark the cells of hashes that enough documents have an n-gram in: bool.

    An n-gram in as many documents is never lost; others that share its cell are found out later.
    """
    cells = np.zeros(1 << _CELLS, np.int32)
    for batch in map(read, texts):
        for grams in grams_of(batch):
            held = np.unique(grams.documents << _CELLS | grams.cells)
            np.add.at(cells, held & (1 << _CELLS) - 1, 1)
    return cells >= least


class _GramCounter:
    """Count the n-grams of frequent cells in every document, batch after batch."""

    def __init__(self, cells: np.ndarray) -> None:
        self._cells = cells
        self._known = np.zeros(0, np.uint64)
        self._texts: list[tuple[int, str]] = []  # length and words of these

    def add(self, batch: TokenBatch) -> tuple[csr_matrix, np.ndarray]:
        """Count the n-grams known by then in a batch, (D, V), and all by length, (D, LONGEST)."""
        n, sizes, places, documents = len(batch.lengths), [], [], []
        for grams in grams_of(batch):
            sizes.append(np.bincount(grams.documents, minlength=n))
            kept = np.flatnonzero(self._cells[grams.cells])
            hashes, first, inverse = np.unique(
                grams.hashes[kept], return_index=True, return_inverse=True
            )
            new = np.flatnonzero(~np.isin(hashes, self._known))
            self._texts += [(grams.n, grams.quote(batch, kept[first[place]])) for place in new]
            self._known = np.concatenate([self._known, hashes[new]])
            order = np.argsort(self._known)
            own = order[np.searchsorted(self._known, hashes, sorter=order)]
            places.append(own[inverse])
            documents.append(grams.documents[kept])
        held = np.concatenate(documents), np.concatenate(places)
        shape = n, len(self._known)
        return csr_matrix((np.ones(len(held[0]), np.int32), held), shape), np.stack(sizes, axis=1)

    def result(self, parts: Sequence[Sequence[tuple[csr_matrix, np.ndarray]]]) -> GramCounts:
        """Put the counts of all batches of both texts together."""
        counts, sizes, width = [], [], len(self._texts)
        for own in parts:
            empty = csr_matrix((0, width), dtype=np.int32), np.zeros((0, LONGEST), np.int64)
            for part, _ in own:
                part.resize(part.shape[0], width)
            matrices, numbers = zip(empty, *own, strict=True)
            counts.append(vstack(matrices, format="csr"))
            sizes.append(np.concatenate(numbers))
        lengths = np.array([n for n, _ in self._texts], np.int64)
        names = [text for _, text in self._texts]
        return GramCounts(names, lengths, (counts[0], counts[1]), (sizes[0], sizes[1]))


def count_grams(texts: TextStreams, read: ReadTokens, n_documents: int) -> GramCounts:
    """Count the n-grams of two texts that are frequent in both together, in every document.

    Parameters
    ----------
    texts : tuple of two callables
        Each streams the documents of a text (string, shape (D,)), in one order every time.
    read : callable
        Makes tokens of a batch.
    n_documents : int
        Documents of both texts.

    Returns
    -------
    GramCounts
        Sorted by length, then by words: the same whatever the batches.

    References
    ----------
    Park, Chen and Yu (1995). An effective hash-based algorithm for mining association rules.
    """
    least = least_documents(n_documents)
    counter = _GramCounter(_frequent_cells(chain(texts[0](), texts[1]()), read, least))
    found = counter.result([[counter.add(read(batch)) for batch in text()] for text in texts])
    documents, occurrences = found.documents().sum(axis=0), found.occurrences().sum(axis=0)
    kept = np.flatnonzero((documents >= least) & (occurrences >= LEAST_OCCURRENCES)).tolist()
    keys = {place: (int(found.lengths[place]), found.names[place]) for place in kept}
    most = sorted(kept, key=lambda place: (-documents[place], keys[place]))[:MOST_GRAMS]
    return found.chosen(np.array(sorted(most, key=lambda place: keys[place]), np.int64))


def quotations(texts: TextStream, read: ReadTokens, names: Sequence[str]) -> dict[str, list[str]]:
    """Find the first two documents of a text that have each n-gram, and quote the words around."""
    found: dict[str, list[str]] = {name: [] for name in names}
    batch = tokenize_batch(pa.array(names, pa.string()))
    missing = {
        int(own): names[document]
        for grams in grams_of(batch)
        for own, document in zip(grams.hashes, grams.documents, strict=True)
        if batch.lengths[document] == grams.n
    }
    for batch in map(read, texts()):
        if not missing:
            break
        for grams in grams_of(batch):
            held = np.flatnonzero(np.isin(grams.hashes, np.array([*missing], np.uint64)))
            for _ in range(QUOTED):
                hashes, first, inverse = np.unique(
                    grams.hashes[held], return_index=True, return_inverse=True
                )
                for own, place in zip(hashes.tolist(), held[first], strict=True):
                    found[missing[own]].append(grams.quote(batch, place, _AROUND))
                # The next one is of another document.
                here = grams.documents[held]
                held = held[here != here[first][inverse]]
        for own in [own for own, name in missing.items() if len(found[name]) >= QUOTED]:
            del missing[own]
    return found
