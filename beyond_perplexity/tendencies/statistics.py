"""The sufficient statistics of texts: counts of types and histograms, which add up over shards."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beyond_perplexity.errors import InputError
from beyond_perplexity.schemas.tendencies import STATISTICS
from beyond_perplexity.storage.shards import ShardWriter, check_schema, read_record
from beyond_perplexity.tendencies import tokens
from beyond_perplexity.tendencies.definitions import LENGTH, TENDENCIES
from beyond_perplexity.tendencies.document_statistics import (
    ABSENT,
    CURVE_NAMES,
    SIZED,
    Sized,
    curve_sums,
)
from beyond_perplexity.tendencies.document_values import value_counter
from beyond_perplexity.tendencies.taylor import (
    SHUFFLED_UNIT,
    TaylorFit,
    fit_slope,
    segment_sums,
    segments_of,
    slope_counter,
    unequal,
)
from beyond_perplexity.tendencies.tokens import WHOLE_TEXT, TextView, TokenBatch
from beyond_perplexity.tendencies.word_classes import ClassOptions, StopWords

_PLAIN = {row.histogram for row in TENDENCIES.values() if row.histogram and not row.sizes}
HISTOGRAMS = (*sorted(_PLAIN), *sorted(SIZED))
COUNTED_SO = ("stop_words", "count_s_symbols", *WHOLE_TEXT.describe())
_VALUE_BITS = 32
_NO_KEYS = np.zeros(0, np.int64)
_HELD_DOCUMENTS = 200_000  # whose keys wait in memory: 8 bytes for each histogram


@dataclass
class Histogram:
    """Documents (`counts`) by (length, value), sorted by length, then value."""

    # ``length << 32 | value``, strictly increasing: int64, (C,)
    keys: np.ndarray = field(default_factory=_NO_KEYS.copy)
    counts: np.ndarray = field(default_factory=_NO_KEYS.copy)

    @classmethod
    def of(cls, lengths: np.ndarray, values: np.ndarray, counts: np.ndarray) -> Histogram:
        """Build a histogram from cells in any order, adding up equal ones."""
        return cls._summed(
            lengths.astype(np.int64) << _VALUE_BITS | values.astype(np.int64), counts
        )

    @classmethod
    def _summed(cls, keys: np.ndarray, counts: np.ndarray) -> Histogram:
        distinct, inverse = np.unique(keys, return_inverse=True)
        total = np.zeros(len(distinct), np.int64)
        np.add.at(total, inverse, counts)
        return cls(distinct, total)

    @classmethod
    def of_documents(cls, keys: np.ndarray) -> Histogram:
        """Build a histogram from ``length << 32 | value`` of every document: int64, shape (D,)."""
        return cls(*np.unique(keys, return_counts=True))

    @property
    def lengths(self) -> np.ndarray:
        """Lengths in tokens: int64, shape (C,)."""
        return self.keys >> _VALUE_BITS

    @property
    def values(self) -> np.ndarray:
        """Values (types, tokens of a class, units of a number): int64, shape (C,)."""
        return self.keys & (2**_VALUE_BITS - 1)

    def __add__(self, other: Histogram) -> Histogram:
        keys, counts = zip((self.keys, self.counts), (other.keys, other.counts), strict=True)
        return Histogram._summed(np.concatenate(keys), np.concatenate(counts))


def histograms_of(values: Mapping[str, np.ndarray]) -> dict[str, Histogram]:
    """Count documents by length and value, from what `value_counter` found of each."""
    keys = document_keys(values)
    found = {name: Histogram.of_documents(keys.get(name, _NO_KEYS)) for name in HISTOGRAMS}
    return found | curves_of(values)


def document_keys(values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return ``length << 32 | value`` of every document for each histogram: int64, (D,).

    Of a number the size stands in the place of the length, and shorter documents are left out.
    """
    lengths = values[LENGTH].astype(np.int64) << _VALUE_BITS
    found = {LENGTH: lengths}
    for name in (values.keys() & {*HISTOGRAMS}) - CURVE_NAMES - found.keys():
        x = values[name].astype(np.int64)
        if name in SIZED:
            found[name] = SIZED[name].size << _VALUE_BITS | x[x != ABSENT]
        else:
            found[name] = lengths | x
    return found


def curves_of(values: Mapping[str, np.ndarray]) -> dict[str, Histogram]:
    """Add up the curves of documents, by (place, power)."""
    found = {}
    for name in values.keys() & CURVE_NAMES:
        sums = curve_sums(values[name])  # (K, 3)
        if not sums.any():  # no document is as long
            continue
        places, powers = np.repeat(SIZED[name].places, 3), np.tile(np.arange(3), len(sums))
        found[name] = Histogram.of(places, powers, sums.ravel())
    return found


class StatisticsCounter:
    """Count the sufficient statistics of documents, batch after batch; a context manager."""

    def __init__(
        self,
        stop_words: StopWords,
        count_s_symbols: bool = True,
        view: TextView = WHOLE_TEXT,
        type_limit: int = 4_000_000,
    ) -> None:
        how_counted = {"stop_words": stop_words.name, "count_s_symbols": count_s_symbols}
        self._description = {**how_counted, **view.describe()}
        self._view = view
        self._count = value_counter(ClassOptions(stop_words, count_s_symbols))
        self._types = tokens.TypeCounter(type_limit)
        self._held: dict[str, list[np.ndarray]] = {name: [] for name in HISTOGRAMS}
        self._n_held = 0
        self._folded = {name: Histogram() for name in HISTOGRAMS}

    def __enter__(self) -> StatisticsCounter:
        self._types.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self._types.__exit__(*exception)

    def add(self, texts: pa.Array) -> None:
        """Count documents (string, shape (D,)), tokens separated by white space."""
        batch = self._view.batch(texts)
        n_types = len(batch.types)
        counts = np.bincount(batch.ids, minlength=n_types)
        self._types.add(batch.types, counts, segment_sums(batch))
        values = self._count(batch)
        for name, keys in document_keys(values).items():
            self._held[name].append(keys)
        for name, sums in curves_of(values).items():
            self._folded[name] += sums
        self._n_held += len(texts)
        if self._n_held > _HELD_DOCUMENTS:
            self._histograms()

    def _histograms(self) -> dict[str, Histogram]:
        """Add the held documents to the histograms, and return these."""
        for name, keys in self._held.items():
            if keys:
                self._folded[name] += Histogram.of_documents(np.concatenate(keys))
                keys.clear()
        self._n_held = 0
        return self._folded

    def result(self) -> Statistics:
        """Return what was counted."""
        return _statistics(self._types.sorted_counts(), self._histograms())

    def write(self, path: str | Path, record: dict[str, object]) -> None:
        """Write the statistics file atomically; `record` is the run record for its footer."""
        types = self._types.sorted_counts()
        _write(path, self._histograms(), types, {**record, **self._description})


def _rows(name: str, n: int, **columns: object) -> dict[str, object]:
    """Fill the n rows of a statistic; columns that it does not have are null."""
    empty = {column.name: pa.nulls(n, column.type) for column in STATISTICS}
    return {**empty, "statistic": [name] * n, **columns}


def _write(
    path: str | Path,
    histograms: dict[str, Histogram],
    unigrams: Iterable[pa.Table],
    record: dict[str, object],
) -> None:
    with ShardWriter(path, STATISTICS, record) as writer:
        for name in HISTOGRAMS:
            held = histograms[name]
            values = {} if name == LENGTH else {"value": held.values}
            n = len(held.counts)
            writer.write(_rows(name, n, length=held.lengths, count=held.counts, **values))
        for table in unigrams:
            columns = {name: table[name] for name in table.column_names}
            writer.write(_rows("unigram", len(table), **columns))


def _filtered(path: str | Path, unigrams: bool) -> Iterator[pa.Table]:
    """Stream the unigram rows of a statistics file, or all the others."""
    with check_schema(path, STATISTICS) as file:
        for batch in file.iter_batches(batch_size=65_536):
            chosen = pc.equal(batch.column("statistic"), "unigram")
            rows = batch.filter(chosen if unigrams else pc.invert(chosen))
            if rows.num_rows:
                columns = tokens.COUNTED.names if unigrams else STATISTICS.names
                yield pa.Table.from_batches([rows]).select(columns)


def _read_histograms(path: str | Path) -> dict[str, Histogram]:
    table = pa.concat_tables([STATISTICS.empty_table(), *_filtered(path, unigrams=False)])
    histograms = {}
    for name in HISTOGRAMS:
        rows = table.filter(pc.equal(table["statistic"], name))
        columns = (rows["length"], pc.fill_null(rows["value"], 0), rows["count"])
        histograms[name] = Histogram.of(*(column.to_numpy() for column in columns))
    return histograms


def description(path: str | Path) -> dict[str, object]:
    """Return how a statistics file was counted: the keys of `COUNTED_SO`."""
    record = read_record(path)
    try:
        return {key: record[key] for key in COUNTED_SO}
    except KeyError as error:
        raise InputError(
            f"{path}: its run record lacks {error}; write it with scripts.count_statistics"
        ) from error


def check_comparable(*paths: str | Path) -> dict[str, object]:
    """Return the common `description` of statistics files, which must be counted alike."""
    described = description(paths[0])
    for path in paths[1:]:
        for key, value in description(path).items():
            if value != described[key]:
                raise InputError(
                    f"{path}: counted with {key} {value!r}, but {paths[0]} with "
                    f"{described[key]!r}; count both in the same way"
                )
    return described


def merge_statistics(
    paths: Sequence[str | Path], output: str | Path, record: dict[str, object]
) -> None:
    """Add statistics files up into one; memory holds the histograms and one batch of each file.

    Neither the order of the files nor the cuts matter. No file, or some counted differently, are an
    InputError.
    """
    if not paths:
        raise InputError("no statistics files to merge; name at least one")
    described = check_comparable(*paths)
    total = {name: Histogram() for name in HISTOGRAMS}
    for path in paths:
        for name, histogram in _read_histograms(path).items():
            total[name] += histogram
    runs = (_filtered(path, unigrams=True) for path in paths)
    _write(output, total, tokens.merge_runs(runs), {**record, **described})


@dataclass(frozen=True)
class Statistics:
    """The sufficient statistics of a sample set: types (V,), sorted, their counts, histograms.

    `segments` (3, V) are the sums of `taylor.segment_sums`, of documents that were counted.
    """

    types: pa.Array
    counts: np.ndarray
    histograms: dict[str, Histogram]
    segments: np.ndarray | None = None

    @property
    def n_documents(self) -> int:
        """Documents, those without tokens included."""
        return int(self.histograms[LENGTH].counts.sum())

    @property
    def n_tokens(self) -> int:
        """Tokens."""
        return int(self.counts.sum())

    def documents_of(self, name: str) -> int:
        """Return how many documents a number or a curve, of `SIZED`, was counted of."""
        held = self.histograms.get(name, Histogram())
        return int((held.counts[:1] if name in CURVE_NAMES else held.counts).sum())

    def sizes(self, later: Collection[str] = ()) -> dict[str, Sized]:
        """Choose the size of each number and curve: the largest that half of the documents have.

        The smallest where none has; nothing where no document has that. Tendencies that are counted
        `later` are of documents with as many tokens.
        """
        found, lengths = dict[str, Sized](), self.histograms[LENGTH]
        for name, sized in SIZED.items():
            n, before = self.documents_of(name), found.get(sized.tendency)
            if sized.tendency in later:
                n = int(lengths.counts[lengths.lengths >= sized.size].sum())
            larger = 2 * n >= self.n_documents and (before is None or sized.size > before.size)
            if larger or (n and before is None):
                found[sized.tendency] = sized
        return found

    @property
    def n_segments(self) -> int:
        """Segments of `taylor`; 0 where they were not counted."""
        held = self.histograms[LENGTH]
        return 0 if self.segments is None else int(segments_of(held.lengths) @ held.counts)

    @property
    def n_with_segments(self) -> int:
        """Documents with a whole segment."""
        held = self.histograms[LENGTH]
        return int(held.counts[segments_of(held.lengths) > 0].sum())

    def taylor_fit(self, n: int | None = None, *, shuffled: bool = False) -> TaylorFit:
        """Fit Taylor's law; NaN for too little text, or where segments were not counted.

        To the words that n documents have often enough, in the place of all; of words as they are,
        or `shuffled` inside their documents.
        """
        sums = np.zeros((3, 0)) if self.segments is None else self.segments
        sums = np.stack([sums[0], sums[2] * SHUFFLED_UNIT]) if shuffled else sums
        return fit_slope(sums, self.n_segments, n / self.n_documents if n else 1.0)

    def slope_counter(self, n: int | None = None) -> Callable[[TokenBatch], np.ndarray] | None:
        """Return what counts a document's pseudo-value of that slope; None for too little text."""
        sums, fit = self.segments, self.taylor_fit(n)
        if sums is None or math.isnan(fit.alpha):
            return None
        return slope_counter(self.types, sums, self.n_segments, self.n_with_segments, fit)

    def ranked(self, ranks: int | None = None) -> np.ndarray:
        """Return the counts of types, most frequent first: int64, shape (min(V, ranks),)."""
        return np.sort(self.counts)[::-1][:ranks]


def segment_shares(texts: Sequence[Statistics]) -> tuple[float, float]:
    """Return the share of its segments that a document of either text keeps: as many on average."""
    each = [max(text.n_segments, 1) / max(text.n_documents, 1) for text in texts]
    first, second = (min(each) / own if unequal(each) else 1.0 for own in each)
    return first, second


def slope_counters(texts: tuple[Statistics, ...]) -> list[Callable[[TokenBatch], np.ndarray]]:
    """Return what counts what documents add to the slope of Taylor's law of each of some texts.

    Of words that are frequent enough in as many segments as the smallest text has; none where one
    of them has too few.
    """
    segments = [text.n_segments for text in texts]
    found = []
    for text in texts:
        n = math.ceil(min(segments) / max(text.n_segments, 1) * text.n_documents)
        found.append(text.slope_counter(n if unequal(segments) else None))
    return [law for law in found if law] if all(found) else []


def _statistics(unigrams: Iterable[pa.Table], histograms: dict[str, Histogram]) -> Statistics:
    table = pa.concat_tables([tokens.COUNTED.empty_table(), *unigrams])
    count, *segments = (table[name].to_numpy() for name in table.column_names[1:])
    return Statistics(table["type"].combine_chunks(), count, histograms, np.stack(segments))


def read_statistics(path: str | Path) -> Statistics:
    """Read a statistics file; one that holds no document is an InputError."""
    statistics = _statistics(_filtered(path, unigrams=True), _read_histograms(path))
    if statistics.n_documents == 0:
        raise InputError(f"{path}: holds no document; count a sample set with at least one")
    return statistics
