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
        ones = int(self._rng.hypergeometric(self._ones, self._zeros, n))
        share = ones / n
        self._ones -= ones
        self._zeros -= n - ones
        # Coins of nearly the right bias, one byte each; then as many of the surplus side as needed
        # are turned, chosen at random. Given their number all subsets are equally likely: so is
        # the result.
        labels = np.frombuffer(self._rng.bytes(n), np.uint8) < round(256 * share)
        surplus = int(np.count_nonzero(labels)) - ones
        if surplus:
            places = np.flatnonzero(labels == (surplus > 0))
            turned = self._rng.choice(places, abs(surplus), replace=False, shuffle=False)
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
    """How often a bootstrap replicate draws each document, block after block."""

    def __init__(self, rng: np.random.Generator, n: int) -> None:
        self._rng = rng
        self._draws = n
        self._left = n

    def next_block(self, n: int) -> np.ndarray:
        """Draw the next n documents: int64, shape (n,)."""
        here = int(self._rng.binomial(self._draws, n / self._left))
        self._draws -= here
        self._left -= n
        return np.bincount(self._rng.integers(n, size=here), minlength=n)


def draw_columns(
    drawers: Sequence[DocumentLabels | DocumentResample],
) -> Callable[[int], np.ndarray]:
    """Return what draws the weights of the next n documents from each, float32, (n, w)."""

    def draw(n: int) -> np.ndarray:
        weights = np.empty((n, len(drawers)), np.float32)
        for column, drawer in enumerate(drawers):
            weights[:, column] = drawer.next_block(n)
        return weights

    return draw
