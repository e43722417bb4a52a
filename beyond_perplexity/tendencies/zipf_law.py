"""The test of Zipf's law by Monte Carlo.

Both halves of a text are drawn from the law, ranked and fitted as the text was (`zipf_split`), and
the largest difference of distribution functions over the ranks is compared. It supposes independent
tokens: on real text it describes.

R ranks, T types, w draws side by side.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import gammaincinv

from beyond_perplexity.inference.p_values import monte_carlo_p
from beyond_perplexity.inference.thresholds import OCCURRENCES
from beyond_perplexity.random_streams import stream
from beyond_perplexity.tendencies.poisson_counts import PoissonTables, SeldomCounts
from beyond_perplexity.tendencies.power_laws import ExponentTable
from beyond_perplexity.tendencies.zipf_split import Halves

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
    """Halves that were drawn.

    Attributes
    ----------
    ranked : tuple of two _Ranked
        As of `Halves`: counts in B by the ranks of A, and the reverse.
    """

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
    """Zipf's law with the tokens of two halves, as fitted to them, to draw both again.

    Parameters
    ----------
    halves : Halves
        Of the text.
    s : float
        The exponent of the law.
    ranks : int or None
        Ranks that are compared at most.
    """

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
        keys = np.union1d(reached[0].keys, reached[1].keys)
        draws = keys // max(len(self._rates[0]) - len(often[0]), 1)
        n_seldom = np.bincount(draws, minlength=width)
        places = np.arange(len(keys)) - np.repeat(np.cumsum(n_seldom) - n_seldom, n_seldom)
        counts = []
        for side in (0, 1):
            both = np.zeros((width, len(often[side]) + int(n_seldom.max(initial=0))), np.int64)
            both[:, : len(often[side])] = often[side].T
            found = self._seldom[side].counts(rng, reached[side], keys)
            both[draws, len(often[side]) + places] = found
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

    Parameters
    ----------
    samples : Halves
        The text that is tested.
    fitted : Halves
        The text that the exponent is fitted to: the same object, or the reference.
    n : int
        Draws; both texts are drawn from the law, and the exponent is fitted again each time.
    ranks : int or None
        Ranks that are compared at most.
    seed, purpose : int, str
        Block b of `BLOCK_DRAWS` draws is from the stream (`seed`, `purpose`, b).

    Returns
    -------
    float
        NaN without draws or where the fit is not defined: below 30 ranks in a half.
    """
    s = fitted.exponent
    if not n or math.isnan(s) or samples.too_few or fitted.too_few:
        return math.nan
    observed = samples.distance(s)
    law = Law(samples, s, ranks)
    other = None if fitted is samples else Law(fitted, s, ranks)
    drawn = np.empty(-(-n // BLOCK_DRAWS) * BLOCK_DRAWS)
    for block in range(len(drawn) // BLOCK_DRAWS):
        rng = stream(seed, purpose, block)
        replicates, refitted = law.draw_fitted(rng, BLOCK_DRAWS)
        if other is not None:
            refitted = other.draw_fitted(rng, BLOCK_DRAWS)[1]
        distances = replicates.distances(refitted)
        drawn[block * BLOCK_DRAWS :][:BLOCK_DRAWS] = np.where(np.isnan(distances), 1, distances)
    return monte_carlo_p(observed, drawn[:n])
