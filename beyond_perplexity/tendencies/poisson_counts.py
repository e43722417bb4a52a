"""Poisson counts of many types, drawn again and again.

Where many tokens of a type are expected every count is drawn, by inversion: a table says of every
128th of the uniform numbers with which count to begin the search. Of most types few tokens are
expected, and few of these types reach the count that somebody asks for: which do is drawn as the
types of the points of a Poisson process with the rate -ln(1 - P(count >= least)) in each type. All
have the same law as a count of every type.

T types, w draws side by side.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import gammainc, gammaln

_CELLS = 128  # of the uniform numbers, in the table of a type
_TABLED = 200  # the expected count above which numpy's rejection is as quick as a table
_TOGETHER = 64  # types whose distribution functions are worked out at a time


class PoissonTables:
    """Counts of types by inversion of their distribution functions.

    Parameters
    ----------
    rates : numpy.ndarray of float64, shape (T,)
        Expected counts, falling, above 0.
    """

    def __init__(self, rates: np.ndarray) -> None:
        n_high = int(np.count_nonzero(rates > _TABLED))
        self._high, rates = rates[:n_high], rates[n_high:]
        # Where less than the accuracy of a float is left on either side.
        reach = 9 * np.sqrt(rates) + 20
        largest = int(np.ceil((rates + reach).max(initial=0)))
        log_factorials = gammaln(np.arange(1, largest + 2))
        self._smallest = np.zeros(len(rates), np.int64)
        functions, begins, sizes = [], [], []
        for start in range(0, len(rates), _TOGETHER):
            some = slice(start, start + _TOGETHER)
            low = int(max(0, np.floor((rates[some] - reach[some]).min())))
            values = np.arange(low, int(np.ceil((rates[some] + reach[some]).max())))
            logs = np.log(rates[some, None]) * values - log_factorials[values]
            function = np.cumsum(np.exp(logs - rates[some, None]), axis=1)
            # How many counts lie wholly below each boundary of the cells.
            cells = np.minimum(np.ceil(function * _CELLS), _CELLS).astype(np.int64)
            rows = np.arange(len(cells))[:, None] * (_CELLS + 1)
            below = np.bincount((rows + cells).ravel(), minlength=len(cells) * (_CELLS + 1))
            begins.append(below.reshape(-1, _CELLS + 1).cumsum(axis=1)[:, :_CELLS])
            function[:, -1] = 2  # above every uniform number: each search ends
            functions.append(function.ravel())
            sizes.append(np.full(len(function), function.shape[1]))
            self._smallest[some] = low
        whole = np.concatenate([np.zeros(0, np.int64), *sizes])
        self._starts = np.cumsum(whole) - whole
        self._functions = np.concatenate([np.zeros(0), *functions])
        self._begins = np.concatenate([np.zeros((0, _CELLS), np.int64), *begins])
        self._begins = (self._begins + self._starts[:, None]).astype(np.int32).ravel()

    def draw(self, rng: np.random.Generator, width: int) -> np.ndarray:
        """Draw counts: int64, shape (T, w)."""
        high = rng.poisson(self._high[:, None], (len(self._high), width))
        uniforms = rng.random((len(self._starts), width))
        cells = (uniforms * _CELLS).astype(np.int64)
        cells += np.arange(len(self._starts))[:, None] * _CELLS
        places = np.take(self._begins, cells.ravel()).astype(np.int64)
        uniforms = uniforms.ravel()
        left = np.flatnonzero(uniforms >= np.take(self._functions, places))
        while len(left):
            places[left] += 1
            left = left[uniforms[left] >= self._functions[places[left]]]
        found = places.reshape(-1, width) + (self._smallest - self._starts)[:, None]
        return np.concatenate([high, found])


class Reached(NamedTuple):
    """Types that reach a count in some draws.

    Attributes
    ----------
    keys : numpy.ndarray of int64, shape (N,)
        Draw times T plus type, rising.
    counts : numpy.ndarray of int64, shape (N,)
        The count of each.
    """

    keys: np.ndarray
    counts: np.ndarray


class SeldomCounts:
    """Counts of types that seldom reach the least count that is asked for.

    Parameters
    ----------
    rates : numpy.ndarray of float64, shape (T,)
        Expected counts, below `least`.
    least : int
        The least count.
    """

    def __init__(self, rates: np.ndarray, least: int) -> None:
        self._rates, self._least = rates, least
        self._reach = gammainc(least, rates)  # P(count >= least)
        self._hazard = -np.log1p(-self._reach).cumsum()
        self._at_least = np.exp(least * np.log(rates) - rates - gammaln(least + 1))

    def draw_reached(self, rng: np.random.Generator, width: int) -> Reached:
        """Draw the types that reach the least count in each of so many draws."""
        n_types = len(self._rates)
        total = self._hazard[-1] if n_types else 0.0
        points = rng.poisson(total, width)
        places = np.searchsorted(self._hazard, rng.random(points.sum()) * total, side="right")
        keys = np.unique(np.repeat(np.arange(width) * n_types, points) + places)
        types = keys % max(n_types, 1)
        counts = np.full(len(keys), self._least)
        # By inversion: from the least count on until the probability is used up.
        above = rng.random(len(keys)) * self._reach[types]
        mass, left = self._at_least[types], np.arange(len(keys))
        while len(left := left[above[left] >= mass[left]]):
            above[left] -= mass[left]
            counts[left] += 1
            mass[left] *= self._rates[types[left]] / counts[left]
            left = left[mass[left] > 0]
        return Reached(keys, counts)

    def counts(self, rng: np.random.Generator, reached: Reached, keys: np.ndarray) -> np.ndarray:
        """Return counts of types (draw times T plus type, rising) among which are the reached."""
        found = np.zeros(len(keys), np.int64)
        known = np.zeros(len(keys), bool)
        known[np.searchsorted(keys, reached.keys)] = True
        found[known] = reached.counts
        left = np.flatnonzero(~known)
        rates = self._rates[keys % max(len(self._rates), 1)]
        while len(left):  # they are known not to reach the least count
            found[left] = rng.poisson(rates[left])
            left = left[found[left] >= self._least]
        return found
