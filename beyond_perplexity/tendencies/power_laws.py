"""Zipf's and Heaps' laws: maximum-likelihood fits, and Zipf's with halves of a text.

Source: "Language Model Evaluation Beyond Perplexity" (2021), eq. 4, 5 and Appendix A; for the
split, Piantadosi (2014). With ranks and frequencies of the same tokens the errors of both are
correlated, and s is too large. In the split fit the units of a text (documents or groups) are dealt
to halves A and B; the types that occur at least 10 times in A are ranked by their counts in A, and
s is fitted to their counts in B over these ranks alone; then the halves change places, and s is the
mean. Ties have random order.

The interval names the exponent at the ranks that were found, not at the true ones. Each fit has the
jackknife's error over the units of the half that it counts, the ranks given; as each half ranks for
the other fit, both errors are correlated (by up to .25 where words come in clusters); the interval
takes them for one (`StandardError.mean_with`).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from scipy.special import zeta

from beyond_perplexity.inference.held_out import sums_of_units
from beyond_perplexity.inference.permuted_units import OCCURRENCES, SPLIT_RANKS
from beyond_perplexity.inference.standard_errors import (
    NOT_DEFINED,
    StandardError,
    UnitSums,
    error_of,
)
from beyond_perplexity.inference.two_sample_test import ks_to_cdf
from beyond_perplexity.random_streams import stream
from beyond_perplexity.tendencies.document_counts import DocumentCounts

_LARGEST_EXPONENT = 60.0
_TABLE_REACH = 0.1  # in exponents, on either side
_TABLE_NODES = 33


class Heaps(NamedTuple):
    """Parameters of Heaps' law, E[types of a document of l tokens] = alpha * l ** beta."""

    alpha: float
    beta: float

    def rate(self, lengths: np.ndarray) -> np.ndarray:
        """Return the Poisson rate at lengths in tokens (any shape), as float64."""
        return self.alpha * np.asarray(lengths, float) ** self.beta


def fit_zipf(ranked: np.ndarray) -> float:
    """Fit the exponent of Zipf's law, p(rank k) = k^-s / zeta(s), by maximum likelihood.

    The log-likelihood is -N ln zeta(s) - s sum_k c_k ln k, of counts c_k by rank (K,) with N =
    sum_k c_k; the normalization is infinite, whatever the number of ranks that are fitted. s > 1;
    NaN when all tokens are of one type, for which no finite maximum exists.
    """
    total = float(np.sum(ranked))
    weighted = float(np.dot(ranked, np.log(np.arange(1, len(ranked) + 1))))
    if total == 0 or weighted == 0:
        return math.nan
    mean_log_rank = weighted / total

    def loss(log_excess: float) -> float:
        s = 1 + math.exp(log_excess)
        return math.log(zeta(s)) + s * mean_log_rank

    # ln(s - 1) keeps the search away from the pole at s = 1 and makes its steps relative to it.
    bounds = (math.log(1e-9), math.log(_LARGEST_EXPONENT))
    found = minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 1e-10})
    return 1 + math.exp(found.x)


def zipf_cdf(s: float, ranks: int) -> np.ndarray:
    """Return F(k) of Zipf's law with infinite support at ranks 1 to `ranks`: float64, (ranks,)."""
    return np.cumsum(np.arange(1, ranks + 1, dtype=float) ** -s) / zeta(s)


def fit_heaps(lengths: np.ndarray, documents: np.ndarray, types: np.ndarray) -> Heaps:
    """Fit Heaps' law as a Poisson law of the types of a document, by maximum likelihood.

    The log-likelihood is sum [u ln alpha + u beta ln l - alpha l^beta] + constant. Given beta,
    alpha = sum u / sum l^beta; what remains is concave in beta, and its derivative has one root. Of
    distinct lengths in tokens (those below 1 are left out), documents, and the sum of their types,
    (G,) each; NaNs when fewer than two lengths occur or no document has a type.
    """
    used = (lengths >= 1) & (documents > 0)
    log_l, n, u = np.log(lengths[used]), documents[used].astype(float), types[used].astype(float)
    if len(log_l) < 2 or u.sum() == 0:
        return Heaps(math.nan, math.nan)
    target = np.dot(u, log_l) / u.sum()

    def excess(beta: float) -> float:
        weights = n * np.exp(beta * (log_l - log_l.max()))
        return float(np.dot(weights, log_l) / weights.sum() - target)

    low, high = -1.0, 2.0
    while excess(low) > 0 and low > -1e3:
        low *= 2
    while excess(high) < 0 and high < 1e3:
        high *= 2
    if excess(low) * excess(high) > 0:
        return Heaps(math.nan, math.nan)
    beta = float(brentq(excess, low, high, xtol=1e-13))
    return Heaps(float(u.sum() / np.dot(n, np.exp(beta * log_l))), beta)


def heaps_columns(
    lengths: np.ndarray, types: np.ndarray, fit: Heaps
) -> tuple[np.ndarray, np.ndarray]:
    """Return what documents contribute to Heaps' fit, (C, 5), and which do, (C,); see `fit_heaps`.

    With x = ln l: l^beta, x l^beta, x^2 l^beta, the types u, and x u.
    """
    used = lengths >= 1
    x = np.log(np.maximum(lengths, 1))
    rate = np.exp(fit.beta * x)
    return np.stack([rate, x * rate, x**2 * rate, types, x * types], axis=1), used


def heaps_errors(units: UnitSums, fit: Heaps) -> tuple[StandardError, StandardError]:
    """Return the errors of alpha and beta; units are left out by one step of Newton each."""
    if units.many.sum() < 2 or math.isnan(fit.beta):
        return NOT_DEFINED, NOT_DEFINED
    rate, rate_x, rate_xx, types, types_x = (units.many @ units.sums - units.sums).T
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        mean = rate_x / rate
        variance = rate_xx / rate - mean**2
        # Without a unit a single length may remain, and no slope.
        variance = np.where(variance > 1e-12 * mean**2, variance, np.nan)
        step = (types_x / types - mean) / variance
        alpha = types / (rate * np.exp(step * mean + step**2 * variance / 2))
    return error_of(fit.alpha, alpha, units), error_of(fit.beta, fit.beta + step, units)


def fit_truncated_zipf(ranked: np.ndarray) -> float:
    """Fit p(k) = k^-s / sum_j j^-s over the given ranks alone, by maximum likelihood.

    At the maximum the mean of ln k under the law is that of the counts (K,), zeros allowed, which
    falls in s. NaN with fewer than two ranks, without counts, or when all counts are of the first
    rank or of the last, for which no finite maximum exists.
    """
    log_ranks = np.log(np.arange(1, len(ranked) + 1))
    total = float(np.sum(ranked))
    if len(ranked) < 2 or total == 0:
        return math.nan
    return exponent_of_mean(float(np.dot(ranked, log_ranks)) / total, log_ranks)


def truncated_zipf_moments(s: float, log_ranks: np.ndarray) -> tuple[float, float]:
    """Return mean and variance of ln k under Zipf's law with exponent s over ranks, ln k: (K,)."""
    weights = np.exp(-s * log_ranks)
    total = weights.sum()
    mean = float(weights @ log_ranks / total)
    return mean, float(weights @ (log_ranks - mean) ** 2 / total)


def exponent_of_mean(mean_log_rank: float, log_ranks: np.ndarray, start: float = 1.0) -> float:
    """Return the s for which the mean of ln k over ranks (K,) is the one given; NaN for none."""
    if not 0 < mean_log_rank < log_ranks[-1]:
        return math.nan
    s = start
    for _ in range(50):  # Newton's method; of a convex derivative only far steps can miss
        mean, variance = truncated_zipf_moments(s, log_ranks)
        step = (mean - mean_log_rank) / variance if variance > 0 else math.nan
        if not abs(step) < 1:
            break
        s += step
        if abs(step) < 1e-12:
            return s

    def excess(at: float) -> float:
        return truncated_zipf_moments(at, log_ranks)[0] - mean_log_rank

    low, high = -_LARGEST_EXPONENT, _LARGEST_EXPONENT
    if excess(low) < 0 or excess(high) > 0:
        return math.nan
    return float(brentq(excess, low, high, xtol=1e-13))


class ExponentTable:
    """Fits of many counts over at most K ranks whose exponents lie near s.

    The exponent is a smooth function of the mean of ln k; it is interpolated from its values and
    slopes at some exponents, to 1e-9 or better. Another one is found by `exponent_of_mean`.
    """

    def __init__(self, s: float, ranks: int) -> None:
        self._log_ranks = np.log(np.arange(1, ranks + 1))
        self._grid = s + np.linspace(-_TABLE_REACH, _TABLE_REACH, _TABLE_NODES)
        # Variances are differences, which are the more exact the nearer this is to the means.
        self._middle = truncated_zipf_moments(s, self._log_ranks)[0]
        apart = (self._log_ranks - self._middle)[:, None]  # (K, 1)
        weights = np.exp(-self._grid * self._log_ranks[:, None])  # (K, G)
        self._sums = tuple(np.cumsum(weights * apart**power, axis=0) for power in range(3))

    def exponents(self, means: np.ndarray, ranks: np.ndarray) -> np.ndarray:
        """Fit exponents for means of ln k over so many ranks: float64, (w,); NaN for none."""
        held = (ranks > 1) & (ranks <= len(self._log_ranks))
        at = np.where(held, ranks, 1) - 1
        total, first, second = (sums[at] for sums in self._sums)  # (w, G)
        centred = first / total
        x = means - self._middle
        index = np.count_nonzero(centred > x[:, None], axis=1) - 1
        inside = held & (index >= 0) & (index < len(self._grid) - 1)
        rows, left = np.flatnonzero(inside), index[inside]
        variances = second / total - centred**2
        x_0, x_1 = centred[rows, left], centred[rows, left + 1]
        slopes = [-(x_1 - x_0) / variances[rows, left + side] for side in (0, 1)]
        t = (x[inside] - x_0) / (x_1 - x_0)
        step = self._grid[left + 1] - self._grid[left]
        found = np.empty(len(means))
        found[inside] = (
            self._grid[left]
            + step * t**2 * (3 - 2 * t)
            + t * (1 - t) * ((1 - t) * slopes[0] - t * slopes[1])
        )
        for row in np.flatnonzero(~inside):
            log_ranks = np.log(np.arange(1, max(int(ranks[row]), 1) + 1))
            found[row] = exponent_of_mean(float(means[row]), log_ranks)
        return found


class Halves(NamedTuple):
    """Frequencies in either half by the ranks of the other: in B by those of A, and the reverse."""

    ranked: tuple[np.ndarray, np.ndarray]

    @property
    def exponent(self) -> float:
        """The mean of both fits; NaN where one is not defined."""
        return (fit_truncated_zipf(self.ranked[0]) + fit_truncated_zipf(self.ranked[1])) / 2

    @property
    def too_few(self) -> bool:
        """Whether either half ranks too few types for a fit that is reported or tested."""
        return min(map(len, self.ranked)) < SPLIT_RANKS

    def distance(self, s: float) -> float:
        """Return the mean over both of the distance to the law over the ranks."""
        found = []
        for held in self.ranked:
            sums = np.cumsum(np.exp(-s * np.log(np.arange(1, len(held) + 1))))
            found.append(ks_to_cdf(held, sums / sums[-1]))
        return float(np.mean(found))


class SplitFit(NamedTuple):
    """The fit of a text: halves, types by rank in A and in B (K,), s and its limits; or NaN."""

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


def split_fit(
    documents: DocumentCounts,
    sample_set: int,
    units: np.ndarray,
    ranks: int | None,
    confidence: float,
    seed: int,
) -> SplitFit:
    """Fit Zipf's law to a text with ranks and frequencies of different halves; see the module.

    `units` (int64, (D,)) names the document or group that each document of the sample set is, -1
    for one that is left out; halves are drawn from the stream (`seed`, ``"zipf/halves"``,
    `sample_set`).
    """
    rng = stream(seed, "zipf/halves", sample_set)
    n = int(units.max(initial=-1)) + 1
    first = np.zeros(n + 1, bool)  # the last is that of documents that are left out
    first[rng.permutation(n)[: n // 2]] = True
    second = ~first
    second[n] = False
    codes = np.where(units < 0, n, units)
    in_first, in_second = documents.sums_of(sample_set, np.stack([first, second], axis=1), codes).T
    orders = rank_order(in_first, ranks, rng), rank_order(in_second, ranks, rng)
    halves = Halves((in_second[orders[0]], in_first[orders[1]]))
    s = math.nan if halves.too_few else halves.exponent
    if not math.isfinite(s):
        return SplitFit(halves, orders, *(math.nan,) * 3)
    marks = np.zeros((documents.n_types, 4))  # ln k and 1 of the ranked types
    log_ranks = [np.log(np.arange(1, len(order) + 1)) for order in orders]
    for column, order in enumerate(orders):
        marks[order, column] = log_ranks[column]
        marks[order, 2 + column] = 1
    sums = sums_of_units(documents, sample_set, codes, marks, n + 1)[:n]  # (n, 4)
    errors = []
    for column, half in enumerate((second, first)):
        own = sums[half[:n] & (sums[:, 2 + column] > 0)]
        errors.append(_error(own[:, column], own[:, 2 + column], log_ranks[column]))
    error = errors[0].mean_with(errors[1])
    return SplitFit(halves, orders, s, *error.limits(s, confidence))


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
