"""What models say of documents and of sentences, bit for bit the same in whatever company.

On a CPU the rounding of a product depends on shapes: a text is padded to a width that its own
length decides, and batches have whole quanta of rows.
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

from beyond_perplexity.corpus import distortions
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
        distortions.check_level(level)
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
        """Look up the words of documents in the table, where new ones are added: indices, (B, T),
        length, (B,), item and document of each sentence; the table."""
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


class _Texts:
    """The texts of a block of documents that are to be scored: each one once."""

    def __init__(self, table: np.ndarray, owners: np.ndarray, lengths: np.ndarray) -> None:
        self.asked: dict[Text, int] = {}
        self._table, self._owners, self._lengths = table, owners, lengths

    def indices(self, texts: Iterable[Text]) -> np.ndarray:
        """Return where the score of each text will stand, int64, (N,)."""
        return np.array([self.asked.setdefault(t, len(self.asked)) for t in texts], np.int64)

    def sentences(self, tokens: np.ndarray, lengths: np.ndarray | None = None) -> list[str]:
        """Write sentences, int64, (B, T), of the lengths that they have undistorted, or others."""
        held = zip(tokens, self._lengths if lengths is None else lengths, strict=True)
        return [" ".join(self._table[row[:length]]) for row, length in held]

    def documents(self, sentences: Sequence[str]) -> np.ndarray:
        """Return where the scores of D documents will stand, (D,), by their sentences (B,)."""
        begins = np.flatnonzero(np.diff(self._owners, prepend=-1)).tolist()
        ends = [*begins[1:], len(sentences)]
        return self.indices(tuple(sentences[i:j]) for i, j in zip(begins, ends, strict=True))


def _losses(order: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Return losses of documents by part, (D, P), of orders (D, P) and scores after each step."""
    found = np.empty(order.shape)
    with np.errstate(invalid="ignore"):  # of infinities, of which no H_C is known
        np.put_along_axis(found, order, -np.diff(scores, axis=1), 1)
    return found


def _score_block(
    scorer: Scorer,
    units: Sequence[CutDocument],
    substitutes: Substitutes,
    versions: Versions,
    options: distortions.DistortionOptions,
    seed: int,
    parts_level: float | None,
) -> list[dict[str, Any]]:
    """Score the versions of D documents: columns (D,) of each, in the order of levels and draws."""
    tokens, lengths, items, owners, table = substitutes.indices(units)
    texts = _Texts(table, owners, lengths)
    own = texts.sentences(tokens)
    rows: list[dict[str, Any]] = []
    splits: list[tuple[distortions.DistortionSteps, np.ndarray] | None] = []
    pairs = []  # of sentences that came out otherwise: where their scores stand, and whose they are
    for level, draw in sorted(
        (x, first + k) for x, (first, n) in versions.items() for k in range(n)
    ):
        how: dict[str, Any] = {"seed": seed, "purpose": PURPOSE, "items": items, "draw": draw}
        given = tokens, lengths, level, options, substitutes.candidates
        found, lengths_found, counts = distortions.distort(*given, **how)
        now = texts.sentences(found, lengths_found)
        changed = [k for k, (one, other) in enumerate(zip(own, now, strict=True)) if one != other]
        sides = (texts.indices((side[k],) for k in changed) for side in (own, now))
        pairs.append((*sides, owners[changed]))
        counted = {"words": lengths_found, **counts._asdict()}
        columns = {n: np.bincount(owners, held).astype(np.int64) for n, held in counted.items()}
        columns |= {"level": np.full(len(units), level), "text": texts.documents(now)}
        rows.append(columns | {"draw": np.full(len(units), draw, np.int32)})
        splits.append(None)
        if level == parts_level:
            steps = distortions.distort_by_parts(*given, owners, **how)
            after = [texts.documents(texts.sentences(words)) for words in (tokens, *steps.words)]
            splits[-1] = steps, np.stack(after, 1)
    scores = score_texts(scorer, texts.asked)
    for row, split, (one, other, whose) in zip(rows, splits, pairs, strict=True):
        gain = [scores.log_score[side] for side in (one, other)]
        is_so = {"pairs": one >= 0, "preferred": gain[0] > gain[1], "undecided": gain[0] == gain[1]}
        row |= {n: np.bincount(whose[so], minlength=len(units)) for n, so in is_so.items()}
        row |= {name: values[row["text"]] for name, values in scores._asdict().items()}
        row["parts"] = row["part_events"] = [None] * len(units)
        if split is not None:
            row["parts"] = _losses(split[0].order, scores.log_score[split[1]]).tolist()
            row["part_events"] = split[0].events.tolist()
    return rows


def score_versions(
    scorer: Scorer,
    units: Sequence[CutDocument],
    substitutes: Substitutes,
    versions: Versions,
    options: distortions.DistortionOptions,
    seed: int,
    parts_level: float | None = None,
) -> dict[str, object]:
    """Score all versions of documents: columns of schema ``contrast_scores``.

    Documents are in their order; of each version after version, in the order of levels and draws.
    Sentences that a version changes are scored by themselves too, so that what the model prefers
    does not depend on whether it reads what stands before. At `parts_level` losses are split by
    `EVENT_PARTS`: these are applied in an order at random, and each has what the score loses at its
    step. They add up to the loss; their mean over orders is the Shapley value, in which no order
    counts (Shapley 1953, A value for n-person games; Castro, Gómez and Tejada 2009, Polynomial
    calculation of the Shapley value based on sampling).
    """
    found: dict[str, list[Any]] = {name: [] for name in CONTRAST_SCORES.names}
    for block in _together(units):
        rows = _score_block(scorer, block, substitutes, versions, options, seed, parts_level)
        own: dict[str, list[Any]] = {
            "unit_id": [unit.unit_id for unit in block],
            "group": [unit.group for unit in block],
            "sentence_level": [scorer.sentence_level] * len(block),
            "sentences": [len(unit.sentences) for unit in block],
            "one_word": [sum(len(words) == 1 for words in unit.sentences) for unit in block],
        }
        for name, column in found.items():
            values = [own.get(name) or row[name] for row in rows]  # by version, then document
            is_array = isinstance(values[0], np.ndarray)
            column.append(
                np.stack(values, 1).ravel() if is_array else [*chain(*zip(*values, strict=True))]
            )
    return {
        name: np.concatenate(parts)
        if parts and isinstance(parts[0], np.ndarray)
        else [*chain(*parts)]
        for name, parts in found.items()
    }
