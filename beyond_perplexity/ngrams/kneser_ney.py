"""Counts of n-grams as tries, and interpolated modified Kneser–Ney of them, as `lmplz` does it.

A trie is sorted arrays: an n-gram is the position of its first n − 1 words on the level below and
its last word, packed into one integer, so that any order and any vocabulary fit. Each level is
sorted, hence the trie is in lexicographic order throughout, and merging two tries moves positions
without changing their order. Memory grows with the distinct n-grams, not with the text.

With a(g) the adjusted count of an n-gram g = h w and D its discount,

    p(w | h) = (a(h w) − D(a(h w))) / Σ_x a(h x) + γ(h) p(w | h'),
    γ(h) = Σ_x D(a(h x)) / Σ_x a(h x),

where h' is h without its first word. The adjusted count is the number of different words before g,
but the plain count for the highest order and for n-grams that begin with ``<s>``, before which
there is nothing. Single words are interpolated with a uniform distribution over all words but
``<s>``, the unknown one included.

Pruned n-grams are those whose plain count is at most the threshold of their order. As in `lmplz`
they count in the discounts and in the sums, and their mass goes to γ, so that all still sums to 1.

A model is such a trie; p(w | context) is that of the longest n-gram that it has, times the
back-off weights of the longer contexts that it has. Logarithms are natural.

P positions of a text, M n-grams of a level, N the order, C contexts: those below it; V words.

References
----------
Chen and Goodman (1999). An empirical study of smoothing techniques for language modeling.
Heafield et al. (2013). Scalable modified Kneser-Ney language model estimation.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from beyond_perplexity.errors import InputError
from beyond_perplexity.vocabulary import BOS, EOS

WORD_BITS = 32
_WORD_MASK = (1 << WORD_BITS) - 1
SEARCH_KEYS = 1 << 22  # sorted at once
PART_TOKENS = 1 << 22  # of a text that is counted at once: about 300 MB while it is


class CountLevel(NamedTuple):
    """The n-grams of one order."""

    # int64, (M,), rising; see `pack`. On the first level every id has its position: M = V, and the
    # keys are the ids
    keys: np.ndarray
    counts: np.ndarray  # int64, (M,): how often each was seen; 0 for words that were not


# The orders 1 to N; the higher ones are empty where all sentences are short.
Trie = list[CountLevel]


def pack(prefixes: np.ndarray, words: np.ndarray) -> np.ndarray:
    """Make keys, int64, from the positions of prefixes and from last words, all below 2³¹."""
    keys: np.ndarray = (prefixes << WORD_BITS) | words
    return keys


def prefix_places(keys: np.ndarray) -> np.ndarray:
    """Return the positions of the prefixes of n-grams, on the level below."""
    positions: np.ndarray = keys >> WORD_BITS
    return positions


def last_words(keys: np.ndarray) -> np.ndarray:
    """Return the last words of n-grams."""
    words: np.ndarray = keys & _WORD_MASK
    return words


def find_keys(keys: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Find packed n-grams (K,) among rising keys (M,): int64, (K,), −1 where they are not."""
    positions = np.full(len(wanted), -1)
    for start in range(0, len(wanted) if len(keys) else 0, SEARCH_KEYS):
        block = wanted[start : start + SEARCH_KEYS]
        order = np.argsort(block)  # six times faster than a search that jumps about in memory
        block = block[order]
        found = np.searchsorted(keys, block)
        found[found == len(keys)] = 0
        found[keys[found] != block] = -1
        positions[start : start + SEARCH_KEYS][order] = found
    return positions


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


def count_ngrams(tokens: np.ndarray, order: int) -> Trie:
    """Count the n-grams of sentences behind each other, int, (P,): each begins with ``<s>``, which
    stands nowhere else, and no n-gram reaches over it."""
    tokens = tokens.astype(np.int64)
    unigrams = np.bincount(tokens)
    levels = [CountLevel(np.arange(len(unigrams)), unigrams)]
    ends = np.flatnonzero(tokens != BOS)  # where n-grams end
    positions = tokens  # (P,): of the n-gram that ends there
    for _ in range(order - 1):
        ends = ends[positions[ends - 1] >= 0]
        keys = pack(positions[ends - 1], tokens[ends])
        distinct, inverse, counts = np.unique(keys, return_inverse=True, return_counts=True)
        levels.append(CountLevel(distinct, counts))
        positions = np.full(len(tokens), -1)
        positions[ends] = inverse
    return levels


def merge_counts(first: Trie, second: Trie) -> Trie:
    """Add the counts of two parts; both are used up, level by level, so as to save memory."""
    levels: Trie = []
    own = other = np.zeros(0, dtype=np.int64)
    while first:
        mine, theirs = first.pop(0), second.pop(0)
        left, right = mine.keys, theirs.keys
        if levels:
            left = pack(own[prefix_places(left)], last_words(left))
            right = pack(other[prefix_places(right)], last_words(right))
        keys = np.concatenate([left, right])
        keys.sort(kind="stable")  # which goes through two rising parts once
        keys = keys[np.diff(keys, prepend=-1) > 0]
        own, other = np.searchsorted(keys, left), np.searchsorted(keys, right)
        counts = np.zeros(len(keys), dtype=np.int64)
        counts[own] = mine.counts
        counts[other] += theirs.counts
        levels.append(CountLevel(keys, counts))
    return levels


def count_parts(parts: Iterable[np.ndarray], order: int) -> Trie | None:
    """Count a text that comes in parts (None: there is none); tries of like size are merged, so
    that an n-gram is moved only as often as the logarithm of the number of parts."""
    held: list[Trie] = []
    for tokens in parts:
        held.append(count_ngrams(tokens, order))
        while len(held) > 1 and len(held[-2][-1].keys) < 2 * len(held[-1][-1].keys):
            held.append(merge_counts(held.pop(), held.pop()))
    while len(held) > 1:
        held.append(merge_counts(held.pop(), held.pop()))
    return held[0] if held else None


def extend_words(levels: Trie, size: int) -> Trie:
    """Give words that were not seen a position with count 0: V becomes `size`."""
    unigrams = np.pad(levels[0].counts, (0, size - len(levels[0].counts)))
    return [CountLevel(np.arange(size), unigrams), *levels[1:]]


class BackoffLevel(NamedTuple):
    """The n-grams of one order."""

    # int64, (M,), rising: see `pack`. On the first level every id has its position
    keys: np.ndarray
    log_probs: np.ndarray  # float64, (M,): of the last word after the others; −inf for ``<s>``
    # float64, (M,): logarithm of the weight as a context, 0 for one that nothing follows; none of
    # the highest order, (0,)
    backoffs: np.ndarray


@dataclass(frozen=True)
class BackoffModel:
    """A model of the orders 1 to N."""

    levels: list[BackoffLevel]  # N of them

    @property
    def order(self) -> int:
        """N."""
        return len(self.levels)

    @property
    def vocabulary_size(self) -> int:
        """V."""
        return len(self.levels[0].keys)

    @property
    def n_counts(self) -> list[int]:
        """Number of n-grams of every order; words without a probability, but ``<s>``, left out."""
        possible = np.isfinite(self.levels[0].log_probs)
        possible[BOS] = True
        return [int(possible.sum()), *(len(level.keys) for level in self.levels[1:])]


def score_tokens(model: BackoffModel, tokens: np.ndarray) -> np.ndarray:
    """Return ln p, float64, (P,), of every token of sentences behind each other, int64, (P,), each
    begun by ``<s>``, whose ln p is 0, as it is given."""
    inside = tokens != BOS  # (P,)
    scores = np.where(inside, model.levels[0].log_probs[tokens], 0.0)  # (P,)
    positions = tokens  # (P,): of the n-gram that ends there; −1 for none
    for shorter, level in zip(model.levels[:-1], model.levels[1:], strict=True):
        ends = np.flatnonzero(inside[1:] & (positions[:-1] >= 0)) + 1  # (E,)
        contexts = positions[ends - 1]  # (E,)
        found = find_keys(level.keys, pack(contexts, tokens[ends]))  # (E,)
        backed = scores[ends] + shorter.backoffs[contexts]  # (E,)
        held = found >= 0
        backed[held] = level.log_probs[found[held]]
        scores[ends] = backed
        positions = np.full(len(tokens), -1)
        positions[ends] = found
    return scores


FALLBACK = (0.5, 1.0, 1.5)
_logger = logging.getLogger(__name__)


class SmoothedModel(NamedTuple):
    """An estimated model, and what it was estimated with."""

    model: BackoffModel
    discounts: list[tuple[float, float, float]]  # D1, D2, D3+ of each order


def choose_discounts(adjusted: np.ndarray, order: int) -> tuple[float, float, float]:
    """Work out the discounts of an order from its adjusted counts, int64, (M,); zeros have no say.

    With t_k the number of n-grams of adjusted count k and Y = t₁ / (t₁ + 2 t₂), D_k is
    k − (k + 1) Y t_{k+1} / t_k. Where t₁, t₂ or t₃ is 0, or a discount is below 0, those of
    `FALLBACK` are taken, with a warning: so does ``lmplz --discount_fallback``.
    """
    seen = np.bincount(np.minimum(adjusted, 5), minlength=6)[1:5].astype(float)
    if not seen[:3].all():
        missing = int(np.flatnonzero(seen == 0)[0]) + 1
        reason = f"none has the adjusted count {missing}"
    else:
        share = seen[0] / (seen[0] + 2 * seen[1])
        one, two, three = (k - (k + 1) * share * seen[k] / seen[k - 1] for k in (1, 2, 3))
        if min(one, two, three) >= 0:
            return float(one), float(two), float(three)
        reason = "those of the text would be negative"
    words = ", ".join(map(str, FALLBACK))
    _logger.warning("discounts of order %d: %s; %s are taken instead", order, reason, words)
    return FALLBACK


def check_pruning(prune: Sequence[int], order: int) -> list[int]:
    """Return the threshold of every order; the last that is given holds for those above it."""
    given = list(prune) or [0]
    if len(given) > order:
        raise InputError(f"prune: has {len(given)} thresholds for {order} orders; leave some out")
    if given[0] != 0 or sorted(given) != given:
        words = " ".join(map(str, given))
        raise InputError(f"prune: is {words}; thresholds begin with 0 and never fall, as in 0 0 1")
    return given + [given[-1]] * (order - len(given))


def estimate_backoff(
    counts: Trie, possible: np.ndarray | None = None, prune: Sequence[int] = ()
) -> SmoothedModel:
    """Estimate a model from counts of sentences that begin with ``<s>``, used up to save memory;
    `possible`, bool, (V,), by default all but ``<s>``, share the uniform distribution."""
    thresholds = check_pruning(prune, len(counts))
    while len(counts[-1].keys) == 0:
        counts.pop()
        _logger.warning(
            "no sentence has %d words, <s> and </s> included: the model is of order %d",
            len(counts) + 1,
            len(counts),
        )
    base = np.arange(len(counts[0].keys)) != BOS if possible is None else possible
    build = _Build(base / base.sum())
    for held, threshold in zip(adjusted_counts(counts), thresholds, strict=False):
        build.add(*held, threshold)
    return SmoothedModel(BackoffModel(build.finished), build.discounts)


def adjusted_counts(levels: Trie) -> Iterator[tuple[CountLevel, np.ndarray, np.ndarray]]:
    """Give every level, which is used up, its adjusted counts and the positions of suffixes on the
    level below (single words' own), int64, (M,) each."""
    initial, suffixes = 1, np.arange(len(levels[0].keys))
    level: CountLevel | None = None
    while levels:
        single, level = level is None, levels.pop(0)
        if not single:  # n-grams that begin with <s> are the first of their level
            initial = int(np.searchsorted(level.keys, initial << WORD_BITS))
        adjusted, above = level.counts.copy(), suffixes
        if levels:
            prefixes, above = prefix_places(levels[0].keys), last_words(levels[0].keys)
            if not single:
                above = find_keys(level.keys, pack(suffixes[prefixes], above))
            left = np.bincount(above, minlength=len(level.keys))  # (M,): different words before
            adjusted[initial:] = left[initial:]
        if single:
            adjusted[BOS : BOS + 1] = 0
        yield level, adjusted, suffixes
        suffixes = above


class _Build:
    """What is known of the level below while the next one is estimated."""

    def __init__(self, uniform: np.ndarray) -> None:
        self.finished: list[BackoffLevel] = []
        self.discounts: list[tuple[float, float, float]] = []
        self._lower = uniform  # (C,): p of the n-grams below, pruned ones included
        self._kept = np.zeros(1, dtype=np.int64)  # (C,): positions after pruning; −1 where pruned

    def add(
        self, level: CountLevel, adjusted: np.ndarray, suffixes: np.ndarray, threshold: int
    ) -> None:
        """Estimate the n-grams of the next order, from what `adjusted_counts` gives."""
        keys, plain = level
        self.discounts.append(choose_discounts(adjusted, len(self.discounts) + 1))
        kept = plain > threshold if threshold else np.ones(len(keys), dtype=bool)
        probs, weights = self._interpolate(keys, adjusted, suffixes, kept)
        self._finish(keys, probs, weights, kept)
        self._lower = probs

    def _interpolate(
        self, keys: np.ndarray, adjusted: np.ndarray, suffixes: np.ndarray, kept: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return p of the n-grams (M,), and γ of their contexts (C,)."""
        discounts = np.array([0.0, *self.discounts[-1]])
        first = not self.finished
        contexts = np.zeros(len(keys), np.int64) if first else prefix_places(keys)  # (M,)
        size = 1 if first else len(self._lower)  # C
        lost = np.where(kept, discounts[np.minimum(adjusted, 3)], adjusted)  # (M,)
        totals = np.bincount(contexts, adjusted, size)  # (C,)
        weights = np.bincount(contexts, lost, size)  # (C,)
        # A context that nothing follows, such as </s>, leaves all to the shorter one.
        weights = np.divide(weights, totals, where=totals > 0, out=np.ones(size))
        probs = (adjusted - lost) / totals[contexts]
        probs += weights[contexts] * self._lower[suffixes]
        return probs, weights

    def _finish(
        self, keys: np.ndarray, probs: np.ndarray, weights: np.ndarray, kept: np.ndarray
    ) -> None:
        """Close the level below, whose weights are known now, and lay down this one."""
        if self.finished:
            below = self.finished.pop()
            with np.errstate(divide="ignore"):
                backoffs = np.log(weights[self._kept >= 0])
            self.finished.append(below._replace(backoffs=backoffs))
            keys = pack(self._kept[prefix_places(keys)], last_words(keys))[kept]
        with np.errstate(divide="ignore"):
            self.finished.append(BackoffLevel(keys, np.log(probs[kept]), np.zeros(0)))
        self._kept = np.where(kept, np.cumsum(kept) - 1, -1)
