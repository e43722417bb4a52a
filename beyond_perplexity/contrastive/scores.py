"""What models say of documents and of sentences, bit for bit the same in whatever company.

On a CPU the rounding of a product of matrices depends on their shapes. So a text is filled up to a
width that its own length decides, and batches have whole quanta of rows: then a score does not
depend on the batch, shard or order that a text is in.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import pyarrow.compute as pc
import torch
from torch import Tensor

from beyond_perplexity.corpus.distortions import DistortionOptions, check_level, distort
from beyond_perplexity.corpus.sentences import CutDocument, sentence_item
from beyond_perplexity.errors import InputError
from beyond_perplexity.invariant_tensors import QUANTUM, padded_width, rows_of_batch
from beyond_perplexity.models.contract import LanguageModel, TrainedModel
from beyond_perplexity.models.likelihoods import (
    POOL,
    ScoreWindow,
    check_window,
    cut_windows,
    score_windows,
)
from beyond_perplexity.schemas.contrastive import CONTRAST_SCORES
from beyond_perplexity.storage.shards import read_rows
from beyond_perplexity.vocabulary import UNK, Vocabulary

BATCH_POSITIONS = 8192

Text = Sequence[str]
"""A document: its sentences, each with its words joined by one blank."""


@runtime_checkable
class SentenceModel(Protocol):
    """A model that scores whole sentences, up to a constant."""

    @property
    def device(self) -> torch.device:
        """Where the parameters are."""

    def sentence_log_scores(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Return the log score of sentences, nats, float64, (B,).

        `tokens`: int64, (B, T): words, filled up at the end with any id; `lengths`: int64, (B,).
        """


class TextScores(NamedTuple):
    """Scores of N texts."""

    log_score: np.ndarray  # float64, (N,): nats; −inf where a text is impossible
    unknown: np.ndarray  # int64, (N,): tokens that the model reads as ``<unk>``


class Scorer(ABC):
    """A model with its vocabulary: a text falls into pieces whose scores add up."""

    sentence_level: bool

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary

    @abstractmethod
    def pieces(self, text: Text, ids: Sequence[np.ndarray]) -> Iterator[Any]:
        """Cut a text into pieces, given the ids of the strings of `strings`; at least one."""

    @abstractmethod
    def strings(self, text: Text) -> list[str]:
        """List what is encoded of a text."""

    @abstractmethod
    def width(self, piece: Any) -> int:
        """Return what a piece is filled up to: a matter of the piece alone."""

    @abstractmethod
    def run(self, pieces: Sequence[Any], width: int) -> np.ndarray:
        """Score pieces of a width, float64."""

    def encode(self, texts: Sequence[Text]) -> Iterator[list[np.ndarray]]:
        """Yield the ids of each text's strings."""
        strings = [self.strings(text) for text in texts]
        ids = iter(self._vocabulary.encode([part for held in strings for part in held]))
        yield from (list(islice(ids, len(held))) for held in strings)


class DocumentScorer(Scorer):
    """log p of a whole document and of ``</s>``, in windows where the context is limited."""

    sentence_level = False

    def __init__(self, model: LanguageModel, vocabulary: Vocabulary) -> None:
        super().__init__(vocabulary)
        self._model = model
        self._context, self._stride = check_window(model, None, None)

    def strings(self, text: Text) -> list[str]:
        """Return the document."""
        return [" ".join(text)]

    def pieces(self, text: Text, ids: Sequence[np.ndarray]) -> Iterator[ScoreWindow]:
        """Cut a document into windows."""
        yield from cut_windows(0, ids[0], self._context, self._stride)

    def width(self, piece: ScoreWindow) -> int:
        """Return the width of a window; no model sees more than its context."""
        wide = padded_width(len(piece.tokens) - 1)
        return wide if self._context is None else min(wide, self._context)

    def run(self, pieces: Sequence[ScoreWindow], width: int) -> np.ndarray:
        """Score windows."""
        return np.array([part.sum() for part in score_windows(self._model, pieces, width)])


class SentenceScorer(Scorer):
    """The log score of every sentence by itself."""

    sentence_level = True

    def __init__(self, model: SentenceModel, vocabulary: Vocabulary) -> None:
        super().__init__(vocabulary)
        self._model = model

    def strings(self, text: Text) -> list[str]:
        """Return the sentences."""
        return list(text)

    def pieces(self, text: Text, ids: Sequence[np.ndarray]) -> Iterator[np.ndarray]:
        """Give the ids of each sentence."""
        yield from ids

    def width(self, piece: np.ndarray) -> int:
        """Return the width of a sentence."""
        return padded_width(len(piece))

    def run(self, pieces: Sequence[np.ndarray], width: int) -> np.ndarray:
        """Score sentences."""
        tokens = np.zeros((len(pieces), width), np.int64)
        for row, ids in enumerate(pieces):
            tokens[row, : len(ids)] = ids
        lengths = np.array([len(ids) for ids in pieces])
        device = self._model.device
        given = torch.from_numpy(tokens).to(device), torch.from_numpy(lengths).to(device)
        return self._model.sentence_log_scores(*given).double().cpu().numpy()


def make_scorer(model: TrainedModel, vocabulary: Vocabulary, name: object) -> Scorer:
    """Choose how a model scores; `name` is what a message calls it."""
    if isinstance(model, LanguageModel):
        return DocumentScorer(model, vocabulary)
    if isinstance(model, SentenceModel):
        return SentenceScorer(model, vocabulary)
    raise InputError(f"{name}: has latent variables, its scores are estimates; leave it out")


@torch.no_grad()
def score_texts(
    scorer: Scorer, texts: Iterable[Text], batch_positions: int = BATCH_POSITIONS
) -> TextScores:
    """Score a stream of texts without holding them; on a CPU no score depends on the batches."""
    scores, starts, unknown = array("d"), array("q"), array("q")
    waiting: dict[int, list[tuple[int, Any]]] = defaultdict(list)
    stream = iter(texts)
    while pool := list(islice(stream, POOL)):
        for text, ids in zip(pool, scorer.encode(pool), strict=True):
            starts.append(len(scores))
            unknown.append(sum(int(np.count_nonzero(part == UNK)) for part in ids))
            for piece in scorer.pieces(text, ids):
                width = scorer.width(piece)
                waiting[width].append((len(scores), piece))
                scores.append(0.0)
                if len(waiting[width]) == rows_of_batch(width, batch_positions):
                    _run(scorer, waiting.pop(width), width, scores)
    for width, left in waiting.items():
        _run(scorer, left, width, scores)
    # from left to right, so that only a text's own pieces matter
    totals = np.add.reduceat(np.asarray(scores), np.asarray(starts)) if starts else np.zeros(0)
    if np.isnan(totals).any():
        raise InputError(
            f"text {int(np.argmax(np.isnan(totals)))}: the model gives it the score NaN; its "
            "weights are damaged or its numbers overflow: train or bring the model again"
        )
    return TextScores(totals, np.asarray(unknown))


def _run(scorer: Scorer, held: Sequence[tuple[int, Any]], width: int, scores: array[float]) -> None:
    """Score the pieces of a batch, the last one repeated up to a whole number of quanta."""
    pieces = [piece for _, piece in held]
    found = scorer.run(pieces + pieces[-1:] * (-len(pieces) % QUANTUM), width)
    for (place, _), score in zip(held, found, strict=False):
        scores[place] = score


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
