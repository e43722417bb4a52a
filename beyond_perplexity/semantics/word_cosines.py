"""Measures of texts by cosines of words: at the same position, near by, most similar, averaged.

N texts or pairs of them, T words in all, V vectors of D numbers. A position with no counterpart
counts as a cosine of 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from beyond_perplexity.semantics.measures import NO_WORDS, MeasureOptions

# Of what is no word: matches nothing, nor itself. Words without a vector are −2, −3, …
NO_WORD = -1

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]
Vectors = NDArray[np.float32]
Weighting = Literal["normalized", "weighted", "printed"]


class TextIds(NamedTuple):
    """N texts, as ids of their words one text after the other."""

    # int64, (T,): the row of each word in a table of vectors; `NO_WORD` for what is no word; −2 − k
    # for the k-th word without a vector, which is like itself (cosine 1) and nothing else (cosine
    # 0)
    ids: Ids
    starts: Ids  # int64, (N + 1,): where each text begins, and the last one ends

    @property
    def lengths(self) -> Ids:
        """Words of each text, (N,)."""
        return np.diff(self.starts)

    def text(self, index: int) -> Ids:
        """Return the ids of one text."""
        return self.ids[self.starts[index] : self.starts[index + 1]]


class WordIndex:
    """Gives words their ids, the same for both texts of a pair; what is no word has no vector, and
    `without` has the ids of words without one, as they appear."""

    def __init__(self, rows: Mapping[str, int]) -> None:
        self._rows = {**rows, **dict.fromkeys(NO_WORDS, NO_WORD)}
        self.without: dict[str, int] = {}

    def read(self, texts: Sequence[str]) -> TextIds:
        """Return the ids of texts whose words are separated by blanks."""
        split = [text.split() for text in texts]
        lengths = np.fromiter(map(len, split), np.int64, len(split))
        words = list(chain.from_iterable(split))
        found = list(map(self._rows.get, words))
        if None in found:
            number = self.without.setdefault
            both = zip(words, found, strict=True)
            found = [number(w, -2 - len(self.without)) if row is None else row for w, row in both]
        starts = np.concatenate([[0], np.cumsum(lengths)])
        return TextIds(np.asarray(found, np.int64), starts)


def unit_rows(vectors: NDArray[np.floating]) -> Vectors:
    """Scale rows (V, D) to length 1; float32. Rows of zeros stay; of none there is one of zeros."""
    held = np.asarray(vectors, np.float32) if len(vectors) else np.zeros((1, 1), np.float32)
    lengths = np.linalg.norm(held, axis=1, keepdims=True)
    return np.divide(held, lengths, out=np.zeros_like(held), where=lengths > 0)


def word_cosines(units: Vectors, first: Ids, second: Ids) -> Floats:
    """Return the cosine of each word with the other in its position, float64 (T,), from unit
    vectors, (V, D): 1 with itself, 0 where one of two has no vector."""
    found = np.zeros(len(first))
    known = np.flatnonzero((first >= 0) & (second >= 0) & (first != second))
    cosines = np.einsum("td,td->t", units[first[known]], units[second[known]])
    found[known] = np.clip(cosines, -1.0, 1.0)
    found[(first == second) & (first != NO_WORD)] = 1.0
    return found


def _shifted(
    units: Vectors, first: TextIds, second: TextIds, shift: int, own: bool = False
) -> tuple[Floats, Ids]:
    """Sum cosines of words t and t + shift over t, (N,), and count them; `own`: of one text."""
    begin = max(0, -shift)
    ends = np.minimum(first.lengths, second.lengths - shift)
    counts = np.maximum(0, ends - begin)
    pairs = np.repeat(np.arange(len(counts)), counts)
    within = np.arange(len(pairs)) - np.repeat(np.cumsum(counts) - counts, counts)
    begins = first.starts[pairs] + begin, second.starts[pairs] + begin + shift
    ids = first.ids[begins[0] + within], second.ids[begins[1] + within]
    cosines = np.ones(len(pairs)) if own and not shift else word_cosines(units, *ids)
    sums = np.asarray(np.bincount(pairs, cosines, minlength=len(counts)), np.float64)
    return sums, counts


def aligned_cosines(units: Vectors, first: TextIds, second: TextIds) -> Floats:
    """Return the mean cosine of words at the same position (002, inside equation 10).

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
    return np.sum(sums, axis=0) / (window**2 * np.maximum(1, first.lengths))


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
      farther it is, and the one at the same position does not count.

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


def cosine_matrix(units: Vectors, first: Ids, second: Ids) -> NDArray[np.float64]:
    """Return the cosines of the words of texts (n,) and (m,), float64 (n, m), from unit vectors,
    (V, D): 1 with itself, 0 where one of two has no vector."""
    # of a negative id a row is taken that is not used
    rows, others = (units[np.maximum(ids, 0)] for ids in (first, second))
    found = (rows @ others.T).astype(np.float64)
    np.clip(found, -1.0, 1.0, out=found)
    if first.min() < 0 or second.min() < 0:
        found[first < 0] = 0.0
        found[:, second < 0] = 0.0
    found[(first[:, None] == second) & (first != NO_WORD)[:, None]] = 1.0
    return found


def greedy_alignments(
    units: Vectors, predicted: TextIds, target: TextIds
) -> tuple[Floats, Floats, Floats]:
    """Align texts greedily, as BERTScore does, without weights of words.

    Precision is the mean over words of the prediction of the greatest cosine with a word of the
    target; recall likewise over words of the target. F1 is their harmonic mean, each of
    them at least 0.

    Parameters
    ----------
    units : ndarray of float32, shape (V, D)
        Vectors of length 1. The same in every context, other than BERTScore's.
    predicted, target : TextIds
        N texts each.

    Returns
    -------
    tuple of ndarray of float64, shape (N,)
        Precision, recall and F1; NaN where a text is empty.

    References
    ----------
    Zhang et al. (2020). BERTScore: evaluating text generation with BERT, equations 1 and 2.
    """
    precision, recall = np.full((2, len(target.lengths)), np.nan)
    for pair in np.flatnonzero(np.minimum(predicted.lengths, target.lengths)).tolist():
        cosines = cosine_matrix(units, predicted.text(pair), target.text(pair))
        precision[pair] = cosines.max(axis=1).mean()
        recall[pair] = cosines.max(axis=0).mean()
    p, r = np.maximum(precision, 0.0), np.maximum(recall, 0.0)
    f1 = np.divide(2 * p * r, p + r, out=np.where(np.isnan(p), np.nan, 0.0), where=p + r > 0)
    return precision, recall, f1


def cosines(first: NDArray[Any], second: NDArray[Any]) -> Floats:
    """Return the cosines of rows, float64, (N,), of two (N, D); NaN where one has no direction."""
    wide = [np.asarray(part, np.float64) for part in (first, second)]
    norms = [np.sqrt(np.einsum("nd,nd->n", part, part)) for part in wide]
    with np.errstate(invalid="ignore", divide="ignore"):
        found = np.einsum("nd,nd->n", *wide) / (norms[0] * norms[1])
    return np.asarray(np.clip(found, -1.0, 1.0), np.float64)


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
    held = (np.ones(len(ids), np.float32), ids, starts)
    counts = csr_array(held, shape=(len(sizes), max(1, len(vectors))))
    # word after word, so that rounding is that of the text alone
    sums = counts @ (vectors if len(vectors) else np.zeros((1, 1), np.float32))
    found: NDArray[np.float32] = np.full(sums.shape, np.nan, np.float32)
    return np.divide(sums, sizes[:, None], out=found, where=sizes[:, None] > 0)


def logistic(values: ArrayLike) -> Floats:
    """Return σ(x) = 1 / (1 + exp(−x)), without overflow."""
    held = np.asarray(values, np.float64)
    small = np.exp(-np.abs(held))
    return np.where(held >= 0, 1.0, small) / (1.0 + small)


def scaled_cosine(cosines: ArrayLike, temperature: float, bias: float) -> Floats:
    """Return 1 / (1 + exp(−s/τ + b)) of mean cosines s (002, equation 13)."""
    return logistic(np.asarray(cosines, np.float64) / temperature - bias)


def exponential_scaling(values: ArrayLike) -> Floats:
    """Return 1 − (1 − s)·2^s of similarities s from 0 to 1 (002, equation 12).

    It grows with s, leaves 0 and 1 where they are and lies below s between them. The equation lost
    its form in print; the second of its two forms decides between readings.
    """
    held = np.asarray(values, np.float64)
    return 1.0 - (1.0 - held) * np.exp2(held)


def movers_similarity(distances: ArrayLike, options: MeasureOptions) -> Floats:
    """Turn distances of unit vectors (0 to 2) into similarities; the paper does not say how."""
    held = np.asarray(distances, np.float64)
    return np.exp(-held) if options.movers == "exponential" else 1.0 - held / 2.0
