"""What models say of documents and of sentences, bit for bit the same in whatever company.

On a CPU the rounding of a product of matrices depends on their shapes. So a text is filled up to a
width that its own length decides, and batches have whole quanta of rows: then a score does not
depend on the batch, shard or order that a text is in.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

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

        Parameters
        ----------
        tokens : Tensor
            int64, (B, T): words, filled up at the end with any id.
        lengths : Tensor
            int64, (B,).
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
