"""A suffix array of token ids: how much of a text stands, word for word, in another one.

Suffixes are sorted by their first `LONGEST_RUN` tokens, in blocks that share their first: 8 bytes a
token, 12 at most on the way. A binary search, of many positions at a time, keeps the least common
prefix with either end of the interval (Manber and Myers 1993), so that no token is compared twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

LONGEST_RUN = 32  # tokens of the longest run that is told
BREAK = -1  # no token: runs end before it
_NO_TOKEN = -2  # what a search reads in the place of a break, which then equals none of the text
_TOGETHER = 1 << 15  # positions that are searched at a time: their arrays stay in the cache
_BLOCKS = 64  # that suffixes are sorted in, at least
_LEAST_BLOCK = 1 << 16
_KEY_BITS = 63


def _packed(text: np.ndarray, at: np.ndarray, ahead: range, bits: int) -> np.ndarray:
    """Put some tokens ahead of positions (S,) into one number each: int64, (S,)."""
    keys = np.zeros(len(at), np.int64)
    for step in ahead:
        keys <<= bits
        keys += text[step:][at]
        keys += 1  # a break is the smallest
    return keys


def _sort_block(text: np.ndarray, found: np.ndarray, bits: int) -> None:
    """Sort suffixes (positions, (S,)) in place by their first tokens."""
    tied: Any = slice(None)  # those that are equal so far, of one group side by side
    groups = np.zeros(1, np.int32)
    width = _KEY_BITS // bits
    for depth in range(0, LONGEST_RUN, width):
        at, ahead = found[tied], range(depth, min(depth + width, LONGEST_RUN))
        keys = _packed(text, at, ahead, bits)
        order = np.lexsort((keys, groups)) if depth else np.argsort(keys)
        found[tied] = at[order]
        keys = keys[order]  # of groups too, which stay where they are
        new = np.ones(len(keys) + 1, bool)
        new[1:-1] = keys[1:] != keys[:-1]
        if depth:
            new[1:-1] |= groups[1:] != groups[:-1]
        again = np.flatnonzero(~(new[1:] & new[:-1])).astype(found.dtype)
        groups = np.cumsum(new[:-1], dtype=np.int32)[again]
        tied = tied[again] if depth else again
        if not len(again):
            break


def _blocks(counts: np.ndarray, most: int) -> Iterator[tuple[int, int]]:
    """Cut types by their counts (V,) into ranges of `most` occurrences, or of one type."""
    ends, start = np.cumsum(counts), 0
    while start < len(counts):
        before = ends[start] - counts[start]
        end = max(start + 1, int(np.searchsorted(ends, before + most, side="right")))
        yield start, end
        start = end


@dataclass(frozen=True)
class SuffixArray:
    """The suffixes of a text of token ids in their order.

    Attributes
    ----------
    text : numpy.ndarray of int32, shape (T + 32,)
        Ids from 0 on, and `BREAK` between documents; 32 breaks at the end.
    suffixes : numpy.ndarray of int32 or int64, shape (S,)
        Where the suffixes that begin with a token begin, sorted by their first 32 tokens. What
        follows a break plays no part.
    starts : numpy.ndarray of int64, shape (V + 1,)
        Where those that begin with each id lie in `suffixes`.

    References
    ----------
    Manber and Myers (1993). Suffix arrays: a new method for on-line string searches.

    Examples
    --------
    >>> array = SuffixArray.of([np.array([5, 3, 5, 4, BREAK, 5, 3], np.int32)])
    >>> array.longest_matches(np.array([5, 3, 5, 3, BREAK, 1, 4], np.int32))
    array([3, 2, 2, 1, 0, 0, 1], dtype=uint8)
    """

    text: np.ndarray
    suffixes: np.ndarray
    starts: np.ndarray

    @classmethod
    def of(cls, pieces: Iterable[np.ndarray]) -> SuffixArray:
        """Sort the suffixes of a text that comes in pieces.

        Parameters
        ----------
        pieces : iterable of numpy.ndarray of int32
            Ids from 0 on, and `BREAK`.
        """
        text = np.concatenate([*pieces, np.full(LONGEST_RUN, BREAK, np.int32)])
        n_types = int(text.max()) + 1
        counts = np.zeros(n_types, np.int64)
        for start in range(0, len(text), _LEAST_BLOCK):
            part = text[start : start + _LEAST_BLOCK]
            counts += np.bincount(part[part >= 0], minlength=n_types)
        starts = np.concatenate([[0], np.cumsum(counts)])
        wide = np.int32 if len(text) < 2**31 else np.int64
        suffixes = np.empty(starts[-1], wide)
        bits = max(1, int(n_types).bit_length())
        for first, end in _blocks(counts, max(_LEAST_BLOCK, len(text) // _BLOCKS)):
            chosen = text >= first
            chosen &= text < end
            block = suffixes[starts[first] : starts[end]]
            block[:] = np.flatnonzero(chosen)
            _sort_block(text, block, bits)
        return cls(text, suffixes, starts)

    def distinct_ngrams(self) -> tuple[np.ndarray, np.ndarray]:
        """Count the n-grams of the text, n = 1 to 32: distinct ones, and all; int64, (32,) each.

        Examples
        --------
        >>> array = SuffixArray.of([np.array([5, 3, 5, 3, BREAK, 5], np.int32)])
        >>> found, total = array.distinct_ngrams()
        >>> found[:4].tolist(), total[:4].tolist()
        ([2, 2, 2, 1], [5, 3, 2, 1])
        """
        runs = np.diff(np.flatnonzero(self.text == BREAK), prepend=-1) - 1
        lengths = np.arange(1, LONGEST_RUN + 1)
        total = np.array([np.maximum(runs - n + 1, 0).sum() for n in lengths])
        # Equal n-grams stand side by side: each that is as the one before it is not a further one.
        first, second = self.suffixes[:-1].astype(np.int64), self.suffixes[1:].astype(np.int64)
        repeated = np.zeros(LONGEST_RUN, np.int64)
        for ahead in range(LONGEST_RUN):
            tokens = self.text[first + ahead]
            alike = (tokens == self.text[second + ahead]) & (tokens != BREAK)
            first, second = first[alike], second[alike]
            repeated[ahead] = len(first)
        return total - repeated, total

    def longest_matches(self, ids: np.ndarray) -> np.ndarray:
        """Find how many tokens from each position on stand in a row in the text, 32 at most.

        Parameters
        ----------
        ids : numpy.ndarray of int32, shape (Q,)
            Ids of the same types; `BREAK`, or an id beyond them, stands for what is no token of the
            text. No run reaches past either.

        Returns
        -------
        numpy.ndarray of uint8, shape (Q,)
        """
        asked = np.full(len(ids) + LONGEST_RUN, _NO_TOKEN, np.int32)
        known = (ids >= 0) & (ids < len(self.starts) - 1)
        asked[: len(ids)][known] = ids[known]
        found = np.zeros(len(ids), np.uint8)
        places = np.flatnonzero(known)
        low, high = self.starts[ids[places]], self.starts[ids[places] + 1]
        there = high > low
        places, low, high = places[there], low[there] - 1, high[there]
        for start in range(0, len(places), _TOGETHER):
            cut = slice(start, start + _TOGETHER)
            found[places[cut]] = self._search(asked, places[cut], low[cut], high[cut])
        return found

    def _search(
        self, asked: np.ndarray, places: np.ndarray, low: np.ndarray, high: np.ndarray
    ) -> np.ndarray:
        """Search positions (Q,) between the suffixes `low` and `high`, both left out."""
        found = np.ones(len(places), np.uint8)
        # Tokens that the suffixes at both ends have in common with what is searched: the first one
        # is that of all suffixes between them.
        common = np.ones((2, len(places)), np.int64)
        open_ones = np.arange(len(places))
        while True:
            searched = high - low > 1
            if not searched.all():
                found[open_ones] = common.max(axis=0)
                places, low, high, open_ones = (
                    held[searched] for held in (places, low, high, open_ones)
                )
                common = common[:, searched]
            if not len(places):
                return found
            middle = (low + high) >> 1
            at, shared = self.suffixes[middle].astype(np.int64), common.min(axis=0)
            equal = np.flatnonzero(self.text[at + shared] == asked[places + shared])
            while len(equal):
                shared[equal] += 1
                equal = equal[shared[equal] < LONGEST_RUN]
                ahead = shared[equal]
                equal = equal[self.text[at[equal] + ahead] == asked[places[equal] + ahead]]
            # A whole match has nothing to compare: both sides read the token after it.
            last = np.minimum(shared, LONGEST_RUN - 1)
            below = self.text[at + last] < asked[places + last]
            whole = shared == LONGEST_RUN
            low = np.where(below | whole, middle, low)
            high = np.where(below & ~whole, high, np.where(whole, middle + 1, middle))
            common[0] = np.where(below | whole, shared, common[0])
            common[1] = np.where(below | whole, common[1], shared)
