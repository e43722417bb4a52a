"""Permutation and bootstrap of unigram counts: documents x types times blocks of labels.

Documents are permuted, never tokens. The matrix lies on disk in blocks of a fixed number of
documents, so memory holds one block, whatever the corpus, and results do not depend on how files
were cut. For a block of permutations, 0/1 labels (D, w) times the matrix give the counts of one
side for w permutations at once; the other side is the rest. Fixed blocks share the labels by a
hypergeometric draw.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa

from beyond_perplexity.inference.document_draws import (
    DocumentLabels,
    DocumentResample,
    draw_labels,
    draw_weights,
    take_rows,
)
from beyond_perplexity.inference.exchanged_units import SIDE_BY_SIDE
from beyond_perplexity.random_streams import stream
from beyond_perplexity.tendencies.document_blocks import DocumentBlock, count_block, store_block
from beyond_perplexity.tendencies.tokens import TokenBatch, tokenize_batch

BLOCK_DOCUMENTS = 65_536  # documents of a block; part of the definition of the random draws
_EXACT_FLOAT32 = 2**22  # counts up to here, and four times as many in a resample, are exact


def count_lengths(batch: TokenBatch) -> dict[str, np.ndarray]:
    """Count the tokens of every document: the least that is known of each."""
    return {"length": batch.lengths}


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
    count : callable
        Counts what else is kept of every document of a batch; ``length`` must be among it.
    """

    def __init__(
        self,
        types: pa.Array,
        pooled: np.ndarray,
        read: Callable[[pa.Array], TokenBatch] = tokenize_batch,
        count: Callable[[TokenBatch], Mapping[str, np.ndarray]] = count_lengths,
    ) -> None:
        self._types = types
        self._pooled = pooled
        self._read = read
        self._count = count
        self._dtype = np.float32 if pooled.max(initial=0) < _EXACT_FLOAT32 else np.float64
        self._blocks: list[DocumentBlock] = []
        self._values: list[Mapping[str, np.ndarray]] = []  # of the blocks
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> DocumentCounts:
        self._folder = tempfile.TemporaryDirectory(prefix="documents-")
        return self

    def __exit__(self, *_: object) -> None:
        assert self._folder is not None
        self._folder.cleanup()

    def add(self, body: int, texts: Iterable[pa.Array]) -> None:
        """Store the documents of body 0 (reference) or 1 (samples), body 0 first.

        Raises
        ------
        ValueError
            When a document has a type that is not among the types.
        """
        for block in _fixed_blocks(texts):
            batch = self._read(block)
            matrix, columns = count_block(batch, self._types)
            self._blocks.append(store_block(self._new_path(), body, matrix, columns))
            values = self._count(batch)
            self._values.append({name: x.astype(np.int32) for name, x in values.items()})

    def _new_path(self) -> Path:
        assert self._folder is not None
        return Path(self._folder.name) / str(len(self._blocks))

    @contextmanager
    def selected(
        self, places: tuple[np.ndarray, np.ndarray], more: pa.Array | None = None
    ) -> Iterator[DocumentCounts]:
        """Give every document another body, or none; over the same types and `more` types.

        Parameters
        ----------
        places : tuple of two numpy.ndarray of int, shape (D,)
            For the documents of body 0 and of body 1: 0, 1, or -1 for those left out.
        more : pyarrow.StringArray, optional
            Types of documents that are added later.

        Yields
        ------
        DocumentCounts
            Lives as long as the context, and as this object.
        """
        types = self._types if more is None else pa.concat_arrays([self._types, more])
        with DocumentCounts(types, self._pooled, self._read, self._count) as kept:
            for body in (0, 1):
                first = [0, 0]
                for block, values in zip(self._blocks, self._values, strict=True):
                    start = first[block.body]
                    first[block.body] += block.n_documents
                    chosen = places[block.body][start : first[block.body]] == body
                    if chosen.any():
                        whole = len(self._types) if len(types) > len(self._types) else None
                        part = block.chosen(kept._new_path(), body, chosen, whole)
                        kept._blocks.append(part)
                        kept._values.append({name: x[chosen] for name, x in values.items()})
            yield kept

    @property
    def n_types(self) -> int:
        """Types V."""
        return len(self._types)

    def _of(self, body: int) -> list[DocumentBlock]:
        return [block for block in self._blocks if block.body == body]

    def n_documents(self, body: int) -> int:
        """Count the documents of a body."""
        return sum(block.n_documents for block in self._of(body))

    def values(self, body: int) -> dict[str, np.ndarray]:
        """Return what is kept of every document of a body: int32, shape (D,), by name."""
        pairs = zip(self._blocks, self._values, strict=True)
        held = [values for block, values in pairs if block.body == body]
        names = held[0] if held else ["length"]
        empty = np.zeros(0, np.int32)
        return {name: np.concatenate([empty, *(part[name] for part in held)]) for name in names}

    def totals(self, body: int, kept: np.ndarray | None = None) -> np.ndarray:
        """Add up the counts of a body, or of documents that are kept (D,): int64, shape (V,)."""
        chosen = np.ones(self.n_documents(body), bool) if kept is None else kept
        draw = take_rows(chosen[:, None].astype(np.uint16), np.arange(len(chosen)))
        return self._labelled(self._of(body), 1, draw)[:, 0].astype(np.int64)

    def _labelled(
        self, chosen: list[DocumentBlock], width: int, draw: Callable[[int], np.ndarray]
    ) -> np.ndarray:
        """Sum counts where labels are 1; `draw` gives those of the next block, uint16, (D, w)."""
        total = np.zeros((len(self._types), width), self._dtype)
        for block in chosen:
            labels = draw(block.n_documents)
            counts = block.labelled(labels)  # (U, w)
            counts[block.frequent] = 0
            where = slice(None) if block.columns is None else block.columns
            total[where] += counts
            places = block.frequent if block.columns is None else block.columns[block.frequent]
            total[places] += block.labelled_frequent(labels)
        return total

    def _weighted(
        self, chosen: list[DocumentBlock], width: int, draw: Callable[[int], np.ndarray]
    ) -> np.ndarray:
        """Sum counts times weights; `draw` gives those of the next block, float, (D, w)."""
        total = np.zeros((len(self._types), width), self._dtype)
        for block in chosen:
            counts = block.weighted(draw(block.n_documents).astype(self._dtype, copy=False))
            total[slice(None) if block.columns is None else block.columns] += counts
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
        sizes = self.n_documents(0), self.n_documents(1)
        for start in range(0, n, SIDE_BY_SIDE):
            items = range(start, min(start + SIDE_BY_SIDE, n))
            labels = [DocumentLabels(stream(seed, purpose, b), *sizes) for b in items]
            yield self._labelled(self._blocks, len(items), draw_labels(labels))

    def sums_of(self, body: int, labels: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """Add up the counts of the documents whose unit has a label.

        Parameters
        ----------
        body : int
            0 or 1.
        labels : numpy.ndarray of bool, shape (U, w)
            Of U units.
        codes : numpy.ndarray of int, shape (D,)
            The unit of each document.

        Returns
        -------
        numpy.ndarray of float, shape (V, w)
            Whole numbers.
        """
        draw = take_rows(labels.astype(np.uint16), codes)
        return self._labelled(self._of(body), labels.shape[1], draw)

    def per_document(self, body: int, marks: np.ndarray) -> Iterator[np.ndarray]:
        """Sum counts times the numbers of all types (V, w), a float: (D, w), block after block."""
        for block in self._of(body):
            yield block.per_document(marks)

    def weighted_sums(self, body: int, weights: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """Add up counts times the weight (U, w), a float, of each document's unit: (V, w)."""
        return self._weighted(self._of(body), weights.shape[1], take_rows(weights, codes))

    def resampled(
        self, body: int, items: range, seed: int, purpose: str, kept: np.ndarray | None = None
    ) -> np.ndarray:
        """Resample the documents of a body with replacement.

        Parameters
        ----------
        body : int
            0 or 1.
        items : range
            Numbers of the replicates; replicate r draws from the stream (`seed`, `purpose`, r).
        seed, purpose : int, str
            See `items`.
        kept : numpy.ndarray of bool, shape (D,), optional
            Which documents are resampled; all by default.

        Returns
        -------
        numpy.ndarray of float, shape (V, w)
            Counts (whole numbers) of the replicates.
        """
        chosen = np.ones(self.n_documents(body), bool) if kept is None else kept
        n = int(chosen.sum())
        drawers = [DocumentResample(stream(seed, purpose, r), n) for r in items]
        draw = draw_weights(drawers, self._dtype, chosen)
        return self._weighted(self._of(body), len(items), draw)
