"""Back-off models: what an ARPA file holds, in a trie of sorted arrays, and their scores.

p(w | context) is that of the longest n-gram that the model has, times the back-off weights of the
longer contexts that it has. The trie is that of `counts`; logarithms are natural.

P places, M n-grams of a level, N the order, V words.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from beyond_perplexity.ngrams.counts import find_keys, pack
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
