"""The maximum mean discrepancy of two texts, and what documents say of it by which it varies.

MMD is the distance of the mean embeddings of two distributions in the space of a kernel k, and for
a Gaussian kernel 0 only where these are the same: MMD^2 = E k(x, x') + E k(y, y') - 2 E k(x, y).
For k from 0 to 1 it is at most the root of 2. Here k(x, y) = exp(-|x - y|^2 / (2 b^2)), with b the
median distance of two different documents of a text. Where that text is further human text, or both
texts pooled, b does not know which document is of which text: permuting them leaves it as it is,
and a randomization test stays exact.

A document without a vector (a row of NaN) is a cell of its own: k is 1 with another such document
and 0 with any other. The kernel stays positive definite, and the squared MMD has the squared
difference of both shares in it. No document leaves a text, and the kernel of two does not depend on
whose they are, so that permutations stay exact. A vector of zeros would be somewhere among the
others, nearer or farther by what the encoder makes of them.

`distances` has the plug-in value, of the documents as they are: 0 for a text and itself, above 0
else, too large on average, by the more the fewer documents there are. `unbiased_square` leaves out
pairs of documents of one unit (a document with itself; documents of one group), so that its
expectation is the squared MMD of the distributions whatever the number of documents; it can be
negative. Its variance comes from leaving out one unit at a time (`inference.standard_errors`).

Source: Gretton, Borgwardt, Rasch, Schölkopf and Smola (2012). A kernel two-sample test. JMLR 13. N
documents in all, n of the reference and m of the samples, D numbers of a vector, w sets of weights
at a time.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_matrix

from beyond_perplexity.inference.p_values import student_quantile
from beyond_perplexity.inference.standard_errors import (
    NOT_DEFINED,
    StandardError,
    UnitSums,
    error_of,
)

_EQUAL = 1e-6  # vectors closer than this, relative to their size, are the same in 32 bits


def without_vector(vectors: np.ndarray) -> np.ndarray:
    """Tell of which documents (N, D) an encoder could make nothing: bool, (N,)."""
    return ~np.isfinite(vectors).all(axis=1)


def squared_distances(vectors: np.ndarray) -> np.ndarray:
    """Return the squared Euclidean distances of all pairs of rows (N, D): float64, (N, N)."""
    centred = vectors.astype(np.float64)
    centred -= centred.mean(axis=0) if len(centred) else 0.0
    norms = np.einsum("nd,nd->n", centred, centred)
    found = centred @ centred.T
    found *= -2
    found += norms[:, None]
    found += norms
    found[found < _EQUAL**2 * max(float(norms.max(initial=0)), 1.0)] = 0.0
    np.fill_diagonal(found, 0.0)
    return found


def median_distance(vectors: np.ndarray) -> float:
    """Return the median distance of different vectors (N, D); 1 where no two differ."""
    distances = squared_distances(vectors[~without_vector(vectors)])
    pairs = distances[np.triu_indices(len(distances), 1)]
    different = pairs[pairs > 0]
    return float(np.sqrt(np.median(different))) if len(different) else 1.0


def gaussian_kernel(vectors: np.ndarray, bandwidth: float) -> np.ndarray:
    """Return exp(-|x - y|^2 / (2 b^2)) of all pairs of documents (N, D): float64, (N, N).

    Of documents without a vector see the module.
    """
    silent = without_vector(vectors)
    kernel = squared_distances(np.where(silent[:, None], 0, vectors) if silent.any() else vectors)
    kernel *= -0.5 / bandwidth**2
    np.exp(kernel, out=kernel)
    kernel[silent[:, None] != silent] = 0.0
    kernel[silent[:, None] & silent] = 1.0
    return kernel


_ROUNDING = 1e-12  # a squared distance below is one of equal texts
LARGEST_MMD = math.sqrt(2)  # MMD of a kernel from 0 to 1


def side_weights(labels: np.ndarray, documents: np.ndarray | None = None) -> np.ndarray:
    """Weigh documents so that their weighted sum is the difference of the means of both sides.

    Of labels (bool, (N, w)), whether one is on the first side, and what each counts (N,): float64,
    (N, w), of sum 1 and -1; NaN where a side is empty.
    """
    weight = 1.0 if documents is None else documents[:, None]
    first, second = labels * weight, ~labels * weight
    with np.errstate(invalid="ignore", divide="ignore"):
        found: np.ndarray = first / first.sum(axis=0) - second / second.sum(axis=0)
    return found


def distances(kernel: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Compute plug-in values of MMD, (w,): of a kernel (N, N) and weights (N, w) that sum to 0."""
    squares = np.einsum("nw,nw->w", weights, kernel @ weights)
    squares[squares < _ROUNDING] = 0.0
    return np.sqrt(squares)


class Discrepancy(NamedTuple):
    """An unbiased estimate of the squared MMD of two distributions.

    `value` can be negative, and is NaN with fewer than two units of a text; `error` is its variance
    by leaving out one unit at a time; `plug_in` the squared MMD of the documents as they are;
    `noise` tr C^2, with C the covariance of the difference of the two mean embeddings.
    """

    value: float
    error: StandardError
    plug_in: float
    noise: float

    def square_limits(self, confidence: float) -> tuple[float, float]:
        """Return a lower and an upper limit of the squared MMD, each of this confidence.

        Below: value - t * standard error; where these are nearly one the jackknife's error is
        too large by the root of 2, which makes up for the skewness of the estimate. Above: where
        the estimate is small by chance, so is its error, so that the limit x solves
        x - value = t * sqrt(variance / plug_in * x + 2 noise), the standard error if x were true:
        the part of the variance that is linear in x, and that under the null hypothesis.
        """
        low = self.error.limits(self.value, 2 * confidence - 1)[0]
        t = float(student_quantile(confidence, self.error.df))
        if math.isnan(t) or self.plug_in <= 0:
            return low, math.nan if math.isnan(t) else 2 * self.value - low
        middle = self.value + t**2 * self.error.variance / self.plug_in / 2
        root = middle**2 - self.value**2 + 2 * t**2 * self.noise
        return low, middle + math.sqrt(max(0.0, root))

    def limits(self, confidence: float) -> tuple[float, float]:
        """Return a lower and an upper limit of MMD itself, each of this confidence."""
        squares = np.clip(self.square_limits(confidence), 0.0, LARGEST_MMD**2)
        low, high = np.sqrt(squares).tolist()  # NaNs stay
        return low, high


class _Side(NamedTuple):
    """The kernel of a text, summed over its units: (U,) each."""

    sizes: np.ndarray  # documents
    own: np.ndarray  # sum over pairs inside of the unit
    all: np.ndarray  # sum over pairs with any document of the text
    across: np.ndarray  # sum over pairs with the other text

    @property
    def mean(self) -> float:
        """The mean kernel of documents of different units."""
        pairs = self.sizes.sum() ** 2 - np.sum(self.sizes**2)
        return float((self.all.sum() - self.own.sum()) / pairs)

    def error(self, value: float, other: float, m: int) -> StandardError:
        """Return the error as far as this text's units vary, beside the mean kernel of m others."""
        n = self.sizes.sum()
        across = (self.across.sum() - self.across) / ((n - self.sizes) * m)
        pairs = n**2 - np.sum(self.sizes**2) - 2 * self.sizes * (n - self.sizes)
        sums = self.all.sum() - self.own.sum() - 2 * (self.all - self.own)
        with np.errstate(invalid="ignore", divide="ignore"):
            without = sums / pairs + other - 2 * across
        ones = np.ones(len(self.sizes))
        return error_of(value, without, UnitSums(ones, self.sizes, ones[:, None]))


def _members(n: int, codes: np.ndarray | None) -> csr_matrix:
    """Return ones where a document is of a unit: (U, n)."""
    units = np.arange(n) if codes is None else np.unique(codes, return_inverse=True)[1]
    return csr_matrix((np.ones(n), (units, np.arange(n))))


def _covariance(sums: np.ndarray, sizes: np.ndarray, others: np.ndarray) -> float:
    """Return the sum of squares of the products of what units add to the means of two texts.

    Of the kernel summed over units of the one and the other, (U, V), and their sizes.
    """
    shares, of_others = sizes / sizes.sum(), others / others.sum()
    rows, columns = sums.sum(axis=1), sums.sum(axis=0)
    centred = sums - np.outer(shares, columns - sums.sum() * of_others)
    centred -= np.outer(rows, of_others)
    spread = (1 - 1 / len(sizes)) * (1 - 1 / len(others))
    return float(np.sum(centred**2) / (sizes.sum() * others.sum()) ** 2 / spread)


def paired_square(kernel: np.ndarray, n: int, codes: np.ndarray) -> Discrepancy:
    """Estimate it of answers to the same prompts: from documents of different prompts alone.

    Of the kernel of all documents (N, N), the first n of the reference, and the prompt of each or
    its group, (N,). The answers to one prompt are alike whoever gave them; the variance comes from
    leaving out one prompt at a time, of both texts (Gretton et al., equation 4, in units).
    """
    signs = np.where(np.arange(len(kernel)) < n, 1.0, -1.0)
    members = _members(len(kernel), codes)
    members.data *= signs[members.indices]
    sums = members @ (members @ kernel).T  # (U, U)
    sizes = np.bincount(np.unique(codes, return_inverse=True)[1]) / 2  # of either text
    plug_in = float(sums.sum() / sizes.sum() ** 2)
    if len(sizes) < 2:
        return Discrepancy(math.nan, NOT_DEFINED, plug_in, math.nan)
    own, all_of = np.diag(sums), sums.sum(axis=1)
    total, pairs = sums.sum() - own.sum(), sizes.sum() ** 2 - np.sum(sizes**2)
    left = pairs - 2 * sizes * (sizes.sum() - sizes)
    with np.errstate(invalid="ignore", divide="ignore"):
        without = (total - 2 * (all_of - own)) / left
    ones = np.ones(len(sizes))
    error = error_of(float(total / pairs), without, UnitSums(ones, sizes, ones[:, None]))
    return Discrepancy(float(total / pairs), error, plug_in, _covariance(sums, sizes, sizes))


def unbiased_square(
    kernel: np.ndarray, n: int, groups: tuple[np.ndarray | None, np.ndarray | None] = (None, None)
) -> Discrepancy:
    """Estimate the squared MMD of two distributions from the kernel of their documents, (N, N).

    The first n are the reference's; `groups` are None where each document is a unit.
    """
    first, second = _members(n, groups[0]), _members(len(kernel) - n, groups[1])
    within = first @ (first @ kernel[:n, :n]).T, second @ (second @ kernel[n:, n:]).T
    across = (second @ (first @ kernel[:n, n:]).T).T  # (U, V)
    sizes = [np.asarray(own.sum(axis=1)).ravel() for own in (first, second)]
    sides = [
        _Side(own, np.diag(sums), sums.sum(axis=1), across.sum(axis=other))
        for own, sums, other in zip(sizes, within, (1, 0), strict=True)
    ]
    counts = [own.sum() for own in sizes]
    plug_in = sum(sums.sum() / k**2 for sums, k in zip(within, counts, strict=True))
    plug_in = float(plug_in - 2 * across.sum() / counts[0] / counts[1])
    if min(map(len, sizes)) < 2:
        return Discrepancy(math.nan, NOT_DEFINED, plug_in, math.nan)
    means = [side.mean for side in sides]
    value = means[0] + means[1] - 2 * float(across.sum() / counts[0] / counts[1])
    error = sides[0].error(value, means[1], int(counts[1]))
    error = error.with_another(sides[1].error(value, means[0], int(counts[0])))
    noise = sum(_covariance(sums, own, own) for sums, own in zip(within, sizes, strict=True))
    return Discrepancy(value, error, plug_in, noise + 2 * _covariance(across, *sizes))
