"""Zipf's law with ranks from one half of a text and frequencies from the other.

Ranks by the same tokens that are then counted make any text steeper than it is: a type that
happened to occur often stands high. So documents (or groups) are halved: ranks are those of the
types with at least 10 occurrences in half A, frequencies those of half B, zeros kept, and the law
over these ranks is fitted by maximum likelihood; then A and B change places, and the exponents are
averaged.

The interval names *the exponent at the ranks that were found*: what this fit would give with the
population's true frequencies of the types, in the order that each half put them in, averaged over
both. It is not the exponent of a law that the population may follow: the order that a finite text
finds is not the true one, and for a genuine law of 1.1 the fit is too large by .007 on average at
20,000 tokens, less in longer texts. Documents, or groups, are left out one by one inside the half
that gives the frequencies, with the ranks fixed. As each half's frequencies also made the ranks of
the other fit, both errors are correlated (by up to .25 where words come in clusters); the interval
holds for any correlation.

Source: Piantadosi (2014). Zipf's word frequency law in natural language. Psychonomic Bulletin and
Review 21.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from beyond_perplexity.inference.distances import ks_to_cdf
from beyond_perplexity.inference.intervals import NOT_DEFINED, StandardError, UnitSums, error_of
from beyond_perplexity.inference.thresholds import OCCURRENCES, SPLIT_RANKS
from beyond_perplexity.random_streams import stream
from beyond_perplexity.tendencies.document_counts import DocumentCounts
from beyond_perplexity.tendencies.power_laws import (
    exponent_of_mean,
    fit_truncated_zipf,
    truncated_zipf_cdf,
    truncated_zipf_moments,
)


class Halves(NamedTuple):
    """Frequencies in either half by the ranks of the other.

    Attributes
    ----------
    ranked : tuple of two numpy.ndarray, shape (K,)
        Counts in B by the ranks of A, and in A by the ranks of B.
    """

    ranked: tuple[np.ndarray, np.ndarray]

    @property
    def exponent(self) -> float:
        """The mean of both fits; NaN where one is not defined."""
        return (fit_truncated_zipf(self.ranked[0]) + fit_truncated_zipf(self.ranked[1])) / 2

    @property
    def too_few(self) -> bool:
        """Whether either half ranks too few types for a fit that is reported or tested."""
        return min(map(len, self.ranked)) < SPLIT_RANKS

    @property
    def n_ranks(self) -> float:
        """The mean number of ranks."""
        return (len(self.ranked[0]) + len(self.ranked[1])) / 2

    def distance(self, s: float) -> float:
        """Return the mean over both of the distance to the law over the ranks."""
        found = [ks_to_cdf(held, truncated_zipf_cdf(s, len(held))) for held in self.ranked]
        return float(np.mean(found))


class SplitFit(NamedTuple):
    """The fit of a text and its interval.

    Attributes
    ----------
    halves : Halves
        Frequencies by the ranks of the other half.
    orders : tuple of two numpy.ndarray of int64, shape (K,)
        The types by rank in A, and in B.
    exponent : float
        NaN where there are fewer than 30 ranks in a half, as then are the limits.
    low, high : float
        Limits of the exponent at these ranks; NaN where there are not two.
    """

    halves: Halves
    orders: tuple[np.ndarray, np.ndarray]
    exponent: float
    low: float
    high: float

    def target(self, law: np.ndarray) -> float:
        """Return what the interval names, from the true share of every type (V,)."""
        return Halves((law[self.orders[0]], law[self.orders[1]])).exponent


def rank_order(counts: np.ndarray, ranks: int | None, rng: np.random.Generator) -> np.ndarray:
    """Return the types by rank that occur often enough, ties in random order: int64, (K,)."""
    kept = np.flatnonzero(counts >= OCCURRENCES)
    keys = -(counts[kept] + rng.random(len(kept)))
    if ranks is not None and ranks < len(kept):
        first = np.argpartition(keys, ranks)[:ranks]
        kept, keys = kept[first], keys[first]
    return kept[np.argsort(keys)]


def _exchanged(
    first: np.ndarray, second: np.ndarray, ranks: int | None, rng: np.random.Generator
) -> tuple[Halves, tuple[np.ndarray, np.ndarray]]:
    orders = rank_order(first, ranks, rng), rank_order(second, ranks, rng)
    return Halves((second[orders[0]], first[orders[1]])), orders


def split_fit(
    documents: DocumentCounts,
    body: int,
    units: np.ndarray,
    ranks: int | None,
    confidence: float,
    seed: int,
) -> SplitFit:
    """Fit Zipf's law to a text; see the module.

    Parameters
    ----------
    documents : DocumentCounts
        Counts of every document.
    body : int
        0 for the reference, 1 for the samples.
    units : numpy.ndarray of int64, shape (D,)
        The document or group that each document is, from 0 on; -1 for one that is left out.
    ranks : int or None
        Ranks that are fitted at most.
    confidence : float
        Of the interval.
    seed : int
        The halves are drawn from the stream (`seed`, ``"zipf/halves"``, `body`).
    """
    rng = stream(seed, "zipf/halves", body)
    n = int(units.max(initial=-1)) + 1
    first = np.zeros(n + 1, bool)  # the last is that of documents that are left out
    first[rng.permutation(n)[: n // 2]] = True
    second = ~first
    second[n] = False
    codes = np.where(units < 0, n, units)
    counts = documents.sums_of(body, np.stack([first, second], axis=1), codes)
    halves, orders = _exchanged(counts[:, 0], counts[:, 1], ranks, rng)
    s = math.nan if halves.too_few else halves.exponent
    if not math.isfinite(s):
        return SplitFit(halves, orders, *(math.nan,) * 3)
    log_sums, sums = _sums_by_unit(documents, body, codes, orders, n)
    errors = []
    for column, (half, order) in enumerate(zip((second, first), orders, strict=True)):
        own = half[:n] & (sums[:, column] > 0)
        log_ranks = np.log(np.arange(1, len(order) + 1))
        errors.append(_error(log_sums[own, column], sums[own, column], log_ranks))
    error = errors[0].mean_with(errors[1])
    return SplitFit(halves, orders, s, *error.limits(s, confidence))


def _sums_by_unit(
    documents: DocumentCounts, body: int, codes: np.ndarray, orders: Sequence[np.ndarray], n: int
) -> tuple[np.ndarray, np.ndarray]:
    """Sum ln k, and tokens, over the ranked tokens of each unit: float64, (n, 2) each."""
    marks = np.zeros((documents.n_types, 4))
    for column, order in enumerate(orders):
        marks[order, column] = np.log(np.arange(1, len(order) + 1))
        marks[order, 2 + column] = 1
    sums = np.zeros((n + 1, 4))
    start = 0
    for found in documents.per_document(body, marks):
        unit = codes[start : start + len(found)]
        start += len(found)
        for column in range(4):
            sums[:, column] += np.bincount(unit, found[:, column], minlength=n + 1)
    return sums[:n, :2], sums[:n, 2:]


def _error(log_sums: np.ndarray, sums: np.ndarray, log_ranks: np.ndarray) -> StandardError:
    """Return the error of the exponent of the mean of ln k, units (U,) left out one by one."""
    if len(sums) < 2:
        return NOT_DEFINED
    total, tokens = log_sums.sum(), sums.sum()
    means = (total - log_sums) / (tokens - sums)
    s = exponent_of_mean(total / tokens, log_ranks)
    spread = math.sqrt(truncated_zipf_moments(s, log_ranks)[1])
    # The exponent as a function of the mean is smooth: a table of it serves for all units.
    reach = max(2 * float(np.abs(means - total / tokens).max()) / spread**2, 1e-9)
    grid = s + np.linspace(-reach, reach, 41)
    at = np.array([truncated_zipf_moments(x, log_ranks)[0] for x in grid])
    left_out = np.interp(means, at[::-1], grid[::-1])
    units = UnitSums(np.ones(len(sums)), sums, log_sums[:, None])
    return error_of(s, left_out, units)
