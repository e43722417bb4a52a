"""Blocks of documents x types on disk, and their products with labels and weights.

With labels of 0 and 1 the products are whole numbers below 2^16 but for a few types of a block:
16-bit lanes halve the memory that a product walks through, and with it its time. Sums of these few
types are made apart, from dense rows.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy.sparse import csc_matrix, csr_matrix

from beyond_perplexity.inference.exchanged_units import side_by_side
from beyond_perplexity.inference.histogram_draws import (
    DocumentLabels,
    DocumentResample,
    cut_rows,
    draw_labels,
    draw_weights,
)
from beyond_perplexity.random_streams import stream
from beyond_perplexity.tendencies.tokens import TokenBatch, tokenize_batch

_LANE = 2**16
_EXACT_SUM = 2**24  # whole numbers up to here are exact in 32 bits


@dataclass(frozen=True)
class DocumentBlock:
    """One block of documents of one body: counts over the types it holds, memory-mapped.

    `body` is 0 for the reference and 1 for the samples; `columns` (int64, (U,)) the types of the
    columns, None for all types; `transposed` (U, D) the counts, of 16 bits where they fit;
    `frequent` (F,) the columns whose sum may not fit into 16 bits, and `dense` (F, D) their counts.
    """

    body: int
    columns: np.ndarray | None
    transposed: csc_matrix
    frequent: np.ndarray
    dense: np.ndarray

    @property
    def n_documents(self) -> int:
        """Documents D."""
        return int(self.transposed.shape[1])

    def chosen(
        self, path: Path, body: int, chosen: np.ndarray, whole: int | None = None
    ) -> DocumentBlock:
        """Take some documents (bool, (D,)) for a body; a new folder holds them where not all are.

        `whole`: types where these become the first ones of more.
        """
        columns = self.columns
        if columns is None and whole is not None:
            columns = np.arange(whole)
        if chosen.all():
            return replace(self, body=body, columns=columns)
        matrix = self.transposed.T[np.flatnonzero(chosen)]  # (D', U)
        return store_block(path, body, matrix, columns)

    def labelled(self, labels: np.ndarray) -> np.ndarray:
        """Sum the counts of the documents that have a label (uint16, (D, w)): (U, w).

        Exact but for the rows of `frequent`, which are to be taken from `labelled_frequent`.
        """
        if self.transposed.dtype != np.uint16:
            labels = labels.astype(self.transposed.dtype)
        return self.transposed @ labels

    def labelled_frequent(self, labels: np.ndarray) -> np.ndarray:
        """Sum the counts of the frequent types likewise: float, shape (F, w)."""
        return self.dense @ labels.astype(self.dense.dtype)

    def weighted(self, weights: np.ndarray) -> np.ndarray:
        """Sum counts times weights (D, w), a float, over documents: (U, w) of their type."""
        return self._floats(weights.dtype) @ weights

    def per_document(self, marks: np.ndarray) -> np.ndarray:
        """Sum counts times the numbers of all types (V, w), a float, over types: (D, w)."""
        held = marks if self.columns is None else marks[self.columns]
        return self._floats(marks.dtype).T @ held

    def _floats(self, dtype: np.dtype) -> csc_matrix:
        held = self.transposed
        parts = (held.data.astype(dtype), held.indices, held.indptr)
        return csc_matrix(parts, shape=held.shape)


def store_block(
    path: Path, body: int, matrix: csr_matrix, columns: np.ndarray | None
) -> DocumentBlock:
    """Move a block of documents (D, U) to a new folder; see `DocumentBlock`."""
    path.mkdir()
    sums = np.asarray(matrix.sum(axis=0, dtype=np.int64)).ravel()
    dense_type = np.float32 if sums.max(initial=0) < _EXACT_SUM else np.float64
    frequent = np.flatnonzero(sums >= _LANE)
    small = matrix.data.max(initial=0) < _LANE
    arrays = {
        "data": matrix.data.astype(np.uint16 if small else np.float64),
        "indices": matrix.indices,
        "indptr": matrix.indptr,
        "dense": matrix[:, frequent].T.toarray().astype(dense_type),
    }
    held = {}
    for name, array in arrays.items():
        np.save(path / f"{name}.npy", array)
        held[name] = np.load(path / f"{name}.npy", mmap_mode="r")
    parts = (held["data"], held["indices"], held["indptr"])
    transposed = csc_matrix(parts, shape=matrix.shape[::-1])
    return DocumentBlock(body, columns, transposed, frequent, held["dense"])


def count_block(batch: TokenBatch, types: pa.Array) -> tuple[csr_matrix, np.ndarray | None]:
    """Count types in documents: int64, (D, U), and the types of the columns, (U,); None for all.

    All are faster when the block holds many; an unknown type is a ValueError.
    """
    found = pc.index_in(batch.types, value_set=types)
    if found.null_count:
        raise ValueError(f"unknown type {batch.types.filter(pc.is_null(found))[0]}")
    columns, local = np.unique(found.to_numpy(), return_inverse=True)
    whole = 2 * len(columns) > len(types)
    if whole:
        columns, local = np.arange(len(types)), found.to_numpy()
    shape = (len(batch.offsets) - 1, len(columns))
    ones = np.ones(len(batch.ids), np.int32)
    matrix = csr_matrix((ones, local[batch.ids], batch.offsets), shape=shape)
    matrix.sum_duplicates()
    return matrix, None if whole else columns


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

    The most frequent of the V types should come first: they stay in the cache. `pooled` (int64,
    (V,)) are their counts in both, which decide on the floating-point type. `read` makes tokens;
    `count` counts what else is kept of every document, ``length`` among it.
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
        self._folder = tempfile.TemporaryDirectory(prefix="documents-")

    def __enter__(self) -> DocumentCounts:
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def add(self, body: int, texts: Iterable[pa.Array]) -> None:
        """Store documents of body 0 (reference) or 1, body 0 first; an unknown type is an error."""
        for block in _fixed_blocks(texts):
            batch = self._read(block)
            matrix, columns = count_block(batch, self._types)
            self._blocks.append(store_block(self._new_path(), body, matrix, columns))
            values = self._count(batch)
            self._values.append({name: x.astype(np.int32) for name, x in values.items()})

    def _new_path(self) -> Path:
        return Path(self._folder.name) / str(len(self._blocks))

    @contextmanager
    def selected(
        self, places: tuple[np.ndarray, np.ndarray], more: pa.Array | None = None
    ) -> Iterator[DocumentCounts]:
        """Give every document another body, or none; over the same types and `more` types.

        `places` (D,) of both bodies: 0, 1, or -1 for none. Lives as long as the context and this.
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
        return sum(self._sizes(body))

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
        labels = cut_rows(chosen[:, None].astype(np.uint16), self._sizes(body))
        return self._labelled(self._of(body), 1, labels)[:, 0].astype(np.int64)

    def _sizes(self, body: int) -> list[int]:
        return [block.n_documents for block in self._of(body)]

    def _labelled(
        self, chosen: list[DocumentBlock], width: int, drawn: Iterable[np.ndarray]
    ) -> np.ndarray:
        """Sum counts where labels are 1, those of each block in turn: uint16, (D, w)."""
        total = np.zeros((len(self._types), width), self._dtype)
        for block, labels in zip(chosen, drawn, strict=True):
            counts = block.labelled(labels)  # (U, w)
            counts[block.frequent] = 0
            where = slice(None) if block.columns is None else block.columns
            total[where] += counts
            places = block.frequent if block.columns is None else block.columns[block.frequent]
            total[places] += block.labelled_frequent(labels)
        return total

    def _weighted(self, body: int, width: int, drawn: Iterable[np.ndarray]) -> np.ndarray:
        """Sum counts of a body times weights, those of each block in turn: float, (D, w)."""
        total = np.zeros((len(self._types), width), self._dtype)
        for block, weights in zip(self._of(body), drawn, strict=True):
            counts = block.weighted(weights.astype(self._dtype, copy=False))
            total[slice(None) if block.columns is None else block.columns] += counts
        return total

    def permutations(self, n: int, seed: int, purpose: str) -> Iterator[np.ndarray]:
        """Yield counts (whole numbers, float, (V, w)) of the documents labelled as reference.

        Permutation b of documents draws from the stream (`seed`, `purpose`, b).
        """
        sizes = self.n_documents(0), self.n_documents(1)
        blocks = [block.n_documents for block in self._blocks]
        for items in side_by_side(n):
            drawers = [DocumentLabels(stream(seed, purpose, b), *sizes) for b in items]
            yield self._labelled(self._blocks, len(items), draw_labels(drawers, blocks))

    def sums_of(self, body: int, labels: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """Add up the counts of documents whose unit (D,) has a label (U, w): whole floats."""
        held = labels.astype(np.uint16)
        drawn = (held[own] for own in cut_rows(codes, self._sizes(body)))
        return self._labelled(self._of(body), labels.shape[1], drawn)

    def per_document(self, body: int, marks: np.ndarray) -> Iterator[np.ndarray]:
        """Sum counts times the numbers of all types (V, w), a float: (D, w), block after block."""
        for block in self._of(body):
            yield block.per_document(marks)

    def weighted_sums(self, body: int, weights: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """Add up counts times the weight (U, w), a float, of each document's unit: (V, w)."""
        drawn = (weights[own] for own in cut_rows(codes, self._sizes(body)))
        return self._weighted(body, weights.shape[1], drawn)

    def resampled(
        self, body: int, items: range, seed: int, purpose: str, kept: np.ndarray | None = None
    ) -> np.ndarray:
        """Resample the documents of a body, or those `kept` (D,): whole numbers, float, (V, w).

        Replicate r of the items draws from the stream (`seed`, `purpose`, r).
        """
        chosen = np.ones(self.n_documents(body), bool) if kept is None else kept
        n = int(chosen.sum())
        drawers = [DocumentResample(stream(seed, purpose, r), n) for r in items]
        drawn = draw_weights(drawers, self._dtype, chosen, self._sizes(body))
        return self._weighted(body, len(items), drawn)
