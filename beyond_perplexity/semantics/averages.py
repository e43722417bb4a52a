"""Texts as the mean of their words' vectors."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from beyond_perplexity.semantics.word_ids import TextIds


def mean_vectors(vectors: NDArray[np.float32], texts: TextIds) -> NDArray[np.float32]:
    """Return the mean vector of the words of each text that have one.

    Parameters
    ----------
    vectors : ndarray of float32, shape (V, D)
        As they are, not scaled: a long vector weighs more.
    texts : TextIds
        N texts.

    Returns
    -------
    ndarray of float32, shape (N, D)
        NaN where no word has a vector. A text's mean does not depend on what stands beside it.
    """
    from scipy.sparse import csr_array  # of no use to jobs that compare words

    known = texts.ids >= 0
    starts = np.concatenate([[0], np.cumsum(known)])[texts.starts]
    ids, sizes = texts.ids[known], np.diff(starts)
    counts = csr_array(
        (np.ones(len(ids), np.float32), ids, starts), shape=(len(sizes), max(1, len(vectors)))
    )
    # word after word, so that rounding is that of the text alone
    sums = counts @ (vectors if len(vectors) else np.zeros((1, 1), np.float32))
    found: NDArray[np.float32] = np.full(sums.shape, np.nan, np.float32)
    return np.divide(sums, sizes[:, None], out=found, where=sizes[:, None] > 0)
