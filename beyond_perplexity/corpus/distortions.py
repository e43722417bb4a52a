"""Sentences made worse: words substituted, transposed, deleted and inserted at a level.

B sentences, T words of the longest, K candidates. Every sentence and draw has a random stream, and
every position three numbers of it: whether something happens there, what, and with which word. They
are the same at every level, so that levels, models and runs are compared on the same noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from beyond_perplexity.errors import InputError
from beyond_perplexity.options import Limited, Share
from beyond_perplexity.signature import sign

EVENTS = ("substitution", "transposition", "deletion", "insertion")
_NUMBERS = 3  # uniform numbers of a position


@dataclass(frozen=True)
class DistortionOptions(Limited):
    """What happens to a word that is hit; a word is hit with probability d, the level.

    The shares add up to 1. In the paper's terms x_N = 1 − d, x_S = d · substitution and
    x_T = d · transposition: for x_S = 0.1 and x_T = 0.3 take the level 0.4 and the shares 0.25 and
    0.75.

    substitution: Share of the hit words that are replaced by a word drawn uniformly from the
        substitutes, which may be the same word.
    transposition: Share that swaps positions with another word of their sentence, drawn uniformly.
    deletion: Share that are left out; for scores of whole sentences only, as the number of words
        changes.
    insertion: Share that are followed by a new word, drawn as a substitute is; for scores of whole
        sentences only, as deletion.
    substitutes: Where substitutes come from: vocabulary, the words of a closed vocabulary (as the
        paper's text says), or text, the types of the text that is scored (as the authors' program
        does).
    """

    substitution: Share = 0.5
    transposition: Share = 0.5
    deletion: Share = 0.0
    insertion: Share = 0.0
    substitutes: Literal["vocabulary", "text"] = "vocabulary"

    def __post_init__(self) -> None:
        super().__post_init__()
        total = sum(self.shares)
        if not math.isclose(total, 1.0, abs_tol=1e-9):
            raise ValueError(f"{', '.join(EVENTS)}: the shares add up to {total:g}, not to 1")

    @property
    def shares(self) -> tuple[float, ...]:
        """The shares of `EVENTS`."""
        return self.substitution, self.transposition, self.deletion, self.insertion

    def signature(self, **parts: object) -> str:
        """Sign scores of texts that are distorted so."""
        held = [f"{n}-{share:g}" for n, share in zip(EVENTS, self.shares, strict=True) if share]
        return sign("contrast", distortion=held, substitutes=self.substitutes, **parts)

    @property
    def keeps_length(self) -> bool:
        """Whether sentences keep their number of words."""
        return self.deletion == self.insertion == 0


def check_level(level: float) -> None:
    """Refuse a level that is no probability."""
    if not 0 <= level <= 1:
        raise InputError(f"level: is {level}, expected 0 (nothing) to 1 (every word is hit)")


class DistortionCounts(NamedTuple):
    """What was done to each sentence, int64, (B,)."""

    substituted: np.ndarray  # words that were replaced, by themselves included
    transposed: np.ndarray  # permutations, each of two words; a sentence of one word has none
    deleted: np.ndarray
    inserted: np.ndarray


def distort(
    tokens: np.ndarray,
    lengths: np.ndarray,
    level: float,
    options: DistortionOptions,
    candidates: np.ndarray,
    *,
    seed: int,
    purpose: str,
    items: np.ndarray,
    draw: int = 0,
) -> tuple[np.ndarray, np.ndarray, DistortionCounts]:
    """Distort sentences, each by the numbers of its own stream; return words, lengths and counts.

    Words are substituted and transposed from left to right in place, as the authors' program does,
    so that a word that was moved to the right can be hit again. After that, positions whose lot is
    a deletion lose the word that stands there (the first position keeps it, where none would be
    left), and a new word follows positions whose lot is an insertion.

    Words are int64, (B, T), of lengths (B,); what stands behind a sentence's end does not matter.
    Distorted they are (B, T'), where T' is T if `DistortionOptions.keeps_length`. `level`: d, the
    probability that a word is hit; `candidates`, int64, (K,): ids of the substitutes; `items`,
    int64, (B,), not negative: what keys the stream of each sentence with seed and purpose (see
    `random_streams.stream`). Its distortion depends on nothing else but its words, the level, the
    draw (number of the distortion of the same text) and the options.

    References
    ----------
    Arora and Rangarajan (2016). Contrastive entropy: a new evaluation metric for unnormalized
    language models, section 5.
    """
    check_level(level)
    if not len(candidates):
        raise InputError("substitutes: there are none; the vocabulary or text has no words")
    numbers = _uniforms(seed, f"{purpose}/{draw}", items, _NUMBERS * tokens.shape[1])
    events = _events(numbers.reshape(*tokens.shape, _NUMBERS), lengths, level, options, candidates)
    done = _in_place(tokens, events, events.substitution, events.transposition)
    if not options.keeps_length:
        deletion, held = events.deletion, np.arange(tokens.shape[1]) < lengths[:, None]
        emptied = (deletion.sum(1) == lengths) & (lengths > 0)
        deletion[emptied, 0] = False
        done, lengths = _cut_and_fill(done, events.drawn, held & ~deletion, events.insertion)
    return done, lengths.copy(), DistortionCounts(*(event.sum(1) for event in events[:4]))


def _uniforms(seed: int, purpose: str, items: np.ndarray, n: int) -> np.ndarray:
    """Draw n uniform numbers of each item (B,): (B, n); of more the first ones are the same."""
    # late: plans read the options alone
    import torch

    from beyond_perplexity.invariant_tensors import uniforms

    of_items = torch.from_numpy(np.ascontiguousarray(items, np.int64))
    return uniforms(seed, purpose, of_items, 0, n).numpy()


class _Events(NamedTuple):
    """What happens at every position: (B, T) each."""

    substitution: np.ndarray  # bool, as the next three
    transposition: np.ndarray
    deletion: np.ndarray
    insertion: np.ndarray
    drawn: np.ndarray  # the word that takes its place
    partners: np.ndarray  # the other position of a transposition


def _events(
    numbers: np.ndarray,
    lengths: np.ndarray,
    level: float,
    options: DistortionOptions,
    candidates: np.ndarray,
) -> _Events:
    """Say what the numbers of every position, (B, T, 3), make of it."""
    chance, lot, which = np.moveaxis(numbers, 2, 0)  # (B, T) each
    positions = np.arange(numbers.shape[1])
    bounds = np.cumsum(options.shares)
    lots = np.searchsorted(bounds[:-1] / bounds[-1], lot, side="right")  # (B, T)
    hit = (positions < lengths[:, None]) & (chance < level)  # (B, T)
    substitution, transposition, deletion, insertion = (hit & (lots == k) for k in range(4))
    transposition &= lengths[:, None] > 1
    drawn = candidates[(which * len(candidates)).astype(np.int64)]  # (B, T)
    others = (which * (lengths[:, None] - 1)).astype(np.int64)
    partners = others + (others >= positions)
    return _Events(substitution, transposition, deletion, insertion, drawn, partners)


_RANKS, _DISTANCES = (100, 1000), (1, 4)  # where bands end
EVENT_PARTS = (
    *("substitution: ranks 1 to 100", "substitution: ranks 101 to 1,000", "substitution: rarer"),
    *("transposition: adjacent", "transposition: 2 to 4 apart", "transposition: 5 or more apart"),
)


class DistortionSteps(NamedTuple):
    """A distortion of D documents, part after part, each document in an order of its own."""

    words: list[np.ndarray]  # int64, (B, T) each: after 1, 2, … of the parts, and after all
    order: np.ndarray  # int64, (D, P): the parts of a document as they are applied
    events: np.ndarray  # int64, (D, P): words that were hit, by part


def distort_by_parts(
    tokens: np.ndarray,
    lengths: np.ndarray,
    level: float,
    options: DistortionOptions,
    candidates: np.ndarray,
    owners: np.ndarray,
    *,
    seed: int,
    purpose: str,
    items: np.ndarray,
    draw: int = 0,
) -> DistortionSteps:
    """Distort sentences as `distort` does, but only what belongs to some of `EVENT_PARTS` at first.

    A position belongs to the part of its event: a substitution by the rank of the undistorted word
    among the candidates (most frequent first); a transposition by the distance of both words.
    Documents, `owners` (B,) of sentences, have orders at random. Only distortions that keep lengths
    have parts.
    """
    if not options.keeps_length:
        raise InputError(
            "distortion: deletes or inserts words, so that H_C has no parts; set both 0"
        )
    numbers = _uniforms(seed, f"{purpose}/{draw}", items, _NUMBERS * tokens.shape[1])
    events = _events(numbers.reshape(*tokens.shape, _NUMBERS), lengths, level, options, candidates)
    distances = np.abs(events.partners - np.arange(tokens.shape[1]))
    ranks = np.searchsorted(_RANKS, tokens, side="right")
    ranks[tokens > candidates.max()] = len(_RANKS)  # unknown words, after however few are known
    parts = np.where(events.substitution, ranks, 3 + np.searchsorted(_DISTANCES, distances))
    n, (documents, firsts) = len(EVENT_PARTS), np.unique(owners, return_index=True)
    order = _uniforms(seed, f"{purpose}/order/{draw}", items[firsts], n).argsort(1)
    step = np.take_along_axis(order.argsort(1)[owners], parts, 1)  # (B, T): when a part is applied
    both = events.substitution, events.transposition
    words = [_in_place(tokens, events, *(event & (step <= k) for event in both)) for k in range(n)]
    cells = (owners[:, None] * n + parts)[both[0] | both[1]]
    hit = np.bincount(cells, minlength=len(documents) * n).reshape(-1, n)
    return DistortionSteps(words, order, hit)


def _in_place(
    tokens: np.ndarray, events: _Events, substitution: np.ndarray, transposition: np.ndarray
) -> np.ndarray:
    """Substitute and transpose from left to right, by some of the events: (B, T)."""
    done, drawn = tokens.copy(), events.drawn
    for position in np.flatnonzero((substitution | transposition).any(0)):
        rows = np.flatnonzero(transposition[:, position])
        others = events.partners[rows, position]
        done[rows, position], done[rows, others] = done[rows, others], done[rows, position]
        rows = np.flatnonzero(substitution[:, position])
        done[rows, position] = drawn[rows, position]
    return done


def _cut_and_fill(
    tokens: np.ndarray, drawn: np.ndarray, kept: np.ndarray, insertion: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Leave out words that are not kept and let new ones follow; return words and lengths."""
    count, width = tokens.shape
    both = np.stack((tokens, drawn), 2).reshape(count, 2 * width)
    chosen = np.stack((kept, insertion), 2).reshape(count, 2 * width)
    lengths = chosen.sum(1)
    found = np.zeros((count, int(lengths.max(initial=0))), np.int64)
    found[np.arange(found.shape[1]) < lengths[:, None]] = both[chosen]
    return found, lengths
