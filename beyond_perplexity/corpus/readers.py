"""Streaming readers of corpus files: compression, checksums, plain text, JSONL and Parquet.

Every reader holds one chunk or row group at a time. What cannot be read is an `InputError` or,
where the configuration says so, a skip that is counted and listed.
"""

from __future__ import annotations

import importlib.resources
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa

from beyond_perplexity.corpus.rows import EMBEDDED
from beyond_perplexity.errors import InputError
from beyond_perplexity.storage.inputs import DamagedError, check_input, open_input
from beyond_perplexity.storage.json_text import JSONTextError, parse_json
from beyond_perplexity.storage.parquet_files import ParquetInput, wrong_row

LONGEST_LINE_BYTES = 1 << 26  # as long as a page of a dump may be
CHUNK_BYTES = 1 << 20
LISTED = 20

NumberedLine = tuple[int, str]
"""Number, from 1, and text without its end."""

_SURROGATE = re.compile("[\ud800-\udfff]")

# The corpora that installed packages ship: name after "embedded:" -> package, path inside it.
EMBEDDED_CORPORA = {
    "enwiki-excerpt": (
        "gensim",
        "test/test_data/enwiki-latest-pages-articles1.xml-p000000010p000030302-shortened.bz2",
    ),
}


@dataclass
class Skips:
    """What was left out: how often for each reason, and where for the first few.

    Parameters
    ----------
    counts : Counter of str
        Occurrences by reason.
    places : dict of str to list of str
        The first `LISTED` places (titles, lines, bytes) by reason.
    """

    counts: Counter[str] = field(default_factory=Counter)
    places: dict[str, list[str]] = field(default_factory=dict)

    def add(self, reason: str, place: str, count: int = 1) -> None:
        """Count skips for a reason and list where, unless enough are listed."""
        self.counts[reason] += count
        listed = self.places.setdefault(reason, [])
        if len(listed) < LISTED:
            listed.append(place)

    def merge(self, other: Skips) -> None:
        """Add the skips of a later part of the corpus."""
        self.counts.update(other.counts)
        for reason, places in other.places.items():
            listed = self.places.setdefault(reason, [])
            listed += places[: LISTED - len(listed)]

    def to_json(self) -> dict[str, dict[str, object]]:
        """Return ``{reason: {"count": int, "first": [place, ...]}}``."""
        return {
            reason: {"count": count, "first": self.places[reason]}
            for reason, count in sorted(self.counts.items())
        }


@dataclass
class Problems:
    """What happens on unreadable input: an error, or a skip that is counted.

    Parameters
    ----------
    skip : bool
        Whether to skip (``on_error: skip``) instead of raising.
    skips : Skips
        Where skips are counted.
    """

    skip: bool
    skips: Skips = field(default_factory=Skips)

    def report(self, reason: str, place: str, detail: str) -> None:
        """Raise an `InputError` about this place, or count it when skipping.

        Raises
        ------
        InputError
            With ``place: reason (detail)``, unless `skip`.
        """
        if not self.skip:
            advice = "repair the input, or set source.on_error to skip"
            raise InputError(f"{place}: {reason} ({detail}); {advice}")
        self.skips.add(reason, place)


@dataclass(frozen=True)
class Record:
    """One document as a file gives it.

    Parameters
    ----------
    place : str
        File and line or row.
    title : str
        Empty when the file has none.
    text : str
        The raw text, without line breaks.
    raw : str or None
        The string as the file has it, with all its blanks and line breaks; None: it is `text`.
    group : str or None
        The group of documents that it belongs to; None where none was asked for or it has none.
    """

    place: str
    title: str
    text: str
    raw: str | None = None
    group: str | None = None

    @property
    def as_it_is(self) -> str:
        """The string as the file has it."""
        return self.text if self.raw is None else self.raw


def resolve_path(name: str) -> Path:
    """Find a source file: a path, or ``embedded:NAME`` for one that an installed package ships.

    Raises
    ------
    InputError
        When there is no such file or no such embedded corpus.
    """
    path = Path(name)
    if name.startswith(EMBEDDED):
        known = name.removeprefix(EMBEDDED)
        if known not in EMBEDDED_CORPORA:
            raise InputError(
                f"{name}: no such embedded corpus; there are {', '.join(EMBEDDED_CORPORA)}"
            )
        package, inside = EMBEDDED_CORPORA[known]
        # The package is installed as plain files, so that the resource is a path.
        path = Path(str(importlib.resources.files(package).joinpath(inside)))
    check_input(name if "://" in name else path)
    return path


def read_chunks(path: Path, problems: Problems) -> Iterator[bytes]:
    """Stream the decompressed bytes of a file.

    Parameters
    ----------
    path : pathlib.Path
        Plain or packed; see `inputs.open_input`.
    problems : Problems
        A truncated or damaged archive is reported here, after all that could be read.

    Yields
    ------
    bytes
        At most `CHUNK_BYTES`.

    Raises
    ------
    InputError
        When the system does not give the file, whatever `problems` says.
    """
    try:
        with open_input(path) as file:
            while chunk := file.read1(CHUNK_BYTES):
                yield chunk
    except DamagedError as error:
        problems.report(error.reason, error.place, error.detail)


def _report_length(place: str, problems: Problems) -> None:
    problems.report("line too long", place, f"it has more than {LONGEST_LINE_BYTES:,} bytes")


class _Line:
    """A line as it comes in pieces; what is beyond the limit is not held."""

    def __init__(self, path: Path, number: int) -> None:
        self._path, self.number = path, number
        self._parts: list[bytes] = []
        self._size = 0

    def add(self, part: bytes, problems: Problems) -> None:
        if not part or self._size > LONGEST_LINE_BYTES:
            return
        self._parts.append(part)
        self._size += len(part)
        if self._size > LONGEST_LINE_BYTES:
            self._parts.clear()
            _report_length(f"{self._path}: line {self.number}", problems)

    @property
    def is_begun(self) -> bool:
        return self._size > 0

    def decoded(self, problems: Problems) -> Iterator[NumberedLine]:
        if self._size <= LONGEST_LINE_BYTES:
            yield from _decode(self._path, self.number, b"".join(self._parts), problems)


def read_lines(path: Path, problems: Problems) -> Iterator[NumberedLine]:
    """Give the decoded lines of a UTF-8 file with their numbers, which start at 1.

    A line of more than `LONGEST_LINE_BYTES` is reported; see `read_chunks` for the parameters.
    """
    waiting = _Line(path, 1)
    for chunk in read_chunks(path, problems):
        first, *others = chunk.split(b"\n")
        waiting.add(first, problems)
        if not others:
            continue
        yield from waiting.decoded(problems)
        *lines, rest = others
        for number, line in enumerate(lines, waiting.number + 1):
            yield from _decode(path, number, line, problems)
        waiting = _Line(path, waiting.number + len(others))
        waiting.add(rest, problems)
    if waiting.is_begun:
        yield from waiting.decoded(problems)


def _decode(path: Path, number: int, line: bytes, problems: Problems) -> Iterator[NumberedLine]:
    place = f"{path}: line {number}"
    if len(line) > LONGEST_LINE_BYTES:
        _report_length(place, problems)
        return
    try:
        text = line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        detail = f"byte {line[error.start]:#04x} at byte {error.start} of the line"
        problems.report("not UTF-8", place, detail)
        return
    if "\0" in text:
        problems.report("holds NUL characters", place, "UTF-16 or binary?")
        return
    yield number, text


def read_text(path: Path, problems: Problems) -> Iterator[Record]:
    """Read plain text, one document a line; see `read_chunks` for the parameters."""
    for number, line in read_lines(path, problems):
        yield _record(f"{path}: line {number}", "", line.removesuffix("\r"), line.strip())


def _record(place: str, title: str, raw: str, text: str) -> Record:
    return Record(place, title, text, None if raw == text else raw)


def _group(value: dict[str, object], key: str) -> str | None:
    """Return the name of a group, None where there is no such field.

    Raises
    ------
    ValueError
        Says what is wrong with it.
    """
    if key not in value:
        return None
    group = value[key]
    if group is None:
        raise ValueError(f"field '{key}', which names the group, is null")
    if isinstance(group, bool) or not isinstance(group, str | int):
        raise ValueError(f"field '{key}', which names the group, is no string and no integer")
    if isinstance(group, str) and _SURROGATE.search(group):
        raise ValueError("holds half a surrogate pair, which is no character")
    return str(group)


def _fields(place: str, value: object, group_key: str | None = None) -> Record | str:
    """Take text, title and group of one JSON value; a sentence about what is wrong if it fails."""
    if not isinstance(value, dict):
        return "not an object"
    text = value.get("text")
    if not isinstance(text, str):
        return "field 'text' is missing" if text is None else "field 'text' is no string"
    if len(text) > LONGEST_LINE_BYTES:
        return f"field 'text' has more than {LONGEST_LINE_BYTES:,} characters"
    title = value.get("title")
    if title is not None and not isinstance(title, str):
        return "field 'title' is no string"
    if _SURROGATE.search(text) or _SURROGATE.search(title or ""):
        return "holds half a surrogate pair, which is no character"
    record = _record(place, title or "", text, " ".join(text.split()))
    if group_key is None:
        return record
    try:
        return replace(record, group=_group(value, group_key))
    except ValueError as error:
        return str(error)


def read_jsonl(path: Path, problems: Problems, group_key: str | None = None) -> Iterator[Record]:
    """Read JSON objects, one a line: field ``text``, optional ``title`` and field of groups.

    See `read_chunks` for the parameters; `group_key` names the field that gives `Record.group`.
    """
    for number, line in read_lines(path, problems):
        place = f"{path}: line {number}"
        if not line.strip():
            problems.skips.add("empty line", place)
            continue
        try:
            record = _fields(place, parse_json(line), group_key)
        except JSONTextError as error:
            problems.report("not JSON", place, str(error))
            continue
        if isinstance(record, str):
            problems.report("unusable JSON line", place, record)
        else:
            yield record


def _is_string(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _text_columns(path: Path, schema: pa.Schema, group_key: str | None) -> list[str]:
    if "text" not in schema.names:
        raise InputError(f"{path}: column 'text' is missing; there are {', '.join(schema.names)}")
    columns = [name for name in ("text", "title") if name in schema.names]
    for name in columns:
        if not _is_string(schema.field(name).type):
            raise InputError(
                f"{path}: column '{name}' is {schema.field(name).type}, expected string"
            )
    if group_key is not None and group_key in set(schema.names) - set(columns):
        kind = schema.field(group_key).type
        if not (_is_string(kind) or pa.types.is_integer(kind)):
            raise InputError(
                f"{path}: column '{group_key}', which names the group, is {kind}, expected string "
                "or integer"
            )
        columns.append(group_key)
    return columns


def read_parquet(path: Path, problems: Problems, group_key: str | None = None) -> Iterator[Record]:
    """Read a Parquet file: column ``text``, optional ``title`` and column of groups.

    See `read_jsonl` for the parameters.

    Raises
    ------
    InputError
        When the file is no Parquet file or its columns are missing or of another type.
    """
    row = 0
    try:
        with ParquetInput(path) as file:
            columns = _text_columns(path, file.schema_arrow, group_key)
            for batch in file.raw_batches(batch_size=4096, columns=columns):
                for place, value in _rows(path, row, batch, problems):
                    record = _fields(place, value, group_key)
                    if isinstance(record, str):
                        problems.report("unusable row", place, record)
                    else:
                        yield record
                row += batch.num_rows
    except DamagedError as error:
        problems.report(error.reason, f"{path}: row {row}", error.detail)


def _rows(
    path: Path, first: int, batch: pa.RecordBatch, problems: Problems
) -> Iterator[tuple[str, dict[str, object]]]:
    """Give the place and the values of each row; those that are no UTF-8 are reported."""
    while wrong := wrong_row(batch):
        count, name = wrong
        sound = batch.slice(0, count).to_pylist()
        yield from ((f"{path}: row {first + at}", row) for at, row in enumerate(sound))
        problems.report("not UTF-8", f"{path}: row {first + count}", f"column '{name}'")
        first, batch = first + count + 1, batch.slice(count + 1)
    yield from ((f"{path}: row {first + at}", row) for at, row in enumerate(batch.to_pylist()))
