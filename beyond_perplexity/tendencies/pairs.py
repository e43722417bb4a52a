"""Two sample sets side by side: statistics, types, and the counts of each document.

Documents are read once, for permutations, resamples, random subsets and human baselines alike. In
the place of the samples further human text can stand (`further_pair`).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beyond_perplexity.errors import InputError
from beyond_perplexity.inference import permuted_units
from beyond_perplexity.inference.histogram_draws import DocumentGroups, documents_within
from beyond_perplexity.inference.limits import Spread, widest_spread
from beyond_perplexity.inference.permuted_units import CommonGroups, Groups, PermutedUnits
from beyond_perplexity.random_streams import stream
from beyond_perplexity.tendencies.definitions import LENGTH, SHARED_NGRAMS, TAYLOR
from beyond_perplexity.tendencies.document_counts import DocumentCounts, count_lengths
from beyond_perplexity.tendencies.document_statistics import (
    CURVE_NAMES,
    SIZED,
    Sized,
    sized_counter,
)
from beyond_perplexity.tendencies.document_values import value_counter
from beyond_perplexity.tendencies.measurement_options import MeasurementOptions
from beyond_perplexity.tendencies.novelty import with_later_curves
from beyond_perplexity.tendencies.shared_ngrams import beginnings, compared_size
from beyond_perplexity.tendencies.statistics import (
    Histogram,
    Statistics,
    StatisticsCounter,
    histograms_of,
    segment_shares,
    slope_counters,
)
from beyond_perplexity.tendencies.tokens import TokenBatch, add_up, tokenize_batch
from beyond_perplexity.tendencies.word_classes import ClassOptions


@dataclass(frozen=True)
class SampleSetPair:
    """Two sample sets, ready to be measured and tested."""

    reference: Statistics
    samples: Statistics
    types: pa.Array  # of both, most frequent first: (V,)
    counts: np.ndarray  # of these in the reference and in the samples: int64, (2, V)
    documents: DocumentCounts | None = None  # of types in each, None when no draw needs them
    groups: Groups = (None, None)  # of each document of both: int32, (D,)
    # Answers to prompts are compared by their words with those of a pair cut to equal lengths
    cut: SampleSetPair | None = None
    # The size of each number and curve, where a part of a pair has that of the whole one
    held_sizes: Mapping[str, Sized] | None = None

    @cached_property
    def sizes(self) -> Mapping[str, Sized]:
        """The size that documents are cut to for each number and curve: as the reference has it."""
        return self.reference.sizes() if self.held_sizes is None else self.held_sizes

    @property
    def prompted(self) -> bool:
        """Whether both are answers to the same prompts."""
        return isinstance(self.groups, CommonGroups)

    @property
    def of_words(self) -> SampleSetPair:
        """The pair whose words are compared: this one, or that of cut answers."""
        return self.cut or self

    @cached_property
    def document_lengths(self) -> tuple[np.ndarray, np.ndarray]:
        """Tokens of each document of the reference and of the samples: int32, shape (D,)."""
        assert self.documents is not None
        return self.documents.values(0)[LENGTH], self.documents.values(1)[LENGTH]

    @property
    def n_documents(self) -> tuple[int, int]:
        """Documents of the reference and of the samples."""
        return self.reference.n_documents, self.samples.n_documents

    @property
    def sample_sets(self) -> tuple[Statistics, Statistics]:
        """The reference and the samples."""
        return self.reference, self.samples

    @property
    def pooled(self) -> np.ndarray:
        """Occurrences in both sample sets together: int64, shape (V,)."""
        return self.counts.sum(axis=0)

    @property
    def defined(self) -> bool:
        """Whether both sample sets have tokens."""
        return bool(np.all(self.counts.sum(axis=1) > 0))


@dataclass(frozen=True)
class Measuring:
    """A pair, how it is measured, and the seed of its draws."""

    pair: SampleSetPair
    options: MeasurementOptions
    seed: int
    units: PermutedUnits | None = None  # what tests permute; None: single documents
    word_units: PermutedUnits | None = None  # of words and types: units of as many tokens
    shares: Mapping[str, float] | None = None  # of documents that count, at most; in baselines

    @classmethod
    def of(cls, pair: SampleSetPair, options: MeasurementOptions, seed: int) -> Measuring:
        """Permute the units that the groups of a pair make."""
        given = pair.groups, pair.n_documents, seed
        units = words = permuted_units.permuted_units(*given)
        if pair.documents is not None:
            words = permuted_units.permuted_units(*given, pair.document_lengths)
        return cls(pair, options, seed, units, words)

    @cached_property
    def for_words(self) -> Measuring:
        """How words, ranks and types are measured: of cut answers, where there are any."""
        if self.pair.cut is None:
            return self
        return replace(self, pair=self.pair.cut, units=self.word_units)

    @cached_property
    def spread(self) -> Spread:
        """How distances between all documents vary when these are resampled."""
        lengths = None if self.pair.documents is None else self.pair.document_lengths
        return widest_spread(self.pair.groups, lengths)


def aligned_counts(
    types: pa.Array, sample_set: Statistics, counts: np.ndarray | None = None
) -> np.ndarray:
    """Return the counts of a text, or others (..., V'), by types (V,): int64, (..., V)."""
    held = sample_set.counts if counts is None else counts
    aligned = np.zeros((*held.shape[:-1], len(types)), np.int64)
    aligned[..., pc.index_in(sample_set.types, value_set=types).to_numpy()] = held
    return aligned


def _pair(reference: Statistics, samples: Statistics) -> SampleSetPair:
    sample_sets = reference, samples
    pooled = add_up([pa.table({"type": x.types, "count": x.counts}) for x in sample_sets])
    order = np.argsort(-pooled["count"].to_numpy(), kind="stable")
    types = pooled["type"].combine_chunks().take(pa.array(order))
    counts = np.stack([aligned_counts(types, sample_set) for sample_set in sample_sets])
    return SampleSetPair(reference, samples, types, counts)


def _counter(
    pair: SampleSetPair,
    classes: ClassOptions,
    scheme: permuted_units.Scheme,
    laws: Sequence[Callable[[TokenBatch], np.ndarray]],
) -> Callable[[TokenBatch], Mapping[str, np.ndarray]]:
    """Return what counts what is kept of documents: of single ones curves, else all."""
    chosen, grouped = pair.reference.sizes(classes.later).values(), scheme != "documents"
    sizes = {x.name: x for x in chosen if grouped or x.name in CURVE_NAMES}
    counts = [count_lengths, (value_counter if grouped else sized_counter)(classes, sizes)]
    if scheme not in ("swaps", "draws"):  # there pairs of one text alone may be of one group
        size = compared_size(pair.reference.histograms[LENGTH])
        counts.append(lambda batch: {SHARED_NGRAMS: beginnings(batch, size)})
    if laws:
        counts.append(lambda batch: {TAYLOR: np.stack([law(batch) for law in laws], axis=1)})
    return lambda batch: {name: x for count in counts for name, x in count(batch).items()}


@contextmanager
def paired(
    reference: Statistics,
    samples: Statistics,
    texts: tuple[Iterable[pa.Array], Iterable[pa.Array]] | None,
    *,
    read: Callable[[pa.Array], TokenBatch] = tokenize_batch,
    groups: Groups = (None, None),
    classes: ClassOptions | None = None,
) -> Iterator[SampleSetPair]:
    """Bring two sample sets together; their documents lie on disk as long as the context.

    Texts are read once; None leaves `SampleSetPair.documents` out. `read` makes tokens as for the
    statistics, `classes` tell shares and novelty. Groups are numbered from 0 on; those of nearly
    single documents are lost (`alike_groups`). Other documents than counted are an InputError.
    """
    pair = _pair(reference, samples)
    if texts is None or not pair.defined:
        yield pair
        return
    groups = permuted_units.alike_groups(groups, pair.n_documents)
    scheme = permuted_units.scheme_of(groups)
    assert classes is not None or scheme == "documents", "groups need the classes of shares"
    laws = [] if classes is None else slope_counters(pair.sample_sets)
    count = count_lengths if classes is None else _counter(pair, classes, scheme, laws)
    shares = segment_shares(pair.sample_sets) if laws else None
    with DocumentCounts(pair.types, pair.pooled, read, count, shares=shares) as documents:
        for sample_set, name in enumerate(("reference", "sample")):
            try:
                documents.add(sample_set, texts[sample_set])
                alike = documents.n_documents(sample_set) == pair.n_documents[sample_set]
                alike = alike and np.array_equal(
                    documents.totals(sample_set), pair.counts[sample_set]
                )
            except ValueError:
                alike = False
            if not alike:
                raise InputError(
                    f"the {name} documents are not those that the {name} statistics were counted "
                    "from; give the same files and the same split to both"
                )
        own = [with_later_curves(x, documents.values(k)) for k, x in enumerate(pair.sample_sets)]
        yield replace(pair, reference=own[0], samples=own[1], documents=documents, groups=groups)


@contextmanager
def subset(
    pair: SampleSetPair, sizes: list[int], place: int, number: int, seed: int
) -> Iterator[SampleSetPair]:
    """Put a random subset of the samples' documents in their place; the reference stays whole.

    The unigrams are those of the first documents of a random order, so that the subsets of one
    number are nested; `place` says which of the sizes is wanted. Histograms are drawn alone. Types
    that neither sample set has any more keep their place, with count 0.
    """
    assert pair.documents is not None
    total = pair.samples.n_documents
    first = DocumentGroups(stream(seed, "subset/documents", number), [*sizes, total])
    kept = np.ones(pair.reference.n_documents, bool), first.next_block(total) <= place
    with part_of(pair, kept) as part:
        samples = part.samples
        # Else numbers of documents go with their groups.
        if permuted_units.scheme_of(pair.groups) == "documents":
            purpose = f"subset/{{}}/{place}"
            drawn = _drawn_histograms(pair.samples, sizes[place], seed, purpose, number)
            histograms = samples.histograms | drawn
            samples = replace(samples, histograms=histograms)
        yield replace(part, reference=pair.reference, samples=samples)


@dataclass(frozen=True)
class HumanText:
    """Further documents of the reference's population, read once and no further than needed."""

    texts: Iterable[pa.Array]
    classes: ClassOptions  # those of the reference
    read: Callable[[pa.Array], TokenBatch] = tokenize_batch  # likewise
    groups: np.ndarray | None = None  # needed where the reference has groups: (D,)


def renumbered(codes: np.ndarray) -> np.ndarray:
    """Give groups (D,) the numbers from 0 on, without gaps."""
    return np.unique(codes, return_inverse=True)[1]


def _drawn_histograms(
    sample_set: Statistics, n: int, seed: int, purpose: str, item: int
) -> dict[str, Histogram]:
    """Draw n documents of each histogram, not of curves, which a purpose is named by, just once."""
    found, total = {}, sample_set.n_documents
    for name, held in sample_set.histograms.items():
        if name not in CURVE_NAMES:
            rng, counted = stream(seed, purpose.format(name), item), int(held.counts.sum())
            # Documents that are too short for a number are drawn, too.
            short = total - counted if name in SIZED else 0
            counts = np.append(held.counts, short) if short else held.counts
            drawn = rng.multivariate_hypergeometric(counts, min(n, counted + short))
            drawn = drawn[: len(held.counts)]
            found[name] = Histogram(held.keys[drawn > 0], drawn[drawn > 0])
    return found


def first_documents(groups: np.ndarray | None, n: int) -> np.ndarray:
    """Say which documents make n: the first ones, or the first whole groups: bool, (D,)."""
    if groups is None or not len(groups):
        return np.ones(n if groups is None else 0, bool)
    _, first, codes = np.unique(groups, return_index=True, return_inverse=True)
    kept = permuted_units.whole_groups(codes, np.argsort(first), n, beyond=0.5)
    return kept[: np.flatnonzero(kept)[-1] + 1] if kept.any() else kept[:0]


def texts_as_read(
    batches: Iterable[pa.Array], read: Callable[[pa.Array], TokenBatch], wanted: np.ndarray
) -> Iterator[pa.Array]:
    """Yield the documents of a stream that are wanted (bool, (D,)) as read, joined by blanks."""
    start = 0
    for texts in batches:
        chosen = wanted[start : start + len(texts)]
        start += len(texts)
        taken = texts.slice(0, len(chosen)).filter(pa.array(chosen))
        if len(taken):
            yield read(taken).texts()
        if start >= len(wanted):
            return


def _count_further(human: HumanText, wanted: np.ndarray, path: Path) -> Statistics | None:
    """Count the wanted documents and keep them in a file; None where they are not there."""
    found, schema = 0, pa.schema([("text", pa.string())])
    with (
        StatisticsCounter(human.classes.stop_words, human.classes.count_s_symbols) as counter,
        pa.OSFile(str(path), "wb") as sink,
        pa.ipc.new_stream(sink, schema) as writer,
    ):
        for texts in texts_as_read(human.texts, human.read, wanted):
            writer.write_batch(pa.record_batch([texts], schema))
            counter.add(texts)
            found += len(texts)
        return counter.result() if found and found >= wanted.sum() else None


@contextmanager
def further_pair(pair: SampleSetPair, human: HumanText) -> Iterator[SampleSetPair | None]:
    """Put as many further human documents in the place of the samples; None for too few.

    Where the reference has groups, whole groups, as many documents as come nearest.
    """
    assert pair.documents is not None
    grouped = pair.groups[0] is not None
    wanted = first_documents(human.groups if grouped else None, pair.samples.n_documents)
    lacking = grouped and (human.groups is None or 2 * wanted.sum() < pair.samples.n_documents)
    with tempfile.TemporaryDirectory(prefix="human-") as name:
        path = Path(name) / "texts.arrow"
        further = None if lacking else _count_further(human, wanted, path)
        if further is None:
            yield None
            return
        groups = human.groups if grouped else None
        codes = None if groups is None else renumbered(groups[: len(wanted)][wanted])
        more = further.types.filter(pc.invert(pc.is_in(further.types, value_set=pair.types)))
        types = pa.concat_arrays([pair.types, more])
        counts = np.stack([aligned_counts(types, one) for one in (pair.reference, further)])
        places = np.zeros(pair.reference.n_documents, int), np.full(pair.samples.n_documents, -1)
        with pair.documents.selected(places, more) as documents:
            with pa.memory_map(str(path)) as source, pa.ipc.open_stream(source) as reader:
                documents.add(1, (batch.column("text") for batch in reader))
            made = pair.reference, further, types, counts, documents, (pair.groups[0], codes)
            yield SampleSetPair(*made)


def within_tokens(
    pair: SampleSetPair, tokens: int, seed: int, purpose: str
) -> tuple[np.ndarray, np.ndarray]:
    """Draw documents of either text that hold at most `tokens`, by a stream each: bool, (D,)."""
    first, second = (
        documents_within(lengths, tokens, stream(seed, purpose, sample_set))
        for sample_set, lengths in enumerate(pair.document_lengths)
    )
    return first, second


def fewer_tokens(
    pair: SampleSetPair, tokens: int, seed: int
) -> AbstractContextManager[SampleSetPair]:
    """Keep random documents of either text of a pair that hold at most `tokens`."""
    return part_of(pair, within_tokens(pair, tokens, seed, "floor/tokens"))


@contextmanager
def part_of(pair: SampleSetPair, kept: tuple[np.ndarray, np.ndarray]) -> Iterator[SampleSetPair]:
    """Keep some documents (bool, (D,)) of either text of a pair."""
    assert pair.documents is not None
    places = np.where(kept[0], 0, -1), np.where(kept[1], 1, -1)
    with pair.documents.selected(places) as documents:
        counts = np.stack([documents.totals(sample_set) for sample_set in (0, 1)])
        both = zip(pair.groups, kept, strict=True)
        first, second = (None if x is None else renumbered(x[chosen]) for x, chosen in both)
        reference, samples = (
            Statistics(pair.types.filter(pa.array(own > 0)), own[own > 0], histograms_of(values))
            for own, values in zip(counts, map(documents.values, (0, 1)), strict=True)
        )
        made = reference, samples, pair.types, counts, documents, (first, second)
        yield SampleSetPair(*made, held_sizes=pair.sizes)


@contextmanager
def fewer_documents(further: SampleSetPair, n: int, seed: int) -> Iterator[SampleSetPair]:
    """Keep n documents of the second text of a pair, for measures of one number per document.

    Drawn at random; of groups the first whole ones, as many documents as come nearest.
    """
    codes = further.groups[1]
    if codes is None:
        histograms = _drawn_histograms(further.samples, n, seed, "floor/fewer/{}", n)
        empty = {name: Histogram() for name in CURVE_NAMES}
        few = replace(further.samples, histograms=histograms | empty)
        yield SampleSetPair(further.reference, few, further.types, further.counts)
        return
    kept = np.ones(further.n_documents[0], bool), np.zeros(len(codes), bool)
    wanted = first_documents(codes, n)
    kept[1][: len(wanted)] = wanted
    with part_of(further, kept) as part:
        yield part
