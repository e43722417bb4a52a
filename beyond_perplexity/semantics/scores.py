"""Scores of predicted sentences: a row a sentence, measure and kind.

N sentences, P pairs of texts, each scored whatever is beside it; the baseline is what unrelated
sentences get.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

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
from beyond_perplexity.semantics.paired_scores import summed
from beyond_perplexity.semantics.word_cosines import Floats

KINDS = (PREDICTED, SAMPLED, CONTINUED, *PARTNER_OF.values(), SPREAD)


def _after(text: str, given: int) -> str:
    """Return what follows the first words."""
    return " ".join(text.split()[given:]) if given else text


def _of_sentence(row: Mapping[str, Any], spread: bool) -> Iterator[tuple[str, str, str]]:
    """List kind, prediction and what it is compared with, less the words that were given."""
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


def compare_texts(rows: Sequence[Mapping[str, Any]], *, spread: bool) -> pd.DataFrame:
    """List the pairs of texts of rows of ``predictions``, samples also together (`spread`): owner,
    the sentence's number; kind, in the order of `KINDS`; text; other."""
    found = [(owner, *pair) for owner, row in enumerate(rows) for pair in _of_sentence(row, spread)]
    pairs = pd.DataFrame(found, columns=["owner", "kind", "text", "other"])
    return pairs.assign(kind=pd.Categorical(pairs["kind"], KINDS, ordered=True))


SENTENCES_AT_ONCE = 256  # sentences that are scored at once
_Sentences = Sequence[Mapping[str, Any]]


def _settle(
    evaluator: Evaluator, found: dict[str, Floats], texts: pd.DataFrame, sentences: _Sentences
) -> None:
    """Decide what pairs without a value score: undefined where the target has no known word, else
    what nothing does, as a prediction left out would not count against the model."""
    for measure, values in found.items():
        open_pairs = np.flatnonzero(np.isnan(values))
        nothing = MEASURES[measure].nothing
        if not len(open_pairs) or nothing is None:
            continue
        rows: Any = texts.iloc[open_pairs].itertuples()
        wanted = [sentences[r.owner]["target"] if r.kind == SPREAD else r.other for r in rows]
        known = ~np.isnan(evaluator.score([(text, text) for text in wanted])[measure])
        values[open_pairs[known]] = nothing


def _score_measures(evaluator: Evaluator, sentences: _Sentences) -> Iterator[pd.DataFrame]:
    """Yield the rows of each measure; owner: number of a sentence; NaN: not defined."""
    by_place = [name for name in evaluator.measures if MEASURES[name].by_place]
    texts = compare_texts(sentences, spread=bool(by_place))
    pairs = list(zip(texts["text"], texts["other"], strict=True))
    counts: NDArray[np.int64] | None = None
    if isinstance(evaluator, WordEvaluator):
        found, counts = evaluator.score_and_count(pairs)
    else:
        found = evaluator.score(pairs)
    _settle(evaluator, found, texts, sentences)
    unaligned = np.array([not row["aligned"] for row in sentences], bool)[texts["owner"]]
    for measure in evaluator.measures:
        values = np.where(unaligned & MEASURES[measure].aligned, np.nan, found[measure])
        chosen = np.flatnonzero((texts["kind"] != SPREAD) | (measure in by_place))
        alike = texts.iloc[chosen].groupby(["owner", "kind"], observed=True)
        indices, sizes = alike.ngroup().to_numpy(), alike.size()
        owners = sizes.index.get_level_values("owner")
        statistics: list[Any] = [None] * len(sizes)
        if counts is not None and measure in BLEU_NAMES:
            statistics = summed(indices, counts[chosen], len(sizes)).astype(np.int64).tolist()
        elif measure == ACCURACY:
            statistics = [[sentences[owner]["words"]] for owner in owners]
        rows = sizes.index.to_frame(index=False).astype({"kind": object}).assign(measure=measure)
        rows["value"] = summed(indices, values[chosen], len(sizes)) / sizes.to_numpy()
        yield rows.assign(statistics=statistics)


def score_sentences(evaluator: Evaluator, sentences: _Sentences, model: str, name: str) -> pa.Table:
    """Score rows of ``predictions`` by an evaluator, schema ``semantic_scores``; that of words also
    gives the model's cross-entropy, nats per word."""
    parts = list(_score_measures(evaluator, sentences))
    if isinstance(evaluator, WordEvaluator):
        words = np.array([row["words"] for row in sentences])
        entropies = np.array([-row["log_prob"] for row in sentences]) / words
        rows = {"owner": range(len(words)), "kind": PREDICTED, "measure": CROSS_ENTROPY}
        sizes = [[count] for count in words.tolist()]
        parts.append(pd.DataFrame({**rows, "value": entropies, "statistics": sizes}))
    own = pd.DataFrame(sentences, columns=["split", "unit_id", "group", "sentence"])
    found = pd.concat(parts).join(own, on="owner").assign(model=model, evaluator=name)
    return pa.Table.from_pandas(found, SEMANTIC_SCORES, preserve_index=False)


def score_predictions(
    batches: Iterable[pa.RecordBatch], evaluator: Evaluator, model: str, name: str
) -> Iterator[pa.Table]:
    """Score predictions batch by batch; see `score_sentences`."""
    for batch in batches:
        if batch.num_rows:
            yield score_sentences(evaluator, batch.to_pylist(), model, name)
