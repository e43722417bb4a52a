"""Histograms of documents under permutations, randomizations of units, and resamples.

Which documents of equal value get which label does not matter, so a permutation of documents is one
multivariate hypergeometric draw on the pooled histogram, and a bootstrap resample one multinomial
draw. Of groups and other units, the documents of a unit in one cell are counted once for all draws;
labels or weights of the units times these counts are the histograms of either side. All measures
take the same labels. C cells, D documents, U units, r draws.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from beyond_perplexity.inference.distances import ks
from beyond_perplexity.inference.exchanged_units import ExchangedUnits
from beyond_perplexity.inference.p_values import joined_draws
from beyond_perplexity.random_streams import stream

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

_HELD = 4_000_000  # numbers of a block of draws
Evaluate = Callable[[np.ndarray, np.ndarray], dict[str, np.ndarray]]
Resampler = Callable[[range], np.ndarray]


@dataclass(frozen=True)
class PairedHistogram:
    """Documents of two bodies of text by the value of one variable."""

    support: np.ndarray  # The values, increasing
    reference: np.ndarray  # reference, samples: Documents of each value
    samples: np.ndarray


def compare_histograms(
    support: np.ndarray, reference: np.ndarray, samples: np.ndarray
) -> dict[str, np.ndarray]:
    """Compute means and distances of two histograms.

    `support`: Values; `reference`, `samples`: documents of each value.

    Returns ``mean`` (of the samples), ``mean_reference``, ``mean_difference`` (samples minus
    reference) and ``ks``; NaN where a side has no document.
    """
    with np.errstate(invalid="ignore"):
        mean_reference = reference @ support / reference.sum(axis=-1)
        mean = samples @ support / samples.sum(axis=-1)
        return {
            "mean": mean,
            "mean_reference": mean_reference,
            "mean_difference": mean - mean_reference,
            "ks": ks(reference, samples),
        }


def blocks(n: int, width: int) -> Iterator[range]:
    """Cut items 0 to n - 1 into blocks whose arrays of `width` numbers each fit in memory."""
    step = max(1, _HELD // max(width, 1))
    for start in range(0, n, step):
        yield range(start, min(start + step, n))


def _gather(
    n: int, width: int, evaluate: Callable[[range], dict[str, np.ndarray]]
) -> dict[str, np.ndarray]:
    return joined_draws(evaluate(items) for items in blocks(n, width))


def permute(paired: PairedHistogram, n: int, seed: int, purpose: str) -> dict[str, np.ndarray]:
    """Compute the statistics of `compare_histograms` under permutations of the documents.

    `paired`: the data; `n`: Permutations, at least 1; `seed`, `purpose`: permutation b draws from
    the stream (`seed`, `purpose`, b).

    Returns the statistics of `compare_histograms`.
    """
    pooled = paired.reference + paired.samples
    size = int(paired.reference.sum())

    def evaluate(items: range) -> dict[str, np.ndarray]:
        drawn = np.stack(
            [stream(seed, purpose, b).multivariate_hypergeometric(pooled, size) for b in items]
        )  # (b, C)
        return compare_histograms(paired.support, drawn, pooled - drawn)

    return _gather(n, len(pooled), evaluate)


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


def document_resampler(counts: np.ndarray, seed: int, purpose: str) -> Resampler:
    """Return what draws `resample` of these documents by the numbers of the replicates."""
    return partial(resample, counts, seed=seed, purpose=purpose)


def bootstrap_both(
    drawers: Sequence[Resampler],
    width: int,
    evaluate: Evaluate,
    n: int,
) -> dict[str, np.ndarray]:
    """Compute statistics under resampling of both bodies.

    `drawers`: draw histograms (r, `width`) of the reference and of the samples by the numbers of r
    replicates; `width`: Cells; `evaluate`: takes resamples of both and returns arrays of shape (r,)
    by name; `n`: Replicates, at least 1.

    Returns what `evaluate` returns, of all replicates.
    """

    def replicates(items: range) -> dict[str, np.ndarray]:
        reference, samples = (draw(items) for draw in drawers)
        return evaluate(reference, samples)

    return _gather(n, width, replicates)


class DocumentCells(NamedTuple):
    """The cell of every document of two texts in one histogram."""

    n: int  # Cells C
    # The cell of each document of the reference and of the samples; -1 for none
    places: tuple[np.ndarray, np.ndarray]
    # Computes measures, (r,) each, from the histograms of both sides, (r, C) each
    evaluate: Evaluate


def count_cells(places: np.ndarray, units: np.ndarray, n: int, n_units: int) -> csr_matrix:
    """Count the documents of each unit (D,) in each cell (D,): float32, shape (C, U)."""
    from scipy.sparse import csr_matrix  # late: most of what importing this package would take

    kept = places >= 0
    ones = np.ones(int(kept.sum()), np.float32)
    return csr_matrix((ones, (places[kept], units[kept])), shape=(n, n_units))


def exchanged_cells(
    cells: DocumentCells, units: ExchangedUnits, n: int, seed: int
) -> dict[str, np.ndarray]:
    """Compute the measures of histograms under randomizations of units.

    `cells`: the data; `units`: what is exchanged; `n`, `seed`: randomizations and their seed; see
    `ExchangedUnits.labels`.
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
