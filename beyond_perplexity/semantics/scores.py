"""Scores of predicted sentences: a row a sentence, measure and kind.

N sentences, P pairs of texts. A pair's score does not depend on the pairs beside it. What a
comparison with an unrelated sentence gives is the floor.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, combinations
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from beyond_perplexity.corpus.sentences import (
    CutDocument,
    order_documents,
    read_documents,
    sentence_item,
)
from beyond_perplexity.random_streams import stream
from beyond_perplexity.schemas.semantics import (
    CONTINUED,
    PARTNER_OF,
    PREDICTED,
    SAMPLED,
    SEMANTIC_SCORES,
    SPREAD,
)
from beyond_perplexity.semantics.evaluators.contract import Evaluator
from beyond_perplexity.semantics.evaluators.word_overlap import WordEvaluator
from beyond_perplexity.semantics.measures import ACCURACY, BLEU_NAMES, CROSS_ENTROPY, MEASURES
from beyond_perplexity.semantics.word_cosines import Floats

KINDS = (PREDICTED, SAMPLED, CONTINUED, *PARTNER_OF.values(), SPREAD)

_FOLLOWERS = 64  # documents that partners of a document's sentences are taken from
_PARTNER = "semantics/partner"  # of the random streams


def find_partners(
    units: Sequence[CutDocument], path: str, split: str, *, seed: int, whole: bool = False
) -> list[list[str | None]]:
    """Find an unrelated sentence of like length for every sentence of documents of the split.

    The seed decides among sentences of equal length. Words are joined by one blank; None where no
    other document has a sentence that differs.
    """
    if not units:
        return []
    order = order_documents(path, split, seed)
    places = {unit_id: place for place, unit_id in enumerate(order.tolist())}
    count = min(_FOLLOWERS, len(order) - 1)
    after = {
        unit.unit_id: order[(places[unit.unit_id] + 1 + np.arange(count)) % len(order)].tolist()
        for unit in units
    }
    wanted = {*after, *chain.from_iterable(after.values())}
    held = {
        unit.unit_id: unit
        for unit in read_documents(path, split, wanted, grouped=True, whole=whole)
    }
    return [
        _partners(unit, held[unit.unit_id].group, [held[k] for k in after[unit.unit_id]], seed)
        for unit in units
    ]


def _partners(
    unit: CutDocument, title: str | None, others: Sequence[CutDocument], seed: int
) -> list[str | None]:
    unrelated = [other for other in others if title is None or other.group != title]
    pool = [words for other in unrelated for words in other.sentences]
    lengths = np.array([len(words) for words in pool])
    found: list[str | None] = []
    for place, words in enumerate(unit.sentences):
        # another sentence may say the very same
        differs = np.array([other != words for other in pool], bool)
        if not differs.any():
            found.append(None)
            continue
        distances = np.where(differs, np.abs(lengths - len(words)), np.iinfo(np.int64).max)
        nearest = np.flatnonzero(distances == distances.min())
        number = stream(seed, _PARTNER, sentence_item(unit.unit_id, place)).random()
        found.append(" ".join(pool[nearest[int(number * len(nearest))]]))
    return found


class Comparisons(NamedTuple):
    """Pairs of texts of some sentences."""

    pairs: list[tuple[str, str]]  # A prediction, and what it is compared with; (P,)
    owners: NDArray[np.int64]  # int64, (P,): the sentence of each pair
    kinds: NDArray[np.int64]  # int64, (P,): of `KINDS`, by number


def _after(text: str, given: int) -> str:
    """Return what follows the first words."""
    return " ".join(text.split()[given:]) if given else text


def _of_sentence(row: Mapping[str, Any], spread: bool) -> Iterator[tuple[str, str, str]]:
    """List kind, prediction and what it is compared with.

    Of what is continued the words that were given are left out: they are true ones.
    """
    continued = row["continued"]
    told: dict[str, list[str]] = {
        PREDICTED: [row["predicted"]],
        SAMPLED: row["samples"] or [],
        CONTINUED: [] if continued is None else [continued],
    }
    for kind, texts in told.items():
        given = row["given"] if kind == CONTINUED else 0
        for text in texts:
            yield kind, _after(text, given), _after(row["target"], given)
            if row["partner"] is not None:
                yield PARTNER_OF[kind], _after(text, given), _after(row["partner"], given)
    if spread:
        yield from ((SPREAD, *pair) for pair in combinations(told[SAMPLED], 2))


def compare_texts(rows: Sequence[Mapping[str, Any]], *, spread: bool) -> Comparisons:
    """List the pairs of texts of rows of ``predictions``; samples also together (`spread`)."""
    numbers = {kind: number for number, kind in enumerate(KINDS)}
    pairs: list[tuple[str, str]] = []
    owners: list[int] = []
    kinds: list[int] = []
    for owner, row in enumerate(rows):
        for kind, text, other in _of_sentence(row, spread):
            pairs.append((text, other))
            owners.append(owner)
            kinds.append(numbers[kind])
    return Comparisons(pairs, np.array(owners, np.int64), np.array(kinds, np.int64))


SENTENCES_AT_ONCE = 256  # sentences that are scored at once
_SPREAD = KINDS.index(SPREAD)
_OWN = ("split", "unit_id", "group", "sentence")
_Counts = NDArray[np.int64]
_Columns = dict[str, Any]


def _rows(
    sentences: Sequence[Mapping[str, Any]],
    measure: str,
    owners: Sequence[int],
    kinds: Sequence[str],
    values: Floats,
    statistics: Sequence[list[int] | None] | None = None,
) -> _Columns:
    """Return the columns of a measure: rows of sentences `owners`; null is what is not defined."""
    return {
        **{name: [sentences[owner][name] for owner in owners] for name in _OWN},
        "measure": [measure] * len(owners),
        "kind": kinds,
        "value": pa.array(values, from_pandas=True),
        "statistics": statistics or [None] * len(owners),
    }


def _settle(
    evaluator: Evaluator,
    found: dict[str, Floats],
    texts: Comparisons,
    sentences: Sequence[Mapping[str, Any]],
) -> None:
    """Decide what pairs without a value score.

    Where the evaluator knows no word of the target no prediction can be judged: undefined. Else the
    prediction says nothing, and scores what nothing does: left out, it would not count against the
    model.
    """
    for measure, values in found.items():
        open_pairs = np.flatnonzero(np.isnan(values))
        nothing = MEASURES[measure].nothing
        if not len(open_pairs) or nothing is None:
            continue
        wanted = [
            sentences[texts.owners[pair]]["target"]
            if texts.kinds[pair] == _SPREAD
            else texts.pairs[pair][1]
            for pair in open_pairs.tolist()
        ]
        known = ~np.isnan(evaluator.score([(text, text) for text in wanted])[measure])
        values[open_pairs[known]] = nothing


def _reduced(
    texts: Comparisons, chosen: NDArray[np.bool_], columns: Sequence[NDArray[Any]]
) -> tuple[list[int], list[str], _Counts, list[NDArray[Any]]]:
    """Sum columns (P, …) over the chosen pairs of a sentence and kind: owners, kinds, sizes, sums.

    A sum is NaN where a part is.
    """
    keys = texts.owners[chosen] * len(KINDS) + texts.kinds[chosen]
    held, places, sizes = np.unique(keys, return_inverse=True, return_counts=True)
    sums = []
    for column in columns:
        total = np.zeros((len(held), *column.shape[1:]), column.dtype)
        np.add.at(total, places, column[chosen])
        sums.append(total)
    kinds = [KINDS[number] for number in (held % len(KINDS)).tolist()]
    return (held // len(KINDS)).tolist(), kinds, sizes, sums


def _score_measures(
    evaluator: Evaluator, sentences: Sequence[Mapping[str, Any]]
) -> Iterator[_Columns]:
    by_place = [name for name in evaluator.measures if MEASURES[name].by_place]
    texts = compare_texts(sentences, spread=bool(by_place))
    counts: _Counts | None = None
    if isinstance(evaluator, WordEvaluator):
        found, counts = evaluator.score_and_count(texts.pairs)
    else:
        found = evaluator.score(texts.pairs)
    _settle(evaluator, found, texts, sentences)
    unaligned = np.array([not row["aligned"] for row in sentences], bool)[texts.owners]
    for measure in evaluator.measures:
        values = np.where(unaligned & MEASURES[measure].aligned, np.nan, found[measure])
        chosen = (texts.kinds != _SPREAD) | (measure in by_place)
        parts = [values] if counts is None else [values, counts]
        owners, kinds, sizes, sums = _reduced(texts, chosen, parts)
        statistics: list[list[int] | None] | None = None
        if measure in BLEU_NAMES:
            statistics = sums[1].tolist()
        elif measure == ACCURACY:
            statistics = [[sentences[owner]["words"]] for owner in owners]
        yield _rows(sentences, measure, owners, kinds, sums[0] / sizes, statistics)


def score_sentences(
    evaluator: Evaluator, sentences: Sequence[Mapping[str, Any]], model: str, name: str
) -> pa.Table:
    """Score rows of ``predictions`` by an evaluator: schema ``semantic_scores``.

    The evaluator of words also gives the model's cross-entropy on the target, nats per word.
    """
    parts = list(_score_measures(evaluator, sentences))
    if isinstance(evaluator, WordEvaluator):
        words = np.array([row["words"] for row in sentences])
        entropies = np.array([-row["log_prob"] for row in sentences]) / words
        owners, sizes = range(len(sentences)), [[count] for count in words.tolist()]
        kinds = [PREDICTED] * len(sentences)
        parts.append(_rows(sentences, CROSS_ENTROPY, owners, kinds, entropies, sizes))
    tables = []
    for part in parts:
        names = {"model": [model] * len(part["kind"]), "evaluator": [name] * len(part["kind"])}
        tables.append(pa.table(part | names, SEMANTIC_SCORES))
    return pa.concat_tables(tables)


def score_predictions(
    batches: Iterable[pa.RecordBatch], evaluator: Evaluator, model: str, name: str
) -> Iterator[pa.Table]:
    """Score predictions batch by batch; see `score_sentences`."""
    for batch in batches:
        if batch.num_rows:
            yield score_sentences(evaluator, batch.to_pylist(), model, name)
