"""Interpolated Kneser-Ney smoothing of character n-grams, its weights fitted to held-out words.

At level k, with the count n of an n-gram, N of its context and T symbols seen after the context,

    p_k = (max(n - d_k, 0) + (d_k T + a_k) p_{k-1}) / (N + a_k),

down to p_{-1}, uniform over all symbols; a context never seen leaves p as it is. d (discount, 0 to
1) and a (concentration, above 0) are the parameters of a Pitman-Yor process whose customers share
one table each (Teh 2006): a = 0 is Kneser-Ney, d = 0 Dirichlet smoothing. Counts of the longest
n-grams are occurrences, all others count distinct symbols before (Kneser and Ney 1995).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from beyond_perplexity.scoring.speller.counts import LevelCounts

# Both parameters stay inside these limits, so that every symbol keeps a probability above 0.
DISCOUNTS = (1e-3, 1 - 1e-3)
CONCENTRATIONS = (1e-3, 1e3)
DIGITS = 4


class Smoothing(NamedTuple):
    """Weights of a smoothing.

    Attributes
    ----------
    discounts : tuple of float
        d of each level, the shortest context first; its length is the order.
    concentrations : tuple of float
        a of each level.
    """

    discounts: tuple[float, ...]
    concentrations: tuple[float, ...]

    @property
    def order(self) -> int:
        """Length of the longest n-gram."""
        return len(self.discounts)


class _Step(NamedTuple):
    p: np.ndarray
    backing: np.ndarray  # dp / d(shorter p); 1 where the context was never seen
    by_discount: np.ndarray
    by_concentration: np.ndarray


def _step(
    held: LevelCounts, is_top: bool, discount: float, concentration: float, shorter: np.ndarray
) -> _Step:
    n, total = (held.once, held.total) if is_top else (held.continued, held.continued_total)
    room = total + concentration
    mass = (discount * held.distinct + concentration) / room
    p = np.maximum(n - discount, 0) / room + mass * shorter
    known = total > 0
    return _Step(
        np.where(known, p, shorter),
        np.where(known, mass, 1.0),
        known * (held.distinct * shorter - (n > discount)) / room,
        known * (shorter - p) / room,
    )


def _steps(levels: Sequence[LevelCounts], smoothing: Smoothing, size: int) -> list[_Step]:
    shorter, steps = np.full(len(levels[0].once), 1 / size), []
    for level, (d, a) in enumerate(zip(*smoothing, strict=True)):
        steps.append(_step(levels[level], level == smoothing.order - 1, d, a, shorter))
        shorter = steps[-1].p
    return steps


def probabilities(levels: Sequence[LevelCounts], smoothing: Smoothing, size: int) -> np.ndarray:
    """Return p of each prediction, an escape as one symbol.

    Parameters
    ----------
    levels : sequence of LevelCounts
        From `NgramCounts.look_up`; at least as many as the order.
    smoothing : Smoothing
    size : int
        Number of symbols, ``Alphabet.size``.

    Returns
    -------
    ndarray of float64, shape (E,)
        Above 0; over all symbols after one context they sum to 1.
    """
    return _steps(levels, smoothing, size)[-1].p


def _log_likelihood(
    levels: Sequence[LevelCounts], smoothing: Smoothing, size: int
) -> tuple[float, np.ndarray]:
    """Return the sum of log p and its gradient by discounts, then concentrations."""
    steps = _steps(levels, smoothing, size)
    slope = 1 / steps[-1].p
    by = []
    for step in reversed(steps):
        # Not @: the sums of a BLAS depend on its threads.
        sides = (step.by_discount, step.by_concentration)
        by.append([float((slope * side).sum()) for side in sides])
        slope = slope * step.backing
    return float(np.log(steps[-1].p).sum()), np.array(by[::-1]).T.ravel()


def fit_smoothing(levels: Sequence[LevelCounts], order: int, size: int) -> Smoothing:
    """Choose the weights that give held-out words the highest probability.

    Parameters
    ----------
    levels : sequence of LevelCounts
        Of the held-out words' predictions; at least `order` of them.
    order : int
    size : int
        Number of symbols.

    Returns
    -------
    Smoothing
        A local maximum, found by L-BFGS-B from one start; rounded to `DIGITS` decimals.
    """
    from scipy.optimize import minimize

    def loss(logits: np.ndarray) -> tuple[float, np.ndarray]:
        d, a = 1 / (1 + np.exp(-logits[:order])), np.exp(logits[order:])
        value, slope = _log_likelihood(levels, Smoothing(tuple(d), tuple(a)), size)
        scale = len(levels[0].once)
        return -value / scale, -slope * np.concatenate([d * (1 - d), a]) / scale

    low, high = np.log(CONCENTRATIONS)
    edge = np.log(DISCOUNTS[1] / DISCOUNTS[0])
    bounds = [(-edge, edge)] * order + [(low, high)] * order
    found = minimize(loss, np.zeros(2 * order), jac=True, method="L-BFGS-B", bounds=bounds).x
    d, a = 1 / (1 + np.exp(-found[:order])), np.exp(found[order:])
    return Smoothing(
        tuple(np.round(np.clip(d, *DISCOUNTS), DIGITS).tolist()),
        tuple(np.round(np.clip(a, *CONCENTRATIONS), DIGITS).tolist()),
    )
