"""Every version of a set of documents that is scored: the text itself, and its distortions.

Words are distorted as strings, not as a model's ids, so that all models score the same texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow.compute as pc

from beyond_perplexity.contrastive.scores import Scorer, score_texts
from beyond_perplexity.corpus.distortions import DistortionOptions, check_level, distort
from beyond_perplexity.corpus.sentences import CutDocument, sentence_item
from beyond_perplexity.errors import InputError
from beyond_perplexity.schemas.contrastive import CONTRAST_SCORES
from beyond_perplexity.storage.shards import read_rows

PURPOSE = "contrastive"  # of the random streams
_CELLS = 1 << 17  # places of sentences that are distorted together

Versions = Mapping[float, tuple[int, int]]
"""The first draw of each level and their number; level 0 has one, the text itself."""


def read_versions(values: Mapping[str, object]) -> dict[float, tuple[int, int]]:
    """Read from a JSON object the first draw of each level and the number of its draws."""
    found = {}
    for name, held in values.items():
        try:
            level = float(name)
        except ValueError as error:
            raise InputError(f"versions.{name}: is no level; give a number from 0 to 1") from error
        check_level(level)
        natural = isinstance(held, list) and all(type(n) is int and n >= 0 for n in held)
        if not (natural and isinstance(held, list) and len(held) == 2):
            raise InputError(f"versions.{name}: is {held!r}, expected [first draw, number]")
        found[level] = (held[0], held[1])
    return found


class _Version(NamedTuple):
    """One version of documents that are distorted together: texts, and counts of each."""

    level: float
    draw: int
    texts: list[list[str]]
    counts: np.ndarray  # words, and the four of `DistortionCounts`; (D, 5)


class _Sentences(NamedTuple):
    """Sentences of some documents, with the places of their words in a table of words."""

    tokens: np.ndarray  # (B, T)
    lengths: np.ndarray  # (B,)
    items: np.ndarray  # (B,)
    units: np.ndarray  # (B,): which document each is of


def types_of_split(path: str, split: str) -> list[str]:
    """List the types of a split in the order of their code points."""
    found: set[str] = set()
    for batch in read_rows([path], ["text"], split):
        for words in pc.split_pattern(batch.column("text"), " ").to_pylist():
            found.update(words)
    return sorted(found - {""})


class Substitutes:
    """A table of words, the substitutes first, in an order that does not depend on the run."""

    def __init__(self, words: Sequence[str], name: object) -> None:
        self._places = {word: place for place, word in enumerate(words)}
        self.candidates = np.arange(len(words), dtype=np.int64)
        self._name = name
        if not words:
            raise InputError(f"{name}: has no words to substitute; choose another vocabulary")

    def check(self, units: Iterable[CutDocument]) -> None:
        """Raise `InputError` where no word of a text is among the substitutes."""
        words = (word for unit in units for held in unit.sentences for word in held)
        if not any(word in self._places for word in words):
            raise InputError(
                f"{self._name}: has no word of the text that is distorted; name a vocabulary of "
                "this corpus, or set substitutes: text"
            )

    def place(self, units: Sequence[CutDocument]) -> tuple[_Sentences, np.ndarray]:
        """Put the words of documents into the table: their sentences, and the table."""
        held = [
            (place, unit.unit_id, number, words)
            for place, unit in enumerate(units)
            for number, words in enumerate(unit.sentences)
        ]
        places = dict(self._places)
        ids = [[places.setdefault(word, len(places)) for word in words] for *_, words in held]
        lengths = np.array([len(row) for row in ids], np.int64)
        tokens = np.zeros((len(ids), lengths.max()), np.int64)
        for row, places_of in enumerate(ids):
            tokens[row, : len(places_of)] = places_of
        items = np.array([sentence_item(unit_id, number) for _, unit_id, number, _ in held])
        of_units = np.array([place for place, *_ in held])
        return _Sentences(tokens, lengths, items, of_units), np.array(list(places), object)


def _together(units: Iterable[CutDocument]) -> Iterator[list[CutDocument]]:
    """Group documents so that their sentences, filled up, are not too many."""
    part: list[CutDocument] = []
    count = width = 0
    for unit in units:
        longest = max(map(len, unit.sentences))
        if part and (count + len(unit.sentences)) * max(width, longest) > _CELLS:
            yield part
            part, count, width = [], 0, 0
        part.append(unit)
        count, width = count + len(unit.sentences), max(width, longest)
    if part:
        yield part


def _versions(
    units: Sequence[CutDocument],
    substitutes: Substitutes,
    versions: Versions,
    options: DistortionOptions,
    seed: int,
) -> Iterator[_Version]:
    sentences, table = substitutes.place(units)
    for level in sorted(versions):
        first, number = versions[level]
        for draw in range(first, first + number):
            tokens, lengths, counts = distort(
                sentences.tokens,
                sentences.lengths,
                level,
                options,
                substitutes.candidates,
                seed=seed,
                purpose=PURPOSE,
                items=sentences.items,
                draw=draw,
            )
            texts: list[list[str]] = [[] for _ in units]
            for unit, row, length in zip(sentences.units, tokens, lengths, strict=True):
                texts[unit].append(" ".join(table[row[:length]]))
            each = (np.bincount(sentences.units, column) for column in (lengths, *counts))
            yield _Version(level, draw, texts, np.stack(list(each), 1).astype(np.int64))


def score_versions(
    scorer: Scorer,
    units: Sequence[CutDocument],
    substitutes: Substitutes,
    versions: Versions,
    options: DistortionOptions,
    seed: int,
) -> dict[str, object]:
    """Score all versions of documents: columns of schema ``contrast_scores``.

    Documents are in their order; of each version after version, in the order of levels and draws.
    """
    places: list[np.ndarray] = []
    rows: list[tuple[float, int, np.ndarray]] = []

    def texts() -> Iterator[list[str]]:
        done = 0
        for part in _together(units):
            for found in _versions(part, substitutes, versions, options, seed):
                places.append(np.arange(done, done + len(part)))
                rows.append((found.level, found.draw, found.counts))
                yield from found.texts
            done += len(part)

    scores = score_texts(scorer, texts())
    if not rows:
        return {name: [] for name in CONTRAST_SCORES.names}
    place = np.concatenate(places)
    sizes = [len(counts) for *_, counts in rows]
    level = np.repeat([level for level, *_ in rows], sizes)
    draw = np.repeat([draw for _, draw, _ in rows], sizes)
    order = np.lexsort((draw, level, place))
    counts = np.concatenate([counts for *_, counts in rows])[order]
    held = [units[index] for index in place[order]]
    single = [sum(len(words) == 1 for words in unit.sentences) for unit in units]
    return {
        "unit_id": [unit.unit_id for unit in held],
        "group": [unit.group for unit in held],
        "sentence_level": [scorer.sentence_level] * len(held),
        "level": level[order],
        "draw": draw[order].astype(np.int32),
        "sentences": [len(unit.sentences) for unit in held],
        "one_word": np.array(single)[place[order]],
        "unknown": scores.unknown[order],
        "log_score": scores.log_score[order],
        **dict(zip(_COUNTED, counts.T, strict=True)),
    }


_COUNTED = ("words", "substituted", "transposed", "deleted", "inserted")
