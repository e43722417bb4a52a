"""Standard errors of means and fits over documents, and limits, by units left out in turn.

A unit is a document, or a group of documents (the jackknife).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from beyond_perplexity.inference.p_values import student_quantile

_SYMMETRIC = 1e-7  # skewness that moves no limit


class UnitSums(NamedTuple):
    """What units of a text add to its sums."""

    many: np.ndarray  # (U,): units that add the same: 1 for a group, for documents those of a cell
    documents: np.ndarray  # (U,): documents of a unit, at least 1
    sums: np.ndarray  # float64, (U, K): sums over these documents


class StandardError(NamedTuple):
    """Variance of an estimate, degrees of freedom, and skewness of means; NaNs if not defined."""

    variance: float
    df: float
    skewness: float = 0.0

    def limits(self, value: float, confidence: float) -> tuple[float, float]:
        """Return value -+ t * standard error, with the skewness taken out.

        By Hall's transformation (1992), as `intervals.ratio_test` has it.
        """
        quantile, s = float(student_quantile((1 + confidence) / 2, self.df)), self.skewness
        ends = np.array([quantile, -quantile])
        if abs(s) > _SYMMETRIC:
            ends = 3 / s * (np.cbrt(1 + s * (ends - s / 6)) - 1)
        low, high = (value - math.sqrt(self.variance) * ends).tolist()
        return low, high

    def with_another(self, other: StandardError) -> StandardError:
        """Return that of self less other, which are independent (Welch's degrees of freedom)."""
        total = self.variance + other.variance
        parts = self.variance**2 / self.df + other.variance**2 / other.df
        third = self.skewness * self.variance**1.5 - other.skewness * other.variance**1.5
        df = total**2 / parts if parts else min(self.df, other.df)
        return StandardError(total, df, third / total**1.5 if third else 0.0)

    def mean_with(self, other: StandardError) -> StandardError:
        """Return that of the mean of two estimates that may depend on each other in any way."""
        error = (math.sqrt(self.variance) + math.sqrt(other.variance)) / 2
        return StandardError(error**2, min(self.df, other.df))


NOT_DEFINED = StandardError(math.nan, math.nan)


def sums_by_unit(
    counts: np.ndarray,
    columns: np.ndarray,
    used: np.ndarray,
    cells_of: Callable[[], np.ndarray],
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
    cells_of : callable
        Returns the cell of each document, -1 for none: int64, (D,); called for groups alone.
    groups : numpy.ndarray of int, shape (D,), or None
        The group of each document from 0 on; None where each document is a unit.
    """
    if groups is None:
        kept = used & (counts > 0)
        return UnitSums(counts[kept], np.ones(int(kept.sum())), columns[kept])
    own = cells_of()
    inside = own >= 0
    inside[inside] = used[own[inside]]
    codes, cells = groups[inside], own[inside]
    documents = np.bincount(codes)
    sums = np.stack([np.bincount(codes, column[cells]) for column in columns.T], axis=1)
    held = documents > 0
    return UnitSums(np.ones(int(held.sum())), documents[held], sums[held])


def error_of(value: float, without: np.ndarray, units: UnitSums) -> StandardError:
    """Return the standard error of an estimate from those without each unit, (U,).

    Student's t has the number of units that really determine the variance, less 1, as degrees of
    freedom: the smaller of (Σ n²)² / Σ n⁴ for units of n documents, as if the documents of a group
    were all the same, and of 3 (Σ c²)² / Σ c⁴ for the changes c by leaving out, which counts the
    few units that a fit hangs on. For units that are alike and normal both are U.

    References
    ----------
    Efron and Stein (1981). The jackknife estimate of variance. Annals of Statistics 9.
    Satterthwaite (1946). An approximate distribution of estimates of variance components.
    Biometrics Bulletin 2.
    """
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


def _means_without(units: UnitSums) -> tuple[float, np.ndarray]:
    held = units.sums[:, 0]
    total, documents = units.many @ held, units.many @ units.documents
    return float(total / documents), (total - held) / (documents - units.documents)


def _skewed(value: float, without: np.ndarray, units: UnitSums) -> StandardError:
    found = error_of(value, without, units)
    if not found.variance > 0:
        return found
    changes = (value - without) / np.abs(value - without).max()
    skewness = float(units.many @ changes**3) / float(units.many @ changes**2) ** 1.5
    return found._replace(skewness=skewness)


def mean_error(units: UnitSums) -> StandardError:
    """Return the standard error and skewness of the mean over documents of the first column."""
    if units.many.sum() < 2:
        return NOT_DEFINED
    return _skewed(*_means_without(units), units)


def paired_mean_error(first: UnitSums, second: UnitSums) -> StandardError:
    """Return that of the difference of two such means over the same units, such as prompts."""
    if len(first.many) < 2 or len(first.many) != len(second.many):
        return NOT_DEFINED
    both = _means_without(first), _means_without(second)
    return _skewed(both[1][0] - both[0][0], both[1][1] - both[0][1], first)
