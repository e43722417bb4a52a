"""Counts of n-grams as a trie in sorted arrays, made of parts of a text that are merged.

An n-gram is the place of its first n − 1 words on the level below and its last word, packed into
one integer, so that any order and any vocabulary fit. Each level is sorted, hence the trie is in
lexicographic order throughout, and merging two tries moves places without changing their order.
Memory grows with the distinct n-grams, not with the text.

P places of a text, M distinct n-grams of a level, V words.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from beyond_perplexity.vocabulary import BOS, EOS

WORD_BITS = 32
_WORD_MASK = (1 << WORD_BITS) - 1
SEARCH_KEYS = 1 << 22  # sorted at once
PART_TOKENS = 1 << 22  # of a text that is counted at once: about 300 MB while it is


class CountLevel(NamedTuple):
    """The n-grams of one order."""

    # int64, (M,), rising; see `pack`. On the first level every id has its place: M = V, and the
    # keys are the ids
    keys: np.ndarray
    counts: np.ndarray  # int64, (M,): how often each was seen; 0 for words that were not


@dataclass
class NGramCounts:
    """Counts of the orders 1 to N; the first level is that of single words."""

    levels: list[CountLevel]  # N of them; the higher ones are empty where all sentences are short

    @property
    def size(self) -> int:
        """How many n-grams there are, of the highest order."""
        return len(self.levels[-1].keys)


def pack(prefixes: np.ndarray, words: np.ndarray) -> np.ndarray:
    """Make keys, int64, from the places of prefixes and from last words, all below 2³¹."""
    keys: np.ndarray = (prefixes << WORD_BITS) | words
    return keys


def prefix_places(keys: np.ndarray) -> np.ndarray:
    """Return the places of the prefixes of n-grams, on the level below."""
    places: np.ndarray = keys >> WORD_BITS
    return places


def last_words(keys: np.ndarray) -> np.ndarray:
    """Return the last words of n-grams."""
    words: np.ndarray = keys & _WORD_MASK
    return words


def find_keys(keys: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Find packed n-grams (K,) among rising keys (M,): int64, (K,), −1 where they are not."""
    places = np.full(len(wanted), -1)
    for start in range(0, len(wanted) if len(keys) else 0, SEARCH_KEYS):
        block = wanted[start : start + SEARCH_KEYS]
        order = np.argsort(block)  # six times faster than a search that jumps about in memory
        block = block[order]
        found = np.searchsorted(keys, block)
        found[found == len(keys)] = 0
        found[keys[found] != block] = -1
        places[start : start + SEARCH_KEYS][order] = found
    return places


def join_sentences(
    batches: Iterable[Sequence[np.ndarray]], size: int = PART_TOKENS
) -> Iterator[np.ndarray]:
    """Join sentences into parts of a text, int64: each as ``<s>``, its tokens, ``</s>``."""
    bos, eos = np.array([BOS]), np.array([EOS])
    held: list[np.ndarray] = []
    tokens = 0
    for batch in batches:
        for sentence in batch:
            held += [bos, sentence, eos]
            tokens += len(sentence) + 2
            if tokens >= size:
                yield np.concatenate(held, dtype=np.int64)
                held, tokens = [], 0
    if held:
        yield np.concatenate(held, dtype=np.int64)


def count_ngrams(tokens: np.ndarray, order: int) -> NGramCounts:
    """Count the n-grams of a part of a text, int, (P,): sentences behind each other.

    Each begins with ``<s>``, which stands nowhere else; no n-gram reaches over it.
    """
    tokens = tokens.astype(np.int64)
    unigrams = np.bincount(tokens)
    levels = [CountLevel(np.arange(len(unigrams)), unigrams)]
    ends = np.flatnonzero(tokens != BOS)  # where n-grams end
    places = tokens  # (P,): of the n-gram that ends there
    for _ in range(order - 1):
        ends = ends[places[ends - 1] >= 0]
        keys = pack(places[ends - 1], tokens[ends])
        distinct, inverse, counts = np.unique(keys, return_inverse=True, return_counts=True)
        levels.append(CountLevel(distinct, counts))
        places = np.full(len(tokens), -1)
        places[ends] = inverse
    return NGramCounts(levels)


def _unite(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Unite rising keys: the united ones, and where those of each are among them."""
    place = np.searchsorted(first, second)
    fresh = np.ones(len(second), dtype=bool)
    inside = place < len(first)
    fresh[inside] = first[place[inside]] != second[inside]
    place += np.cumsum(fresh) - fresh
    other = np.ones(len(first) + int(fresh.sum()), dtype=bool)
    other[place[fresh]] = False
    own = np.flatnonzero(other)
    keys = np.empty(len(other), dtype=np.int64)
    keys[own] = first
    keys[place] = second
    return keys, own, place


def merge_counts(first: NGramCounts, second: NGramCounts) -> NGramCounts:
    """Add the counts of two parts; both are used up, level by level, so as to save memory."""
    levels: list[CountLevel] = []
    own = other = np.zeros(0, dtype=np.int64)
    while first.levels:
        mine, theirs = first.levels.pop(0), second.levels.pop(0)
        left, right = mine.keys, theirs.keys
        if levels:
            left = pack(own[prefix_places(left)], last_words(left))
            right = pack(other[prefix_places(right)], last_words(right))
        keys, own, other = _unite(left, right)
        counts = np.zeros(len(keys), dtype=np.int64)
        counts[own] = mine.counts
        counts[other] += theirs.counts
        levels.append(CountLevel(keys, counts))
    return NGramCounts(levels)


def count_parts(parts: Iterable[np.ndarray], order: int) -> NGramCounts | None:
    """Count a text that comes in parts, without holding it; None where there is no part.

    Tries of like size are merged, so that an n-gram is moved only as often as the logarithm of the
    number of parts.
    """
    held: list[NGramCounts] = []
    for tokens in parts:
        held.append(count_ngrams(tokens, order))
        while len(held) > 1 and held[-2].size < 2 * held[-1].size:
            held.append(merge_counts(held.pop(), held.pop()))
    while len(held) > 1:
        held.append(merge_counts(held.pop(), held.pop()))
    return held[0] if held else None


def extend_words(counts: NGramCounts, size: int) -> NGramCounts:
    """Give words that were not seen a place with count 0: V becomes `size`."""
    unigrams = np.zeros(size, dtype=np.int64)
    unigrams[: len(counts.levels[0].counts)] = counts.levels[0].counts
    return NGramCounts([CountLevel(np.arange(size), unigrams), *counts.levels[1:]])
