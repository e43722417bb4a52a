"""Cosines of words in the same place, and of words a few places apart. No average hides a word.

N pairs of texts, V vectors of D numbers. A place with no counterpart counts as a cosine of 0.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from beyond_perplexity.semantics.word_ids import NO_WORD, Ids, TextIds

Floats = NDArray[np.float64]
Vectors = NDArray[np.float32]
Weighting = Literal["normalized", "weighted", "printed"]


def unit_rows(vectors: NDArray[np.floating]) -> Vectors:
    """Scale rows (V, D) to length 1; float32. Rows of zeros stay; of none there is one of zeros."""
    held = np.asarray(vectors, np.float32) if len(vectors) else np.zeros((1, 1), np.float32)
    lengths = np.linalg.norm(held, axis=1, keepdims=True)
    return np.divide(held, lengths, out=np.zeros_like(held), where=lengths > 0)


def word_cosines(units: Vectors, first: Ids, second: Ids) -> Floats:
    """Return the cosine of each word with the other in its place, float64 (T,).

    `units` are vectors of length 1, (V, D); `first` and `second` (T,), as in `TextIds`. A word with
    itself has 1; where one of two has no vector it is 0.
    """
    found = np.zeros(len(first))
    known = np.flatnonzero((first >= 0) & (second >= 0) & (first != second))
    cosines = np.einsum("td,td->t", units[first[known]], units[second[known]])
    found[known] = np.clip(cosines, -1.0, 1.0)
    found[(first == second) & (first != NO_WORD)] = 1.0
    return found


def _shifted(
    units: Vectors, first: TextIds, second: TextIds, shift: int, own: bool = False
) -> tuple[Floats, Ids]:
    """Sum the cosines of word t with word t + shift over t, (N,); and how many there are, (N,).

    `own`: both are the same texts, in which what is no word is like itself in its own place.
    """
    begin = max(0, -shift)
    ends = np.minimum(first.lengths, second.lengths - shift)
    counts = np.maximum(0, ends - begin)
    pairs = np.repeat(np.arange(len(counts)), counts)
    within = np.arange(len(pairs)) - np.repeat(np.cumsum(counts) - counts, counts)
    ids = (
        first.ids[first.starts[pairs] + begin + within],
        second.ids[second.starts[pairs] + begin + shift + within],
    )
    cosines = np.ones(len(pairs)) if own and not shift else word_cosines(units, *ids)
    sums = np.asarray(np.bincount(pairs, cosines, minlength=len(counts)), np.float64)
    return sums, counts


def aligned_cosines(units: Vectors, first: TextIds, second: TextIds) -> Floats:
    """Return the mean cosine of words in the same place (002, inside equation 10).

    Parameters
    ----------
    units : ndarray of float32, shape (V, D)
        Vectors of length 1.
    first, second : TextIds
        N texts each. The sum is divided by the words of the longer text.

    Returns
    -------
    ndarray of float64, shape (N,)
        NaN where a text is empty.
    """
    sums, _ = _shifted(units, first, second, 0)
    lengths = np.maximum(first.lengths, second.lengths)
    empty = np.minimum(first.lengths, second.lengths) == 0
    return np.divide(sums, lengths, out=np.full(len(sums), np.nan), where=~empty)


def _weighted(
    units: Vectors, first: TextIds, second: TextIds, window: int, own: bool = False
) -> tuple[Floats, Floats]:
    """Sum cosines weighted by 1 − |shift|/(window + 1), (N,); and the weights, (N,)."""
    total, weights = np.zeros((2, len(first.lengths)))
    for shift in range(0 if own else -window, window + 1):
        weight = (1.0 - abs(shift) / (window + 1)) * (2 if own and shift else 1)
        sums, counts = _shifted(units, first, second, shift, own)
        total += weight * sums
        weights += weight * counts
    return total, weights


def _printed(units: Vectors, first: TextIds, second: TextIds, window: int) -> Floats:
    """Sum cosines weighted by |shift|/window, over T·window of the T words of the first texts."""
    shifts = [shift for shift in range(-window, window + 1) if shift]
    sums = [abs(shift) * _shifted(units, first, second, shift)[0] for shift in shifts]
    found: Floats = np.sum(sums, axis=0) / (window**2 * np.maximum(1, first.lengths))
    return found


def pairwise_cosines(
    units: Vectors, first: TextIds, second: TextIds, window: int, weighting: Weighting
) -> Floats:
    """Return the decayed k-pairwise cosine (002, equation 11, which lost its form in print).

    With w(j) = 1 − |j|/(k + 1) and K(X, Y) = Σ_t Σ_j w(j) cos(X_t, Y_{t+j}), |j| ≤ k:

    - normalized: K(X, Y) / √(K(X, X) K(Y, Y)). As w is the triangular kernel, K is an inner
      product; so it is 1 of a text with itself, and of no other text more.
    - weighted: K(X, Y) divided by the sum of the weights. Between words a, b orthogonal to each
      other, (a, b, a) is nearer to (a, a, a) than to itself for k = 2.
    - printed: (1/Tk) Σ_t Σ_j (|j|/k) cos(X_t, Y_{t+j}), T words in X: a word weighs more the
      farther it is, and the one in the same place does not count.

    Parameters
    ----------
    units : ndarray of float32, shape (V, D)
        Vectors of length 1.
    first, second : TextIds
        N texts each. The window ends where a text ends.
    window : int
        k, at least 1.
    weighting : str

    Returns
    -------
    ndarray of float64, shape (N,)
        NaN where a text is empty.
    """
    empty = np.minimum(first.lengths, second.lengths) == 0
    if weighting == "printed":
        found = _printed(units, first, second, window)
    else:
        total, weights = _weighted(units, first, second, window)
        if weighting == "normalized":
            own = (_weighted(units, held, held, window, own=True)[0] for held in (first, second))
            weights = np.sqrt(np.maximum(0.0, np.multiply(*own)))
        found = np.divide(total, weights, out=np.zeros(len(total)), where=weights > 0)
        found = np.clip(found, -1.0, 1.0) if weighting == "normalized" else found
    return np.where(empty, np.nan, found)
