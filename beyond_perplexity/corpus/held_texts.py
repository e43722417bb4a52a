"""Texts in memory, which are read as a file with fields is: tables, and lists or iterators."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import zip_longest
from typing import Any

import pyarrow as pa

from beyond_perplexity.corpus.readers import Problems, Record
from beyond_perplexity.corpus.text_files import TEXT_FIELD, _fields, _rows, _text_columns
from beyond_perplexity.errors import InputError

TextReader = Callable[[Problems, str | None, str | None], Iterator[Record]]

_BATCH = 4096
_MISSING = object()


class HeldTexts:
    """What stands where a path of texts may stand; its name is that of an argument.

    Parameters
    ----------
    name : str
        For messages and accounts.
    reader : callable
        From problems, the field of groups and that of texts to records.
    """

    def __init__(self, name: str, reader: TextReader) -> None:
        self.name, self._reader = name, reader

    def __str__(self) -> str:
        return self.name

    def read(
        self, problems: Problems, group_key: str | None = None, field: str | None = None
    ) -> Iterator[Record]:
        """Stream the records; an iterator can be read once.

        Raises
        ------
        InputError
            When there is none, or one cannot be used.
        """
        record = None
        for record in self._reader(problems, group_key, field):
            yield record
        if record is None:
            raise InputError(f"{self.name}: is empty; give at least one")


def table_texts(table: pa.Table | pa.RecordBatchReader, name: str) -> HeldTexts:
    """Take the texts of a table of Arrow, as those of a Parquet file."""

    def read(problems: Problems, group_key: str | None, field: str | None) -> Iterator[Record]:
        columns: Any = _text_columns(name, table.schema, group_key, field)
        first = 1
        for batch in table.to_batches(_BATCH) if isinstance(table, pa.Table) else table:
            for place, value in _rows(name, first, batch.select(columns), problems):
                record = _fields(place, value, field or TEXT_FIELD, group_key)
                if isinstance(record, str):
                    problems.report("unusable row", place, record)
                else:
                    yield record
            first += batch.num_rows

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
            record = _fields(place, {TEXT_FIELD: _checked_text(text, place)}, None)
            if isinstance(record, str):
                problems.report("unusable text", place, record)
            else:
                yield record if groups is None else replace(record, group=_group_of(group, place))

    return HeldTexts(name, read)


def _checked_text(text: Any, place: str) -> str:
    if not isinstance(text, str):
        raise InputError(f"{place} is of type {type(text).__name__}; give a str")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(f"{place} has half a surrogate pair; it is no Unicode text") from error
    return text


def _group_of(group: Any, place: str) -> str:
    if type(group).__name__ in ("NoneType", "NAType", "NaTType") or bool(group != group):
        raise InputError(f"{place} has no group; give one to each or none")
    name = str(group)
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise InputError(f"{place} has a group that is no Unicode text") from error
    return name
