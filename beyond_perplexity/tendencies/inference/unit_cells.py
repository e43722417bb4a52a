"""Histograms of documents under randomizations and resamples of units: sparse one-hot values.

Each document lies in a cell of a histogram, or in none. Documents of a unit in one cell are counted
once for all draws; labels or weights of the units times these counts are the histograms of either
side. All measures take the same labels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_matrix

from beyond_perplexity.random_streams import stream
from beyond_perplexity.tendencies.inference.units import ExchangedUnits
from beyond_perplexity.tendencies.resampling import joined_draws

Evaluate = Callable[[np.ndarray, np.ndarray], dict[str, np.ndarray]]


class DocumentCells(NamedTuple):
    """The cell of every document of two texts in one histogram.

    Attributes
    ----------
    n : int
        Cells C.
    places : tuple of two numpy.ndarray of int64, shape (D,)
        The cell of each document of the reference and of the samples; -1 for none.
    evaluate : callable
        Computes measures, (r,) each, from the histograms of both sides, (r, C) each.
    """

    n: int
    places: tuple[np.ndarray, np.ndarray]
    evaluate: Evaluate


def count_cells(places: np.ndarray, units: np.ndarray, n: int, n_units: int) -> csr_matrix:
    """Count the documents of each unit (D,) in each cell (D,): float32, shape (C, U)."""
    kept = places >= 0
    ones = np.ones(int(kept.sum()), np.float32)
    return csr_matrix((ones, (places[kept], units[kept])), shape=(n, n_units))


def exchanged_cells(
    cells: DocumentCells, units: ExchangedUnits, n: int, seed: int
) -> dict[str, np.ndarray]:
    """Compute the measures of histograms under randomizations of units.

    Parameters
    ----------
    cells : DocumentCells
        The data.
    units : ExchangedUnits
        What is exchanged.
    n, seed : int
        Randomizations and their seed; see `ExchangedUnits.labels`.

    Returns
    -------
    dict of str to numpy.ndarray of float64, shape (n,)
    """
    counted = None
    for places, codes, weight in zip(cells.places, units.codes, units.weights, strict=True):
        part = count_cells(places, codes, cells.n, sum(units.n)).astype(float) * weight
        counted = part if counted is None else counted + part
    assert counted is not None
    pooled = np.asarray(counted.sum(axis=1)).ravel()

    def measured(labels: np.ndarray) -> dict[str, np.ndarray]:
        first = (counted @ labels.astype(float)).T  # (w, C)
        return cells.evaluate(first, pooled - first)

    return joined_draws(map(measured, units.labels(n, seed)))


def group_weights(n_groups: int, items: range, seed: int, purpose: str) -> np.ndarray:
    """Draw how often each of n groups is resampled: float32, shape (n_groups, len(items)).

    Replicate r draws from the stream (`seed`, `purpose`, r).
    """
    weights = np.empty((n_groups, len(items)), np.float32)
    for column, r in enumerate(items):
        drawn = stream(seed, purpose, r).integers(n_groups, size=n_groups)
        weights[:, column] = np.bincount(drawn, minlength=n_groups)
    return weights


def group_resampler(
    places: np.ndarray, groups: np.ndarray, n: int, seed: int, purpose: str
) -> Callable[[range], np.ndarray]:
    """Return what draws histograms of resampled groups: of items r, float32, shape (r, n)."""
    n_groups = int(groups.max(initial=-1)) + 1
    counted = count_cells(places, groups, n, n_groups)

    def draw(items: range) -> np.ndarray:
        drawn: np.ndarray = (counted @ group_weights(n_groups, items, seed, purpose)).T
        return drawn

    return draw
