"""Texts as tokens: batches of type ids, readings in a closed vocabulary, hashes, type counts.

Human text holds words that a model of a closed vocabulary cannot write. Both sides of a fair
comparison are therefore read alike: what the vocabulary lacks is ``<unk>`` in both. Hashes are
polynomials modulo 2^64 over pseudo-random numbers, the same on every machine, with mixed bits: two
of n are taken for equal with a chance of about n^2 / 2^65, 3e-8 for a million. Types are counted in
bounded memory, in sorted runs on disk that are merged.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from beyond_perplexity.errors import InputError
from beyond_perplexity.storage.inputs import JSONTextError, parse_json, read_whole

_UNICODE_SPACE = r"[\x{a0}\x{85}\p{Zl}\p{Zp}\x{1680}\x{2000}-\x{200a}\x{202f}\x{205f}\x{3000}]"


@dataclass(frozen=True)
class TokenBatch:
    """Documents of one batch as ids (int32, (T,)) into distinct types (V,).

    Document d has the tokens ``ids[offsets[d]:offsets[d + 1]]``; offsets are int64, (D + 1,).
    """

    types: pa.Array
    ids: np.ndarray
    offsets: np.ndarray

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of every document: int64, shape (D,)."""
        return np.diff(self.offsets)

    def documents(self, start: int, end: int | None = None) -> TokenBatch:
        """Return the documents from `start` up to `end`, over the same types."""
        offsets = self.offsets[start : None if end is None else end + 1]
        return TokenBatch(self.types, self.ids[offsets[0] : offsets[-1]], offsets - offsets[0])

    def texts(self) -> pa.Array:
        """Return the documents, tokens joined by blanks: string, shape (D,)."""
        words = self.types.take(pa.array(self.ids))
        return pc.binary_join(
            pa.ListArray.from_arrays(pa.array(self.offsets, pa.int32()), words), " "
        )


def _drop_empty(types: pa.Array, ids: np.ndarray, offsets: np.ndarray) -> TokenBatch:
    """Remove the empty tokens that the split leaves at the ends of a text and in an empty one."""
    empty = pc.index(types, "").as_py()
    if empty < 0:
        return TokenBatch(types, ids, offsets)
    kept = ids != empty
    before = np.concatenate([[0], np.cumsum(kept)])
    ids = ids[kept]
    types = pa.concat_arrays([types.slice(0, empty), types.slice(empty + 1)])
    return TokenBatch(types, ids - (ids > empty).astype(np.int32), before[offsets])


def _has_other_space(types: pa.Array) -> bool:
    """Say whether a type holds white space other than the blank at its end."""
    data = np.frombuffer(types.buffers()[2] or b"", np.uint8)
    if np.any((data - np.uint8(9) < 5) | (data - np.uint8(28) < 4)):
        return True
    strange = types.filter(pc.invert(pc.string_is_ascii(types)))
    return bool(pc.any(pc.match_substring_regex(strange, _UNICODE_SPACE)).as_py())


def tokenize_batch(texts: pa.Array) -> TokenBatch:
    """Split texts at white space, exactly as `str.split`; a null is a document of no tokens."""
    # With a blank after each document, one array of offsets into the text cuts "token ", "token ".
    ended = pc.binary_join_element_wise(pc.fill_null(texts, ""), "", " ")
    data = np.frombuffer(ended.buffers()[2] or b"", np.uint8)
    blanks = np.flatnonzero(data == 32)
    cuts = np.zeros(len(blanks) + 1, np.int32)
    np.add(blanks, 1, out=cuts[1:], casting="unsafe")
    text_ends = np.frombuffer(ended.buffers()[1], np.int32)[: len(texts) + 1]
    buffers = [None, pa.py_buffer(cuts), ended.buffers()[2]]
    tokens = pa.Array.from_buffers(pa.string(), len(cuts) - 1, buffers)
    encoded = tokens.dictionary_encode()
    if _has_other_space(encoded.dictionary):
        plain = [" ".join((text or "").split()) for text in texts.to_pylist()]
        return tokenize_batch(pa.array(plain))
    types = pc.ascii_rtrim(encoded.dictionary, " ")
    return _drop_empty(types, encoded.indices.to_numpy(), np.searchsorted(cuts, text_ends))


GRAM = 8  # tokens in a row that are no chance
_BASE = np.uint64(0x9E3779B97F4A7C15)


def _mixed(values: np.ndarray) -> np.ndarray:
    """Mix the bits of unsigned 64-bit integers, one to one (the finalizer of SplitMix64)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


_BYTES = _mixed(np.arange(1, 257, dtype=np.uint64) * _BASE)


def _sequence_hashes(numbers: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Hash sequences of numbers (uint64, shape (T,)) that end at offsets (D + 1): shape (D,)."""
    lengths = np.diff(offsets)
    positions = np.arange(len(numbers)) - np.repeat(offsets[:-1] - offsets[0], lengths)
    powers = np.full(int(lengths.max(initial=0)) + 1, _BASE)
    powers[0] = 1
    np.cumprod(powers, out=powers)
    total = np.zeros(len(numbers) + 1, np.uint64)
    np.cumsum(numbers * powers[positions], out=total[1:])
    sums = np.diff(total[offsets - offsets[0]])
    return _mixed(sums + powers.dtype.type(0x632BE59BD9B4E019) * lengths.astype(np.uint64))


def string_hashes(strings: pa.Array) -> np.ndarray:
    """Hash strings without nulls (string, shape (V,)) by their bytes: uint64, shape (V,)."""
    if len(strings) == 0:
        return np.zeros(0, np.uint64)
    _, positions, data = strings.buffers()
    offsets = np.frombuffer(positions, np.int32)[strings.offset : strings.offset + len(strings) + 1]
    held = np.frombuffer(data or b"", np.uint8)[offsets[0] : offsets[-1]]
    return _sequence_hashes(_BYTES[held], offsets.astype(np.int64))


def document_hashes(batch: TokenBatch) -> np.ndarray:
    """Hash the sequence of tokens of every document: uint64, shape (D,)."""
    return _sequence_hashes(string_hashes(batch.types)[batch.ids], batch.offsets)


UNKNOWN_WORD = "<unk>"  # as closed vocabularies write it
RAW_TEXT = "raw"  # what a reading without a vocabulary is called


def _cut(batch: TokenBatch, maximum_tokens: int) -> TokenBatch:
    """Cut documents, and leave out the types that then no token is of."""
    lengths = batch.lengths
    if lengths.max(initial=0) <= maximum_tokens:
        return batch
    kept = np.arange(len(batch.ids)) - np.repeat(batch.offsets[:-1], lengths) < maximum_tokens
    offsets = np.concatenate([[0], np.cumsum(np.minimum(lengths, maximum_tokens))])
    ids = batch.ids[kept]
    used = np.bincount(ids, minlength=len(batch.types)) > 0
    positions = (np.cumsum(used) - 1).astype(np.int32)
    return TokenBatch(batch.types.filter(pa.array(used)), positions[ids], offsets)


def _closed(batch: TokenBatch, words: pa.Array) -> TokenBatch:
    known = np.asarray(pc.is_in(batch.types, value_set=words))
    unknown = pc.index(batch.types, UNKNOWN_WORD).as_py()
    if unknown >= 0:
        known[unknown] = True
    if known.all():
        return batch
    positions = (np.cumsum(known) - 1).astype(np.int32)
    types = batch.types.filter(pa.array(known))
    if unknown < 0:
        types = pa.concat_arrays([types, pa.array([UNKNOWN_WORD], pa.string())])
    positions[~known] = len(types) - 1 if unknown < 0 else positions[unknown]
    return TokenBatch(types, positions[batch.ids], batch.offsets)


@dataclass(frozen=True)
class TextView:
    """How documents are read.

    Every token that is not of the closed vocabulary `words` is ``<unk>``; None reads all as they
    are. Of a document `maximum_tokens` are read; documents of fewer than `minimum_tokens` are left
    out where documents are read (`admits`).
    """

    words: pa.Array | None = None
    maximum_tokens: int | None = None
    minimum_tokens: int = 0

    def __post_init__(self) -> None:
        if self.minimum_tokens < 0 or (self.maximum_tokens is not None and self.maximum_tokens < 1):
            raise InputError(
                f"minimum tokens {self.minimum_tokens}, maximum tokens {self.maximum_tokens}: "
                "give at least 0 and at least 1"
            )

    def batch(self, texts: pa.Array) -> TokenBatch:
        """Split texts (string, shape (D,)) at white space and read them so: D documents."""
        return self.read(tokenize_batch(texts))

    def read(self, batch: TokenBatch) -> TokenBatch:
        """Read documents that are split already; types without a token are left out."""
        if self.maximum_tokens is not None:
            batch = _cut(batch, self.maximum_tokens)
        return batch if self.words is None else _closed(batch, self.words)

    def admits(self, texts: pa.Array) -> np.ndarray:
        """Say which documents are long enough before any cut: bool, shape (D,)."""
        if self.minimum_tokens == 0:
            return np.ones(len(texts), bool)
        return tokenize_batch(texts).lengths >= self.minimum_tokens

    @cached_property
    def vocabulary_hash(self) -> str:
        """``raw``, or the start of the SHA-256 of the sorted words."""
        if self.words is None:
            return RAW_TEXT
        joined = "\n".join(sorted(set(self.words.to_pylist())))
        return hashlib.sha256(joined.encode()).hexdigest()[:16]

    def describe(self) -> dict[str, object]:
        """Return what must be equal where two sample sets are compared."""
        numbers = {"maximum_tokens": self.maximum_tokens, "minimum_tokens": self.minimum_tokens}
        return {"vocabulary": self.vocabulary_hash, **numbers}


WHOLE_TEXT = TextView()


def _described_words(path: Path, held: object) -> pa.Array | None:
    """Take the words of a description that a model's folder holds."""
    if not isinstance(held, dict) or not isinstance(held.get("kind"), str):
        raise InputError(f"{path}: has no 'kind', so this is no vocabulary.json of a model")
    if held["kind"] != "closed":
        return None
    words = held.get("words")
    if not isinstance(words, list) or not words:
        raise InputError(f"{path}: a closed vocabulary without 'words'; build it again")
    for number, word in enumerate(words):
        if not isinstance(word, str):
            raise InputError(f"{path}: words[{number}] is no string; build the vocabulary again")
    return pa.array(words, pa.string())


def _listed_words(path: Path, text: str) -> pa.Array:
    words = []
    for number, line in enumerate(text.split("\n"), start=1):
        found = line.split()
        if len(found) > 1 or "\0" in line:
            why = "holds NUL" if "\0" in line else f"holds {len(found)} words"
            raise _no_vocabulary(path, number, why)
        words += found
    if not words:
        raise InputError(f"{path}: holds no word; give one word a line, or a vocabulary.json")
    return pa.array(words, pa.string())


def _no_vocabulary(path: Path, line: int, why: str) -> InputError:
    meant = "give a model's vocabulary.json, or a file with one word a line"
    return InputError(f"{path}: line {line}: {why}, so this is no vocabulary; {meant}")


def vocabulary_words(path: str | Path) -> pa.Array | None:
    """Read the words of a closed vocabulary; None of an open one, which can write every word.

    From ``vocabulary.json`` of a model's folder, or a UTF-8 file with one word a line.
    """
    path = Path(path)
    content = read_whole(path)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise _no_vocabulary(path, line, "not UTF-8") from error
    if path.suffix.lower() != ".json" and not text.lstrip().startswith('{"'):
        return _listed_words(path, text)
    try:
        return _described_words(path, parse_json(text))
    except JSONTextError as error:
        raise _no_vocabulary(path, error.line, f"not JSON ({error})") from error


# See `taylor` of the last three.
_SUMS = ("count", "segment_count", "segment_squares", "segment_shuffled")
COUNTED = pa.schema([("type", pa.string()), *((name, pa.int64()) for name in _SUMS)])
_ROWS = 65_536  # of a run held at a time while merging


def add_up(tables: list[pa.Table]) -> pa.Table:
    """Add the sums of equal types; every type once, sorted in the order of UTF-8 bytes."""
    if not tables:
        return COUNTED.empty_table()
    schema = tables[0].schema
    names = [name for name in schema.names if name != "type"]
    summed = pa.concat_tables(tables).group_by("type").aggregate([(name, "sum") for name in names])
    summed = summed.select(["type", *(f"{name}_sum" for name in names)])
    return summed.rename_columns(schema.names).sort_by("type").cast(schema)


def merge_runs(runs: Iterable[Iterable[pa.Table]]) -> Iterator[pa.Table]:
    """Merge streams of (type, count), each sorted and of distinct types; holds a table of each."""
    streams = [iter(run) for run in runs]
    heads = [next(filter(len, run), None) for run in streams]
    while any(heads):
        # Below the smallest of the last types in memory no run can bring a type later.
        bound = min((str(head["type"][-1]) for head in heads if head), key=str.encode)
        taken = []
        for position, head in enumerate(heads):
            if head:
                n = pc.sum(pc.less_equal(head["type"], bound), min_count=0).as_py()
                taken.append(head.slice(0, n))
                heads[position] = head.slice(n) or next(filter(len, streams[position]), None)
        yield add_up(taken)


class TypeCounter:
    """Count types; beyond a limit of types in memory, sorted runs go to a temporary folder.

    `limit` rows (types, with repetitions between batches) are held before they are added up; when
    the distinct ones alone exceed half of it, they are spilled.
    """

    def __init__(self, limit: int = 4_000_000) -> None:
        self._limit = limit
        self._held: list[pa.Table] = []
        self._rows = 0
        self._runs: list[Path] = []
        self._folder = tempfile.TemporaryDirectory(prefix="types-")

    def __enter__(self) -> TypeCounter:
        return self

    def __exit__(self, *exception: object) -> None:
        self._folder.cleanup()

    def add(self, types: pa.Array, counts: np.ndarray, segments: np.ndarray | None = None) -> None:
        """Add counts, int64, (V,), of types, string, (V,), and sums of segments, int64, (3, V)."""
        own = np.zeros((len(_SUMS) - 1, len(types)), np.int64) if segments is None else segments
        columns = [pa.array(x, pa.int64()) for x in (counts, *own)]
        table = pa.table([types, *columns], schema=COUNTED)
        self._held.append(table)
        self._rows += table.num_rows
        if self._rows > self._limit:
            self._compact()

    def _compact(self) -> None:
        summed = add_up(self._held)
        self._held, self._rows = [summed], summed.num_rows
        if 2 * self._rows > self._limit:
            path = Path(self._folder.name) / f"{len(self._runs)}.parquet"
            pq.write_table(summed, path, row_group_size=_ROWS)
            self._runs.append(path)
            self._held, self._rows = [], 0

    def sorted_counts(self) -> Iterator[pa.Table]:
        """Yield all types with their counts, sorted by type."""
        last = add_up(self._held)
        return merge_runs([*map(_read_run, self._runs), [last]]) if self._runs else iter([last])


def _read_run(path: Path) -> Iterator[pa.Table]:
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=_ROWS):
            yield pa.Table.from_batches([batch])
