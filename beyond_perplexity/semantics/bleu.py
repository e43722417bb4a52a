"""BLEU of words that are given, without any tokenization: sentence, corpus, intervals.

Source: Papineni et al. (2002). BLEU: a method for automatic evaluation of machine translation;
smoothing as in sacrebleu (Post 2018. A call for clarity in reporting BLEU scores): the k-th order
without a match counts 1/2^k matches. N pairs of texts, G groups of documents.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from beyond_perplexity.inference.intervals import INTERVAL_LEVEL, RatioInterval
from beyond_perplexity.inference.p_values import student_quantile
from beyond_perplexity.inference.permuted_units import EFFECTIVE_GROUPS, effective_groups
from beyond_perplexity.random_streams import stream
from beyond_perplexity.semantics.word_cosines import NO_WORD, Ids, WordIndex

LONGEST_NGRAM = 4


def _matches(codes: Ids, owners: Ids, sides: Ids, known: NDArray[np.bool_], size: int) -> Ids:
    """Count n-grams of each pair that both texts have, each as often as both do."""
    counts = np.bincount(2 * codes + sides, minlength=2 * (1 + codes.max(initial=0)))
    both = counts.reshape(-1, 2).min(axis=1)
    first = np.unique(codes, return_index=True)[1]
    found = np.bincount(owners[first], both * known[first], minlength=size)
    return found.astype(np.int64)


def count_bleu(pairs: Sequence[tuple[str, str]]) -> Ids:
    """Count what BLEU is made of, int64, (N, 2 + 2·4), to be added up: words of prediction and
    target, matches of 1 to 4 words (none of `rows.NO_WORDS`), n-grams of the prediction."""
    index, size = WordIndex({}), len(pairs)
    texts = index.read([text for pair in pairs for text in pair])
    lengths = texts.lengths
    predicted, target = lengths[::2], lengths[1::2]
    text = np.repeat(np.arange(2 * size), lengths)
    left = np.repeat(texts.starts[1:], lengths) - np.arange(len(text))  # words to the text's end
    ids = texts.ids - texts.ids.min(initial=0)
    positions, codes = np.arange(len(text)), text // 2
    known = np.ones(len(text), bool)
    matches = []
    for order in range(1, LONGEST_NGRAM + 1):
        kept = left[positions] >= order  # whose n-gram ends with the text at the latest
        positions, codes, known = positions[kept], codes[kept], known[kept]
        last = positions + order - 1
        # n-grams that differ in the one before or in the last word have numbers of their own
        keys = codes * (1 + ids[last].max(initial=0)) + ids[last]
        _, codes = np.unique(keys, return_inverse=True)
        known = known & (texts.ids[last] != NO_WORD)
        owners = text[positions]
        matches.append(_matches(codes, owners // 2, owners % 2, known, size))
    totals = [np.maximum(0, predicted - order) for order in range(LONGEST_NGRAM)]
    return np.stack([predicted, target, *matches, *totals], axis=1)


def bleu_of(statistics: ArrayLike, order: int, *, effective: bool = False) -> NDArray[np.float64]:
    """Return BLEU of sums of counts.

    Parameters
    ----------
    statistics : array, shape (..., 2 + 2·orders)
        Of `count_bleu`, or sums of them; `orders` at least `order`.
    order : int
        n of BLEU-n: the geometric mean of the precisions of 1 to n words, times
        exp(1 − target/predicted) where the prediction is shorter.
    effective : bool
        Whether orders longer than the text are left out, as of single sentences they must be.

    Returns
    -------
    ndarray of float64, shape (...)
        From 0 to 1; 0 of an empty prediction, or one with no matching word.
    """
    held = np.asarray(statistics, np.float64)
    orders = held.shape[-1] // 2 - 1
    predicted, target = held[..., 0], held[..., 1]
    matches = held[..., 2 : 2 + order]
    totals = held[..., 2 + orders : 2 + orders + order]
    exists = totals > 0
    missed = exists & (matches == 0)
    smoothed = np.where(missed, 0.5 ** np.cumsum(missed, axis=-1), matches)
    precisions = np.divide(smoothed, totals, out=np.ones_like(totals), where=exists)
    used = exists.sum(axis=-1) if effective else np.full(predicted.shape, order)
    mean = np.exp(np.log(precisions).sum(axis=-1) / np.maximum(1, used))
    ratio = np.divide(target, predicted, out=np.full(predicted.shape, np.inf), where=predicted > 0)
    penalty = np.exp(np.minimum(0.0, 1.0 - ratio))
    nothing = matches.sum(axis=-1) == 0
    if not effective:
        nothing |= ~exists.all(axis=-1)
    return np.where(nothing, 0.0, penalty * mean)


_PURPOSE = "semantics/bleu"  # of the random streams
_Counts = NDArray[np.int64]


def resampled_sums(statistics: Sequence[_Counts], resamples: int, seed: int) -> list[_Counts]:
    """Sum statistics (G, C) over groups drawn with replacement, the same of all: (resamples, C)."""
    size, joined = len(statistics[0]), np.concatenate(statistics, axis=1)
    sums = np.empty((resamples, joined.shape[1]), np.int64)
    for number in range(resamples):
        drawn = stream(seed, _PURPOSE, number).integers(0, size, size)
        sums[number] = np.bincount(drawn, minlength=size) @ joined
    ends = np.cumsum([held.shape[1] for held in statistics])
    return np.split(sums, ends[:-1], axis=1)


def spread_interval(
    value: float, drawn: NDArray[np.float64], sizes: _Counts, *, known: bool = True
) -> RatioInterval:
    """Give a value an interval by the deviation of its resamples and Student's quantile of the
    effective groups, as percentiles would hold the true value too seldom when groups are few."""
    groups, effective = len(sizes), effective_groups(sizes)
    error = float(np.std(drawn, ddof=1)) if len(drawn) > 1 and groups > 1 else math.nan
    if effective < EFFECTIVE_GROUPS or math.isnan(error) or not known:
        return RatioInterval(value, math.nan, math.nan, error, groups, effective)
    half = float(student_quantile((1 + INTERVAL_LEVEL) / 2, effective - 1)) * error
    return RatioInterval(value, value - half, value + half, error, groups, effective)


def bleu_intervals(
    own: _Counts, baseline: _Counts | None, order: int, resamples: int, seed: int
) -> tuple[RatioInterval, RatioInterval | None, RatioInterval | None]:
    """Return corpus BLEU-`order`, that of the baseline, and the difference, with intervals, from
    sums by group, int64 (G, C); no interval where an order up to it has no match."""
    statistics = [own] if baseline is None else [own, baseline]
    # where there is no match smoothing alone decides, and what varies is not the texts
    seen = [bool(held.sum(axis=0)[2 : 2 + order].all()) for held in statistics]
    drawn = [bleu_of(sums, order) for sums in resampled_sums(statistics, resamples, seed)]
    values = [float(bleu_of(held.sum(axis=0), order)) for held in statistics]
    sizes = own[:, 1]
    first = spread_interval(values[0], drawn[0], sizes, known=seen[0])
    if baseline is None:
        return first, None, None
    second = spread_interval(values[1], drawn[1], baseline[:, 1], known=seen[1])
    difference = values[0] - values[1], drawn[0] - drawn[1]
    return first, second, spread_interval(*difference, sizes, known=all(seen))
