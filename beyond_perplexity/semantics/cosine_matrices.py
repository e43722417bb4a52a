"""Cosines of all words of one text with all of another."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from beyond_perplexity.semantics.aligned import Vectors
from beyond_perplexity.semantics.word_ids import NO_WORD, Ids


def cosine_matrix(units: Vectors, first: Ids, second: Ids) -> NDArray[np.float64]:
    """Return the cosine of each word of a text (n,) with each of another (m,), float64 (n, m).

    `units` are vectors of length 1, (V, D). A word with itself has 1; where one of two has no
    vector it is 0.
    """
    # of a negative id a row is taken that is not used
    rows, others = (units[np.maximum(ids, 0)] for ids in (first, second))
    found = (rows @ others.T).astype(np.float64)
    np.clip(found, -1.0, 1.0, out=found)
    if first.min() < 0 or second.min() < 0:
        found[first < 0] = 0.0
        found[:, second < 0] = 0.0
    found[(first[:, None] == second) & (first != NO_WORD)[:, None]] = 1.0
    return found
