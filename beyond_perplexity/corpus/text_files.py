"""Readers of texts, one document a line or row: plain text, JSONL and Parquet."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pyarrow as pa

from beyond_perplexity.corpus.readers import (
    LONGEST_LINE_BYTES,
    Problems,
    Record,
    UnusableError,
    read_lines,
)
from beyond_perplexity.corpus.text_fields import (
    FIELD_ADVICE,
    TEXT_FIELD,
    LeftOutError,
    follow_path,
    shape_of,
    text_of,
)
from beyond_perplexity.errors import InputError
from beyond_perplexity.foreign_text import remark
from beyond_perplexity.storage import inputs
from beyond_perplexity.storage.accounts import EMPTY_LINE
from beyond_perplexity.storage.shards import ParquetInput, refuse_twice, wrong_row

_BEGUN = {
    "[": "; it begins an array: write each text on a line of its own",
    "{": "; it begins an object: write each object on one line, as jq -c does",
}
_NO_OBJECTS: dict[type, str] = {
    str: "a string, without a field '{}'",
    list: "an array; write each of its texts on a line of its own, as jq -c '.[]' does",
}
_BATCH = 4096
_MISSING = object()
_SURROGATE = re.compile("[\ud800-\udfff]")


def read_text(path: Path, problems: Problems) -> Iterator[Record]:
    """Read plain text, one document a line."""
    for number, line in read_lines(path, problems):
        yield _record(f"{path}: line {number}", "", line.removesuffix("\r"), line.strip())


def _record(place: str, title: str, raw: str, text: str) -> Record:
    return Record(place, title, text, None if raw == text else raw)


def group_name(value: dict[str, object], key: str) -> str | None:
    """Return the name of a group, None where there is no such field."""
    try:
        group = follow_path(value, key)
    except UnusableError:
        return None
    if isinstance(group, bool) or not isinstance(group, str | int):
        what = "null" if group is None else "no string and no integer"
        raise UnusableError(f"field '{key}', which names the group, is {what}")
    if isinstance(group, str) and _SURROGATE.search(group):
        raise UnusableError("holds half a surrogate pair, which is no character")
    return str(group)


def take_record(
    place: str, value: object, field: str | None, group_key: str | None = None
) -> Record:
    """Take text, title and group of one JSON value."""
    if isinstance(value, str) and field is None:  # without a named field a bare string is a text
        value = {TEXT_FIELD: value}
    if not isinstance(value, dict):
        wrong = _NO_OBJECTS.get(type(value), "neither an object nor a string")
        raise UnusableError(wrong.format(field or TEXT_FIELD))
    text, field = text_of(value, field)
    if not isinstance(text, str):
        raise UnusableError(f"field '{field}' is {'null' if text is None else 'no string'}")
    if len(text) > LONGEST_LINE_BYTES:
        raise UnusableError(f"field '{field}' has more than {LONGEST_LINE_BYTES:,} characters")
    title = value.get("title") if field != "title" else None
    if title is not None and not isinstance(title, str):
        raise UnusableError("field 'title' is no string")
    if _SURROGATE.search(text) or _SURROGATE.search(title or ""):
        raise UnusableError("holds half a surrogate pair, which is no character")
    record = _record(place, title or "", text, " ".join(text.split()))
    return record if group_key is None else replace(record, group=group_name(value, group_key))


def _records(
    rows: Iterable[tuple[str, object]],
    problems: Problems,
    reason: str,
    field: str | None,
    group_key: str | None = None,
) -> Iterator[Record]:
    """Take the documents of values, each with its place, and report those that are none."""
    is_said = field is not None or "shape" in vars(problems)  # once a file
    for place, value in rows:
        if not is_said and isinstance(value, dict) and (shape := shape_of(value)):
            remark(f"{place}: read as {shape.words}; another by the option field")
            is_said = vars(problems)["shape"] = True
        try:
            with problems.unusable(reason, place):
                yield take_record(place, value, field, group_key)
        except LeftOutError as error:
            problems.skips.add(str(error), place)


def read_jsonl(
    path: Path, problems: Problems, group_key: str | None = None, field: str | None = None
) -> Iterator[Record]:
    """Read JSON, one value a line: a string, or an object with the text and optional ``title``."""
    rows = json_rows(path, problems)
    return _records(rows, problems, "unusable JSON line", field, group_key)


def json_rows(path: Path, problems: Problems) -> Iterator[tuple[str, object]]:
    """Read a value a line, with its place; empty lines are left out and counted."""
    for number, line in read_lines(path, problems):
        place = f"{path}: line {number}"
        if not line.strip():
            problems.skips.add(EMPTY_LINE, place)
            continue
        try:
            found = inputs.parse_json(line)
        except inputs.JSONTextError as error:
            begun = _BEGUN.get(line.strip(), "")
            problems.report("not JSON", place, f"{error}{begun}")
        else:
            yield place, found


def read_csv(
    path: Path, problems: Problems, group_key: str | None = None, field: str | None = None
) -> Iterator[Record]:
    """Read CSV, or TSV by its name: a header row, a column of texts, optional ``title``."""
    columns = partial(_text_columns, path, group_key=None, field=field)
    rows = csv_rows(path, columns, problems)
    yield from _records(rows, problems, "unusable row", field, group_key)


def csv_rows(path: Path, columns: ChosenColumns, problems: Problems) -> PlacedRows:
    """Read CSV, or TSV by its name, row after row; `columns` sees the header row."""
    tabs = ".tsv" in [suffix.lower() for suffix in path.suffixes]
    csv.field_size_limit(LONGEST_LINE_BYTES)
    with inputs.open_input(path) as file:
        lines = io.TextIOWrapper(file, "utf-8-sig", newline="")
        reader = csv.DictReader(lines, delimiter="\t" if tabs else ",", strict=True)
        try:
            names = list(reader.fieldnames or ())
            refuse_twice(path, names)
            columns(pa.schema([(name, pa.string()) for name in names]))
            yield from _checked_cells(path, reader, problems)
        except (csv.Error, UnicodeDecodeError) as error:
            place = f"{path}: line {reader.line_num + 1}"
            problems.report("not CSV in UTF-8", place, str(error))


def _checked_cells(
    path: Path, reader: csv.DictReader[str], problems: Problems
) -> Iterator[tuple[str, object]]:
    for row in reader:
        place = f"{path}: line {reader.line_num}"
        if None in row or None in row.values():
            problems.report("unusable row", place, "it has more or fewer cells than the header row")
        else:
            yield place, row


def dataset_files(path: Path) -> list[Path]:
    """List the files of a folder of the library datasets; one of several splits is refused."""
    parquet = (*path.glob("*.parquet"), *path.glob("data/*.parquet"))
    files = sorted(path.glob("*.arrow")) or sorted(parquet)
    splits = {file.name.partition("-")[0] for file in files if "-" in file.name}
    parts = {held.parent.name for held in path.glob("*/state.json")}  # each a folder
    if parts or len(splits) > 1:
        raise InputError(f"{path}: holds {', '.join(sorted(parts or splits))}; give one of them")
    if not files:
        wrong = "is a folder without Arrow or Parquet files of the library datasets"
        raise InputError(f"{path}: {wrong}; give a file with one document a line")
    return files


def read_folder(
    path: Path, problems: Problems, group_key: str | None = None, field: str | None = None
) -> Iterator[Record]:
    """Read a folder of the library datasets: Arrow, as `save_to_disk` writes it, or Parquet."""
    for file in dataset_files(path):
        if file.suffix == ".parquet":
            yield from read_parquet(file, problems, group_key, field)
            continue
        columns = partial(_text_columns, file, group_key=group_key, field=field)
        broken = inputs.told(f"{file}: is no Arrow stream", "", (pa.ArrowException, OSError))
        with broken, pa.memory_map(str(file)) as source:
            rows = table_rows(str(file), pa.ipc.open_stream(source), columns, problems)
            yield from _records(rows, problems, "unusable row", field, group_key)


def _is_string(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return kind in (pa.string(), pa.large_string(), pa.string_view())


def _text_columns(
    path: object, schema: pa.Schema, group_key: str | None, field: str | None
) -> list[str]:
    shape = None if field is not None else shape_of(schema.names)
    text = shape.key if shape else TEXT_FIELD if field is None else field
    inside = text not in schema.names and text.partition(".")[0] in schema.names
    text = text.partition(".")[0] if inside else text
    if text not in schema.names:
        named = " ".join(", ".join(schema.names).split())
        wrong = f"column '{text}' is missing; there are {named:.300}: {FIELD_ADVICE}"
        raise InputError(f"{path}: {wrong}")
    columns = [name for name in dict.fromkeys((text, "title")) if name in schema.names]
    for name in columns:
        is_read_whole = name == text and (inside or shape)
        if not is_read_whole and not _is_string(schema.field(name).type):
            found = schema.field(name).type
            raise InputError(f"{path}: column '{name}' is {found}, expected string")
    if group_key is not None and group_key in set(schema.names) - set(columns):
        kind = schema.field(group_key).type
        if not (_is_string(kind) or pa.types.is_integer(kind)):
            wrong = f"column '{group_key}', which names the group, is {kind}"
            raise InputError(f"{path}: {wrong}, expected string or integer")
        columns.append(group_key)
    elif group_key is not None and (first := group_key.partition(".")[0]) in schema.names:
        columns.append(first)
    return list(dict.fromkeys(columns))


def read_parquet(
    path: Path, problems: Problems, group_key: str | None = None, field: str | None = None
) -> Iterator[Record]:
    """Read a Parquet file: a column of texts, optional ``title`` and column of groups."""
    columns = partial(_text_columns, path, group_key=group_key, field=field)
    rows = parquet_rows(path, columns, problems)
    yield from _records(rows, problems, "unusable row", field, group_key)


ChosenColumns = Callable[[pa.Schema], list[str]]  # which ones are read
PlacedRows = Iterator[tuple[str, object]]  # each with its place


def parquet_rows(path: Path, columns: ChosenColumns, problems: Problems) -> PlacedRows:
    """Read a Parquet file, row after row."""
    first = 1  # as lines are counted
    try:
        with ParquetInput(path) as file:
            wanted = columns(file.schema_arrow)
            for batch in file.raw_batches(batch_size=_BATCH, columns=wanted):
                yield from _batch_rows(path, first, batch, problems)
                first += batch.num_rows
            problems.held = (problems.held or 0) + file.metadata.num_rows
    except inputs.DamagedError as error:
        problems.report(error.reason, f"{path}: row {first}", error.detail)


def table_rows(
    name: str, table: pa.Table | pa.RecordBatchReader, columns: ChosenColumns, problems: Problems
) -> PlacedRows:
    """Give the rows of a table in memory."""
    first, wanted = 1, columns(table.schema)
    for batch in table.to_batches(_BATCH) if isinstance(table, pa.Table) else table:
        yield from _batch_rows(name, first, batch.select(wanted), problems)
        first += batch.num_rows


def _batch_rows(path: object, first: int, batch: pa.RecordBatch, problems: Problems) -> PlacedRows:
    """Give rows with their places; those that are no UTF-8 are reported."""
    while wrong := wrong_row(batch):
        count, name = wrong
        yield from _batch_rows(path, first, batch.slice(0, count), problems)
        problems.report("not UTF-8", f"{path}: row {first + count}", f"column '{name}'")
        first, batch = first + count + 1, batch.slice(count + 1)
    for at, row in enumerate(batch.to_pylist()):
        yield f"{path}: row {first + at}", row


class HeldTexts:
    """What stands where a path of texts may stand, by an argument's name; `reader` makes records of
    problems, the field of groups and that of texts."""

    def __init__(self, name: str, reader: Callable[..., Iterator[Record]]) -> None:
        self.name, self._reader = name, reader

    def __str__(self) -> str:
        return self.name

    def read(
        self, problems: Problems, group_key: str | None = None, field: str | None = None
    ) -> Iterator[Record]:
        """Stream the records; an iterator can be read once."""
        record = None
        for record in self._reader(problems, group_key, field):
            yield record
        if record is None:
            raise InputError(f"{self.name}: is empty; give at least one")


def table_texts(table: pa.Table | pa.RecordBatchReader, name: str) -> HeldTexts:
    """Take the texts of a table of Arrow, as those of a Parquet file."""

    def read(problems: Problems, group_key: str | None, field: str | None) -> Iterator[Record]:
        columns = partial(_text_columns, name, group_key=group_key, field=field)
        rows = table_rows(name, table, columns, problems)
        yield from _records(rows, problems, "unusable row", field, group_key)

    return HeldTexts(name, read)


def listed_texts(texts: Iterable[Any], groups: Iterable[Any] | None, name: str) -> HeldTexts:
    """Take texts one by one, and beside them the group of each, where there are groups."""

    def read(problems: Problems, group_key: str | None, field: str | None) -> Iterator[Record]:
        rows = (
            ((text, None) for text in texts)
            if groups is None
            else zip_longest(texts, groups, fillvalue=_MISSING)
        )
        for number, (text, group) in enumerate(rows, start=1):
            if text is _MISSING or group is _MISSING:
                wrong = "groups than texts" if text is _MISSING else "texts than groups"
                raise InputError(f"{name}: there are more {wrong}, from number {number} on")
            place = f"{name}: text {number}"
            is_row = isinstance(text, Mapping)
            held = dict(text) if is_row else {TEXT_FIELD: _checked_text(text, place)}
            named = field if is_row else None
            for record in _records([(place, held)], problems, "unusable text", named, group_key):
                yield record if groups is None else replace(record, group=_group_of(group, place))

    return HeldTexts(name, read)


def _checked_text(text: Any, place: str) -> str:
    if not isinstance(text, str):
        raise InputError(f"{place} is of type {type(text).__name__}; give a str")
    if _SURROGATE.search(text):
        raise InputError(f"{place} has half a surrogate pair; it is no Unicode text")
    return text


def _group_of(group: Any, place: str) -> str:
    if type(group).__name__ in ("NoneType", "NAType", "NaTType") or bool(group != group):
        raise InputError(f"{place} has no group; give one to each or none")
    name = str(group)
    if _SURROGATE.search(name):
        raise InputError(f"{place} has a group that is no Unicode text")
    return name
