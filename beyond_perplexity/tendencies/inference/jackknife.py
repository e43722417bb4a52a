"""Intervals by units left out one by one: documents, or groups of them.

The variance is (U - 1) / U * sum_u (x without u - x)^2 over the U units. Of Heaps' fit each unit is
left out with one step of Newton's method from the fit of all. Student's t has the number of units
that really determine the variance, less 1, as degrees of freedom: the smaller of (sum n^2)^2 /
sum n^4 for units of n documents, as if the documents of a group were all the same, and of
3 (sum c^2)^2 / sum c^4 for the changes c by leaving out, which counts the few units that a fit
hangs on. For units that are alike and normal both are U.

Sources: Efron and Stein (1981). The jackknife estimate of variance. Annals of Statistics 9;
Satterthwaite (1946). An approximate distribution of estimates of variance components. Biometrics
Bulletin 2.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from beyond_perplexity.tendencies.power_laws import Heaps
from beyond_perplexity.tendencies.resampling import student_quantile


class UnitSums(NamedTuple):
    """What units of a text add to its sums.

    Attributes
    ----------
    many : numpy.ndarray, shape (U,)
        Units that add the same: 1 for a group, and for documents those of a cell.
    documents : numpy.ndarray, shape (U,)
        Documents of a unit, at least 1.
    sums : numpy.ndarray of float64, shape (U, K)
        Sums over these documents.
    """

    many: np.ndarray
    documents: np.ndarray
    sums: np.ndarray


class StandardError(NamedTuple):
    """Variance of an estimate and its degrees of freedom; NaNs where it is not defined."""

    variance: float
    df: float

    def limits(self, value: float, confidence: float) -> tuple[float, float]:
        """Return value -+ t * standard error."""
        margin = float(student_quantile((1 + confidence) / 2, self.df)) * math.sqrt(self.variance)
        return value - margin, value + margin

    def with_another(self, other: StandardError) -> StandardError:
        """Return that of a difference of independent estimates (Welch's degrees of freedom)."""
        total = self.variance + other.variance
        parts = self.variance**2 / self.df + other.variance**2 / other.df
        return StandardError(total, total**2 / parts if parts else min(self.df, other.df))

    def mean_with(self, other: StandardError) -> StandardError:
        """Return that of the mean of two estimates that may depend on each other in any way."""
        error = (math.sqrt(self.variance) + math.sqrt(other.variance)) / 2
        return StandardError(error**2, min(self.df, other.df))


NOT_DEFINED = StandardError(math.nan, math.nan)


def sums_by_unit(
    counts: np.ndarray,
    columns: np.ndarray,
    used: np.ndarray,
    place: Callable[[], np.ndarray],
    groups: np.ndarray | None,
) -> UnitSums:
    """Add up what documents contribute over the units of a text.

    Parameters
    ----------
    counts : numpy.ndarray of int64, shape (C,)
        Documents of each cell.
    columns : numpy.ndarray of float64, shape (C, K)
        What a document of a cell contributes.
    used : numpy.ndarray of bool, shape (C,)
        Cells whose documents count.
    place : callable
        Returns the cell of each document, -1 for none: int64, (D,); called for groups alone.
    groups : numpy.ndarray of int, shape (D,), or None
        The group of each document from 0 on; None where each document is a unit.
    """
    if groups is None:
        kept = used & (counts > 0)
        return UnitSums(counts[kept], np.ones(int(kept.sum())), columns[kept])
    places = place()
    inside = places >= 0
    inside[inside] = used[places[inside]]
    codes, cells = groups[inside], places[inside]
    documents = np.bincount(codes)
    sums = np.stack([np.bincount(codes, column[cells]) for column in columns.T], axis=1)
    held = documents > 0
    return UnitSums(np.ones(int(held.sum())), documents[held], sums[held])


def error_of(value: float, without: np.ndarray, units: UnitSums) -> StandardError:
    """Return the standard error of an estimate from those without each unit, (U,)."""
    n = units.many.sum()
    if n < 2 or math.isnan(value) or not np.all(np.isfinite(without)):
        return NOT_DEFINED
    squares = (without - value) ** 2
    total = float(units.many @ squares)
    held = np.square(units.documents / units.documents.max())
    alike = float((units.many @ held) ** 2 / (units.many @ held**2))
    if total:
        # Scaled, so that fourth powers of the tiny changes of a large text do not vanish.
        scaled = squares / squares.max()
        alike = min(alike, 3 * float((units.many @ scaled) ** 2 / (units.many @ scaled**2)))
    if alike <= 1:
        return NOT_DEFINED
    return StandardError(float((n - 1) / n) * total, alike - 1)


def mean_error(units: UnitSums) -> StandardError:
    """Return the standard error of the mean over documents of the first column."""
    if units.many.sum() < 2:
        return NOT_DEFINED
    held = units.sums[:, 0]
    total, documents = units.many @ held, units.many @ units.documents
    without = (total - held) / (documents - units.documents)
    return error_of(float(total / documents), without, units)


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
    """Return the standard errors of alpha and beta from sums of `heaps_columns`."""
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
