"""BLEU of words that are given, without any tokenization: corpus and sentence.

Source: Papineni et al. (2002). BLEU: a method for automatic evaluation of machine translation;
smoothing as in sacrebleu (Post 2018. A call for clarity in reporting BLEU scores): the k-th order
without a match counts 1/2^k matches.

N pairs of texts.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from beyond_perplexity.semantics.word_ids import NO_WORD, Ids, WordIndex

LONGEST_NGRAM = 4


def _grown(codes: Ids, ids: Ids) -> Ids:
    """Give n-grams that differ in the one before or in the word after it numbers of their own."""
    _, found = np.unique(codes * (1 + ids.max(initial=0)) + ids, return_inverse=True)
    return found


def _matches(codes: Ids, owners: Ids, sides: Ids, known: NDArray[np.bool_], size: int) -> Ids:
    """Count n-grams of each pair that both texts have, each as often as both do."""
    counts = np.bincount(2 * codes + sides, minlength=2 * (1 + codes.max(initial=0)))
    both = counts.reshape(-1, 2).min(axis=1)
    first = np.unique(codes, return_index=True)[1]
    found = np.bincount(owners[first], both * known[first], minlength=size)
    return found.astype(np.int64)


def count_bleu(pairs: Sequence[tuple[str, str]], orders: int = LONGEST_NGRAM) -> Ids:
    """Count what BLEU is made of; counts of many sentences add up.

    Parameters
    ----------
    pairs : sequence of (str, str)
        N predictions and targets, words separated by blanks. What is no word (`rows.NO_WORDS`)
        matches nothing, but counts.
    orders : int
        The longest n-gram.

    Returns
    -------
    ndarray of int64, shape (N, 2 + 2·orders)
        Words of the prediction and of the target; then matches of 1 to `orders` words, each n-gram
        as often as the target has it at most; then n-grams of the prediction.
    """
    index, size = WordIndex({}), len(pairs)
    texts = index.read([text for pair in pairs for text in pair])
    lengths = texts.lengths
    predicted, target = lengths[::2], lengths[1::2]
    text = np.repeat(np.arange(2 * size), lengths)
    left = np.repeat(texts.starts[1:], lengths) - np.arange(len(text))  # words to the text's end
    ids = texts.ids - texts.ids.min(initial=0)
    places, codes = np.arange(len(text)), text // 2
    known = np.ones(len(text), bool)
    matches = []
    for order in range(1, orders + 1):
        kept = left[places] >= order  # whose n-gram ends with the text at the latest
        places, codes, known = places[kept], codes[kept], known[kept]
        codes = _grown(codes, ids[places + order - 1])
        known = known & (texts.ids[places + order - 1] != NO_WORD)
        owners = text[places]
        matches.append(_matches(codes, owners // 2, owners % 2, known, size))
    totals = [np.maximum(0, predicted - order + 1) for order in range(1, orders + 1)]
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
    found: NDArray[np.float64] = np.where(nothing, 0.0, penalty * mean)
    return found
