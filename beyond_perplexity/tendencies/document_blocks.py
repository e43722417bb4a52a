"""Blocks of documents x types on disk, and their products with labels and weights.

With labels of 0 and 1 the products are whole numbers below 2^16 but for a few types of a block:
16-bit lanes halve the memory that a product walks through, and with it its time. Sums of these few
types are made apart, from dense rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy.sparse import csc_matrix, csr_matrix

from beyond_perplexity.tendencies.tokens import TokenBatch

_LANE = 2**16
_EXACT_FLOAT32 = 2**24


@dataclass(frozen=True)
class DocumentBlock:
    """One block of documents of one body: counts over the types it holds, memory-mapped.

    Attributes
    ----------
    body : int
        0 for the reference, 1 for the samples.
    columns : numpy.ndarray of int64, shape (U,), or None
        Types of the columns; None when the columns are all types.
    transposed : scipy.sparse.csc_matrix, shape (U, D)
        Counts, of 16 bits where they fit.
    frequent : numpy.ndarray of int64, shape (F,)
        Columns whose sum may not fit into 16 bits.
    dense : numpy.ndarray of float, shape (F, D)
        Their counts.
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

        `whole` is the number of types where these become the first ones of more.
        """
        columns = self.columns
        if columns is None and whole is not None:
            columns = np.arange(whole)
        if chosen.all():
            return replace(self, body=body, columns=columns)
        matrix = self.transposed.T[np.flatnonzero(chosen)]  # (D', U)
        return store_block(path, body, matrix, columns)

    def labelled(self, labels: np.ndarray) -> np.ndarray:
        """Sum the counts of the documents that have a label.

        Parameters
        ----------
        labels : numpy.ndarray of uint16, shape (D, w)
            0 or 1.

        Returns
        -------
        numpy.ndarray of uint16 or float64, shape (U, w)
            Exact but for the rows of `frequent`, which are to be taken from `labelled_frequent`.
        """
        if self.transposed.dtype != np.uint16:
            labels = labels.astype(self.transposed.dtype)
        product: np.ndarray = self.transposed @ labels
        return product

    def labelled_frequent(self, labels: np.ndarray) -> np.ndarray:
        """Sum the counts of the frequent types likewise: float, shape (F, w)."""
        product: np.ndarray = self.dense @ labels.astype(self.dense.dtype)
        return product

    def weighted(self, weights: np.ndarray) -> np.ndarray:
        """Sum counts times weights (D, w), a float, over documents: (U, w) of their type."""
        product: np.ndarray = self._floats(weights.dtype) @ weights
        return product

    def per_document(self, marks: np.ndarray) -> np.ndarray:
        """Sum counts times the numbers of all types (V, w), a float, over types: (D, w)."""
        held = marks if self.columns is None else marks[self.columns]
        product: np.ndarray = self._floats(marks.dtype).T @ held
        return product

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
    dense_type = np.float32 if sums.max(initial=0) < _EXACT_FLOAT32 else np.float64
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
    """Count types in documents.

    Parameters
    ----------
    batch : TokenBatch
        D documents.
    types : pyarrow.StringArray, shape (V,)
        All types.

    Returns
    -------
    matrix : scipy.sparse.csr_matrix of int64, shape (D, U)
        Counts.
    columns : numpy.ndarray of int64, shape (U,), or None
        Types of the columns; None for all types, which is faster when the block holds many.

    Raises
    ------
    ValueError
        When a document has a type that is not among the types.
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
