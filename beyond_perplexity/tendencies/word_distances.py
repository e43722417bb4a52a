"""Distances between the unigrams of two texts, at equal tokens, for many randomizations at once.

Norms of differences of word frequencies fall with the tokens, so both texts have as many (paper,
footnote 13): random documents of the longer one that hold at most the tokens of the shorter. The
documents are drawn: those of a file may be in the order of its pages.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from beyond_perplexity.inference.held_out import Kept
from beyond_perplexity.inference.limits import INDEPENDENT, Spread, widest_spread
from beyond_perplexity.inference.permuted_units import Groups
from beyond_perplexity.tendencies.pairs import SampleSetPair, within_tokens


class EqualTokens(NamedTuple):
    """Documents of two texts at equal tokens."""

    kept: Kept
    counts: np.ndarray  # (2, V)
    groups: Groups = (None, None)  # of all documents of either text
    spread: Spread = INDEPENDENT  # of distances between the documents that are kept

    def units(self, sample_set: int) -> np.ndarray:
        """Return the number of each kept document or of its group, from 0 on; else -1: (D,)."""
        chosen, groups = self.kept[sample_set], self.groups[sample_set]
        assert chosen is not None
        units = np.full(len(chosen), -1)
        if groups is None:
            units[chosen] = np.arange(chosen.sum())
        else:
            units[chosen] = np.unique(groups[chosen], return_inverse=True)[1]
        return units


def equal_tokens(pair: SampleSetPair, seed: int) -> EqualTokens:
    """Draw documents of either text of a pair that hold at most the tokens of the smaller.

    Without documents both texts are whole. Text b draws from the stream (`seed`,
    ``"equal_tokens"``, b); one whose documents are all longer than the other has no token.
    """
    if pair.documents is None:
        return EqualTokens((None, None), pair.counts)
    tokens = min(int(sample_set.n_tokens) for sample_set in pair.sample_sets)
    kept = within_tokens(pair, tokens, seed, "equal_tokens")
    counts = np.stack([pair.documents.totals(side, kept[side]) for side in (0, 1)])
    first, second = (
        None if own is None else own[chosen] for own, chosen in zip(pair.groups, kept, strict=True)
    )
    lengths = pair.document_lengths[0][kept[0]], pair.document_lengths[1][kept[1]]
    return EqualTokens(kept, counts, pair.groups, widest_spread((first, second), lengths))


_ROWS = 1_024  # types at a time in the reduction, which then stays in the cache
_FOLD = 64  # rows that a reduction takes side by side, for long inner loops
FIRST_RANKS = 1_000  # of the distance over the most frequent types


def unigram_distances(
    first: np.ndarray, second: np.ndarray, without: int | None = None
) -> dict[str, np.ndarray]:
    """Compute ``tvd`` and ``max_difference`` of unigram distributions for w pairs at once.

    Parameters
    ----------
    first, second : numpy.ndarray, shape (V, w)
        Counts.
    without : int, optional
        A type that ``max_difference_known`` leaves out.

    Returns
    -------
    dict of str to numpy.ndarray of float64, shape (w,)
        Half of sum |p1 - p2|, and sup |p1 - p2| over single outcomes (the paper's eq. 11 as
        printed).
    """
    width = first.shape[1]
    shares, others = np.empty((2, _ROWS, width))
    scales = [np.tile(1 / side.sum(axis=0, dtype=float), (_ROWS, 1)) for side in (first, second)]
    total, largest = np.zeros((2, _FOLD * width))
    for start in range(0, len(first), _ROWS):
        n = min(_ROWS, len(first) - start)
        for buffer, side, scale in zip((shares, others), (first, second), scales, strict=True):
            buffer[:n] = side[start : start + n]
            buffer[n:] = 0
            buffer *= scale
        shares -= others
        np.abs(shares, out=shares)
        folded = shares.reshape(_ROWS // _FOLD, _FOLD * width)
        total += folded.sum(axis=0)
        if without is not None and start <= without < start + n:
            shares[without - start] = 0
        np.maximum(largest, folded.max(axis=0), out=largest)
    tvd = total.reshape(_FOLD, width).sum(axis=0) / 2
    known = largest.reshape(_FOLD, width).max(axis=0)
    if without is None:
        return {"tvd": tvd, "max_difference": known}
    own = np.abs(first[without] * scales[0][0] - second[without] * scales[1][0])
    return {"tvd": tvd, "max_difference": np.maximum(known, own), "max_difference_known": known}


def permuted_distances(
    first: np.ndarray, pooled: np.ndarray, without: int | None = None
) -> dict[str, np.ndarray]:
    """Compute the same distances of counts and the rest of the pooled counts, for w permutations.

    With N1 and N2 tokens on the sides, c = c1 + c2 and N = N1 + N2, x = c1 / N1 - c2 / N2 is
    (N c1 - N1 c) / (N1 N2). The x add up to 0, so half of sum |x| is sum max(x, 0), which is
    (sum max(N c1, N1 c) - N N1) / (N1 N2). And |x| <= c / min(N1, N2) ends the search for the
    largest |x| early, exactly. For N below 2^26 all is divided only at the end, in whole numbers
    that a float holds: equal distances are equal floats, and no tie is lost to rounding.

    Parameters
    ----------
    first : numpy.ndarray, shape (V, w)
        Counts of one side.
    pooled : numpy.ndarray, shape (V,)
        Counts of both sides; fastest when they fall.
    without : int, optional
        A type that ``max_difference_known`` leaves out.

    Returns
    -------
    dict of str to numpy.ndarray of float64, shape (w,)
        ``tvd``, ``max_difference`` and, with such a type, ``max_difference_known``.
    """
    total = float(pooled.sum())
    n_first = _column_sums(first)
    # Of types that occur once the maximum is N or N1, and their sum needs only how many are here.
    many = len(pooled) - int(np.argmax(pooled[::-1] != 1)) if pooled[-1:] == 1 else len(pooled)
    ones = _column_sums(first[many:])
    singles = ones * total + (len(first) - many - ones) * n_first
    sums = singles + _sum_of_maxima(first[:many], pooled[:many], total, n_first)
    tvd = np.maximum((sums - total * n_first) / (n_first * (total - n_first)), 0)
    return {"tvd": tvd, **largest_differences(first, pooled, without)}


def _column_sums(counts: np.ndarray) -> np.ndarray:
    """Sum whole numbers (V, w) over types, exactly: float64, shape (w,)."""
    n, width = len(counts) - len(counts) % _FOLD, counts.shape[1]
    folded = counts[:n].reshape(-1, _FOLD * width).sum(axis=0, dtype=float)
    return folded.reshape(_FOLD, width).sum(axis=0) + counts[n:].sum(axis=0, dtype=float)


def _sum_of_maxima(
    first: np.ndarray, pooled: np.ndarray, total: float, n_first: np.ndarray
) -> np.ndarray:
    """Sum max(N c1, N1 c) over types; see `permuted_distances`."""
    width = first.shape[1]
    buffer, bound = np.empty((2, _ROWS, width))
    sums = np.zeros(_FOLD * width)
    for start in range(0, len(first), _ROWS):
        n = min(_ROWS, len(first) - start)
        np.multiply(first[start : start + n], total, out=buffer[:n], dtype=float)
        np.multiply(pooled[start : start + n, None], n_first, out=bound[:n])
        buffer[n:], bound[n:] = 0, 0
        np.maximum(buffer, bound, out=buffer)
        sums += buffer.reshape(_ROWS // _FOLD, -1).sum(axis=0)
    return sums.reshape(_FOLD, width).sum(axis=0)


def largest_differences(
    first: np.ndarray, pooled: np.ndarray, without: int | None = None
) -> dict[str, np.ndarray]:
    """Find the largest differences of shares alone; see `permuted_distances`."""
    total, n_first = float(pooled.sum()), _column_sums(first)
    smaller, product = np.minimum(n_first, total - n_first), n_first * (total - n_first)
    most = bounds_from(pooled)
    known, step = np.zeros(first.shape[1]), 256
    for start in range(0, len(first), step):
        if np.all(most[start] / smaller <= known):
            break
        side = np.multiply(first[start : start + step], total, dtype=float)
        side -= pooled[start : start + step, None] * n_first
        np.abs(side, out=side)
        if without is not None and start <= without < start + step:
            side[without - start] = 0
        np.maximum(known, side.max(axis=0) / product, out=known)
    if without is None:
        return {"max_difference": known}
    own = np.abs(first[without].astype(float) * total - pooled[without] * n_first) / product
    return {"max_difference": np.maximum(known, own), "max_difference_known": known}


def top_ranks(counts: np.ndarray, ranks: int | None) -> np.ndarray:
    """Sort counts (V, w) by rank, most frequent first: float64, (w, min(V, ranks))."""
    wanted = len(counts) if ranks is None else min(ranks, len(counts))
    looked = min(2 * wanted, len(counts))
    while True:
        ordered = np.sort(np.ascontiguousarray(counts[:looked].T), axis=1)[:, ::-1][:, :wanted]
        if looked == len(counts) or np.all(counts[looked:].max(axis=0) <= ordered[:, -1]):
            return ordered.astype(float)
        looked = min(2 * looked, len(counts))


def first_ranks_distance(
    first: np.ndarray, second: np.ndarray, most: np.ndarray, ranks: int = FIRST_RANKS
) -> np.ndarray:
    """Compute the total variation over the union of both sides' first ranks, renormalized there.

    Source: "Language Model Evaluation Beyond Perplexity" (2021), footnote 15.

    Parameters
    ----------
    first, second : numpy.ndarray, shape (V, w)
        Counts; of equal ones on a side the first rank first.
    most : numpy.ndarray, shape (V,)
        What no count from here on exceeds; see `bounds_from`.
    ranks : int
        How many; types that a side does not have have no rank there.

    Returns
    -------
    numpy.ndarray of float64, shape (w,)
    """
    looked = min(2 * ranks, len(most))
    while True:
        sides = [np.ascontiguousarray(side[:looked].T) for side in (first, second)]  # (w, L)
        chosen, least = zip(*(_first_ranks(side, ranks) for side in sides), strict=True)
        if looked == len(most) or most[looked] < min(held.min() for held in least):
            break
        looked = min(2 * looked, len(most))
    union = chosen[0] | chosen[1]  # (w, L)
    kept = [np.where(union, side, 0).astype(float) for side in sides]  # (w, L)
    totals = [side.sum(axis=1) for side in kept]  # (w,)
    # As in `permuted_distances`: whole numbers until the end, so that no tie is lost to rounding.
    scaled = (side * other[:, None] for side, other in zip(kept, reversed(totals), strict=True))
    product = totals[0] * totals[1]  # (w,)
    with np.errstate(invalid="ignore"):
        distance: np.ndarray = (np.maximum(*scaled).sum(axis=1) - product) / product
    return np.maximum(distance, 0)


def _first_ranks(counts: np.ndarray, ranks: int) -> tuple[np.ndarray, np.ndarray]:
    """Mark the first ranks of counts (w, L), ties in order, and give the last count, (w,)."""
    levels, codes, length = None, counts.astype(np.int64), counts.shape[1]
    if not np.array_equal(codes, counts):  # weighted: whole numbers in the same order
        levels, codes = np.unique(np.append(counts, 0), return_inverse=True)
        codes = codes[:-1].reshape(counts.shape)
    kind = np.dtype("i4" if (int(codes.max(initial=0)) + 1) * length < 2**31 else "i8")
    keys = codes.astype(kind)
    keys *= length
    keys += np.arange(length - 1, -1, -1, dtype=kind)  # (w, L): of each row no two are equal
    if length <= ranks:
        return codes > 0, np.zeros(len(codes))
    last = np.partition(keys, length - ranks, axis=1)[:, length - ranks]  # (w,)
    least = last // length
    marked = keys >= np.maximum(last, length)[:, None]
    return marked, least if levels is None else levels[least]


def bounds_from(counts: np.ndarray) -> np.ndarray:
    """Return the largest count from each place on, of counts (V,): (V,)."""
    return np.maximum.accumulate(counts[::-1])[::-1]
