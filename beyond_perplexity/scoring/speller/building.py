"""A speller is taught the types of a training text and tuned on the validation split's."""

from __future__ import annotations

import hashlib
import heapq
import math
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from beyond_perplexity.errors import InputError
from beyond_perplexity.scoring.speller.alphabet import Alphabet
from beyond_perplexity.scoring.speller.counts import NgramCounts, word_events
from beyond_perplexity.scoring.speller.smoothing import Smoothing, fit_smoothing
from beyond_perplexity.scoring.speller.speller import CharacterModel, Speller
from beyond_perplexity.vocabulary import SPECIAL_TOKENS, ClosedVocabulary

ORDERS = range(1, 9)
# What teaches and what tunes: more gains little and costs time, memory, and room in the file.
MOST_TAUGHT, MOST_HELD_OUT = 300_000, 5_000
# With fewer held-out types nothing is tuned.
LEAST_HELD_OUT = 100
# Near what was chosen on English Wikipedia and WikiText-2.
UNTUNED = Smoothing((0.95, 0.3, 0.7, 0.85, 0.7, 0.55), (1.0, 8.0, 2.0, 1.0, 1.0, 0.1))


class _Candidate(NamedTuple):
    model: CharacterModel
    taught: str
    order_bits: dict[str, float]  # bits per held-out type by order, before V is taken out


def sample_types(types: Collection[str], most: int) -> list[str]:
    """Take `most` types by a hash of their letters, sorted: the same ones in whatever order."""
    if len(types) <= most:
        return sorted(types)

    def key(word: str) -> bytes:
        return hashlib.blake2b(word.encode(), digest_size=16).digest()

    return sorted(heapq.nsmallest(most, types, key=key))


def _tune(types: Sequence[str], held_out: Sequence[str], taught: str) -> _Candidate:
    """Choose the order and its weights by the held-out types."""
    alphabet = Alphabet(types)
    counts = NgramCounts(types, alphabet, max(ORDERS))
    levels = counts.look_up(word_events(held_out, alphabet))
    bits, models = {}, {}
    for order in ORDERS:
        models[order] = CharacterModel(types, fit_smoothing(levels, order, alphabet.size), counts)
        bits[order] = -float(models[order].log_probs(held_out).mean()) / math.log(2)
    best = min(ORDERS, key=lambda order: bits[order])
    named = {str(order): round(value, 4) for order, value in bits.items()}
    return _Candidate(models[best], taught, named)


def _bits(speller: Speller, words: Sequence[str]) -> float:
    return -float(speller.log_probs(words).mean()) / math.log(2)


def build_speller(
    trained: Iterable[str], validated: Iterable[str], vocabulary: ClosedVocabulary
) -> Speller:
    """Make the speller of a closed vocabulary.

    Two are tuned, one taught the training types that the vocabulary lacks, one all training types;
    the better one on held-out types is taken. Rare words are most like unknown ones, but known ones
    have the same stems and endings (Mielke and Eisner 2019).

    Parameters
    ----------
    trained : iterable of str
        The types of the training text from which the vocabulary was built.
    validated : iterable of str
        The types of the validation split; those that the vocabulary lacks tune the speller. With
        fewer than `LEAST_HELD_OUT` of them it is taught all types, with fixed weights.
    vocabulary : ClosedVocabulary

    Returns
    -------
    Speller
        Its ``origin`` says what was tried, and the bits per held-out type.

    Raises
    ------
    InputError
        When the vocabulary is not of this training text.
    """
    known = frozenset(vocabulary.describe()["words"])
    rare = frozenset(trained) - known
    if len(rare - set(SPECIAL_TOKENS)) != vocabulary.unknown_types:
        raise InputError(
            f"the vocabulary lacks {vocabulary.unknown_types} types of its training text, of this "
            f"one {len(rare - set(SPECIAL_TOKENS))}: it was built from another; build it again"
        )
    held_out = sample_types(frozenset(validated) - known, MOST_HELD_OUT)
    everything = sample_types(rare | known, MOST_TAUGHT)
    if len(held_out) < LEAST_HELD_OUT:
        origin = {"taught": "all", "types": len(everything), "held_out_types": 0}
        return Speller(CharacterModel(everything, UNTUNED), vocabulary, origin=origin)
    tried = [_tune(everything, held_out, "all")]
    if rare:
        tried.append(_tune(sample_types(rare, MOST_TAUGHT), held_out, "rare"))
    spellers = [Speller(candidate.model, vocabulary) for candidate in tried]
    bits = [_bits(speller, held_out) for speller in spellers]
    best = int(np.argmin(bits))
    spellers[best].origin = {
        "taught": tried[best].taught,
        "types": len(tried[best].model.types),
        "held_out_types": len(held_out),
        "bits_per_held_out_type": {
            candidate.taught: round(value, 4) for candidate, value in zip(tried, bits, strict=True)
        },
        "bits_by_order": {candidate.taught: candidate.order_bits for candidate in tried},
    }
    return spellers[best]
