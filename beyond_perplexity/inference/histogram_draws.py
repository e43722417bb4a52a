"""Histograms of documents under permutations, randomizations of units, and resamples.

Which documents of equal value get which label does not matter, so a permutation of documents is one
multivariate hypergeometric draw on the pooled histogram, and a bootstrap resample one multinomial
draw. Of groups and other units, the documents of a unit in one cell are counted once for all draws;
labels or weights of the units times these counts are the histograms of either side. All measures
take the same labels. C cells, D documents, U units, r draws.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from beyond_perplexity.inference.p_values import joined_draws
from beyond_perplexity.inference.permuted_units import PermutedUnits
from beyond_perplexity.random_streams import stream

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

_HELD = 4_000_000  # numbers of a block of draws
Evaluate = Callable[[np.ndarray, np.ndarray], dict[str, np.ndarray]]
Resampler = Callable[[range], np.ndarray]


def blocks(n: int, width: int) -> Iterator[range]:
    """Cut items 0 to n - 1 into blocks whose arrays of `width` numbers each fit in memory."""
    step = max(1, _HELD // max(width, 1))
    for start in range(0, n, step):
        yield range(start, min(start + step, n))


def permute(
    counts: Sequence[np.ndarray] | np.ndarray, evaluate: Evaluate, n: int, seed: int, purpose: str
) -> dict[str, np.ndarray]:
    """Compute measures of two histograms (C,) under n permutations of their documents: (n,) each.

    `evaluate` takes histograms of both sides, (r, C), and returns arrays (r,) by name; permutation
    b draws from the stream (`seed`, `purpose`, b).
    """
    pooled, size = counts[0] + counts[1], int(counts[0].sum())

    def draws(items: range) -> dict[str, np.ndarray]:
        rngs = (stream(seed, purpose, b) for b in items)
        drawn = np.stack([rng.multivariate_hypergeometric(pooled, size) for rng in rngs])
        return evaluate(drawn, pooled - drawn)

    return joined_draws(map(draws, blocks(n, len(pooled))))


def resample(counts: np.ndarray, items: range, seed: int, purpose: str) -> np.ndarray:
    """Draw bootstrap resamples of the documents of a histogram.

    Parameters
    ----------
    counts : numpy.ndarray of int64, shape (C,)
        Documents of each cell.
    items : range
        Numbers of the replicates; replicate r draws from the stream (`seed`, `purpose`, r).
    seed, purpose : int, str
        See `items`.

    Returns
    -------
    numpy.ndarray of int64, shape (len(items), C)
        As many documents as there are, drawn with replacement.

    Examples
    --------
    >>> resample(np.array([5, 3, 2]), range(3), 0, "bootstrap").sum(axis=1).tolist()
    [10, 10, 10]
    """
    total = int(counts.sum())
    shares = counts / max(total, 1)
    return np.stack([stream(seed, purpose, r).multinomial(total, shares) for r in items])


def bootstrap_both(
    drawers: Sequence[Resampler], width: int, evaluate: Evaluate, n: int
) -> dict[str, np.ndarray]:
    """Compute measures under n resamplings of both texts, drawn as (r, `width`): (n,) each."""
    parts = ([draw(items) for draw in drawers] for items in blocks(n, width))
    return joined_draws(evaluate(first, second) for first, second in parts)


def count_cells(cells: np.ndarray, units: np.ndarray, n: int, n_units: int) -> csr_matrix:
    """Count the documents of each unit (D,) in each cell (D,): float32, shape (C, U)."""
    from scipy.sparse import csr_matrix  # late: most of what importing this package would take

    kept = cells >= 0
    ones = np.ones(int(kept.sum()), np.float32)
    return csr_matrix((ones, (cells[kept], units[kept])), shape=(n, n_units))


def permuted_cells(
    cells: tuple[np.ndarray, np.ndarray],
    width: int,
    evaluate: Evaluate,
    units: PermutedUnits,
    n: int,
    seed: int,
) -> dict[str, np.ndarray]:
    """Compute measures of histograms under n randomizations of units; see `PermutedUnits.labels`.

    `cells` have the cell of each document of both texts, -1 for none, of `width` cells.
    """
    first, second = (
        count_cells(own, codes, width, sum(units.n)).astype(float) * weight
        for own, codes, weight in zip(cells, units.codes, units.weights, strict=True)
    )
    counted = first + second
    pooled = np.asarray(counted.sum(axis=1)).ravel()

    def measured(labels: np.ndarray) -> dict[str, np.ndarray]:
        first = (counted @ labels.astype(float)).T  # (w, C)
        return evaluate(first, pooled - first)

    return joined_draws(map(measured, units.labels(n, seed)))


def group_weights(n_groups: int, items: range, seed: int, purpose: str) -> np.ndarray:
    """Draw how often each of n groups is resampled: float32, shape (n_groups, len(items))."""
    weights = np.empty((n_groups, len(items)), np.float32)
    for column, r in enumerate(items):
        drawn = stream(seed, purpose, r).integers(n_groups, size=n_groups)
        weights[:, column] = np.bincount(drawn, minlength=n_groups)
    return weights


def group_resampler(
    cells: np.ndarray, groups: np.ndarray, n: int, seed: int, purpose: str
) -> Callable[[range], np.ndarray]:
    """Return what draws histograms of resampled groups: of items r, float32, shape (r, n)."""
    n_groups = int(groups.max(initial=-1)) + 1
    counted = count_cells(cells, groups, n, n_groups)

    def draw(items: range) -> np.ndarray:
        return (counted @ group_weights(n_groups, items, seed, purpose)).T

    return draw


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


def cut_rows(rows: np.ndarray, sizes: Iterable[int]) -> Iterator[np.ndarray]:
    """Cut rows (D, ...) into blocks of n."""
    start = 0
    for n in sizes:
        start += n
        yield rows[start - n : start]
