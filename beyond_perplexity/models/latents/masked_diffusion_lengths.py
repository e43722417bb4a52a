"""How many words a text has: counts in bins that widen, half a count more in each, and a tail.

A bin that begins at s has max(1, s // 8) lengths, all as probable; the last holds the longest text
of the training split. Behind it lengths fall geometrically, by a mean as long as all bins together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice, takewhile

import numpy as np

RELATIVE_WIDTH = 8  # a bin is an eighth of its beginning wide
ADDED_COUNT = 0.5  # of a count, in each bin and the tail (Krichevsky & Trofimov 1981)


def bin_starts() -> Iterator[int]:
    """Yield where bins begin, without end."""
    start = 0
    while True:
        yield start
        start += max(1, start // RELATIVE_WIDTH)


def bin_lengths(lengths: Iterable[int]) -> list[int]:
    """Count lengths in bins, up to that of the longest."""
    held = np.fromiter(lengths, np.int64)  # (N,)
    longest = int(held.max(initial=-1))
    starts = list(takewhile(lambda start: start <= longest, bin_starts()))  # (B,)
    return np.bincount(np.searchsorted(starts, held, "right") - 1, minlength=len(starts)).tolist()


class LengthModel:
    """The distribution of lengths; `counts` are those of `bin_lengths`."""

    def __init__(self, counts: Iterable[int]) -> None:
        held = np.array([*counts, 0], np.float64) + ADDED_COUNT  # (B + 1,): bins and the tail
        self._masses = held / held.sum()  # (B + 1,)
        self._starts = np.array(list(islice(bin_starts(), len(held))))  # (B + 1,)
        self._ratio = 1 - 1 / (1 + max(1, self._starts[-1]))  # of the tail

    def log_prob(self, lengths: np.ndarray) -> np.ndarray:
        """Return log p of lengths, nats, float64, of the shape of the argument."""
        own = np.searchsorted(self._starts, lengths, "right") - 1
        last = len(self._starts) - 1
        widths = np.diff(self._starts, append=self._starts[-1] + 1)  # (B + 1,)
        tail = np.log1p(-self._ratio) + (lengths - self._starts[-1]) * np.log(self._ratio)
        return np.log(self._masses[own]) + np.where(own == last, tail, -np.log(widths[own]))

    def draw(self, uniforms: np.ndarray) -> np.ndarray:
        """Draw a length for each number in [0, 1), int64, (R,)."""
        ends = self._masses.cumsum()  # (B + 1,)
        own = np.minimum(np.searchsorted(ends, uniforms, "right"), len(ends) - 1)  # (R,)
        share = (uniforms - (ends - self._masses)[own]) / self._masses[own]  # (R,)
        share = np.clip(share, 0, np.nextafter(1, 0))
        widths = np.diff(self._starts, append=0)  # (B + 1,)
        inside = np.where(
            own == len(ends) - 1, np.log1p(-share) / np.log(self._ratio), share * widths[own]
        )
        return self._starts[own] + np.floor(inside).astype(np.int64)
