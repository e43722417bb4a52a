"""Repeated words, and burstiness: whether the occurrences of a word stand together.

Of a word with n occurrences the gaps between them, the last one around the end of the document,
have the coefficient of variation r, and

    B = (√(n + 1) r - √(n - 1)) / ((√(n + 1) - 2) r + √(n - 1)),

which is 0 where r is that of places at random, -1 for equal gaps and 1 for all at one place. From
Kim and Jo (2016), Measuring burstiness for finite event sequences, Physical Review E 94.
"""

from __future__ import annotations

import numpy as np

from beyond_perplexity.tendencies.document_statistics import DocumentCount, first_tokens
from beyond_perplexity.tendencies.tokens import TokenBatch
from beyond_perplexity.tendencies.word_classes import ClassOptions

FREQUENT = 4  # of a word, at least


def repeated_words(options: ClassOptions) -> DocumentCount:
    """Return what counts the share of the words that stand earlier in the document."""

    def count(batch: TokenBatch, size: int, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        kept, ids = first_tokens(batch, size)
        repeated = np.count_nonzero(np.diff(np.sort(ids, axis=1), axis=1) == 0, axis=1)
        return kept, repeated[:, None] / size

    return count


def burstiness(options: ClassOptions) -> DocumentCount:
    """Return what counts (1 + B) / 2, the mean over the words that occur `FREQUENT` times."""

    def count(batch: TokenBatch, size: int, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        kept, ids = first_tokens(batch, size)  # (D', size)
        values = mean_burstiness(ids)
        kept[kept] = ~np.isnan(values)
        return kept, (1 + values[~np.isnan(values), None]) / 2

    return count


def mean_burstiness(ids: np.ndarray) -> np.ndarray:
    """Average B over the words of documents (D, size); NaN where none is frequent: (D,)."""
    n_documents, size = ids.shape
    places = np.argsort(ids, axis=1, kind="stable")
    in_order = np.take_along_axis(ids, places, axis=1)
    new = np.ones(ids.shape, bool)
    new[:, 1:] = in_order[:, 1:] != in_order[:, :-1]
    starts = np.flatnonzero(new)  # of words, in all documents
    n = np.diff(starts, append=new.size)
    gaps = np.diff(places.ravel(), append=0)
    first, last = places.ravel()[starts], places.ravel()[starts + n - 1]
    gaps[starts + n - 1] = first + size - last
    squares = np.add.reduceat(gaps**2, starts) if new.size else np.zeros(0)
    frequent = n >= FREQUENT
    n, squares, documents = n[frequent], squares[frequent], starts[frequent] // size
    r = np.sqrt(np.maximum(n * squares / size**2 - 1, 0))
    root, less = np.sqrt(n + 1), np.sqrt(n - 1)
    values = (root * r - less) / ((root - 2) * r + less)
    with np.errstate(invalid="ignore"):
        return np.bincount(documents, values, n_documents) / np.bincount(
            documents, minlength=n_documents
        )
