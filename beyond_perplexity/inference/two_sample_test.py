"""Distances of distributions, and permutation tests of two samples that may come in groups.

A distance takes counts with any number of leading axes (permutations, resamples) and works on the
last one, an ordered or an unordered support. Source: "Language Model Evaluation Beyond Perplexity"
(2021), eq. 10 and 11.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import NamedTuple

import numpy as np

from beyond_perplexity.inference import permuted_units
from beyond_perplexity.inference.histogram_draws import permuted_cells
from beyond_perplexity.inference.p_values import TIE, permutation_p
from beyond_perplexity.inference.permuted_units import CommonGroups, Groups, PermutedUnits, Scheme
from beyond_perplexity.inference.prompts import permuted_paired_t
from beyond_perplexity.verdicts import reason_text


def _shares(counts: np.ndarray) -> np.ndarray:
    return counts / np.sum(counts, axis=-1, keepdims=True)


def ks(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Compute the Kolmogorov-Smirnov metric sup |F1 - F2| of two histograms.

    Parameters
    ----------
    first, second : numpy.ndarray, shape (..., C)
        Counts over the same ordered support.

    Returns
    -------
    numpy.ndarray, shape (...)
        Between 0 and 1.

    Examples
    --------
    >>> float(ks(np.array([2, 1, 1]), np.array([1, 1, 2])))
    0.25
    """
    return ks_to_cdf(first, np.cumsum(_shares(second), axis=-1))


def ks_to_cdf(counts: np.ndarray, cdf: np.ndarray) -> np.ndarray:
    """Compute sup |F - G| of a histogram and a distribution function on the same support.

    Parameters
    ----------
    counts : numpy.ndarray, shape (..., C)
        Counts over an ordered support.
    cdf : numpy.ndarray, shape (C,) or (..., C)
        G at the points of the support.

    Returns
    -------
    numpy.ndarray, shape (...)
        Between 0 and 1.
    """
    return np.max(np.abs(np.cumsum(_shares(counts), axis=-1) - cdf), axis=-1)


def rank_ks(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Compute sup |F1 - F2| of two rank-frequency distributions.

    Parameters
    ----------
    first, second : numpy.ndarray, shape (..., K1) and (..., K2)
        Counts by rank, most frequent first, over the ranks that are compared.

    Returns
    -------
    numpy.ndarray, shape (...)
        The shorter one is continued with zeros.

    Examples
    --------
    >>> float(rank_ks(np.array([8, 2]), np.array([5, 3, 2])).round(6))
    0.3
    """
    width = max(first.shape[-1], second.shape[-1])
    return ks(_pad(first, width), _pad(second, width))


def _pad(counts: np.ndarray, width: int) -> np.ndarray:
    missing = width - counts.shape[-1]
    return np.pad(counts, [(0, 0)] * (counts.ndim - 1) + [(0, missing)]) if missing else counts


# Takes the support (C,) and how much weighs on each value on either side, (..., C); returns (...,).
Statistic = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


class PermutationTest(NamedTuple):
    """Result of a permutation test.

    Attributes
    ----------
    statistic : float
        The statistic of the data.
    p_value : float
        (b + 1) / (B + 1), where b randomizations have at least the statistic of the data.
    null : numpy.ndarray of float64, shape (B,)
        The statistic of every randomization; of a difference of means its t.
    scheme : str
        What was permuted: ``documents``, ``groups``, ``swaps``, ``draws`` or ``prompts``.
    """

    statistic: float
    p_value: float
    null: np.ndarray
    scheme: Scheme


def ks_distance(support: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Compute the Kolmogorov-Smirnov metric sup |F1 - F2|: a `Statistic`.

    Examples
    --------
    >>> float(ks_distance(np.array([1, 2]), np.array([3, 1]), np.array([2, 2])))
    0.25
    """
    return ks(first, second)


def ks_of_samples(first: np.ndarray, second: np.ndarray) -> float:
    """Compute the Kolmogorov-Smirnov metric of two samples of numbers, (m,) and (n,).

    Examples
    --------
    >>> ks_of_samples(np.array([1, 2, 3]), np.array([2, 3, 4, 4]))
    0.5
    """
    support = np.union1d(first, second)
    cells = (np.searchsorted(support, x) for x in (first, second))
    return float(ks(*(np.bincount(cell, minlength=len(support)) for cell in cells)))


def mean_difference(support: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Compute the mean of the second side minus that of the first: a `Statistic`.

    `permutation_test` studentizes it (`studentized_difference`).

    Examples
    --------
    >>> float(mean_difference(np.array([1, 2]), np.array([3, 1]), np.array([2, 2])))
    0.25
    """
    means = [side @ support / side.sum(axis=-1) for side in (first, second)]
    return means[1] - means[0]


def studentized_difference(
    first: np.ndarray, second: np.ndarray, sums: np.ndarray, sizes: np.ndarray
) -> np.ndarray:
    """Divide the difference of two means by its standard error, for two sides of units.

    t = (m2 - m1) / sqrt(v1 + v2), with m = sum S / sum N over the units of a side and
    v = k / (k - 1) * sum (S - m N)^2 / (sum N)^2 of k units. Under a randomization t has the
    distribution that it has for equal means, also where variances or the sizes of units differ.

    Parameters
    ----------
    first, second : numpy.ndarray, shape (..., U)
        How many units of each kind are on either side.
    sums, sizes : numpy.ndarray, shape (U,)
        S and N: sum and number of the values of a unit.

    Returns
    -------
    numpy.ndarray of float64, shape (...)
        0 for equal means; NaN with fewer than two units on a side.

    References
    ----------
    Janssen (1997). Studentized permutation tests for non-i.i.d. hypotheses. Chung and Romano
    (2013). Exact and asymptotically robust permutation tests. Annals of Statistics 41.

    Examples
    --------
    >>> support, ones = np.array([1.0, 2.0, 4.0]), np.ones(3)
    >>> t = studentized_difference(np.array([2, 1, 0]), np.array([0, 1, 2]), support, ones)
    >>> round(float(t), 3)  # Welch's
    2.683
    """
    moments = np.stack([sums, sizes, sums**2, sums * sizes, sizes**2], axis=1).astype(float)
    held = [counts.astype(float) for counts in (first, second)]
    filled = [(own * (sizes > 0)).sum(axis=-1) for own in held]
    sides = [np.moveaxis(own @ moments, -1, 0) for own in held]
    return studentized_moments(*((*own, n) for own, n in zip(sides, filled, strict=True)))[1]


_Moments = Sequence[np.ndarray]  # sums of S, N, S^2, S N and N^2 over units, and how many units


def studentized_moments(first: _Moments, second: _Moments) -> tuple[np.ndarray, np.ndarray]:
    """Compute the difference of two means and its t from the moments of both sides, (...) each."""
    means, variances = [], []
    with np.errstate(invalid="ignore", divide="ignore"):
        for total, n, squares, products, n_squares, units in (first, second):
            mean = total / n
            spread = squares - 2 * mean * products + mean**2 * n_squares
            means.append(mean)
            variances.append(units / (units - 1) * np.maximum(spread, 0) / n**2)
        difference: np.ndarray = means[1] - means[0]
        t = difference / np.sqrt(variances[0] + variances[1])
    tied = np.abs(difference) <= TIE * np.abs(means).max(axis=0)
    return difference, np.where(tied, difference * 0, t)


def permutation_test(
    x: np.ndarray,
    y: np.ndarray,
    *,
    groups: Groups = (None, None),
    statistic: Statistic = ks_distance,
    two_sided: bool = False,
    permutations: int = 1999,
    seed: int = 0,
) -> PermutationTest:
    """Test whether two samples, with a number for each document, come from one distribution.

    What is permuted depends on which sample has groups (documents of one source, answers to one
    prompt), as documents of a group are not independent:

    neither
        documents are permuted; exact.
    both
        whole groups are permuted among those of about as many documents; exact where such groups
        are alike. Where their mean sizes differ by more than a factor of 2, a sample whose
        documents are nearly all single loses its groups.
    x alone
        *swaps*: the documents of y are dealt at random to pseudo-groups as large as the groups of
        x, and each group is swapped with its pseudo-group with probability one half.
    y alone
        *draws*: the statistic is the mean over 20 draws of one document of each group; blocks of
        groups and of documents of x are swapped, in all draws alike.

    The last two are asymptotic in the number of groups. Answers to the same prompts are permuted
    within these, which is exact: where `groups` are the prompts that `answers_of` gives.

    Parameters
    ----------
    x, y : numpy.ndarray, shape (D,)
        A number for each document.
    groups : tuple of two numpy.ndarray of int, shape (D,), or None
        The group of each document of x and of y, any integers; None where documents are
        independent.
    statistic : callable
        `ks_distance` (the default), `mean_difference`, whose t is compared, or one of your own; see
        `Statistic`.
    two_sided : bool
        Whether absolute values are compared, for a signed statistic.
    permutations : int
        Number B of randomizations.
    seed : int
        Randomization b draws from a stream keyed by (seed, b): it does not depend on how many there
        are.

    Returns
    -------
    PermutationTest

    Raises
    ------
    ValueError
        When a sample is empty or not one number for each document, when a group is missing, or
        when the groups of both are of so different sizes that they are not exchangeable.

    References
    ----------
    Phipson and Smyth (2010). Permutation p-values should never be zero. Canay, Romano and Shaikh
    (2017). Randomization tests under an approximate symmetry assumption. Econometrica 85.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> human, model = rng.normal(size=200), rng.normal(0.6, size=200)
    >>> found = permutation_test(human, model, permutations=199)
    >>> round(found.statistic, 3), found.p_value
    (0.185, 0.005)

    Documents that come in forty groups are fewer than they seem:

    >>> topics = np.repeat(np.arange(40), 5)
    >>> human = rng.normal(size=200) + 2 * rng.normal(size=40)[topics]
    >>> permutation_test(human, model, groups=(topics, None), permutations=199).scheme
    'swaps'
    """
    x, y = np.asarray(x), np.asarray(y)
    if x.ndim != 1 or y.ndim != 1 or not (len(x) and len(y)):
        raise ValueError(f"samples of {x.shape} and {y.shape}; give a number for each document")
    permuted_units.check_group_codes(groups, (len(x), len(y)))
    sizes, held = (len(x), len(y)), groups
    if not isinstance(groups, CommonGroups):
        first, second = (
            None if codes is None else np.unique(codes, return_inverse=True)[1] for codes in groups
        )
        held = permuted_units.alike_groups((first, second), sizes)
    scheme = permuted_units.scheme_of(held)
    if scheme == "draws":
        draws = permuted_units.group_draws(held, sizes, seed)
        parts = [(x[np.sort(a)], y[np.sort(b)], draws.units((a, b))) for a, b in draws]
    else:
        units = permuted_units.permuted_units(held, sizes, seed)
        parts = [(x, y, units or permuted_units.single_documents(sizes))]
        if statistic is not mean_difference and (why := parts[0][2].unlike):
            raise ValueError(f"groups of x and y are not exchangeable: {reason_text(why)}")
    randomized = permuted_means if statistic is mean_difference else partial(_randomized, statistic)
    both = np.mean([randomized(*part, permutations, seed) for part in parts], axis=0)
    observed, null = float(both[-1]), both[:-1]
    p_value = permutation_p(observed, null, two_sided=two_sided)
    if statistic is mean_difference:
        observed = float(np.mean([second.mean() - first.mean() for first, second, _ in parts]))
    return PermutationTest(observed, p_value, null, scheme)


def permuted_means(
    x: np.ndarray, y: np.ndarray, units: PermutedUnits, n: int, seed: int
) -> np.ndarray:
    """Compute t of the difference of means under n randomizations and, last, of the data: (n + 1,).

    Of a number for each document of both texts. Units are permuted without regard to their sizes,
    which the standard error knows of.
    """
    if units.scheme == "prompts":
        return permuted_paired_t(x, y, units, n, seed)
    sums, sizes = np.zeros((2, sum(units.n)))
    for numbers, codes, weight in zip((x, y), units.codes, units.weights, strict=True):
        sums += weight * np.bincount(codes, numbers, len(sums))
        sizes += weight * np.bincount(codes, minlength=len(sums))
    own = (np.arange(sum(units.n)) < units.n[0])[:, None]  # (U, 1)
    drawn = chain(replace(units, strata=None).labels(n, seed), [own])
    return np.concatenate(
        [studentized_difference(labels.T, ~labels.T, sums, sizes) for labels in drawn]
    )


def _randomized(
    statistic: Statistic,
    x: np.ndarray,
    y: np.ndarray,
    units: PermutedUnits,
    permutations: int,
    seed: int,
) -> np.ndarray:
    """Compute the statistic of all randomizations and, last, of the data: (B + 1,)."""
    support = np.union1d(x, y)
    cells = np.searchsorted(support, x), np.searchsorted(support, y)

    def evaluate(first: np.ndarray, second: np.ndarray) -> dict[str, np.ndarray]:
        return {"found": statistic(support, first, second)}

    null = permuted_cells(cells, len(support), evaluate, units, permutations, seed)
    counts = [np.bincount(cell, minlength=len(support)) for cell in cells]
    return np.append(null.get("found", []), evaluate(*counts)["found"])
