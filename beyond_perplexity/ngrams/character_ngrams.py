"""Symbols of a spelling model: characters it has seen, the end of a word, a way to all others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from beyond_perplexity.errors import InputError
from beyond_perplexity.ngrams import kneser_ney

# BEGIN is only ever a context: no word yields it.
BEGIN, END, ESCAPE = 0, 1, 2
N_MARKS = 3
BLANK = 0x20

# Of the lead bytes of UTF-8: the first code point of each, and the end of all. Surrogates
# (U+D800 to U+DFFF) are no characters; they lie under the lead byte ED.
_STARTS = np.array(
    [
        *range(0x80),
        *(value << 6 for value in range(2, 32)),
        0x800,
        *(value << 12 for value in range(1, 16)),
        0x10000,
        *(value << 18 for value in range(1, 5)),
        0x110000,
    ]
)
_SURROGATES = (0xD800, 0xE000)


def _leads(points: np.ndarray) -> np.ndarray:
    return np.searchsorted(_STARTS, points, "right") - 1


class Alphabet:
    """The characters of words, and what a character costs that none of them has.

    An escape is followed by its UTF-8 bytes: the lead byte in proportion to one more than the seen
    characters that begin with it (scripts come in blocks), other bytes evenly, all renormalized to
    unseen characters, whose probabilities, each above 0, sum to 1. Of symbols that can follow a
    context, characters, `END` and `ESCAPE`, there are `size`.
    """

    def __init__(self, words: Sequence[str]) -> None:
        self._points = np.unique(code_points(words)[0])
        seen = np.union1d(self._points, [BLANK])
        sizes = np.diff(_STARTS)
        sizes[_leads(np.array(_SURROGATES[:1]))] -= _SURROGATES[1] - _SURROGATES[0]
        weights = np.bincount(_leads(self._points), minlength=len(sizes)) + 1.0
        self._each = weights / weights.sum() / sizes
        self._unseen = 1.0 - float(self._each[_leads(seen)].sum())
        self.size = len(self._points) + 2

    def symbols(self, points: np.ndarray) -> np.ndarray:
        """Turn code points into symbols, int64; those never seen are `ESCAPE`."""
        position = kneser_ney.find_keys(self._points, points)
        return np.where(position >= 0, position + N_MARKS, ESCAPE)

    def log_escape(self, points: np.ndarray) -> np.ndarray:
        """Return log p of each code point given that it was never seen, nats."""
        logs: np.ndarray = np.log(self._each[_leads(points)] / self._unseen)
        return logs


def code_points(words: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return the code points of all characters, int64, and each word's number of them; a word that
    is empty, has a blank or is no Unicode text is an `InputError`."""
    lengths = np.fromiter(map(len, words), np.int64, len(words))
    text = "".join(words)
    if not lengths.all() or " " in text:
        raise InputError("a spelling model spells words: neither an empty one nor one with a blank")
    try:
        held = text.encode("utf-32-le")
    except UnicodeEncodeError as error:
        raise InputError(
            f"a word has half a surrogate pair, U+{ord(text[error.start]):04X}; clean the text"
        ) from error
    return np.frombuffer(held, np.uint32).astype(np.int64), lengths


class Events(NamedTuple):
    """The predictions that spell words: each character and the end."""

    text: np.ndarray  # symbols of all words, each between `BEGIN` and `END`, int64
    positions: np.ndarray  # where in `text` each prediction stands, int64, shape (E,), rising
    words: np.ndarray  # the word that it belongs to, int64, shape (E,)
    # What an escape adds to its log-probability, 0 elsewhere; nats, shape (E,)
    log_escapes: np.ndarray

    def cut(self, start: int, stop: int) -> Events:
        """Return the predictions from one position to another."""
        return Events(self.text, *(column[start:stop] for column in self[1:]))


def word_events(words: Sequence[str], alphabet: Alphabet) -> Events:
    """Lay out the predictions of words, in their order; raises as `code_points`."""
    points, lengths = code_points(words)
    ends = np.cumsum(lengths + 2)
    text = np.full(int(ends[-1]) if len(ends) else 0, END)
    text[ends - lengths - 2] = BEGIN
    symbols, owner = alphabet.symbols(points), np.repeat(np.arange(len(words)), lengths)
    text[np.arange(len(points)) + 2 * owner + 1] = symbols
    positions = np.flatnonzero(text != BEGIN)
    escapes = np.zeros(len(positions))
    escapes[text[positions] == ESCAPE] = alphabet.log_escape(points[symbols == ESCAPE])
    return Events(text, positions, np.repeat(np.arange(len(words)), lengths + 1), escapes)


class LevelCounts(NamedTuple):
    """What was counted of n-grams with a context of one length, for each of E predictions."""

    once: np.ndarray  # occurrences of the n-gram, float64, shape (E,)
    total: np.ndarray  # occurrences of its context; 0 where it never occurred
    distinct: np.ndarray  # symbols that followed the context
    continued: np.ndarray
    continued_total: np.ndarray


class _Level(NamedTuple):
    """Of the n-grams of one order; a last position is that of all which were not seen."""

    keys: np.ndarray  # see `kneser_ney.pack`
    counts: np.ndarray  # once, continued: (2, M + 1)
    totals: np.ndarray  # once, continued, distinct, by context: (3, C + 1)


class NgramCounts:
    """Counts of the n-grams of types, each once, and the adjusted ones of `kneser_ney`: what
    reaches the beginning of a word has nothing before it."""

    def __init__(self, types: Sequence[str], alphabet: Alphabet, order: int) -> None:
        self.alphabet = alphabet
        self._levels: list[_Level] = []
        counted = kneser_ney.adjusted_counts(
            kneser_ney.count_ngrams(word_events(types, alphabet).text, order)
        )
        size = 1
        for (keys, plain), adjusted, _ in counted:
            counts = np.stack([plain, adjusted])  # (2, M)
            # Of single symbols, whose keys are their ids, one: 0.
            contexts = kneser_ney.prefix_places(keys)
            if not self._levels:
                counts[:, BEGIN : BEGIN + 1] = 0
            sums = [np.bincount(contexts, row, size) for row in (*counts, counts[0] > 0)]
            padded = (np.pad(one, ((0, 0), (0, 1))) for one in (counts, np.stack(sums)))
            self._levels.append(_Level(keys, *padded))
            size = len(keys)

    def look_up(self, events: Events) -> list[LevelCounts]:
        """Return the counts of predictions at each level, the shortest context first."""
        if not len(events.positions):
            return [LevelCounts(*np.zeros((5, 0))) for _ in self._levels]
        first = max(events.positions[0] - len(self._levels), 0)
        text = events.text[first : events.positions[-1] + 1]
        at, contexts = events.positions - first, np.zeros(len(events.positions), np.int64)
        found = []
        # Of n-grams that end there.
        positions = np.where(text < len(self._levels[0].keys), text, -1)
        for level, held in enumerate(self._levels):
            if level:
                contexts = positions[at - 1]
                ends = np.flatnonzero((text[1:] != BEGIN) & (positions[:-1] >= 0)) + 1
                keys = kneser_ney.pack(positions[ends - 1], text[ends])
                positions = np.full(len(text), -1)
                positions[ends] = kneser_ney.find_keys(held.keys, keys)
            once, continued = held.counts[:, positions[at]]
            total, continued_total, distinct = held.totals[:, contexts]
            found.append(LevelCounts(once, total, distinct, continued, continued_total))
        return found


# Both parameters stay inside these limits, so that every symbol keeps a probability above 0.
DISCOUNTS = (1e-3, 1 - 1e-3)
CONCENTRATIONS = (1e-3, 1e3)
DIGITS = 4


class Smoothing(NamedTuple):
    """Weights of a smoothing."""

    # d of each level, the shortest context first; its length is the order
    discounts: tuple[float, ...]
    concentrations: tuple[float, ...]  # a of each level

    @property
    def order(self) -> int:
        """Length of the longest n-gram."""
        return len(self.discounts)


class _Step(NamedTuple):
    p: np.ndarray
    backing: np.ndarray  # dp / d(shorter p); 1 where the context was never seen
    by_discount: np.ndarray
    by_concentration: np.ndarray


def _steps(levels: Sequence[LevelCounts], smoothing: Smoothing, size: int) -> list[_Step]:
    shorter, steps = np.full(len(levels[0].once), 1 / size), list[_Step]()
    for held, discount, concentration in zip(levels, *smoothing, strict=False):
        is_top = len(steps) == smoothing.order - 1
        n, total = (held.once, held.total) if is_top else (held.continued, held.continued_total)
        room, known = total + concentration, total > 0
        mass = (discount * held.distinct + concentration) / room
        p = np.maximum(n - discount, 0) / room + mass * shorter
        by_discount = known * (held.distinct * shorter - (n > discount)) / room
        backing, by_concentration = np.where(known, mass, 1.0), known * (shorter - p) / room
        shorter = np.where(known, p, shorter)
        steps.append(_Step(shorter, backing, by_discount, by_concentration))
    return steps


def probabilities(levels: Sequence[LevelCounts], smoothing: Smoothing, size: int) -> np.ndarray:
    """Return p of each prediction, an escape as one symbol: float64, (E,), above 0."""
    return _steps(levels, smoothing, size)[-1].p


def _log_likelihood(
    levels: Sequence[LevelCounts], smoothing: Smoothing, size: int
) -> tuple[float, np.ndarray]:
    """Return the sum of log p and its gradient by discounts, then concentrations."""
    steps = _steps(levels, smoothing, size)
    slope = 1 / steps[-1].p
    by = []
    for step in reversed(steps):
        # Not @: the sums of a BLAS depend on its threads.
        sides = (step.by_discount, step.by_concentration)
        by.append([float((slope * side).sum()) for side in sides])
        slope = slope * step.backing
    return float(np.log(steps[-1].p).sum()), np.array(by[::-1]).T.ravel()


def fit_smoothing(levels: Sequence[LevelCounts], order: int, size: int) -> Smoothing:
    """Choose the weights of `order` levels, of `size` symbols, that give held-out words the highest
    p: a local maximum of L-BFGS-B from one start, rounded to `DIGITS` decimals."""
    from scipy.optimize import minimize

    def weights(logits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return 1 / (1 + np.exp(-logits[:order])), np.exp(logits[order:])

    def loss(logits: np.ndarray) -> tuple[float, np.ndarray]:
        d, a = weights(logits)
        value, slope = _log_likelihood(levels, Smoothing(tuple(d), tuple(a)), size)
        scale = len(levels[0].once)
        return -value / scale, -slope * np.concatenate([d * (1 - d), a]) / scale

    low, high = np.log(CONCENTRATIONS)
    edge = np.log(DISCOUNTS[1] / DISCOUNTS[0])
    bounds = [(-edge, edge)] * order + [(low, high)] * order
    found = minimize(loss, np.zeros(2 * order), jac=True, method="L-BFGS-B", bounds=bounds).x
    kept = zip(weights(found), (DISCOUNTS, CONCENTRATIONS), strict=True)
    return Smoothing(*(tuple(np.clip(one, *ends).round(DIGITS).tolist()) for one, ends in kept))
