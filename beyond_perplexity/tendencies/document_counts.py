"""Blocks of documents x types on disk, and their products with labels and weights.

With labels of 0 and 1 the products are whole numbers below 2^16 but for a few types of a block:
16-bit lanes halve the memory that a product walks through, and with it its time. Sums of these few
types are made apart, from dense rows.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy.sparse import csc_matrix, csr_matrix

from beyond_perplexity.inference import histogram_draws
from beyond_perplexity.inference.histogram_draws import cut_rows
from beyond_perplexity.inference.p_values import joined_draws
from beyond_perplexity.inference.permuted_units import DocumentLabels, side_by_side
from beyond_perplexity.random_streams import stream
from beyond_perplexity.tendencies.taylor import SEGMENT, kept_segments, segment_cells
from beyond_perplexity.tendencies.tokens import TokenBatch, tokenize_batch

_LANE = 2**16
_EXACT_SUM = 2**24  # whole numbers up to here are exact in 32 bits


@dataclass(frozen=True)
class DocumentBlock:
    """One block of documents of one sample set: counts over the types it holds, memory-mapped."""

    sample_set: int  # 0 for the reference and 1 for the samples
    values: Mapping[str, np.ndarray]  # what else is kept of every document: int32, (D,)
    columns: np.ndarray | slice  # the types of the columns: int64, (U,)
    transposed: csc_matrix  # the counts, of 16 bits where they fit: (U, D)
    frequent: np.ndarray  # the columns whose sum may not fit into 16 bits: (F,)
    dense: np.ndarray  # and their counts: (F, D)

    @property
    def n_documents(self) -> int:
        """Documents D."""
        return int(self.transposed.shape[1])

    def chosen(
        self, path: Path, sample_set: int, chosen: np.ndarray, columns: np.ndarray | slice
    ) -> DocumentBlock:
        """Take some documents (bool, (D,)) for a text, in a new folder where not all are."""
        if chosen.all():
            return replace(self, sample_set=sample_set, columns=columns)
        values = {name: x[chosen] for name, x in self.values.items()}
        matrix = self.transposed.T[np.flatnonzero(chosen)]  # (D', U)
        return store_block(path, sample_set, values, matrix, columns)

    def add_labelled(self, total: np.ndarray, labels: np.ndarray) -> None:
        """Add the counts of the documents that have a label (uint16, (D, w)) to a total, (V, w)."""
        counts = self.transposed @ labels.astype(self.transposed.dtype, copy=False)  # (U, w)
        counts[self.frequent] = 0
        total[self.columns] += counts
        places = self.frequent if isinstance(self.columns, slice) else self.columns[self.frequent]
        total[places] += self.dense @ labels.astype(self.dense.dtype)

    def add_weighted(self, total: np.ndarray, weights: np.ndarray) -> None:
        """Add the counts times weights (D, w) to a total, (V, w), a float."""
        total[self.columns] += self._floats(total.dtype) @ weights.astype(total.dtype, copy=False)

    def per_document(self, marks: np.ndarray) -> np.ndarray:
        """Sum counts times the numbers of all types (V, w), a float, over types: (D, w)."""
        return self._floats(marks.dtype).T @ marks[self.columns]

    def _floats(self, dtype: np.dtype) -> csc_matrix:
        held = self.transposed
        parts = (held.data.astype(dtype), held.indices, held.indptr)
        return csc_matrix(parts, shape=held.shape)


def store_block(
    path: Path,
    sample_set: int,
    values: Mapping[str, np.ndarray],
    matrix: csr_matrix,
    columns: np.ndarray | slice,
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
    return DocumentBlock(sample_set, values, columns, transposed, frequent, held["dense"])


def count_block(
    batch: TokenBatch, types: pa.Array, powers: Sequence[int] = (), kept: np.ndarray | None = None
) -> tuple[list[csr_matrix], np.ndarray | slice]:
    """Count types in documents: int64, (D, U), and the types of the columns, (U,).

    Beside them sums over the segments that each document keeps, (D,), of powers of their counts.
    All types are faster when the block holds many; an unknown type is a ValueError.
    """
    found = pc.index_in(batch.types, value_set=types)
    if found.null_count:
        raise ValueError(f"unknown type {batch.types.filter(pc.is_null(found))[0]}")
    columns: np.ndarray | slice
    columns, local = np.unique(found.to_numpy(), return_inverse=True)
    width = len(columns)
    if 2 * width > len(types):
        columns, local, width = slice(None), found.to_numpy(), len(types)
    shape, ones = (len(batch.offsets) - 1, width), np.ones(len(batch.ids), np.int32)
    matrix = csr_matrix((ones, local[batch.ids], batch.offsets), shape=shape)
    matrix.sum_duplicates()
    matrices = [matrix]
    if powers:
        documents, own, counts = segment_cells(batch, kept)
        cells = documents, local[own]
        matrices += [csr_matrix((counts**power, cells), shape=shape) for power in powers]
    return matrices, columns


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
    """Counts of types in every document of two sample sets, on disk; a context manager.

    The most frequent of the V types should come first: they stay in the cache. `pooled` (int64,
    (V,)) are their counts in both, which decide on the floating-point type. `read` makes tokens;
    `count` counts what else is kept of every document, ``length`` among it. With `shares`,
    of its segments that a document of either text keeps, two more of these hold the sums of counts
    in segments and of their squares: `segments`, with the lengths of what documents keep.
    """

    def __init__(
        self,
        types: pa.Array,
        pooled: np.ndarray,
        read: Callable[[pa.Array], TokenBatch] = tokenize_batch,
        count: Callable[[TokenBatch], Mapping[str, np.ndarray]] = count_lengths,
        *,
        shares: tuple[float, float] | None = None,
    ) -> None:
        self._types = types
        self._pooled = pooled
        self._read = read
        self._count = count
        self._dtype = np.float32 if pooled.max(initial=0) < _EXACT_FLOAT32 else np.float64
        self._blocks: list[DocumentBlock] = []
        self._folder = tempfile.TemporaryDirectory(prefix="documents-")
        self.shares = shares
        most = [pooled, pooled * SEGMENT] if shares else []
        self.segments = [DocumentCounts(types, own) for own in most]

    def __enter__(self) -> DocumentCounts:
        return self

    def __exit__(self, *error: object) -> None:
        self._folder.cleanup()
        for held in self.segments:
            held.__exit__(*error)

    def add(self, sample_set: int, texts: Iterable[pa.Array]) -> None:
        """Store documents of text 0 (the reference) or 1, 0 first; an unknown type is an error."""
        held = [self, *self.segments]
        for block in _fixed_blocks(texts):
            batch = self._read(block)
            share = self.shares[sample_set] if self.shares else 1.0
            kept = kept_segments(batch.lengths, share, self.n_documents(sample_set))
            matrices, columns = count_block(batch, self._types, range(1, len(held)), kept)
            lengths = {"length": kept * SEGMENT}
            for one, matrix in zip(held, matrices, strict=True):
                values = self._count(batch) if one is self else lengths
                one._store(sample_set, values, matrix, columns)

    def add_numbers(self, sample_set: int, values: Mapping[str, np.ndarray]) -> None:
        """Store documents of which only these values, (D,), are known."""
        self._store(sample_set, values, csr_matrix((len(values["length"]), 0)), slice(None))

    def _store(
        self,
        sample_set: int,
        values: Mapping[str, np.ndarray],
        matrix: csr_matrix,
        columns: np.ndarray | slice,
    ) -> None:
        held = {name: x.astype(np.int32) for name, x in values.items()}
        self._blocks.append(store_block(self._new_path(), sample_set, held, matrix, columns))

    def _new_path(self) -> Path:
        return Path(self._folder.name) / str(len(self._blocks))

    @contextmanager
    def selected(
        self, places: tuple[np.ndarray, np.ndarray], more: pa.Array | None = None
    ) -> Iterator[DocumentCounts]:
        """Give every document another sample set, or none; over the same types and `more` types.

        `places` (D,) of both sample sets: 0, 1, or -1 for none. Lives as long as the context and
        this.
        """
        types = self._types if more is None else pa.concat_arrays([self._types, more])
        given, shares = (types, self._pooled, self._read, self._count), self.shares
        if shares and more is not None:
            shares = shares[0], shares[0]  # what is read beside them is human text, as the first is
        with DocumentCounts(*given, shares=shares) as kept:
            both = zip([self, *self.segments], [kept, *kept.segments], strict=True)
            for whole, part in both:
                for sample_set in (0, 1):
                    whole._select_into(part, sample_set, places)
            yield kept

    def _select_into(
        self, part: DocumentCounts, sample_set: int, places: tuple[np.ndarray, np.ndarray]
    ) -> None:
        every = slice(None) if len(part._types) == self.n_types else np.arange(self.n_types)
        for old in (0, 1):
            cuts = cut_rows(places[old] == sample_set, self._sizes(old))
            for block, chosen in zip(self._of(old), cuts, strict=True):
                columns = every if isinstance(block.columns, slice) else block.columns
                if chosen.any():
                    made = block.chosen(part._new_path(), sample_set, chosen, columns)
                    part._blocks.append(made)

    @property
    def n_types(self) -> int:
        """Types V."""
        return len(self._types)

    def _of(self, sample_set: int) -> list[DocumentBlock]:
        return [block for block in self._blocks if block.sample_set == sample_set]

    def n_documents(self, sample_set: int) -> int:
        """Count the documents of a sample set."""
        return sum(self._sizes(sample_set))

    def values(self, sample_set: int) -> dict[str, np.ndarray]:
        """Return what is kept of every document of a sample set: int32, shape (D,), by name."""
        nothing = {"length": np.zeros(0, np.int32)}
        held = [block.values for block in self._of(sample_set)] or [nothing]
        return joined_draws(held)

    def totals(self, sample_set: int, kept: np.ndarray | None = None) -> np.ndarray:
        """Add up the counts of a text, or of documents that are kept (D,): int64, shape (V,)."""
        chosen = np.ones(self.n_documents(sample_set), bool) if kept is None else kept
        labels = cut_rows(chosen[:, None].astype(np.uint16), self._sizes(sample_set))
        found = self._sums(DocumentBlock.add_labelled, self._of(sample_set), labels, 1)
        return found[:, 0].astype(np.int64)

    def _sizes(self, sample_set: int) -> list[int]:
        return [block.n_documents for block in self._of(sample_set)]

    def _sums(
        self,
        add: Callable[[DocumentBlock, np.ndarray, np.ndarray], None],
        blocks: Iterable[DocumentBlock],
        drawn: Iterable[np.ndarray],
        width: int,
    ) -> np.ndarray:
        """Add up blocks by labels or weights of their documents, (D, w) of each in turn: (V, w)."""
        total = np.zeros((len(self._types), width), self._dtype)
        for block, own in zip(blocks, drawn, strict=True):
            add(block, total, own)
        return total

    def permutations(self, n: int, seed: int, purpose: str) -> Iterator[np.ndarray]:
        """Yield counts (whole numbers, float, (V, w)) of the documents labelled as reference.

        Permutation b of documents draws from the stream (`seed`, `purpose`, b).
        """
        sizes = self.n_documents(0), self.n_documents(1)
        sizes_of_blocks = [block.n_documents for block in self._blocks]
        for items in side_by_side(n):
            drawers = [DocumentLabels(stream(seed, purpose, b), *sizes) for b in items]
            blocks = (np.stack([one.next_block(k) for one in drawers]) for k in sizes_of_blocks)
            labels = (block.T.astype(np.uint16, order="C") for block in blocks)  # (D, w) each
            yield self._sums(DocumentBlock.add_labelled, self._blocks, labels, len(items))

    def sums_of(self, sample_set: int, labels: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """Add up the counts of documents whose unit (D,) has a label (U, w): whole floats."""
        held = labels.astype(np.uint16)
        drawn = (held[own] for own in cut_rows(codes, self._sizes(sample_set)))
        return self._sums(DocumentBlock.add_labelled, self._of(sample_set), drawn, labels.shape[1])

    def per_document(self, sample_set: int, marks: np.ndarray) -> Iterator[np.ndarray]:
        """Sum counts times the numbers of all types (V, w), a float: (D, w), block after block."""
        return (block.per_document(marks) for block in self._of(sample_set))

    def weighted_sums(self, sample_set: int, weights: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """Add up counts times the weight (U, w), a float, of each document's unit: (V, w)."""
        drawn = (weights[own] for own in cut_rows(codes, self._sizes(sample_set)))
        return self._sums(DocumentBlock.add_weighted, self._of(sample_set), drawn, weights.shape[1])

    def resampled(
        self, sample_set: int, items: range, seed: int, purpose: str, kept: np.ndarray | None = None
    ) -> np.ndarray:
        """Resample the documents of a text, or those `kept` (D,): whole numbers, float, (V, w).

        Replicate r of the items draws from the stream (`seed`, `purpose`, r).
        """
        chosen = np.ones(self.n_documents(sample_set), bool) if kept is None else kept
        n = int(chosen.sum())
        drawers = [histogram_draws.DocumentResample(stream(seed, purpose, r), n) for r in items]

        def weigh(own: np.ndarray) -> np.ndarray:
            weights = np.zeros((len(own), len(items)), self._dtype)
            weights[own] = np.stack([one.next_block(int(own.sum())) for one in drawers]).T
            return weights

        drawn = map(weigh, cut_rows(chosen, self._sizes(sample_set)))
        return self._sums(DocumentBlock.add_weighted, self._of(sample_set), drawn, len(items))
