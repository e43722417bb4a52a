"""One number per document, length or a share of tokens, as histograms on a common support."""

from __future__ import annotations

import numpy as np

from beyond_perplexity.inference.histogram_draws import PairedHistogram
from beyond_perplexity.tendencies.rows import TENDENCIES, TendencyKind
from beyond_perplexity.tendencies.statistics import Statistics


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
