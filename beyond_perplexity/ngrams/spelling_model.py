"""Spelling of the words that a closed vocabulary lacks, so that its model gives every text a p.

    p(word) = p(<unk>) · p_spell(word | not in the vocabulary)
    p_spell(w | not in V) = p_char(w) / (1 - Σ_{v in V} p_char(v))

`p_char` is a Kneser-Ney n-gram of characters over types of the training text, each once: as Mielke
and Eisner (2019) say, a word is spelled when it enters the lexicon, not each time it is used. It is
above 0 for every string without a blank (`Alphabet`), the end is possible after every character and
not before the first, and it sums to 1 over all words, and again without the strings of V (special
tokens aside: a text's own ``<unk>`` is a word). So log P of a text with its spellings is that of a
distribution over strings, and bits per byte of models with different vocabularies are of one thing.

What may be said against it, and what is true of it:

- *The number is of model and spelling model together.* A closed model alone is no distribution over
  texts. No difference between models of one vocabulary depends on the spelling model; between
  vocabularies one bit a word moves bits per byte by the unknown words per byte (.025 where 14% of
  the words are unknown): ``bits_per_unknown_word`` stands beside the result.
- *It is blind to the sentence*, and penalizes a name in full the tenth time that a document has it:
  more than need be (Mielke and Eisner let the model's state speak to it), as models of subwords are
  by one segmentation. Neither column says which kind of vocabulary is better.
- *It is fitted to what it is measured on*: no. Types of the training split teach it; the unknown
  types of the validation split choose order and weights, and whether known words teach too.
- *It is no published one*: the number is a valid code length with any. On English Wikipedia it
  spends 23.2 bits on an unknown word, letters at their frequencies 38.6, even ones 65.8.
- *What is cleaned is spelled cheaper*: numbers of different strings share no column.

Mielke and Eisner (2019), Spell once, summon anywhere; Kneser and Ney (1995); Goldwater, Griffiths
and Johnson (2011) on types that teach and tokens that use.
"""

from __future__ import annotations

import hashlib
import heapq
import math
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from beyond_perplexity.errors import InputError
from beyond_perplexity.ngrams.character_ngrams import (
    BEGIN,
    END,
    Alphabet,
    Events,
    NgramCounts,
    Smoothing,
    fit_smoothing,
    probabilities,
    word_events,
)
from beyond_perplexity.storage.inputs import read_json
from beyond_perplexity.storage.outputs import write_json
from beyond_perplexity.storage.provenance import value_hash
from beyond_perplexity.vocabulary import SPECIAL_TOKENS, ClosedVocabulary, Vocabulary, split_words

KIND = "character n-grams"
SPELLED_AT_ONCE = 16_384
EVENTS_AT_ONCE = 1 << 18  # a word may be a file without a blank
# With less left for unknown words, 1 - Σ p(v) has no digits to rely on.
LEAST_LEFT = 1e-9


class CharacterModel:
    """A distribution over all words: strings without a blank, of at least one character."""

    def __init__(
        self, types: Sequence[str], smoothing: Smoothing, counts: NgramCounts | None = None
    ) -> None:
        self.types = sorted(types)
        self.smoothing = smoothing
        self._alphabet = counts.alphabet if counts else Alphabet(self.types)
        self._counts = counts or NgramCounts(self.types, self._alphabet, smoothing.order)
        one = np.ones(1, np.int64)
        empty = Events(np.array([BEGIN, END]), one, one - 1, np.zeros(1))
        self._log_some = math.log1p(-float(self._probabilities(empty)[0]))

    def _probabilities(self, events: Events) -> np.ndarray:
        found: list[np.ndarray] = []
        for start in range(0, len(events.positions), EVENTS_AT_ONCE):
            part = events.cut(start, start + EVENTS_AT_ONCE)
            levels = self._counts.look_up(part)
            found.append(probabilities(levels, self.smoothing, self._alphabet.size))
        return np.concatenate(found)

    def log_probs(self, words: Sequence[str]) -> np.ndarray:
        """Return ln p of each word, float64; the same whatever is asked for beside it."""
        found: list[np.ndarray] = [np.zeros(0)]
        for start in range(0, len(words), SPELLED_AT_ONCE):
            part = words[start : start + SPELLED_AT_ONCE]
            events = word_events(part, self._alphabet)
            logs = np.log(self._probabilities(events)) + events.log_escapes
            found.append(np.bincount(events.words, logs, len(part)) - self._log_some)
        return np.concatenate(found)


class SpellingModel:
    """Spells the words that a closed vocabulary, of known `mass`, lacks, which must not have all
    the probability; `origin`, JSON-serializable, says how the model was chosen."""

    def __init__(
        self,
        model: CharacterModel,
        vocabulary: ClosedVocabulary,
        mass: float | None = None,
        origin: Mapping[str, Any] | None = None,
    ) -> None:
        self.model = model
        self.origin = dict(origin or {})
        self._vocabulary = vocabulary
        words = vocabulary.describe()["words"]
        self._known = frozenset(words)
        self.mass = math.fsum(np.exp(model.log_probs(words))) if mass is None else mass
        if not 0 <= self.mass <= 1 - LEAST_LEFT:
            fault = "the spelling model gives all its probability to the vocabulary"
            advice = "leaves none to others; build it from types that the vocabulary lacks"
            raise InputError(f"{fault} and {advice}")

    def log_probs(self, words: Sequence[str]) -> np.ndarray:
        """Return ln p of each word given that the vocabulary lacks it, float64."""
        for word in words:
            if word in self._known:
                raise InputError(f"the word {word!r} is in the vocabulary and is not to be spelled")
        return self.model.log_probs(words) - math.log1p(-self.mass)

    def spell(self, texts: Sequence[str], unknown: Sequence[int]) -> np.ndarray:
        """Return for each text the sum of ln p of the words that the vocabulary lacks; a model that
        read another number of words as ``<unk>`` is an `InputError`."""
        known = self._known
        lacking = [[word for word in split_words(text) if word not in known] for text in texts]
        for text, words, read in zip(texts, lacking, unknown, strict=True):
            if len(words) != read:
                fault = f"reads {read} words of the text that begins {text[:40]!r} as <unk>"
                advice = "this spelling model is not for this model"
                raise InputError(f"the model {fault}, its vocabulary lacks {len(words)}: {advice}")
        owner = np.repeat(np.arange(len(texts)), [len(words) for words in lacking])
        logs = self.log_probs([word for words in lacking for word in words])
        return np.bincount(owner, logs, len(texts))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the spelling model to a JSON file, atomically."""
        smoothing, held = self.model.smoothing, {"kind": KIND, "types": " ".join(self.model.types)}
        smoothed = {name: getattr(smoothing, name) for name in ("discounts", "concentrations")}
        made_for = {"mass": self.mass, "vocabulary_sha256": self._vocabulary.hash}
        whole = {**held, **smoothed, **made_for, "origin": self.origin}
        write_json(path, {**whole, "sha256": value_hash(whole)})


def _read(path: str | os.PathLike[str]) -> dict[str, Any]:
    held: dict[str, Any] = read_json(path, "spelling model file", "build the spelling model again")
    try:
        if held["kind"] != KIND or held.pop("sha256") != value_hash(held):
            raise ValueError("its content is not what was written")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path}: is no spelling model file ({error}); build it again") from error
    return held


def load_spelling_model(path: str | os.PathLike[str], vocabulary: Vocabulary) -> SpellingModel:
    """Read a spelling model that `SpellingModel.save` wrote."""
    held = _read(path)
    if not isinstance(vocabulary, ClosedVocabulary):
        raise InputError(
            f"{path}: the model's vocabulary is open and needs no spelling model; leave it out"
        )
    if held["vocabulary_sha256"] != vocabulary.hash:
        raise InputError(f"{path}: was made for another vocabulary; build one for this model's")
    smoothing = Smoothing(tuple(held["discounts"]), tuple(held["concentrations"]))
    model = CharacterModel(split_words(held["types"]), smoothing)
    return SpellingModel(model, vocabulary, held["mass"], held["origin"])


def find_spelling_model(folder: str | os.PathLike[str], vocabulary: Vocabulary) -> Path | None:
    """Find the spelling model of a model: ``spelling_model.json`` in its folder, or its run's."""
    if not isinstance(vocabulary, ClosedVocabulary):
        return None
    own = Path(folder) / "spelling_model.json"
    if own.is_file():
        return own
    results = Path(folder).resolve().parent.parent
    for path in sorted(results.glob("vocabularies/*/*.spelling_model.json")):
        if _read(path)["vocabulary_sha256"] == vocabulary.hash:
            return path
    return None


ORDERS = range(1, 9)
# What teaches and what tunes: more gains little and costs time, memory, and room in the file.
MOST_TAUGHT, MOST_HELD_OUT = 300_000, 5_000
# With fewer held-out types nothing is tuned.
LEAST_HELD_OUT = 100
# Near what was chosen on English Wikipedia and WikiText-2.
UNTUNED = Smoothing((0.95, 0.3, 0.7, 0.85, 0.7, 0.55), (1.0, 8.0, 2.0, 1.0, 1.0, 0.1))


def sample_types(types: Collection[str], most: int) -> list[str]:
    """Take `most` types by a hash of their letters, sorted: the same ones in whatever order."""
    if len(types) <= most:
        return sorted(types)

    def key(word: str) -> bytes:
        return hashlib.blake2b(word.encode(), digest_size=16).digest()

    return sorted(heapq.nsmallest(most, types, key=key))


def _tune(types: Sequence[str], held_out: Sequence[str]) -> tuple[CharacterModel, dict[str, float]]:
    """Choose the order and its weights by the held-out types: the model, bits a type by order."""
    alphabet = Alphabet(types)
    counts = NgramCounts(types, alphabet, max(ORDERS))
    levels = counts.look_up(word_events(held_out, alphabet))
    bits, models = {}, {}
    for order in ORDERS:
        models[order] = CharacterModel(types, fit_smoothing(levels, order, alphabet.size), counts)
        bits[order] = -float(models[order].log_probs(held_out).mean()) / math.log(2)
    best = min(ORDERS, key=lambda order: bits[order])
    return models[best], {str(order): round(value, 4) for order, value in bits.items()}


def build_spelling_model(
    trained: Iterable[str], validated: Iterable[str], vocabulary: ClosedVocabulary
) -> SpellingModel:
    """Make the spelling model of a closed vocabulary from types of the training text that it is of.

    Taught the training types that it lacks, or all (known words have the same stems and endings),
    the better one on the lacking types of `validated` is taken, which also tune it; of fewer than
    `LEAST_HELD_OUT` all types teach, with fixed weights. ``origin`` has the bits per held-out type.
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
        return SpellingModel(CharacterModel(everything, UNTUNED), vocabulary, origin=origin)
    spelling_models, bits, by_order = {}, {}, {}
    teachers = {"all": everything} | ({"rare": sample_types(rare, MOST_TAUGHT)} if rare else {})
    for taught, types in teachers.items():
        model, by_order[taught] = _tune(types, held_out)
        spelling_models[taught] = SpellingModel(model, vocabulary)
        logs = spelling_models[taught].log_probs(held_out)
        bits[taught] = -float(logs.mean()) / math.log(2)
    best = min(bits, key=lambda taught: bits[taught])
    spelling_models[best].origin = {
        "taught": best,
        "types": len(spelling_models[best].model.types),
        "held_out_types": len(held_out),
        "bits_per_held_out_type": {taught: round(value, 4) for taught, value in bits.items()},
        "bits_by_order": by_order,  # before V is taken out
    }
    return spelling_models[best]
