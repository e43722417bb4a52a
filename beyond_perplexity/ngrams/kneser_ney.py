"""Interpolated modified Kneser–Ney estimation, as Chen and Goodman give it and `lmplz` does it.

With a(g) the adjusted count of an n-gram g = h w and D its discount,

    p(w | h) = (a(h w) − D(a(h w))) / Σ_x a(h x) + γ(h) p(w | h'),
    γ(h) = Σ_x D(a(h x)) / Σ_x a(h x),

where h' is h without its first word. The adjusted count is the number of different words before g,
but the plain count for the highest order and for n-grams that begin with ``<s>``, before which
there is nothing. Single words are interpolated with a uniform distribution over all words but
``<s>``, the unknown one included.

Pruned n-grams are those whose plain count is at most the threshold of their order. As in `lmplz`
they count in the discounts and in the sums, and their mass goes to γ, so that all still sums to 1.

A model is a trie of sorted arrays, that of `counts`; p(w | context) is that of the longest n-gram
that it has, times the back-off weights of the longer contexts that it has. Logarithms are natural.

P places, M n-grams of a level, N the order, C contexts: those of the level below; V words.

References
----------
Chen and Goodman (1999). An empirical study of smoothing techniques for language modeling.
Heafield et al. (2013). Scalable modified Kneser-Ney language model estimation.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from beyond_perplexity.errors import InputError
from beyond_perplexity.ngrams.counts import (
    WORD_BITS,
    CountLevel,
    NGramCounts,
    find_keys,
    last_words,
    pack,
    prefix_places,
)
from beyond_perplexity.vocabulary import BOS


class BackoffLevel(NamedTuple):
    """The n-grams of one order."""

    # int64, (M,), rising: see `counts.pack`. On the first level every id has its place
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
    """Score every token of a text after those before it in its sentence.

    Parameters
    ----------
    model : BackoffModel
    tokens : numpy.ndarray
        int64, (P,): sentences behind each other; each begins with ``<s>``, which stands nowhere
        else.

    Returns
    -------
    numpy.ndarray
        ln p, float64, (P,); that of ``<s>`` is 0, as it is given.
    """
    inside = tokens != BOS  # (P,)
    scores = np.where(inside, model.levels[0].log_probs[tokens], 0.0)  # (P,)
    places = tokens  # (P,): of the n-gram that ends there; −1 for none
    for shorter, level in zip(model.levels[:-1], model.levels[1:], strict=True):
        ends = np.flatnonzero(inside[1:] & (places[:-1] >= 0)) + 1  # (E,)
        contexts = places[ends - 1]  # (E,)
        found = find_keys(level.keys, pack(contexts, tokens[ends]))  # (E,)
        backed = scores[ends] + shorter.backoffs[contexts]  # (E,)
        held = found >= 0
        backed[held] = level.log_probs[found[held]]
        scores[ends] = backed
        places = np.full(len(tokens), -1)
        places[ends] = found
    return scores


FALLBACK = (0.5, 1.0, 1.5)
_logger = logging.getLogger(__name__)


class SmoothedModel(NamedTuple):
    """An estimated model, and what it was estimated with."""

    model: BackoffModel
    discounts: list[tuple[float, float, float]]  # D1, D2, D3+ of each order


def choose_discounts(adjusted: np.ndarray, order: int) -> tuple[float, float, float]:
    """Work out the discounts of an order from its counts of counts.

    With t_k the number of n-grams of adjusted count k and Y = t₁ / (t₁ + 2 t₂), D_k is
    k − (k + 1) Y t_{k+1} / t_k. Where t₁, t₂ or t₃ is 0, or a discount is below 0, those of
    `FALLBACK` are taken, with a warning: so does ``lmplz --discount_fallback``.

    Parameters
    ----------
    adjusted : numpy.ndarray
        int64, (M,): adjusted counts; zeros have no say.
    order : int
        For the warning.
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
    counts: NGramCounts, possible: np.ndarray | None = None, prune: Sequence[int] = ()
) -> SmoothedModel:
    """Estimate a model from counts.

    Parameters
    ----------
    counts : NGramCounts
        Of sentences that begin with ``<s>``. It is used up, level by level, so as to save memory.
    possible : numpy.ndarray, optional
        bool, (V,): the words that share the uniform distribution; by default all but ``<s>``.
    prune : sequence of int
        See `check_pruning`.

    Raises
    ------
    InputError
        When thresholds are wrong.
    """
    thresholds = check_pruning(prune, len(counts.levels))
    while len(counts.levels[-1].keys) == 0:
        counts.levels.pop()
        _logger.warning(
            "no sentence has %d words, <s> and </s> included: the model is of order %d",
            len(counts.levels) + 1,
            len(counts.levels),
        )
    size = len(counts.levels[0].keys)
    base = np.arange(size) != BOS if possible is None else possible
    build = _Build(base / base.sum())
    for order, threshold in enumerate(thresholds[: len(counts.levels)], start=1):
        following = counts.levels[1] if len(counts.levels) > 1 else None
        build.add(order, counts.levels.pop(0), following, threshold)
    return SmoothedModel(BackoffModel(build.finished), build.discounts)


class _Build:
    """What is known of the level below while the next one is estimated."""

    def __init__(self, uniform: np.ndarray) -> None:
        self.finished: list[BackoffLevel] = []
        self.discounts: list[tuple[float, float, float]] = []
        self._lower = uniform  # (C,): p of the n-grams below, pruned ones included
        self._suffixes = np.arange(len(uniform))  # (M,): places of the present n-grams' suffixes
        self._initial = 1  # n-grams that begin with <s>: the first of their level
        self._kept = np.zeros(1, dtype=np.int64)  # (C,): places after pruning; −1 where pruned

    def add(
        self, order: int, level: CountLevel, following: CountLevel | None, threshold: int
    ) -> None:
        """Estimate the n-grams of an order; what follows them counts for them."""
        keys, plain = level
        if order > 1:
            self._initial = int(np.searchsorted(keys, self._initial << WORD_BITS))
        adjusted, above = plain.copy(), None
        if following is not None:
            above = self._find_suffixes(keys, following.keys, order)
            left = np.bincount(above, minlength=len(keys))  # (M,): different words before each
            adjusted[self._initial :] = left[self._initial :]
        if order == 1:
            adjusted[BOS] = 0
        discounts = choose_discounts(adjusted, order)
        self.discounts.append(discounts)
        kept = plain > threshold if threshold else np.ones(len(keys), dtype=bool)
        probs, weights = self._interpolate(keys, adjusted, np.array([0.0, *discounts]), kept)
        self._finish(keys, probs, weights, kept, last=following is None)
        self._lower = probs
        if above is not None:
            self._suffixes = above

    def _find_suffixes(self, keys: np.ndarray, above: np.ndarray, order: int) -> np.ndarray:
        """Find the n-grams of the level above without their first words, on this level."""
        words = last_words(above)
        if order == 1:
            return words
        return find_keys(keys, pack(self._suffixes[prefix_places(above)], words))

    def _interpolate(
        self, keys: np.ndarray, adjusted: np.ndarray, discounts: np.ndarray, kept: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return p of the n-grams (M,), and γ of their contexts (C,)."""
        first = not self.finished
        contexts = np.zeros(len(keys), np.int64) if first else prefix_places(keys)  # (M,)
        size = 1 if first else len(self._lower)  # C
        lost = np.where(kept, discounts[np.minimum(adjusted, 3)], adjusted)  # (M,)
        totals = np.bincount(contexts, adjusted, size)  # (C,)
        weights = np.bincount(contexts, lost, size)  # (C,)
        # A context that nothing follows, such as </s>, leaves all to the shorter one.
        weights = np.divide(weights, totals, where=totals > 0, out=np.ones(size))
        probs = (adjusted - lost) / totals[contexts]
        probs += weights[contexts] * self._lower[self._suffixes]
        return probs, weights

    def _finish(
        self,
        keys: np.ndarray,
        probs: np.ndarray,
        weights: np.ndarray,
        kept: np.ndarray,
        last: bool,
    ) -> None:
        """Close the level below, whose weights are known now, and lay down this one."""
        if self.finished:
            below = self.finished.pop()
            with np.errstate(divide="ignore"):
                backoffs = np.log(weights[self._kept >= 0])
            self.finished.append(below._replace(backoffs=backoffs))
            keys = pack(self._kept[prefix_places(keys)], last_words(keys))[kept]
        with np.errstate(divide="ignore"):
            log_probs = np.log(probs[kept])
        self.finished.append(BackoffLevel(keys, log_probs, np.zeros(0)))
        self._kept = np.where(kept, np.cumsum(kept) - 1, -1)
