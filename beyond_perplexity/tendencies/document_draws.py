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

    Parameters
    ----------
    rng : numpy.random.Generator
        The order is drawn from it.
    sizes : sequence of int
        Documents of the subsets, increasing; the last is the number of all documents.
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
        """Draw the next n documents: int64, shape (n,); 0 for those beyond the last."""
        known = min(n, self._left)
        if not known:
            return np.zeros(n, np.int64)
        here = int(self._rng.binomial(self._draws, known / self._left))
        self._draws -= here
        self._left -= known
        return np.bincount(self._rng.integers(known, size=here), minlength=n)


def draw_labels(drawers: Sequence[DocumentLabels]) -> Callable[[int], np.ndarray]:
    """Return what draws the labels of the next n documents from each: uint16, (n, w)."""

    def draw(n: int) -> np.ndarray:
        labels = np.stack([drawer.next_block(n) for drawer in drawers])
        return labels.T.astype(np.uint16, order="C")

    return draw


def draw_weights(
    drawers: Sequence[DocumentResample], dtype: type[np.floating]
) -> Callable[[int], np.ndarray]:
    """Return what draws the weights of the next n documents from each: (n, w)."""

    def draw(n: int) -> np.ndarray:
        weights = np.stack([drawer.next_block(n) for drawer in drawers])
        return weights.T.astype(dtype, order="C")

    return draw


def take_rows(table: np.ndarray, codes: np.ndarray) -> Callable[[int], np.ndarray]:
    """Return what gives the rows of a table (U, w) that the next n of codes (D,) name: (n, w)."""
    start = 0

    def take(n: int) -> np.ndarray:
        nonlocal start
        start += n
        return table[codes[start - n : start]]

    return take
