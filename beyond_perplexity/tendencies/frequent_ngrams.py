"""N-grams of one to three words that are frequent in two texts together, counted in each document.

Texts are read twice, and once more for quotations: the first time n-grams are counted in bounded
memory (`tokens.TypeCounter`), then the frequent ones alone in documents. N-grams that hold
``<unk>`` count for nothing. W n-grams, D documents, T tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy.sparse import csr_matrix, vstack

from beyond_perplexity.tendencies.tokens import UNKNOWN_WORD, TokenBatch, TypeCounter

# Fixed before any text was looked at.
LONGEST = 3  # words of an n-gram
LEAST_DOCUMENTS = 10  # of both texts together that an n-gram stands in
LEAST_SHARE = 0.001  # likewise, of all of them
LEAST_OCCURRENCES = 20
MOST_GRAMS = 10_000  # those in most documents
QUOTED = 2  # documents of an n-gram
_AROUND = 8  # words of a quotation on either side

TextStream = Callable[[], Iterable[pa.Array]]
TextStreams = tuple[TextStream, TextStream]  # of the reference and of the samples
ReadTokens = Callable[[pa.Array], TokenBatch]


class Grams(NamedTuple):
    """The n-grams of one length in a batch of documents, an occurrence each: (G,)."""

    names: pa.Array  # words joined by blanks
    starts: np.ndarray  # places of their first words in the batch
    documents: np.ndarray


def grams_of(batch: TokenBatch) -> Iterator[Grams]:
    """Yield the n-grams of 1 to `LONGEST` words of documents, without those of unknown words."""
    documents = np.repeat(np.arange(len(batch.lengths)), batch.lengths)  # (T,)
    whole = known = ~np.asarray(pc.equal(batch.types, UNKNOWN_WORD))[batch.ids]
    names = words = batch.types.take(pa.array(batch.ids))
    for n in range(1, LONGEST + 1):
        if n > 1:
            names = pc.binary_join_element_wise(names[:-1], words[n - 1 :], " ")
            whole = whole[:-1] & known[n - 1 :] & (documents[n - 1 :] == documents[: 1 - n])
        starts = np.flatnonzero(whole)
        yield Grams(names.take(pa.array(starts)), starts, documents[starts])


@dataclass(frozen=True)
class GramCounts:
    """N-grams of two texts and their occurrences in each document."""

    names: list[str]  # sorted by their length, then by words: (W,)
    counts: tuple[csr_matrix, csr_matrix]  # of the reference and the samples: (D, W)
    sizes: tuple[np.ndarray, np.ndarray]  # n-grams of every length in each document: (D, LONGEST)

    @property
    def lengths(self) -> np.ndarray:
        """Words of each: int64, (W,)."""
        return np.array([name.count(" ") + 1 for name in self.names], np.int64)

    def documents(self) -> np.ndarray:
        """Count the documents of either text that have each n-gram: (2, W)."""
        return np.stack([np.bincount(x.indices, minlength=x.shape[1]) for x in self.counts])

    def occurrences(self) -> np.ndarray:
        """Count the occurrences in either text: (2, W)."""
        return np.stack([np.asarray(x.sum(axis=0)).ravel() for x in self.counts])

    def totals(self) -> np.ndarray:
        """Count the n-grams of the length of each in either text: (2, W)."""
        return np.stack([x.sum(axis=0)[self.lengths - 1] for x in self.sizes])


def least_documents(n_documents: int) -> int:
    """Return in how many of the documents of both texts an n-gram must stand."""
    return max(LEAST_DOCUMENTS, int(np.ceil(LEAST_SHARE * n_documents)))


def _in_documents(texts: Iterable[pa.Array], read: ReadTokens, least: int) -> list[str]:
    """List the n-grams that enough documents have; of too many those that most have."""
    with TypeCounter() as counter:
        for grams in chain.from_iterable(map(grams_of, map(read, texts))):
            held = grams.names.dictionary_encode()
            n = len(held.dictionary)
            once = np.unique(grams.documents * n + held.indices.to_numpy()) % max(n, 1)
            counter.add(held.dictionary, np.bincount(once, minlength=n))
        kept = pa.concat_tables(
            table.filter(pc.greater_equal(table["count"], least))
            for table in chain(counter.sorted_counts())
        )
    most = kept.sort_by([("count", "descending"), ("type", "ascending")])[:MOST_GRAMS]
    return sorted(most["type"].to_pylist(), key=lambda name: (name.count(" "), name))


def _count(
    texts: Iterable[pa.Array], read: ReadTokens, names: Sequence[str]
) -> tuple[csr_matrix, np.ndarray]:
    """Count n-grams in documents, (D, W), and all n-grams by their length, (D, LONGEST)."""
    known, parts, sizes = pa.array(names, pa.string()), [], []
    for batch in map(read, texts):
        n, held = len(batch.lengths), list(grams_of(batch))
        places = [pc.index_in(own.names, value_set=known).fill_null(-1) for own in held]
        columns, rows = np.concatenate(places), np.concatenate([own.documents for own in held])
        found = rows[columns >= 0], columns[columns >= 0]
        parts.append(csr_matrix((np.ones(len(found[0]), np.int32), found), (n, len(names))))
        sizes.append(np.stack([np.bincount(own.documents, minlength=n) for own in held], axis=1))
    return vstack(parts, format="csr"), np.concatenate(sizes)


def count_grams(texts: TextStreams, read: ReadTokens, n_documents: int) -> GramCounts:
    """Count the n-grams that are frequent in two texts together, in all `n_documents` of them."""
    least = least_documents(n_documents)
    names = _in_documents(chain(texts[0](), texts[1]()), read, least)
    (first, n), (second, m) = (_count(text(), read, names) for text in texts)
    often = np.asarray(first.sum(axis=0) + second.sum(axis=0)).ravel() >= LEAST_OCCURRENCES
    chosen = [name for name, kept in zip(names, often, strict=True) if kept]
    return GramCounts(chosen, (first[:, often].tocsr(), second[:, often].tocsr()), (n, m))


def quotations(texts: TextStream, read: ReadTokens, names: Sequence[str]) -> dict[str, list[str]]:
    """Find the first two documents of a text that have each n-gram, and quote the words around."""
    found: dict[str, list[str]] = {name: [] for name in names}
    for batch in map(read, texts()):
        if not (missing := [name for name in names if len(found[name]) < QUOTED]):
            break
        n = len(batch.lengths)
        for length, grams in enumerate(grams_of(batch), 1):
            places = pc.index_in(grams.names, value_set=pa.array(missing)).fill_null(-1)
            keys = np.asarray(places).astype(np.int64) * n + grams.documents
            for key, first in zip(*np.unique(keys, return_index=True), strict=True):
                if key >= 0 and len(held := found[missing[key // n]]) < QUOTED:
                    held.append(_quote(batch, key % n, grams.starts[first], length))
    return found


def _quote(batch: TokenBatch, document: int, start: int, length: int) -> str:
    """Put an n-gram into brackets between the words around it."""
    ends = batch.offsets[document : document + 2]
    cuts = [start - _AROUND, start, start + length, start + length + _AROUND]
    parts = (batch.ids[slice(*cut)] for cut in pairwise(np.clip(cuts, *ends)))
    before, own, after = (" ".join(batch.types.take(pa.array(x)).to_pylist()) for x in parts)
    dots = ["…" * bool(cut) for cut in (cuts[0] > ends[0], cuts[3] < ends[1])]
    return " ".join(filter(None, [dots[0], before, f"[{own}]", after, dots[1]]))
