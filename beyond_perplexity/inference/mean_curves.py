"""Mean curves of two texts: their largest difference, its randomizations and how it varies.

A document has a number at each of K places. Differences are studentized place by place, so that a
randomization holds for equal mean curves, also where spreads or group sizes differ (Janssen 1997);
the test is of the largest |t|.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from beyond_perplexity.inference.p_values import joined_draws
from beyond_perplexity.inference.permuted_units import (
    CommonGroups,
    DocumentLabels,
    Groups,
    PermutedUnits,
    side_by_side,
)
from beyond_perplexity.inference.prompts import permuted_paired_t
from beyond_perplexity.inference.two_sample_test import studentized_moments
from beyond_perplexity.random_streams import stream

Curves = tuple[np.ndarray, np.ndarray]  # of the documents of both texts, (D, K) and (E, K)
_BLOCK = 65_536  # documents whose labels are drawn at a time; part of the definition of the draws


def largest_difference(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Compute the largest difference of two mean curves over places, (..., K): (...)."""
    return np.abs(first - second).max(axis=-1)


def permuted_curves(
    curves: Curves, units: PermutedUnits | None, n: int, seed: int
) -> dict[str, np.ndarray]:
    """Compare the mean curves of two texts under randomizations and, last, as they are.

    Parameters
    ----------
    curves : tuple of numpy.ndarray of float64, shape (D, K) and (E, K)
        The numbers of each document of both texts.
    units : PermutedUnits or None
        What is permuted, without regard to sizes; None for single documents.
    n : int
        Number of randomizations; number b draws from a stream keyed by (seed, b).
    seed : int
        Seed of the streams.

    Returns
    -------
    dict of numpy.ndarray of float64, shape (n + 1,)
        ``max_difference``, the largest difference, ``t``, the largest |t|, and ``place``, where
        that is, from 0 on.

    References
    ----------
    Janssen (1997). Studentized permutation tests for non-i.i.d. hypotheses. Chung and Romano
    (2013). Exact and asymptotically robust permutation tests. Annals of Statistics 41.

    Examples
    --------
    >>> first, second = np.array([[1.0, 0], [3, 0]]), np.array([[2.0, 1], [4, 1], [3, 4]])
    >>> found = permuted_curves((first, second), None, 99, 0)
    >>> float(found["max_difference"][-1])
    2.0
    """
    if units is None:
        return joined_draws(map(_compared, _document_moments(curves, n, seed)))
    found = joined_draws(map(_compared, _unit_moments(curves, units, n, seed)))
    if units.scheme == "prompts":
        places = zip(*(held.T for held in curves), strict=True)
        t = np.abs([permuted_paired_t(x, y, units, n, seed) for x, y in places])  # (K, n + 1)
        found |= {"t": t.max(axis=0), "place": t.argmax(axis=0)}
    return found


_Moments = tuple[np.ndarray, np.ndarray]  # of both sides: (w, 3 K + 3) each


def _moments(sums: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Put together S, S², S N of the values of units (U, K), and N, N², 1: (U, 3 K + 3)."""
    n = sizes[:, None]
    return np.hstack([sums, sums**2, sums * n, n, n**2, n > 0])


def _unit_moments(curves: Curves, units: PermutedUnits, n: int, seed: int) -> Iterator[_Moments]:
    sums, sizes = np.zeros((sum(units.n), curves[0].shape[1])), np.zeros(sum(units.n))
    for held, codes, weight in zip(curves, units.codes, units.weights, strict=True):
        np.add.at(sums, codes, weight * held)
        np.add.at(sizes, codes, weight)
    moments = _moments(sums, sizes)
    free = PermutedUnits(units.scheme, units.codes, units.n, units.weights)
    labels = (units if units.scheme == "prompts" else free).labels(n, seed)
    own = (np.arange(len(sizes)) < units.n[0])[:, None]
    for drawn in (*labels, own):
        first = drawn.T.astype(float) @ moments
        yield first, moments.sum(axis=0) - first


def _document_moments(curves: Curves, n: int, seed: int) -> Iterator[_Moments]:
    every, sizes = np.concatenate(curves), (len(curves[0]), len(curves[1]))
    starts = range(0, len(every), _BLOCK)
    total = sum(
        _moments(every[k : k + _BLOCK], _ones(every[k : k + _BLOCK])).sum(0) for k in starts
    )
    for items in side_by_side(n):
        drawers = [DocumentLabels(stream(seed, "permutation/curves", b), *sizes) for b in items]
        first = np.zeros((len(items), 3 * every.shape[1] + 3))
        for start in starts:
            block = every[start : start + _BLOCK]
            labels = np.stack([one.next_block(len(block)) for one in drawers])
            first += labels.astype(float) @ _moments(block, _ones(block))
        yield first, total - first
    own = _moments(curves[0], _ones(curves[0])).sum(axis=0)[None]
    yield own, total - own


def _ones(values: np.ndarray) -> np.ndarray:
    return np.ones(len(values))


def _compared(sides: _Moments) -> dict[str, np.ndarray]:
    """Compute the largest difference, the largest |t| and its place of both sides: (w,) each."""
    k = sides[0].shape[1] // 3 - 1
    both = []
    for held in sides:
        total, squares, products = held[:, :k], held[:, k : 2 * k], held[:, 2 * k : 3 * k]
        n, n_squares, units = held[:, -3:].T[..., None]
        both.append((total, n, squares, products, n_squares, units))
    difference, t = map(np.abs, studentized_moments(*both))
    largest = {"max_difference": difference.max(axis=1), "t": t.max(axis=1)}
    return {**largest, "place": t.argmax(axis=1)}


def drawn_differences(curves: Curves, groups: Groups, n: int, seed: int) -> np.ndarray:
    """Draw the largest difference of two texts as it varies with their documents or groups: (n,).

    Mean curves are drawn from the normal distribution around them, with the covariance over
    documents or groups, from 0 on, of what each adds; those of common groups vary together.
    """
    parts = []
    for held, codes in zip(curves, groups, strict=True):
        own = np.arange(len(held)) if codes is None else codes
        residuals = np.zeros((int(own.max(initial=-1)) + 1, held.shape[1]))
        np.add.at(residuals, own, (held - held.mean(axis=0)) / len(held))
        parts.append(residuals)
    if isinstance(groups, CommonGroups):
        size = max(map(len, parts))
        first, second = (np.pad(own, ((0, size - len(own)), (0, 0))) for own in parts)
        parts = [second - first]
    sums = (len(own) / max(len(own) - 1, 1) * own.T @ own for own in parts)
    difference, rng = curves[1].mean(axis=0) - curves[0].mean(axis=0), stream(seed, "limits/curves")
    return np.abs(rng.multivariate_normal(difference, sum(sums), n, method="svd")).max(axis=1)
