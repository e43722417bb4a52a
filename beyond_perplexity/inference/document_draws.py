"""Random weights of documents, block after block: labels, nested groups, resamples.

All blocks of a body of text share one random order, by hypergeometric and binomial draws.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np


class DocumentLabels:
    """Labels of one permutation, block after block: `n_ones` ones, all subsets equally likely."""

    def __init__(self, rng: np.random.Generator, n_ones: int, n_zeros: int) -> None:
        self._rng = rng
        self._ones = n_ones
        self._zeros = n_zeros

    def next_block(self, n: int) -> np.ndarray:
        """Label the next n documents: bool, shape (n,)."""
        rng = self._rng
        ones = int(rng.hypergeometric(self._ones, self._zeros, n))
        bias = round(256 * ones / n)
        self._ones -= ones
        self._zeros -= n - ones
        # Coins of nearly the right bias, a bit each for one half, else a byte; then documents of
        # the surplus side, chosen at random, are turned until the number is right. Given their
        # number all subsets are equally likely: so is the result.
        if bias == 128:
            packed = np.frombuffer(rng.bytes((n + 7) // 8), np.uint8)
            labels = np.unpackbits(packed, count=n).view(bool)
        else:
            labels = np.frombuffer(rng.bytes(n), np.uint8) < bias
        while surplus := int(np.count_nonzero(labels)) - ones:
            places = rng.integers(n, size=4 * abs(surplus) + 8)
            turned = places[labels[places] == (surplus > 0)][: abs(surplus)]
            labels[turned] = surplus < 0
        return labels


class DocumentGroups:
    """Cut a random order of documents into nested subsets, block after block.

    `rng`: the order is drawn from it; `sizes`: documents of the subsets, increasing; the last is
    the number of all documents.
    """

    def __init__(self, rng: np.random.Generator, sizes: Sequence[int]) -> None:
        self._rng = rng
        self._left = np.diff(sizes, prepend=0)

    def next_block(self, n: int) -> np.ndarray:
        """Say in which subset each of the next n documents is first: int64, shape (n,)."""
        here = self._rng.multivariate_hypergeometric(self._left, n)
        self._left = self._left - here
        return self._rng.permutation(np.repeat(np.arange(len(here)), here))


class DocumentResample:
    """How often a bootstrap replicate draws each of n documents, block after block."""

    def __init__(self, rng: np.random.Generator, n: int) -> None:
        self._rng = rng
        self._draws = n
        self._left = n

    def next_block(self, n: int) -> np.ndarray:
        """Draw the next n documents: int64, shape (n,)."""
        if not n:
            return np.zeros(0, np.int64)
        here = int(self._rng.binomial(self._draws, n / self._left))
        self._draws -= here
        self._left -= n
        return np.bincount(self._rng.integers(n, size=here), minlength=n)


def documents_within(lengths: np.ndarray, tokens: int, rng: np.random.Generator) -> np.ndarray:
    """Draw documents in random order, leaving out each that does not fit any more.

    `lengths`: tokens of each document; `tokens`: how many all that are drawn may have together;
    `rng`: the order is drawn from it, so that the order of a file does not matter.

    Returns no further document would fit.
    """
    if lengths.sum(dtype=np.int64) <= tokens:
        return np.ones(len(lengths), bool)
    kept = np.zeros(len(lengths), bool)
    order = rng.permutation(len(lengths))
    while len(order):  # a few rounds: in each all documents are taken up to one that does not fit
        held = np.cumsum(lengths[order], dtype=np.int64)
        n = int(np.searchsorted(held, tokens, side="right"))
        kept[order[:n]] = True
        tokens -= int(held[n - 1]) if n else 0
        rest = order[n:]
        order = rest[lengths[rest] <= tokens]
    return kept


def draw_labels(drawers: Sequence[DocumentLabels]) -> Callable[[int], np.ndarray]:
    """Return what draws the labels of the next n documents from each: uint16, (n, w)."""

    def draw(n: int) -> np.ndarray:
        labels = np.stack([drawer.next_block(n) for drawer in drawers])
        return labels.T.astype(np.uint16, order="C")

    return draw


def draw_weights(
    drawers: Sequence[DocumentResample], dtype: type[np.floating], kept: np.ndarray
) -> Callable[[int], np.ndarray]:
    """Return what draws the weights of the next n documents from each: (n, w).

    Only documents that are `kept` (bool, (D,)) are drawn; the others weigh nothing.
    """
    start = 0

    def draw(n: int) -> np.ndarray:
        nonlocal start
        start += n
        here = np.flatnonzero(kept[start - n : start])
        weights = np.zeros((n, len(drawers)), dtype)
        weights[here] = np.stack([drawer.next_block(len(here)) for drawer in drawers]).T
        return weights

    return draw


def take_rows(table: np.ndarray, codes: np.ndarray) -> Callable[[int], np.ndarray]:
    """Return what gives the rows of a table (U, w) that the next n of codes (D,) name: (n, w)."""
    start = 0

    def take(n: int) -> np.ndarray:
        nonlocal start
        start += n
        return table[codes[start - n : start]]

    return take
