"""Log odds of features (words, phrases) in two texts, and the t of their rates over units.

Features are W, units (documents, or groups of them) U. Text 0 is the reference and 1 the samples: a
positive number says that the samples have more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from beyond_perplexity.inference.intervals import INTERVAL_LEVEL
from beyond_perplexity.inference.p_values import student_quantile, student_tail

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

PRIOR = 500.0  # tokens of the pooled texts that the prior is worth, as in Monroe et al.


class LogOdds(NamedTuple):
    """Log odds ratios with their prior, and z, which takes tokens for independent: (W,) each."""

    value: np.ndarray
    z: np.ndarray


def log_odds(counts: np.ndarray, sizes: np.ndarray, prior: float = PRIOR) -> LogOdds:
    """Compute the log odds ratio of features with an informative Dirichlet prior.

    With y of the n tokens of a text, and a = prior * (share of the feature in both texts), the log
    odds of a text are log((y + a) / (n + prior - y - a)). Their difference is finite also where
    one text lacks the feature. Its variance is 1 / (y0 + a) + 1 / (y1 + a).

    Parameters
    ----------
    counts : numpy.ndarray, shape (2, W)
        Occurrences in either text, at least one in both together.
    sizes : numpy.ndarray, shape (2, W) or (2, 1)
        Tokens of either text, or what else is counted.
    prior : float
        Tokens that the prior is worth.

    Returns
    -------
    LogOdds
        In natural logarithms, text 1 less text 0; 0 for a feature that all tokens have.

    References
    ----------
    Monroe, Colaresi and Quinn (2008). Fightin' words: lexical feature selection and evaluation for
    identifying the content of political conflict. Political Analysis 16.

    Examples
    --------
    >>> found = log_odds(np.array([[10, 0], [20, 8]]), np.array([[1000], [1000]]))
    >>> found.value.round(3).tolist(), found.z.round(3).tolist()
    ([0.459, 1.615], [1.5, 2.085])
    """
    pooled, total = counts.sum(axis=0), np.sum(sizes, axis=0)
    inside = counts + prior * pooled / total
    with np.errstate(divide="ignore", invalid="ignore"):
        odds = np.log(inside / (sizes + prior - inside))
        value = np.where(pooled < total, odds[1] - odds[0], 0.0)
    return LogOdds(value, value / np.sqrt(np.sum(1 / inside, axis=0)))


def effective_cases(
    counts: tuple[csr_matrix, csr_matrix],
    sizes: tuple[np.ndarray, np.ndarray],
    clusters: tuple[np.ndarray, np.ndarray] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Count the independent occurrences that say as much as those in units of two texts.

    A unit with y_u of the y occurrences and n_u of the n tokens of its text adds y_u / y - n_u / n
    to the error of the log of its rate. The squares of these sums over clusters are the jackknife's
    variance V of the log ratio of both rates, as so many independent occurrences have it. Half an
    occurrence, as dispersed as all others, is added to either text.

    Parameters
    ----------
    counts : tuple of two csr_matrix, shape (U, W)
        Occurrences in the units of either text.
    sizes : tuple of two numpy.ndarray, shape (U,)
        Tokens of the units.
    clusters : tuple of two numpy.ndarray of int, shape (U,), or None
        What units of either text depend on each other, such as answers to one prompt, numbered
        together from 0 on; None: none do.

    Returns
    -------
    cases : numpy.ndarray of float64, shape (W,)
        Infinite where all units have the same rate.
    df : numpy.ndarray of float64, shape (W,)
        Degrees of freedom of V: 3 (sum c^2)^2 / sum c^4 - 1 of what clusters hold, c, so that the
        few that a rare feature hangs on count (Satterthwaite; see `intervals.error_of`).

    References
    ----------
    Efron and Stein (1981). The jackknife estimate of variance.

    Examples
    --------
    >>> from scipy.sparse import csr_matrix
    >>> alone = csr_matrix(np.ones((40, 1)))  # once in each unit: no rate varies
    >>> twice = csr_matrix(np.array([2.0, 0.0] * 20)[:, None])
    >>> sizes = np.full(40, 100)
    >>> cases, df = effective_cases((alone, twice), (sizes, sizes))
    >>> cases.round(1), df.round(1)
    (array([158.]), array([119.]))
    """
    from scipy.sparse import csr_matrix, diags  # late, as everywhere in this package

    units = [len(size) for size in sizes]
    codes = clusters or (np.arange(units[0]), np.arange(units[1]) + units[0])
    n = 1 + max(int(own.max(initial=-1)) for own in codes)
    y = np.stack([_moments(*both)[0] for both in zip(counts, sizes, strict=True)])
    errors, tokens, spread = csr_matrix((n, y.shape[1])), [], np.zeros(y.shape[1])
    for sign, own, size, code, total in zip((-1, 1), counts, sizes, codes, y, strict=True):
        members = csr_matrix(
            (np.full(len(size), sign), (code, np.arange(len(size)))), (n, len(size))
        )
        errors = errors + members @ own @ diags(1 / (total + 0.5))
        _, square, mixed = _moments(own, size)
        with np.errstate(invalid="ignore"):  # a side may have no n-gram of a length
            tokens.append(members @ size / size.sum())
            rate = total / size.sum()
        spread += np.maximum(square - 2 * rate * mixed + rate**2 * np.sum(size**2), 0)
    held, lost = np.stack(tokens), y / (y + 0.5)  # (2, n), (2, W)
    variance = errors.power(2).T @ np.ones(n) - 2 * np.sum(lost * (errors.T @ held.T).T, axis=0)
    variance += np.sum(lost * (held @ held.T @ lost), axis=0)
    variance = np.maximum(variance, 0) * min(units) / max(min(units) - 1, 1)
    dispersion = spread / y.sum(axis=0)
    y = y + 0.5
    variance += 0.5 * dispersion * np.sum(1 / y**2, axis=0)
    share = y[1] / y.sum(axis=0)
    fourth = errors.power(4).T @ np.ones(n)
    with np.errstate(divide="ignore", invalid="ignore"):
        df = np.maximum(3 * (errors.power(2).T @ np.ones(n)) ** 2 / fourth - 1, 1.0)
        df = np.where(fourth > 0, df, n)
        return np.asarray(1 / (share * (1 - share) * variance)), df


def log_odds_limits(
    counts: np.ndarray,
    sizes: np.ndarray,
    cases: np.ndarray,
    df: np.ndarray | float,
    prior: float = PRIOR,
) -> tuple[np.ndarray, np.ndarray]:
    """Give log odds ratios with their prior 95% intervals that hold where a text lacks a feature.

    Of all occurrences of a feature a share is in text 1. Its interval is Wilson's, with Student's
    quantile and the `effective_cases`; its ends, as counts, have log odds.

    Parameters
    ----------
    counts, sizes, prior
        As of `log_odds`.
    cases : numpy.ndarray, shape (W,)
        See `effective_cases`.
    df : numpy.ndarray, shape (W,), or float
        Degrees of freedom; at most the effective units of the text that has fewer, less one.

    Returns
    -------
    low, high : numpy.ndarray of float64, shape (W,)

    References
    ----------
    Wilson (1927). Probable inference, the law of succession, and statistical inference. Korn and
    Graubard (1998). Confidence intervals for proportions estimated from survey data.

    Examples
    --------
    >>> counts, sizes = np.array([[0.0], [20.0]]), np.array([[10_000], [10_000]])
    >>> low, high = log_odds_limits(counts, sizes, np.array([20.0]), np.inf)
    >>> print(f"{low[0]:.2f} to {high[0]:.2f}, {log_odds(counts, sizes).value[0]:.2f}")
    1.54 to 3.72, 3.72
    """
    z = student_quantile((1 + INTERVAL_LEVEL) / 2, df)
    total = counts.sum(axis=0)
    share, part = counts[1] / total, z * z / cases
    centre = (share + part / 2) / (1 + part)
    half = np.sqrt(share * (1 - share) * part + part**2 / 4) / (1 + part)
    ends = np.clip([centre - half, centre + half], 0, 1)
    # Rounding must not move an end past the number itself.
    ends = np.minimum(ends[0], share), np.maximum(ends[1], share)
    low, high = (log_odds(np.stack([total * (1 - x), total * x]), sizes, prior) for x in ends)
    return low.value, high.value


def _moments(counts: csr_matrix, sizes: np.ndarray) -> tuple[np.ndarray, ...]:
    """Sum y, y^2 and y * size over units: (W,) each."""
    every = np.ones(len(sizes))
    return counts.T @ every, counts.power(2).T @ every, counts.T @ sizes


class UnitRates:
    """The rates of features in two sides of units, compared by a t that no unit alone makes large.

    With y occurrences in `size` tokens of a unit, r the rate of all units, e = y - r * size and n
    the tokens of a side, t = (sum_1 e / n_1 - sum_0 e / n_0) / sqrt(sum_0 e^2 / n_0^2 + sum_1 e^2 /
    n_1^2). The numerator is the difference of the rates, whatever the lengths of either side. A
    feature of k units, all on one side, has t of about sqrt(k): one long document that repeats a
    word has t = 1.

    Parameters
    ----------
    counts : csr_matrix, shape (U, W)
        Occurrences in units of both sides.
    sizes : numpy.ndarray, shape (U,)
        Tokens of the units.

    Examples
    --------
    >>> from scipy.sparse import csr_matrix
    >>> units = csr_matrix([[0, 9], [0, 0], [0, 0], [1, 0], [1, 0], [1, 0]])
    >>> first = np.array([[1, 1, 1, 0, 0, 0]]).T
    >>> UnitRates(units, np.full(6, 100.0)).t(first)[:, 0].round(2).tolist()
    [2.45, -1.1]
    """

    def __init__(self, counts: csr_matrix, sizes: np.ndarray) -> None:
        self._sizes, self._total = sizes, float(sizes.sum())
        total, square, mixed = _moments(counts, sizes)
        self._rates = total / self._total
        self._y = counts.T.tocsr().astype(float)  # (W, U)
        self._squares = self._y.copy()  # y^2 - 2 r y size: of units without the feature nothing
        rows = np.repeat(np.arange(len(total)), np.diff(self._y.indptr))
        own = sizes[self._y.indices]
        self._squares.data *= self._y.data - 2 * self._rates[rows] * own
        self._all = square - 2 * self._rates * mixed + self._rates**2 * np.sum(sizes**2)

    def t(self, first: np.ndarray) -> np.ndarray:
        """Compute t where units are on the first side: bool, (U, w); 0 where nothing varies.

        Returns
        -------
        numpy.ndarray of float64, shape (W, w)
        """
        first = first.astype(float)
        n = self._sizes @ first, self._sizes @ (1 - first)  # (w,) each
        moved = self._y @ first - self._rates[:, None] * n[0]  # (W, w): sum_0 e = - sum_1 e
        squares = self._squares @ first
        squares += self._rates[:, None] ** 2 * (np.square(self._sizes) @ first)
        with np.errstate(divide="ignore", invalid="ignore"):
            spread = squares / n[0] ** 2 + (self._all[:, None] - squares) / n[1] ** 2
            t = -moved * (1 / n[0] + 1 / n[1]) / np.sqrt(np.maximum(spread, 0))
        # What is left of nothing by rounding.
        nothing = np.abs(moved) <= 1e-9 * (self._rates[:, None] * self._total + 1)
        return np.where(nothing | ~np.isfinite(t), 0.0, t)

    def p_values(self, t: np.ndarray, most: np.ndarray | float = np.inf) -> np.ndarray:
        """Return approximate two-sided p-values of t of variance 1, (W,), by Student's t: (W,).

        Its degrees of freedom, 2 (sum e^2)^2 / sum e^4 - 1, are few where few units carry a
        feature (Satterthwaite; see `intervals.ratio_test`), and `most`, (W,), at most, of which
        `max_t` knows.
        """
        y, size, r = self._y, self._sizes, self._rates
        held = [y.power(k) @ size ** (4 - k) for k in range(1, 5)]
        fourth = held[3] - 4 * r * held[2] + 6 * r**2 * held[1] - 4 * r**3 * held[0]
        fourth += r**4 * np.sum(size**4)
        with np.errstate(divide="ignore", invalid="ignore"):
            df = np.nan_to_num(2 * self._all**2 / fourth - 1, nan=1.0)
        df = np.clip(np.minimum(df, most), 3.0, max(3.0, len(size) - 2.0))
        return np.minimum(1.0, 2 * student_tail(np.abs(t) * np.sqrt(df / (df - 2)), df))
