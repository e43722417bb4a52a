"""The mean length of a document's words."""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc

from beyond_perplexity.tendencies.document_statistics import DocumentCount, first_tokens
from beyond_perplexity.tendencies.tokens import TokenBatch
from beyond_perplexity.tendencies.word_classes import ClassOptions


def word_length(options: ClassOptions) -> DocumentCount:
    """Return what counts the mean length of the words, in characters."""

    def count(batch: TokenBatch, size: int, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        kept, ids = first_tokens(batch, size)  # bool (D,), (D', size)
        lengths = pc.utf8_length(batch.types).to_numpy()
        return kept, lengths[ids].mean(axis=1, keepdims=True)

    return count
