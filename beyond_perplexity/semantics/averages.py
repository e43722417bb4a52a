"""Texts as the mean of their words' vectors."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from beyond_perplexity.semantics.word_ids import TextIds

_GATHERED = 1 << 22  # numbers that are gathered at once


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
    known = texts.ids >= 0
    counts = np.concatenate([[0], np.cumsum(known)])[texts.starts]
    ids, counts = texts.ids[known], counts
    sizes = np.diff(counts)
    found = np.full((len(sizes), vectors.shape[1]), np.nan, np.float32)
    held = np.flatnonzero(sizes)  # segments of none would be given their neighbour's first row
    step = max(1, _GATHERED // max(1, vectors.shape[1] * max(1, int(sizes.max(initial=1)))))
    for begin in range(0, len(held), step):
        part = held[begin : begin + step]
        low, high = counts[part[0]], counts[part[-1] + 1]
        sums = np.add.reduceat(vectors[ids[low:high]], counts[part] - low, axis=0)
        found[part] = sums / sizes[part, None]
    return found
