"""Repeated words: the share of a document's words that stand in it before."""

from __future__ import annotations

import numpy as np

from beyond_perplexity.tendencies.document_statistics import Count, first_tokens
from beyond_perplexity.tendencies.tokens import TokenBatch
from beyond_perplexity.tendencies.word_classes import ClassOptions


def repeated_words(options: ClassOptions) -> Count:
    """Return what counts the share of the words that stand earlier in the document."""

    def count(batch: TokenBatch, size: int, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        kept, ids = first_tokens(batch, size)
        in_order = np.sort(ids, axis=1)
        return kept, np.mean(np.diff(in_order, axis=1) == 0, axis=1, keepdims=True) * (1 - 1 / size)

    return count
