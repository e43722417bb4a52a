"""BLEU of words that are given, without any tokenization: corpus and sentence.

Source: Papineni et al. (2002). BLEU: a method for automatic evaluation of machine translation;
smoothing as in sacrebleu (Post 2018. A call for clarity in reporting BLEU scores): the k-th order
without a match counts 1/2^k matches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from beyond_perplexity.semantics.rows import NO_WORDS

LONGEST_NGRAM = 4


def _ngrams(words: Sequence[str], order: int) -> Counter[tuple[str, ...]]:
    return Counter(zip(*(words[start:] for start in range(order)), strict=False))


def bleu_statistics(predicted: str, target: str, orders: int = LONGEST_NGRAM) -> list[int]:
    """Count what BLEU is made of; counts of many sentences add up.

    Parameters
    ----------
    predicted, target : str
        Words separated by blanks. What is no word (`rows.NO_WORDS`) matches nothing, but counts.
    orders : int
        The longest n-gram.

    Returns
    -------
    list of int, of length 2 + 2·orders
        Words of the prediction and of the target; then matches of 1 to `orders` words, each n-gram
        as often as the target has it at most; then n-grams of the prediction.
    """
    wanted, found = target.split(), predicted.split()
    # `<unk>` of the target is left as it is: the prediction's is another word
    own = [("", word)[word not in NO_WORDS] for word in found]
    matches = []
    for order in range(1, orders + 1):
        there = _ngrams(wanted, order)
        here = _ngrams(own, order) if there else Counter()
        matches.append(
            sum(min(count, there[gram]) for gram, count in here.items() if gram in there)
        )
    totals = [max(0, len(found) - order + 1) for order in range(1, orders + 1)]
    return [len(found), len(wanted), *matches, *totals]


def bleu_of(statistics: ArrayLike, order: int, *, effective: bool = False) -> NDArray[np.float64]:
    """Return BLEU of sums of counts.

    Parameters
    ----------
    statistics : array, shape (..., 2 + 2·orders)
        Of `bleu_statistics`, or sums of them; `orders` at least `order`.
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
