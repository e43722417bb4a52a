"""Tests of length and of shares of tokens: one draw on a pooled histogram permutes all documents.

Which documents of equal value get which label does not matter, so a permutation of documents is one
multivariate hypergeometric draw on the pooled histogram, and a bootstrap resample one multinomial
draw.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from beyond_perplexity.random_streams import stream
from beyond_perplexity.tendencies.distances import ks
from beyond_perplexity.tendencies.resampling import joined_draws
from beyond_perplexity.tendencies.rows import TENDENCIES, TendencyKind
from beyond_perplexity.tendencies.statistics import Statistics

_HELD = 4_000_000  # numbers of a block of draws
Resampler = Callable[[range], np.ndarray]


@dataclass(frozen=True)
class PairedHistogram:
    """Documents of two bodies of text by the value of one variable.

    Attributes
    ----------
    support : numpy.ndarray of float64, shape (C,)
        The values, increasing.
    reference, samples : numpy.ndarray of int64, shape (C,)
        Documents of each value.
    """

    support: np.ndarray
    reference: np.ndarray
    samples: np.ndarray


def distribution(statistics: Statistics, tendency: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the distribution of a variable over documents.

    Parameters
    ----------
    statistics : Statistics
        Of a body of text.
    tendency : str
        Of kind length (tokens) or share (documents without tokens have none and are left out).

    Returns
    -------
    values : numpy.ndarray of float64, shape (C,)
        Increasing.
    counts : numpy.ndarray of int64, shape (C,)
        Documents.
    """
    row = TENDENCIES[tendency]
    histogram = statistics.histograms[row.histogram]
    if row.kind == "length":
        return histogram.lengths.astype(float), histogram.counts
    filled = histogram.lengths > 0
    # Division rounds correctly, so equal fractions such as 1/2 and 2/4 give equal floats.
    shares = histogram.values[filled] / histogram.lengths[filled]
    values, inverse = np.unique(shares, return_inverse=True)
    counts = np.zeros(len(values), np.int64)
    np.add.at(counts, inverse, histogram.counts[filled])
    return values, counts


def pair(reference: Statistics, samples: Statistics, tendency: str) -> PairedHistogram:
    """Bring the distributions of two bodies of text to a common support; see `distribution`."""
    values_1, counts_1 = distribution(reference, tendency)
    values_2, counts_2 = distribution(samples, tendency)
    support = np.union1d(values_1, values_2)
    first, second = np.zeros((2, len(support)), np.int64)
    first[np.searchsorted(support, values_1)] = counts_1
    second[np.searchsorted(support, values_2)] = counts_2
    return PairedHistogram(support, first, second)


def compare_histograms(
    support: np.ndarray, reference: np.ndarray, samples: np.ndarray
) -> dict[str, np.ndarray]:
    """Compute means and distances of two histograms.

    Parameters
    ----------
    support : numpy.ndarray, shape (C,)
        Values.
    reference, samples : numpy.ndarray, shape (..., C)
        Documents of each value.

    Returns
    -------
    dict of str to numpy.ndarray, shape (...)
        ``mean`` (of the samples), ``mean_reference``, ``mean_difference`` (samples minus
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

    Parameters
    ----------
    paired : PairedHistogram
        The data.
    n : int
        Permutations, at least 1.
    seed, purpose : int, str
        Permutation b draws from the stream (`seed`, `purpose`, b).

    Returns
    -------
    dict of str to numpy.ndarray of float64, shape (n,)
        The statistics of `compare_histograms`.
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
    evaluate: Callable[[np.ndarray, np.ndarray], dict[str, np.ndarray]],
    n: int,
) -> dict[str, np.ndarray]:
    """Compute statistics under resampling of both bodies.

    Parameters
    ----------
    drawers : sequence of two callable
        Draw histograms (r, `width`) of the reference and of the samples by the numbers of r
        replicates.
    width : int
        Cells.
    evaluate : callable
        Takes resamples of both and returns arrays of shape (r,) by name.
    n : int
        Replicates, at least 1.

    Returns
    -------
    dict of str to numpy.ndarray, shape (n,)
        What `evaluate` returns, of all replicates.
    """

    def replicates(items: range) -> dict[str, np.ndarray]:
        reference, samples = (draw(items) for draw in drawers)
        return evaluate(reference, samples)

    return _gather(n, width, replicates)


def value_places(
    lengths: np.ndarray, values: np.ndarray, support: np.ndarray, kind: TendencyKind
) -> np.ndarray:
    """Return the place of each document in a support.

    Parameters
    ----------
    lengths, values : numpy.ndarray of int, shape (D,)
        Tokens of each document, and those of the class.
    support : numpy.ndarray of float64, shape (C,)
        That of `pair`.
    kind : str
        Of the tendency: length or share.

    Returns
    -------
    numpy.ndarray of int64, shape (D,)
        -1 for a document that has no value.
    """
    if kind == "length":
        return np.searchsorted(support, lengths)
    filled = lengths > 0
    places = np.full(len(lengths), -1)
    places[filled] = np.searchsorted(support, values[filled] / lengths[filled])
    return places
