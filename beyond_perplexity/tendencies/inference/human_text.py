"""Pairs of human texts as large as the texts that are compared, for the floor.

`further_pair` puts further human documents in the place of the samples; `fewer_tokens` cuts both
texts of a pair to one number of tokens. The documents of a pair are neither read nor tokenized
again. Without further text, the reference is cut in two: see `halves`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beyond_perplexity.inference.document_draws import documents_within
from beyond_perplexity.inference.exchanged_units import whole_groups
from beyond_perplexity.random_streams import stream
from beyond_perplexity.tendencies.definitions import LENGTH
from beyond_perplexity.tendencies.pairs import BodyPair, aligned_counts
from beyond_perplexity.tendencies.statistics import (
    Histogram,
    Statistics,
    StatisticsCounter,
    histograms_of,
    read_statistics,
)
from beyond_perplexity.tendencies.tokens import TokenBatch, tokenize_batch
from beyond_perplexity.tendencies.word_classes import ClassOptions

_TEXTS = "texts.arrow"


@dataclass(frozen=True)
class HumanText:
    """Further documents of the population that the reference is of, e.g. of the training split.

    Attributes
    ----------
    texts : iterable of pyarrow.StringArray
        Documents, in batches of any size; read once, and no further than is needed.
    classes : ClassOptions
        What the shares of tokens of the reference were counted by.
    read : callable
        Makes tokens of a batch of texts, as for the reference.
    groups : numpy.ndarray of int, shape (D,), or None
        The group of each document, from 0 on; needed where the reference has groups.
    """

    texts: Iterable[pa.Array]
    classes: ClassOptions
    read: Callable[[pa.Array], TokenBatch] = tokenize_batch
    groups: np.ndarray | None = None


def body_of(types: pa.Array, counts: np.ndarray, histograms: dict[str, Histogram]) -> Statistics:
    """Make the statistics of a body from counts by types (V,) and its histograms."""
    return Statistics(types.filter(pa.array(counts > 0)), counts[counts > 0], histograms)


def renumbered(codes: np.ndarray) -> np.ndarray:
    """Give groups (D,) the numbers from 0 on, without gaps."""
    return np.unique(codes, return_inverse=True)[1]


def split_histogram(
    histogram: Histogram, sizes: Sequence[int], rng: np.random.Generator
) -> list[Histogram]:
    """Draw disjoint sets of documents of these sizes, without replacement."""
    left, parts = histogram.counts, []
    for size in sizes:
        drawn = rng.multivariate_hypergeometric(left, size)
        parts.append(Histogram(histogram.keys[drawn > 0], drawn[drawn > 0]))
        left = left - drawn
    return parts


def first_documents(groups: np.ndarray | None, n: int) -> np.ndarray:
    """Say which documents make n: the first ones, or the first whole groups: bool, (D,)."""
    if groups is None:
        return np.ones(n, bool)
    if not len(groups):
        return np.zeros(0, bool)
    _, first, codes = np.unique(groups, return_index=True, return_inverse=True)
    kept = whole_groups(codes, np.argsort(first), n, beyond=0.5)
    return kept[: np.flatnonzero(kept)[-1] + 1] if kept.any() else kept[:0]


def texts_as_read(
    batches: Iterable[pa.Array], read: Callable[[pa.Array], TokenBatch], wanted: np.ndarray
) -> Iterator[pa.Array]:
    """Yield documents of a stream as they are read, their tokens joined by blanks.

    Parameters
    ----------
    batches : iterable of pyarrow.StringArray
        The documents; no more are asked for than are wanted.
    read : callable
        Makes tokens of a batch.
    wanted : numpy.ndarray of bool, shape (D,)
        Which of the first D documents are wanted.
    """
    start = 0
    for texts in batches:
        chosen = wanted[start : start + len(texts)]
        start += len(texts)
        taken = texts.slice(0, len(chosen)).filter(pa.array(chosen))
        if len(taken):
            batch = read(taken)
            words = batch.types.take(pa.array(batch.ids))
            offsets = pa.array(batch.offsets, pa.int32())
            yield pc.binary_join(pa.ListArray.from_arrays(offsets, words), " ")
        if start >= len(wanted):
            return


def _stored(texts: Iterator[pa.Array], path: Path) -> Iterator[pa.Array]:
    """Pass texts on, and keep them in a file for a second reading."""
    schema = pa.schema([("text", pa.string())])
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, schema) as writer:
        for text in texts:
            writer.write_batch(pa.record_batch([text], schema))
            yield text


def _stored_again(path: Path) -> Iterator[pa.Array]:
    with pa.memory_map(str(path)) as source, pa.ipc.open_stream(source) as reader:
        for batch in reader:
            yield batch.column("text")


def _count_further(human: HumanText, wanted: np.ndarray, folder: Path) -> Statistics | None:
    """Count the wanted documents and keep them in the folder; None where they are not there."""
    found, as_read = 0, texts_as_read(human.texts, human.read, wanted)
    with StatisticsCounter(human.classes.stop_words, human.classes.count_s_symbols) as counter:
        for texts in _stored(as_read, folder / _TEXTS):
            counter.add(texts)
            found += len(texts)
        if found == 0 or found < wanted.sum():
            return None
        counter.write(folder / "statistics.parquet", {})
    return read_statistics(folder / "statistics.parquet")


@contextmanager
def further_pair(pair: BodyPair, human: HumanText) -> Iterator[BodyPair | None]:
    """Put as many further human documents in the place of the samples.

    Parameters
    ----------
    pair : BodyPair
        With documents.
    human : HumanText
        At least as many documents as there are samples. Where the reference has groups, whole
        groups are taken, as many documents as come nearest to that number.

    Yields
    ------
    BodyPair or None
        With documents, and groups where the reference has them; None where there are too few
        documents, or groups are missing.
    """
    assert pair.documents is not None
    grouped = pair.groups[0] is not None
    wanted = first_documents(human.groups if grouped else None, pair.samples.n_documents)
    lacking = grouped and (human.groups is None or 2 * wanted.sum() < pair.samples.n_documents)
    with tempfile.TemporaryDirectory(prefix="human-") as name:
        further = None if lacking else _count_further(human, wanted, Path(name))
        if further is None:
            yield None
            return
        codes = None
        if grouped and human.groups is not None:
            codes = renumbered(human.groups[: len(wanted)][wanted])
        more = further.types.filter(pc.invert(pc.is_in(further.types, value_set=pair.types)))
        types = pa.concat_arrays([pair.types, more])
        counts = np.stack([aligned_counts(types, body) for body in (pair.reference, further)])
        places = np.zeros(pair.reference.n_documents, int), np.full(pair.samples.n_documents, -1)
        with pair.documents.selected(places, more) as documents:
            documents.add(1, _stored_again(Path(name) / _TEXTS))
            groups = pair.groups[0], codes
            yield BodyPair(pair.reference, further, types, counts, documents, groups)


@contextmanager
def fewer_tokens(pair: BodyPair, tokens: int, seed: int) -> Iterator[BodyPair]:
    """Keep random documents of either text of a pair that hold at most `tokens`."""
    assert pair.documents is not None
    kept = [
        documents_within(
            pair.documents.values(body)[LENGTH], tokens, stream(seed, "floor/tokens", body)
        )
        for body in (0, 1)
    ]
    with part_of(pair, (kept[0], kept[1])) as part:
        yield part


@contextmanager
def part_of(pair: BodyPair, kept: tuple[np.ndarray, np.ndarray]) -> Iterator[BodyPair]:
    """Keep some documents (bool, (D,)) of either text of a pair."""
    assert pair.documents is not None
    places = np.where(kept[0], 0, -1), np.where(kept[1], 1, -1)
    with pair.documents.selected(places) as documents:
        counts = np.stack([documents.totals(body) for body in (0, 1)])
        groups = [
            None if codes is None else renumbered(codes[chosen])
            for codes, chosen in zip(pair.groups, kept, strict=True)
        ]
        bodies = [
            body_of(pair.types, counts[body], histograms_of(documents.values(body)))
            for body in (0, 1)
        ]
        own = groups[0], groups[1]
        yield BodyPair(bodies[0], bodies[1], pair.types, counts, documents, own)


@contextmanager
def fewer_documents(further: BodyPair, n: int, seed: int) -> Iterator[BodyPair]:
    """Keep n documents of the second text of a pair, for measures of one number per document.

    Parameters
    ----------
    further : BodyPair
        See `further_pair`.
    n : int
        Documents; of a text with groups the first whole groups, as many documents as come nearest.
    seed : int
        Documents without groups are drawn at random.

    Yields
    ------
    BodyPair
        With documents where there are groups.
    """
    codes, histograms = further.groups[1], {}
    if codes is None:
        for name, held in further.samples.histograms.items():
            rng = stream(seed, f"floor/fewer/{name}", n)
            histograms[name] = split_histogram(held, [n], rng)[0]
        few = replace(further.samples, histograms=histograms)
        yield BodyPair(further.reference, few, further.types, further.counts)
        return
    assert further.documents is not None
    kept = np.zeros(len(codes), bool)
    wanted = first_documents(codes, n)
    kept[: len(wanted)] = wanted
    places = np.zeros(further.reference.n_documents, int), np.where(kept, 1, -1)
    with further.documents.selected(places) as documents:
        counts = np.stack([further.counts[0], documents.totals(1)])
        few = body_of(further.types, counts[1], histograms_of(documents.values(1)))
        groups = further.groups[0], renumbered(codes[kept])
        yield BodyPair(further.reference, few, further.types, counts, documents, groups)
