"""Counts of character n-grams over types, and how often a word's n-grams occur among them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from beyond_perplexity.scoring.speller.alphabet import (
    BEGIN,
    END,
    ESCAPE,
    N_MARKS,
    Alphabet,
    code_points,
)


class Events(NamedTuple):
    """The predictions that spell words: each character and the end.

    Attributes
    ----------
    text : ndarray
        Symbols of all words, each between `BEGIN` and `END`, int64.
    places : ndarray
        Where in `text` each prediction stands, int64, shape (E,).
    depths : ndarray
        Symbols before it in its word, `BEGIN` included, int64, shape (E,).
    words : ndarray
        The word that it belongs to, int64, shape (E,).
    log_escapes : ndarray
        What an escape adds to its log-probability, 0 elsewhere; nats, shape (E,).
    """

    text: np.ndarray
    places: np.ndarray
    depths: np.ndarray
    words: np.ndarray
    log_escapes: np.ndarray

    @property
    def targets(self) -> np.ndarray:
        """The predicted symbols, int64, shape (E,)."""
        return self.text[self.places]

    def cut(self, start: int, stop: int) -> Events:
        """Return the predictions from one place to another."""
        return Events(self.text, *(column[start:stop] for column in self[1:]))


def word_events(words: Sequence[str], alphabet: Alphabet) -> Events:
    """Lay out the predictions of words, in their order; raises as `code_points`."""
    points, lengths = code_points(words)
    ends = np.cumsum(lengths + 2)
    text = np.full(int(ends[-1]) if len(ends) else 0, END)
    begins = ends - lengths - 2
    text[begins] = BEGIN
    owner = np.repeat(np.arange(len(words)), lengths)
    text[np.arange(len(points)) + 2 * owner + 1] = alphabet.symbols(points)
    places = np.flatnonzero(text != BEGIN)
    of = np.repeat(np.arange(len(words)), lengths + 1)
    escapes = np.zeros(len(places))
    unseen = points[alphabet.symbols(points) == ESCAPE]
    escapes[text[places] == ESCAPE] = alphabet.log_escape(unseen)
    return Events(text, places, places - begins[of], of, escapes)


class LevelCounts(NamedTuple):
    """What was counted of n-grams with a context of one length, for each of E predictions.

    Attributes
    ----------
    once : ndarray
        Occurrences of the n-gram, float64, shape (E,).
    total : ndarray
        Occurrences of its context; 0 where it never occurred.
    distinct : ndarray
        Symbols that followed the context.
    continued, continued_total : ndarray
        As `once` and `total`, where an n-gram counts once for each symbol that came before it
        (Kneser and Ney 1995), and one at the beginning of a word as often as it occurs.
    """

    once: np.ndarray
    total: np.ndarray
    distinct: np.ndarray
    continued: np.ndarray
    continued_total: np.ndarray


class _Level(NamedTuple):
    contexts: np.ndarray  # sorted keys of contexts: shorter context and the symbol before it
    grams: np.ndarray  # sorted keys of n-grams: context and target
    counts: np.ndarray  # once, continued: (2, grams)
    totals: np.ndarray  # once, continued, distinct: (3, contexts)


def _find(keys: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Return the places of keys among sorted ones, −1 where they are not."""
    if not len(keys):
        return np.full(len(wanted), -1)
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[place] == wanted, place, -1)


class NgramCounts:
    """Counts of the n-grams of types, each type once, up to an order.

    Parameters
    ----------
    types : sequence of str
        Without repetition; their order is of no importance.
    alphabet : Alphabet
    order : int
        Longest n-gram: the context of the last of `order` levels has ``order − 1`` symbols. No
        context goes beyond the beginning of a word.
    """

    def __init__(self, types: Sequence[str], alphabet: Alphabet, order: int) -> None:
        self.alphabet = alphabet
        self.order = order
        self._base = alphabet.size + N_MARKS
        events = word_events(types, alphabet)
        places, depths, targets = events.places, events.depths, events.targets
        contexts, keys = np.zeros(len(places), np.int64), np.zeros(min(1, len(places)), np.int64)
        self._levels: list[_Level] = []
        for level in range(order):
            grams, of = np.unique(contexts * self._base + targets, return_inverse=True)
            older = depths > level
            longer = np.unique(of[older] * self._base + events.text[places[older] - level - 1])
            once = np.bincount(of, minlength=len(grams))
            continued = np.bincount(longer // self._base, minlength=len(grams))
            # What reaches the beginning of a word has nothing before it.
            first = np.bincount(of[~older], minlength=len(grams))
            counts = np.stack([once, continued + first])
            context = grams // self._base
            sums = [np.bincount(context, row, len(keys)) for row in counts]
            distinct = np.bincount(context, minlength=len(keys))
            self._levels.append(_Level(keys, grams, counts, np.stack([*sums, distinct])))
            places, depths, targets = places[older], depths[older], targets[older]
            wanted = contexts[older] * self._base + events.text[places - level - 1]
            keys, contexts = np.unique(wanted, return_inverse=True)

    def look_up(self, events: Events) -> list[LevelCounts]:
        """Return the counts of predictions at each level, the shortest context first."""
        contexts = np.zeros(len(events.places), np.int64)
        found = []
        for level, held in enumerate(self._levels):
            if level:
                older = (events.depths >= level) & (contexts >= 0)
                before = events.text[np.maximum(events.places - level, 0)]
                place = _find(held.contexts, contexts * self._base + before)
                contexts = np.where(older, place, -1)
            known = (contexts >= 0) & bool(len(held.contexts))
            place = _find(held.grams, contexts * self._base + events.targets)
            counts = held.counts[:, place] * (known & (place >= 0)) if len(held.grams) else None
            once, continued = np.zeros((2, len(contexts))) if counts is None else counts
            totals = np.zeros((3, len(contexts)))
            totals[:, known] = held.totals[:, contexts[known]]
            found.append(LevelCounts(once, totals[0], totals[2], continued, totals[1]))
        return found
