"""Permutation and bootstrap of unigram counts: documents x types in CSR times blocks of labels.

Documents are permuted, never tokens. The matrix lies on disk in blocks of a fixed number of
documents, so memory holds one block, whatever the corpus, and results do not depend on how files
were cut. For a block of permutations, 0/1 labels (D, w) times the matrix give the counts of one
side for w permutations at once; the other side is the rest. Fixed blocks share the labels by a
hypergeometric draw.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy.sparse import csc_matrix, csr_matrix

from beyond_perplexity.invariance.streams import stream
from beyond_perplexity.tendencies.document_draws import (
    DocumentLabels,
    DocumentResample,
    draw_columns,
)
from beyond_perplexity.tendencies.tokens import TokenBatch, tokenize_batch

BLOCK_DOCUMENTS = 65_536  # documents of a block; part of the definition of the random draws
SIDE_BY_SIDE = 16  # permutations at a time: 16 floats are one line of the processor's cache
_EXACT_FLOAT32 = 2**22  # counts up to here, and four times as many in a resample, are exact
_ROWS = 4_096  # types at a time in the reduction, which then stays in the cache
_FOLD = 64  # rows that a reduction takes side by side, for long inner loops


@dataclass(frozen=True)
class _Block:
    """One block of documents of one body: counts over the types it holds, memory-mapped.

    Attributes
    ----------
    body, n_documents : int
        0 for the reference, 1 for the samples; documents D.
    columns : numpy.ndarray of int64, shape (U,), or None
        Types of the columns; None when the columns are all types.
    transposed : scipy.sparse.csc_matrix, shape (U, D)
        Counts.
    """

    body: int
    n_documents: int
    columns: np.ndarray | None
    transposed: csc_matrix


def _fixed_blocks(texts: Iterable[pa.Array]) -> Iterator[pa.Array]:
    """Cut a stream of texts, however it comes, into blocks of `BLOCK_DOCUMENTS` documents."""
    held: list[pa.Array] = []
    n = 0
    for batch in texts:
        while n + len(batch) >= BLOCK_DOCUMENTS:
            taken = BLOCK_DOCUMENTS - n
            yield pa.concat_arrays([*held, batch.slice(0, taken)])
            held, n, batch = [], 0, batch.slice(taken)
        held.append(batch)
        n += len(batch)
    if n:
        yield pa.concat_arrays(held)


class DocumentCounts:
    """Counts of types in every document of two bodies of text, on disk; a context manager.

    Parameters
    ----------
    types : pyarrow.StringArray, shape (V,)
        All types of both bodies. The most frequent ones should come first: they are used most, and
        stay in the cache.
    pooled : numpy.ndarray of int64, shape (V,)
        Their counts in both bodies together, which decide on the floating-point type.
    read : callable
        Makes tokens of a batch of texts.
    """

    def __init__(
        self,
        types: pa.Array,
        pooled: np.ndarray,
        read: Callable[[pa.Array], TokenBatch] = tokenize_batch,
    ) -> None:
        self._types = types
        self._pooled = pooled
        self._read = read
        self._dtype = np.float32 if pooled.max(initial=0) < _EXACT_FLOAT32 else np.float64
        self._blocks: list[_Block] = []
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> DocumentCounts:
        self._folder = tempfile.TemporaryDirectory(prefix="documents-")
        return self

    def __exit__(self, *_: object) -> None:
        assert self._folder is not None
        self._folder.cleanup()

    def add(self, body: int, texts: Iterable[pa.Array]) -> None:
        """Store the documents of body 0 (reference) or 1 (samples).

        Raises
        ------
        ValueError
            When a document has a type that is not among the types.
        """
        for block in _fixed_blocks(texts):
            self._blocks.append(self._store(body, block))

    def _store(self, body: int, texts: pa.Array) -> _Block:
        assert self._folder is not None
        batch = self._read(texts)
        found = pc.index_in(batch.types, value_set=self._types)
        if found.null_count:
            raise ValueError(f"unknown type {batch.types.filter(pc.is_null(found))[0]}")
        columns, local = np.unique(found.to_numpy(), return_inverse=True)
        if 2 * len(columns) > len(self._types):  # then adding up whole arrays is faster
            columns, local = np.arange(len(self._types)), found.to_numpy()
        shape = (len(texts), len(columns))
        ones = np.ones(len(batch.ids), self._dtype)
        matrix = csr_matrix((ones, local[batch.ids], batch.offsets), shape=shape)
        matrix.sum_duplicates()
        whole = len(columns) == len(self._types)
        return self._save(body, matrix, None if whole else columns)

    def _save(self, body: int, matrix: csr_matrix, columns: np.ndarray | None) -> _Block:
        """Move a block of documents (D, U) to disk."""
        assert self._folder is not None
        path = Path(self._folder.name) / str(len(self._blocks))
        path.mkdir()
        parts = []
        for name in ("data", "indices", "indptr"):
            np.save(path / f"{name}.npy", getattr(matrix, name))
            parts.append(np.load(path / f"{name}.npy", mmap_mode="r"))
        transposed = csc_matrix(tuple(parts), shape=matrix.shape[::-1])
        return _Block(body, matrix.shape[0], columns, transposed)

    @contextmanager
    def restricted(self, choose: Callable[[int], np.ndarray]) -> Iterator[DocumentCounts]:
        """Keep all documents of body 0 and some of body 1, over the same types.

        Parameters
        ----------
        choose : callable
            Says of the next n documents of body 1 which are kept: bool, shape (n,).

        Yields
        ------
        DocumentCounts
            Lives as long as the context.
        """
        with DocumentCounts(self._types, self._pooled, self._read) as kept:
            for block in self._blocks:
                if block.body == 0:
                    kept._blocks.append(block)
                else:
                    matrix = block.transposed.T[choose(block.n_documents)]  # (D', U)
                    kept._blocks.append(kept._save(1, matrix, block.columns))
            yield kept

    def n_documents(self, body: int) -> int:
        """Count the documents of a body."""
        return sum(block.n_documents for block in self._blocks if block.body == body)

    def totals(self, body: int) -> np.ndarray:
        """Add up the counts of a body: int64, shape (V,)."""
        chosen = [block for block in self._blocks if block.body == body]
        counts = self._weighted(chosen, 1, lambda n: np.ones((n, 1), np.float32))
        return counts[:, 0].astype(np.int64)

    def _weighted(
        self, chosen: list[_Block], width: int, draw: Callable[[int], np.ndarray]
    ) -> np.ndarray:
        """Sum counts times weights of documents; `draw` gives those of the next block, (D, w)."""
        total = np.zeros((len(self._types), width), self._dtype)
        for block in chosen:
            weights = draw(block.n_documents).astype(self._dtype, copy=False)  # (D, w)
            counts = block.transposed @ weights  # (U, w)
            if block.columns is None:
                total += counts
            else:
                total[block.columns] += counts
        return total

    def permutations(self, n: int, seed: int, purpose: str) -> Iterator[np.ndarray]:
        """Permute documents between the bodies.

        Parameters
        ----------
        n : int
            Permutations.
        seed, purpose : int, str
            Permutation b draws from the stream (`seed`, `purpose`, b).

        Yields
        ------
        numpy.ndarray of float, shape (V, w)
            Counts (whole numbers) of the documents labelled as reference in the next w
            permutations.
        """
        for start in range(0, n, SIDE_BY_SIDE):
            items = range(start, min(start + SIDE_BY_SIDE, n))
            labels = [
                DocumentLabels(stream(seed, purpose, b), self.n_documents(0), self.n_documents(1))
                for b in items
            ]
            draw = draw_columns(labels)
            yield self._weighted(self._blocks, len(items), draw)

    def resamples(self, n: int, seed: int, purpose: str) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Resample the documents of both bodies with replacement.

        Parameters
        ----------
        n : int
            Replicates.
        seed, purpose : int, str
            Replicate r of a body draws from a stream keyed by them, the body and r.

        Yields
        ------
        reference, samples : numpy.ndarray of float, shape (V, w)
            Counts (whole numbers) of the next w replicates.
        """
        for start in range(0, n, SIDE_BY_SIDE):
            items = range(start, min(start + SIDE_BY_SIDE, n))
            found = []
            for body, name in enumerate(("reference", "samples")):
                chosen = [block for block in self._blocks if block.body == body]
                streams = [stream(seed, f"{purpose}/{name}", r) for r in items]
                weights = [DocumentResample(rng, self.n_documents(body)) for rng in streams]
                found.append(self._weighted(chosen, len(items), draw_columns(weights)))
            yield found[0], found[1]


def unigram_distances(first: np.ndarray, second: np.ndarray) -> dict[str, np.ndarray]:
    """Compute ``tvd`` and ``max_difference`` of unigram distributions for w pairs at once.

    Parameters
    ----------
    first, second : numpy.ndarray, shape (V, w)
        Counts.

    Returns
    -------
    dict of str to numpy.ndarray of float64, shape (w,)
        Half of sum |p1 - p2|, and sup |p1 - p2| over single outcomes (the paper's eq. 11 as
        printed).
    """
    width = first.shape[1]
    shares, others = np.empty((2, _ROWS, width))
    scales = [np.tile(1 / side.sum(axis=0, dtype=float), (_ROWS, 1)) for side in (first, second)]
    total, largest = np.zeros((2, _FOLD * width))
    for start in range(0, len(first), _ROWS):
        n = min(_ROWS, len(first) - start)
        for buffer, side, scale in zip((shares, others), (first, second), scales, strict=True):
            buffer[:n] = side[start : start + n]
            buffer[n:] = 0
            buffer *= scale
        shares -= others
        np.abs(shares, out=shares)
        folded = shares.reshape(_ROWS // _FOLD, _FOLD * width)
        total += folded.sum(axis=0)
        np.maximum(largest, folded.max(axis=0), out=largest)
    return {
        "tvd": total.reshape(_FOLD, width).sum(axis=0) / 2,
        "max_difference": largest.reshape(_FOLD, width).max(axis=0),
    }


def permuted_distances(first: np.ndarray, pooled: np.ndarray) -> dict[str, np.ndarray]:
    """Compute the same distances of counts and the rest of the pooled counts, for w permutations.

    With N1 and N2 tokens on the sides, c = c1 + c2 and N = N1 + N2, x = c1 / N1 - c2 / N2 is
    (N c1 - N1 c) / (N1 N2). The x add up to 0, so half of sum |x| is sum max(x, 0), which is
    (sum max(N c1, N1 c) - N N1) / (N1 N2). And |x| <= c / min(N1, N2) ends the search for the
    largest |x| early, exactly. For N below 2^26 all is divided only at the end, in whole numbers
    that a float holds: equal distances are equal floats, and no tie is lost to rounding.

    Parameters
    ----------
    first : numpy.ndarray, shape (V, w)
        Counts of one side.
    pooled : numpy.ndarray, shape (V,)
        Counts of both sides; fastest when they fall.

    Returns
    -------
    dict of str to numpy.ndarray of float64, shape (w,)
        ``tvd`` and ``max_difference``.
    """
    width = first.shape[1]
    total = float(pooled.sum())
    n_first = first.sum(axis=0, dtype=float)  # (w,)
    buffer, bound = np.empty((2, _ROWS, width))
    sums = np.zeros(_FOLD * width)
    for start in range(0, len(first), _ROWS):
        n = min(_ROWS, len(first) - start)
        buffer[:n], buffer[n:] = first[start : start + n], 0
        np.multiply(pooled[start : start + n, None], n_first, out=bound[:n])
        bound[n:] = 0
        buffer *= total
        np.maximum(buffer, bound, out=buffer)
        sums += buffer.reshape(_ROWS // _FOLD, -1).sum(axis=0)
    excess = sums.reshape(_FOLD, width).sum(axis=0) - total * n_first
    tvd = np.maximum(excess / (n_first * (total - n_first)), 0)
    return {"tvd": tvd, "max_difference": _largest(first, pooled, total, n_first)}


def _largest(
    first: np.ndarray, pooled: np.ndarray, total: float, n_first: np.ndarray
) -> np.ndarray:
    """Find the largest difference of shares in each column; see `permuted_distances`."""
    largest = np.zeros(first.shape[1])
    n_second = total - n_first
    smaller, product = np.minimum(n_first, n_second), n_first * n_second
    most = np.maximum.accumulate(pooled[::-1])[::-1]  # (V,): the largest count from here on
    step = 256
    for start in range(0, len(first), step):
        if np.all(most[start] / smaller <= largest):
            break
        side = first[start : start + step].astype(float) * total
        side -= pooled[start : start + step, None] * n_first
        np.maximum(largest, np.abs(side).max(axis=0) / product, out=largest)
    return largest


def top_ranks(counts: np.ndarray, ranks: int | None) -> np.ndarray:
    """Sort counts by rank, without sorting the types that cannot be among the first ranks.

    Parameters
    ----------
    counts : numpy.ndarray, shape (V, w)
        Counts of types; fastest when the frequent types come first.
    ranks : int or None
        Ranks wanted; None for all.

    Returns
    -------
    numpy.ndarray of float64, shape (w, min(V, ranks))
        Counts, most frequent first.
    """
    wanted = len(counts) if ranks is None else min(ranks, len(counts))
    looked = min(2 * wanted, len(counts))
    while True:
        ordered = np.sort(np.ascontiguousarray(counts[:looked].T), axis=1)[:, ::-1][:, :wanted]
        if looked == len(counts) or np.all(counts[looked:].max(axis=0) <= ordered[:, -1]):
            return ordered.astype(float)
        looked = min(2 * looked, len(counts))
