"""Recurrence: how often a word stands again d words later, beyond what the document's words give.

R(d) is the share of the pairs of words d apart that are the same word, d = 1, 2, 3, 4, 6, 8, 12 and
so on up to half of the size. Its expectation where the n words of a document are shuffled, of
counts c, is Σ c (c - 1) / (n (n - 1)) at every d (a pair of places holds any pair of words). That
is taken off, so that what a document is about plays no part. Loops are peaks, a topic that is lost
is a fast decay. After Lin and Tegmark (2017), Critical behavior in physics and probabilistic formal
languages, Entropy 19, and the short-range form of the correlations of Takahashi and Tanaka-Ishii
(2019), Evaluating computational language models with scaling properties of natural language.
"""

from __future__ import annotations

import numpy as np

from beyond_perplexity.tendencies.document_statistics import DocumentCount, first_tokens
from beyond_perplexity.tendencies.tokens import TokenBatch
from beyond_perplexity.tendencies.word_classes import ClassOptions


def same_pairs(ids: np.ndarray) -> np.ndarray:
    """Count the ordered pairs of equal words, Σ c (c - 1), of documents (D, n): int64, (D,)."""
    in_order = np.sort(ids, axis=1)
    same = in_order[:, 1:] == in_order[:, :-1]  # (D, n - 1)
    # Σ c (c - 1) / 2 counts each repetition with how many of its word stand before it.
    places = np.arange(1, ids.shape[1])
    last_change = np.maximum.accumulate(np.where(same, 0, places), axis=1)
    return 2 * np.sum(np.where(same, places - last_change, 0), axis=1)


def recurrence(options: ClassOptions) -> DocumentCount:
    """Return what counts R(d) less its expectation for shuffled words."""

    def count(batch: TokenBatch, size: int, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        kept, ids = first_tokens(batch, size)  # (D', n)
        expected = same_pairs(ids) / (size * (size - 1))
        found = [np.mean(ids[:, d:] == ids[:, :-d], axis=1) - expected for d in places]
        return kept, np.stack(found, axis=1)

    return count
