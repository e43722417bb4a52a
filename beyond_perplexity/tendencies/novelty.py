"""Novelty: which of the n-grams of a text do not stand in the training text, word for word.

A model that copies passes every other test; one that puts its training text together from short
pieces has novel n-grams where people have them, but from another n on. n = 1 to 32, up to half of
the size that documents are cut to. No n-gram crosses documents. In a closed vocabulary ``<unk>`` is
a word as any other. The reference must be held out: text that was trained on is never novel. After
McCoy, Smolensky, Linzen, Gao and Celikyilmaz (2023), How much do language models copy from their
training data?, TACL 11; Merrill, Smith and Elazar (2024), Evaluating n-gram novelty of language
models using Rusty-DAWG.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beyond_perplexity.tendencies.definitions import NOVELTY
from beyond_perplexity.tendencies.document_statistics import (
    SIZED,
    DocumentCount,
    first_tokens,
    sized_counter,
)
from beyond_perplexity.tendencies.statistics import Statistics, curves_of
from beyond_perplexity.tendencies.tokens import GRAM, UNKNOWN_WORD, TextView, TokenBatch
from beyond_perplexity.tendencies.training_text import TrainingText
from beyond_perplexity.tendencies.word_classes import ClassOptions

DISTINCT = 4  # words of the n-grams that are counted across documents, at most
MOST_TOKENS_OF_BOTH = 5_000_000  # of either text that they are counted among


def novelty(classes: ClassOptions) -> DocumentCount | None:
    """Return what counts the share of novel n-grams of documents for each n; None without text."""
    training = classes.training
    if training is None:
        return None

    def count(batch: TokenBatch, size: int, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        kept, ids = first_tokens(batch, size)  # (D', size)
        offsets = np.arange(len(ids) + 1) * size
        runs = training.longest_runs(TokenBatch(batch.types, ids.ravel(), offsets))
        runs = runs.reshape(ids.shape)
        novel = [np.mean(runs[:, : size - n + 1] < n, axis=1) for n in places]
        return kept, np.stack(novel, axis=1)  # (D', K)

    return count


def copied_share(batches: Iterable[TokenBatch], training: TrainingText) -> tuple[float, int] | None:
    """Return the share of 8 known words in a row that stand in a training text, and how many.

    None without any.
    """
    copied = total = 0
    for batch in batches:
        known = ~np.asarray(pc.equal(batch.types, UNKNOWN_WORD))[batch.ids]
        runs, before = training.longest_runs(batch), np.append(0, np.cumsum(known))
        first = np.arange(max(0, len(known) - GRAM + 1))
        last = np.repeat(batch.offsets[1:], batch.lengths)[: len(first)] - GRAM
        whole = (first <= last) & (before[GRAM:] - before[: len(first)] == GRAM)
        total += int(whole.sum())
        copied += int(np.sum(runs[: len(first)][whole] >= GRAM))
    return (copied / total, total) if total else None


def with_later_curves(statistics: Statistics, values: Mapping[str, np.ndarray]) -> Statistics:
    """Add up what documents have of novelty, (D, K) by name, which is not counted in shards."""
    chosen = {k: x for k, x in values.items() if k in SIZED and SIZED[k].tendency == NOVELTY}
    return replace(statistics, histograms={**statistics.histograms, **curves_of(chosen)})


def with_novelty(
    statistics: Statistics, texts: Iterable[pa.Array], classes: ClassOptions, view: TextView
) -> Statistics:
    """DocumentCount the novelty of documents beside their statistics."""
    sizes = statistics.sizes(classes.later).values()
    count = sized_counter(classes, {one.name: one for one in sizes if one.tendency == NOVELTY})
    histograms = dict(statistics.histograms)
    for batch in texts:
        for name, sums in curves_of(count(view.batch(batch))).items():
            histograms[name] += sums
    return replace(statistics, histograms=histograms)


def distinct_shares(batches: Iterable[TokenBatch], tokens: int, most: int) -> np.ndarray:
    """Return the share of distinct ones among the n-grams of a text, n = 1 to `DISTINCT`.

    It falls with the tokens that are read, so that only texts of as many compare.

    Parameters
    ----------
    batches : iterable of TokenBatch
        The documents, which have so many `tokens`.
    most : int
        Of as many tokens, those of documents that are spread over the text.

    Returns
    -------
    numpy.ndarray of float64, shape (DISTINCT,)
        NaN where there is no n-gram.
    """
    share = min(1.0, 1.1 * most / tokens)  # a tenth more, so that documents do not run out

    def spread() -> Iterator[TokenBatch]:
        before = held = 0
        for batch in batches:
            steps = np.floor((before + np.arange(len(batch.lengths) + 1)) * share)
            before += len(batch.lengths)
            kept = np.diff(steps) > 0
            offsets = np.append(0, np.cumsum(batch.lengths * kept)).clip(max=most - held)
            ids = batch.ids[np.repeat(kept, batch.lengths)][: most - held]
            held += len(ids)
            yield TokenBatch(batch.types, ids, offsets)

    found, total = TrainingText.of(spread()).suffixes.distinct_ngrams()
    with np.errstate(invalid="ignore"):
        shares: np.ndarray = (found / total)[:DISTINCT]
    return shares
