"""The test of Zipf's law by Monte Carlo.

Both halves of a text are drawn from the law, ranked and fitted as the text was
(`power_laws.split_fit`), and the largest difference of distribution functions over the ranks is
compared. It supposes independent tokens: on real text it describes.

Where many tokens of a type are expected every count is drawn, by inversion: a table says of every
128th of the uniform numbers with which count to begin the search. Of most types few tokens are
expected, and few of these types reach the count that is asked for: which do is drawn as the types
of the points of a Poisson process with the rate -ln(1 - P(count >= least)) in each type. R ranks, T
types, w draws side by side.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import gammainc, gammaincinv, gammaln

from beyond_perplexity.inference.p_values import monte_carlo_p
from beyond_perplexity.inference.permuted_units import OCCURRENCES
from beyond_perplexity.random_streams import stream
from beyond_perplexity.tendencies.power_laws import ExponentTable, Halves

_CELLS = 128  # of the uniform numbers, in the table of a type
_TABLED = 200  # the expected count above which numpy's rejection is as quick as a table
_TOGETHER = 64  # types whose distribution functions are worked out at a time


class PoissonTables:
    """Counts of types by inversion of their distribution functions, of falling rates (T,)."""

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
        indices = np.take(self._begins, cells.ravel()).astype(np.int64)
        uniforms = uniforms.ravel()
        left = np.flatnonzero(uniforms >= np.take(self._functions, indices))
        while len(left):
            indices[left] += 1
            left = left[uniforms[left] >= self._functions[indices[left]]]
        found = indices.reshape(-1, width) + (self._smallest - self._starts)[:, None]
        return np.concatenate([high, found])


class SeldomCounts:
    """Counts of types that seldom reach the least count; expected counts (T,) below it."""

    def __init__(self, rates: np.ndarray, least: int) -> None:
        self._rates, self._least = rates, least
        self._reach = gammainc(least, rates)  # P(count >= least)
        self._hazard = -np.log1p(-self._reach).cumsum()
        self._at_least = np.exp(least * np.log(rates) - rates - gammaln(least + 1))

    def draw_reached(self, rng: np.random.Generator, width: int) -> tuple[np.ndarray, np.ndarray]:
        """Draw the types that reach the least count in some of w draws, and their counts.

        Types as draw times T plus type, rising.
        """
        n_types = len(self._rates)
        total = self._hazard[-1] if n_types else 0.0
        points = rng.poisson(total, width)
        indices = np.searchsorted(self._hazard, rng.random(points.sum()) * total, side="right")
        keys = np.unique(np.repeat(np.arange(width) * n_types, points) + indices)
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
        return keys, counts

    def counts(
        self, rng: np.random.Generator, reached: tuple[np.ndarray, np.ndarray], keys: np.ndarray
    ) -> np.ndarray:
        """Return counts of types (draw times T plus type, rising) among which are the reached."""
        found = np.full(len(keys), -1)
        found[np.searchsorted(keys, reached[0])] = reached[1]
        left = np.flatnonzero(found < 0)
        rates = self._rates[keys % max(len(self._rates), 1)]
        while len(left):  # they are known not to reach the least count
            found[left] = rng.poisson(rates[left])
            left = left[found[left] >= self._least]
        return found


BLOCK_DRAWS = 32  # draws from a stream; part of the definition of the random draws
_MOST_RANKS = 20  # times the ranks that are compared: types drawn at most
_CLOSE = 0.8  # times the rate at the last rank: what a type must reach to have a rank
_NEVER = 1e-8  # probability
_SELDOM = 0.6  # times OCCURRENCES: the expected count below which few types reach it
_TIE_BITS = 32  # random bits that order types of one count


class _Ranked(NamedTuple):
    """Counts in one half by the ranks of the other: (R, w), zeros after the last rank; R: (w,)."""

    counts: np.ndarray
    ranks: np.ndarray


class DrawnHalves(NamedTuple):
    """Halves that were drawn: counts in B by the ranks of A, and the reverse, as of `Halves`."""

    ranked: tuple[_Ranked, _Ranked]

    def halves(self, draw: int) -> Halves:
        """Return one draw alone."""
        first, second = (held.counts[: held.ranks[draw], draw] for held in self.ranked)
        return Halves((first, second))

    def exponents(self, table: ExponentTable) -> np.ndarray:
        """Return the exponents; NaN where one is not defined: (w,)."""
        fits = []
        for held in self.ranked:
            log_ranks = np.log(np.arange(1, len(held.counts) + 1))
            totals = held.counts.sum(axis=0)
            # Without counts: a mean that no exponent has.
            fits.append(
                table.exponents(log_ranks @ held.counts / np.maximum(totals, 1), held.ranks)
            )
        return (fits[0] + fits[1]) / 2

    def distances(self, s: np.ndarray) -> np.ndarray:
        """Return the mean distances to the laws with exponents (w,) over the ranks: (w,)."""
        most = max(len(held.counts) for held in self.ranked)
        weights = np.exp(np.log(np.arange(1, most + 1))[:, None] * -s)
        sums, found = np.cumsum(weights, axis=0), np.zeros(len(s))
        for held in self.ranked:
            ends = sums[np.maximum(held.ranks, 1) - 1, np.arange(len(s))]
            cdf = np.minimum(sums[: len(held.counts)] / ends, 1)
            own = np.cumsum(held.counts, axis=0)
            found += np.abs(own / np.maximum(own[-1], 1) - cdf).max(axis=0) / 2
        return found


class Law:
    """Zipf's law with the tokens of two halves, as fitted to them, to draw both again."""

    def __init__(self, halves: Halves, s: float, ranks: int | None) -> None:
        self._ranks = ranks
        most = max(map(len, halves.ranked))
        k = np.arange(1, _MOST_RANKS * most + 1001)
        weights = np.exp(-s * np.log(k))
        # B has its tokens by the ranks of A, and the reverse.
        scales = [held.sum() / weights[: len(held)].sum() for held in halves.ranked]
        rate = max(scales) * weights
        # The rate below which a type does not come among the ranks that are compared.
        needed = (
            max(OCCURRENCES, math.floor(_CLOSE * rate[most - 1])) if ranks == most else OCCURRENCES
        )
        least = gammaincinv(needed, _NEVER)
        kept = max(most, int(np.argmax(rate < least)) if rate[-1] < least else len(rate))
        often = int(np.count_nonzero(rate[:kept] >= _SELDOM * OCCURRENCES))
        self._rates = [scale * weights[:kept] for scale in reversed(scales)]
        self._often = [PoissonTables(rates[:often]) for rates in self._rates]
        self._seldom = [SeldomCounts(rates[often:], OCCURRENCES) for rates in self._rates]
        self._table = ExponentTable(s, max(often, 1))

    def draw(self, rng: np.random.Generator, width: int) -> DrawnHalves:
        """Draw both halves: Poisson counts, ranked again."""
        often = [held.draw(rng, width) for held in self._often]
        reached = [held.draw_reached(rng, width) for held in self._seldom]
        keys = np.union1d(reached[0][0], reached[1][0])
        draws = keys // max(len(self._rates[0]) - len(often[0]), 1)
        n_seldom = np.bincount(draws, minlength=width)
        indices = np.arange(len(keys)) - np.repeat(np.cumsum(n_seldom) - n_seldom, n_seldom)
        counts = []
        for side in (0, 1):
            both = np.zeros((width, len(often[side]) + int(n_seldom.max(initial=0))), np.int64)
            both[:, : len(often[side])] = often[side].T
            found = self._seldom[side].counts(rng, reached[side], keys)
            both[draws, len(often[side]) + indices] = found
            counts.append(both)
        first, second = counts
        return DrawnHalves((self._by_rank(rng, first, second), self._by_rank(rng, second, first)))

    def _by_rank(self, rng: np.random.Generator, own: np.ndarray, other: np.ndarray) -> _Ranked:
        """Put counts of types (w, T) into the order of the other half's own counts."""
        reached = own >= OCCURRENCES
        sizes = np.count_nonzero(reached, axis=1)
        chosen = np.flatnonzero(reached)
        counts = own.ravel()[chosen]
        begins = np.repeat(np.arange(len(own)) * own.shape[1], sizes)
        # A number for each type that sorts by falling count, then at random, and holds its column.
        most = int(counts.max(initial=0))
        column_bits = own.shape[1].bit_length()
        tie_bits = min(_TIE_BITS, 62 - column_bits - most.bit_length())
        keys = most - counts
        keys <<= tie_bits
        keys += rng.integers(0, 1 << tie_bits, len(keys), np.int64)
        keys <<= column_bits
        keys += chosen
        keys -= begins
        ends = np.cumsum(sizes)
        for part in np.split(keys, ends[:-1]):
            part.sort()
        keys &= (1 << column_bits) - 1
        keys += begins
        held = other.ravel()[keys]
        ranks = sizes if self._ranks is None else np.minimum(sizes, self._ranks)
        ranked = np.zeros((max(int(ranks.max(initial=0)), 1), len(own)))
        for draw, (end, size, n) in enumerate(zip(ends, sizes, ranks, strict=True)):
            ranked[:n, draw] = held[end - size : end - size + n]
        return _Ranked(ranked, ranks)

    def draw_fitted(self, rng: np.random.Generator, width: int) -> tuple[DrawnHalves, np.ndarray]:
        """Draw both halves, and fit them: NaN where no exponent is defined, (w,)."""
        drawn = self.draw(rng, width)
        return drawn, drawn.exponents(self._table)


def law_p(
    samples: Halves, fitted: Halves, n: int, ranks: int | None, seed: int, purpose: str
) -> float:
    """Test a text against Zipf's law with the exponent of a text, by Monte Carlo.

    `fitted` is the text that the exponent is fitted to: the same object, or the reference. Both are
    drawn from the law n times and fitted again; block b of `BLOCK_DRAWS` draws is from the stream
    (`seed`, `purpose`, b). NaN without draws or where the fit is not defined.
    """
    s = fitted.exponent
    if not n or math.isnan(s) or samples.too_few or fitted.too_few:
        return math.nan
    observed = samples.distance(s)
    law = Law(samples, s, ranks)
    other = None if fitted is samples else Law(fitted, s, ranks)
    drawn = []
    for block in range(-(-n // BLOCK_DRAWS)):
        rng = stream(seed, purpose, block)
        replicates, refitted = law.draw_fitted(rng, BLOCK_DRAWS)
        if other is not None:
            refitted = other.draw_fitted(rng, BLOCK_DRAWS)[1]
        distances = replicates.distances(refitted)
        drawn.append(np.where(np.isnan(distances), 1, distances))
    return monte_carlo_p(observed, np.concatenate(drawn)[:n])
