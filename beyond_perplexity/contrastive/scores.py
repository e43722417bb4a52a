"""What models say of documents and of sentences, bit for bit the same in whatever company.

On a CPU the rounding of a product of matrices depends on their shapes. So a text is filled up to a
width that its own length decides, and batches have whole quanta of rows: then a score does not
depend on the batch, shard or order that a text is in.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice
from typing import Any, NamedTuple

import numpy as np
import pyarrow.compute as pc
import torch

from beyond_perplexity.corpus.distortions import DistortionOptions, check_level, distort
from beyond_perplexity.corpus.sentences import CutDocument, sentence_item
from beyond_perplexity.errors import InputError
from beyond_perplexity.invariant_tensors import QUANTUM, padded_width
from beyond_perplexity.models import likelihoods
from beyond_perplexity.models.contract import LanguageModel, TrainedModel
from beyond_perplexity.models.latent import UnnormalizedModel
from beyond_perplexity.schemas.contrastive import CONTRAST_SCORES
from beyond_perplexity.storage.shards import read_rows
from beyond_perplexity.vocabulary import UNK, Vocabulary

BATCH_POSITIONS = 8192

Text = Sequence[str]  # a document: its sentences, each with its words joined by one blank


class TextScores(NamedTuple):
    """Scores of N texts."""

    log_score: np.ndarray  # float64, (N,): nats; −inf where a text is impossible
    unknown: np.ndarray  # int64, (N,): tokens that the model reads as ``<unk>``


class Scorer(NamedTuple):
    """How a model scores: a text falls into pieces whose scores add up."""

    vocabulary: Vocabulary
    sentence_level: bool  # whether sentences are encoded and scored each by itself
    pieces: Callable[[Sequence[np.ndarray]], Iterable[Any]]  # of the ids of a text; at least one
    width: Callable[[Any], int]  # what a piece is filled up to: a matter of the piece alone
    run: Callable[[Sequence[Any], int], np.ndarray]  # scores of pieces of a width, float64


def document_scorer(model: LanguageModel, vocabulary: Vocabulary) -> Scorer:
    """Score log p of whole documents and of ``</s>``, in windows where the context is limited."""
    context, stride = likelihoods.check_window(model, None, None)

    def pieces(ids: Sequence[np.ndarray]) -> Iterator[likelihoods.ScoreWindow]:
        return likelihoods.cut_windows(0, ids[0], context, stride)

    def run(windows: Sequence[likelihoods.ScoreWindow], width: int) -> np.ndarray:
        return np.array([part.sum() for part in likelihoods.score_windows(model, windows, width)])

    width = partial(likelihoods.window_width, context=context)
    return Scorer(vocabulary, False, pieces, width, run)


def sentence_scorer(model: UnnormalizedModel, vocabulary: Vocabulary) -> Scorer:
    """Score every sentence by itself, up to a constant."""

    def run(sentences: Sequence[np.ndarray], width: int) -> np.ndarray:
        tokens = np.zeros((len(sentences), width), np.int64)
        for row, ids in enumerate(sentences):
            tokens[row, : len(ids)] = ids
        lengths = np.array([len(ids) for ids in sentences])
        given = (torch.from_numpy(held).to(model.device) for held in (tokens, lengths))
        return model.sentence_log_scores(*given).double().cpu().numpy()

    return Scorer(vocabulary, True, list, lambda ids: padded_width(len(ids)), run)


def make_scorer(model: TrainedModel, vocabulary: Vocabulary, name: object) -> Scorer:
    """Choose how a model scores; `name` is what a message calls it."""
    if isinstance(model, LanguageModel):
        return document_scorer(model, vocabulary)
    if isinstance(model, UnnormalizedModel):
        return sentence_scorer(model, vocabulary)
    raise InputError(f"{name}: has latent variables, its scores are estimates; leave it out")


@torch.no_grad()
def score_texts(
    scorer: Scorer, texts: Iterable[Text], batch_positions: int = BATCH_POSITIONS
) -> TextScores:
    """Score a stream of texts without holding them; on a CPU no score depends on the batches."""
    scores, starts, unknown = array("d"), array("q"), array("q")

    def pieces() -> Iterator[tuple[int, tuple[int, Any]]]:
        stream = iter(texts)
        while pool := list(islice(stream, likelihoods.POOL)):
            strings = [list(text) if scorer.sentence_level else [" ".join(text)] for text in pool]
            encoded = iter(scorer.vocabulary.encode(list(chain(*strings))))
            for held in strings:
                ids = list(islice(encoded, len(held)))
                starts.append(len(scores))
                unknown.append(sum(int(np.count_nonzero(part == UNK)) for part in ids))
                for piece in scorer.pieces(ids):
                    scores.append(0.0)
                    yield scorer.width(piece), (len(scores) - 1, piece)

    for width, batch in likelihoods.full_batches(pieces(), batch_positions):
        _run(scorer, batch, width, scores)
    # from left to right, so that only a text's own pieces matter
    totals = np.add.reduceat(np.asarray(scores), np.asarray(starts)) if starts else np.zeros(0)
    if np.isnan(totals).any():
        fault = "its weights are damaged or its numbers overflow: train or bring the model again"
        text = int(np.argmax(np.isnan(totals)))
        raise InputError(f"text {text}: the model gives it the score NaN; {fault}")
    return TextScores(totals, np.asarray(unknown))


def _run(scorer: Scorer, held: Sequence[tuple[int, Any]], width: int, scores: array[float]) -> None:
    """Score the pieces of a batch, the last one repeated up to a whole number of quanta."""
    pieces = [piece for _, piece in held]
    found = scorer.run(pieces + pieces[-1:] * (-len(pieces) % QUANTUM), width)
    for (index, _), score in zip(held, found, strict=False):
        scores[index] = score


PURPOSE = "contrastive"  # of the random streams
_CELLS = 1 << 17  # positions of sentences that are distorted together

# The first draw of each level and their number; level 0 has one, the text itself.
Versions = Mapping[float, tuple[int, int]]


def read_versions(values: Mapping[str, object]) -> dict[float, tuple[int, int]]:
    """Read from a JSON object the first draw of each level and the number of its draws."""
    found = {}
    for name, held in values.items():
        try:
            level = float(name)
        except ValueError as error:
            raise InputError(f"versions.{name}: is no level; give a number from 0 to 1") from error
        check_level(level)
        first, number = held if isinstance(held, list) and len(held) == 2 else (None, None)
        if not (type(first) is type(number) is int and min(first, number) >= 0):
            raise InputError(f"versions.{name}: is {held!r}, expected [first draw, number]")
        found[level] = (first, number)
    return found


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
        self._indices = {word: index for index, word in enumerate(words)}
        self.candidates = np.arange(len(words), dtype=np.int64)
        self._name = name
        if not words:
            raise InputError(f"{name}: has no words to substitute; choose another vocabulary")

    def check(self, units: Iterable[CutDocument]) -> None:
        """Raise `InputError` where no word of a text is among the substitutes."""
        words = (word for unit in units for held in unit.sentences for word in held)
        if not any(word in self._indices for word in words):
            advice = "name a vocabulary of this corpus, or set substitutes: text"
            raise InputError(f"{self._name}: has no word of the text that is distorted; {advice}")

    def indices(self, units: Sequence[CutDocument]) -> tuple[np.ndarray, ...]:
        """Look up the words of documents in the table, where new ones are added.

        Indices of words, (B, T), length, (B,), item and document of each sentence; the table.
        """
        held = [
            (document, sentence_item(unit.unit_id, number), words)
            for document, unit in enumerate(units)
            for number, words in enumerate(unit.sentences)
        ]
        indices = dict(self._indices)
        lengths = np.array([len(words) for *_, words in held], np.int64)
        tokens = np.zeros((len(held), lengths.max()), np.int64)
        for row, (*_, words) in enumerate(held):
            tokens[row, : len(words)] = [indices.setdefault(w, len(indices)) for w in words]
        owners, items = np.array([one[:2] for one in held]).T
        return tokens, lengths, items, owners, np.array(list(indices), object)


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
) -> Iterator[tuple[list[list[str]], dict[str, np.ndarray]]]:
    """Yield the texts of each version of D documents, and its columns, (D,)."""
    tokens, lengths, items, owners, table = substitutes.indices(units)
    given: dict[str, Any] = {"seed": seed, "purpose": PURPOSE, "items": items}
    for level, (first, number) in sorted(versions.items()):
        for draw in range(first, first + number):
            found, lengths_found, counts = distort(
                *(tokens, lengths, level, options, substitutes.candidates), draw=draw, **given
            )
            texts: list[list[str]] = [[] for _ in units]
            for unit, row, length in zip(owners, found, lengths_found, strict=True):
                texts[unit].append(" ".join(table[row[:length]]))
            counted = {"words": lengths_found, **counts._asdict()}
            columns = {n: np.bincount(owners, held).astype(np.int64) for n, held in counted.items()}
            columns |= {"level": np.full(len(units), level)}
            columns |= {"draw": np.full(len(units), draw, np.int32)}
            yield texts, columns


class PairIndices(NamedTuple):
    """Where the scores of P sentences that a version changed stand among those of all texts."""

    own: np.ndarray  # int64, (P,): of the sentence as it was
    distorted: np.ndarray  # int64, (P,)
    owners: np.ndarray  # int64, (P,): its document
    documents: int

    def compare(self, scores: np.ndarray) -> dict[str, np.ndarray]:
        """Count by document the pairs, those won by the sentence as it was, and equal scores."""
        own, distorted = scores[self.own], scores[self.distorted]
        held = {"pairs": np.ones(len(own), bool), "preferred": own > distorted}
        held |= {"undecided": own == distorted}
        owners, n = self.owners, self.documents
        return {name: np.bincount(owners[is_so], minlength=n) for name, is_so in held.items()}


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
    Sentences that a version changes are scored by themselves too, whatever the model scores: what
    it prefers does then not depend on whether it reads what stands before.
    """
    rows: list[dict[str, np.ndarray]] = []
    pairs: list[PairIndices] = []

    def texts() -> Iterator[list[str]]:
        done = at = 0  # documents, texts so far
        for part in _together(units):
            own = [" ".join(words) for unit in part for words in unit.sentences]
            owners = np.repeat(np.arange(len(part)), [len(unit.sentences) for unit in part])
            yield from ([text] for text in own)
            first, at = at, at + len(own)
            for found, columns in _versions(part, substitutes, versions, options, seed):
                rows.append({**columns, "document": np.arange(done, done + len(part))})
                rows[-1]["text"] = np.arange(at, at + len(part))
                yield from found
                now = list(chain(*found))
                changed = np.flatnonzero([a != b for a, b in zip(own, now, strict=True)])
                indices = at + changed  # documents of one sentence are scored already
                at += len(part)
                if len(own) > len(part):
                    indices = np.arange(at, at + len(changed))
                    yield from ([now[index]] for index in changed.tolist())
                    at += len(changed)
                pairs.append(PairIndices(first + changed, indices, owners[changed], len(part)))
            done += len(part)

    found = score_texts(scorer, texts())
    if not rows:
        return {name: [] for name in CONTRAST_SCORES.names}
    for row, indices in zip(rows, pairs, strict=True):
        row |= indices.compare(found.log_score)
    held = {name: np.concatenate([one[name] for one in rows]) for name in rows[0]}
    texts_of_rows = held.pop("text")
    held |= {name: values[texts_of_rows] for name, values in found._asdict().items()}
    order = np.lexsort((held["draw"], held["level"], held["document"]))
    documents = held.pop("document")[order].tolist()
    own: dict[str, list[Any]] = {
        "unit_id": [unit.unit_id for unit in units],
        "group": [unit.group for unit in units],
        "sentences": [len(unit.sentences) for unit in units],
        "one_word": [sum(len(words) == 1 for words in unit.sentences) for unit in units],
    }
    return {
        "sentence_level": [scorer.sentence_level] * len(documents),
        **{name: [values[row] for row in documents] for name, values in own.items()},
        **{name: values[order] for name, values in held.items()},
    }
