"""What a caller gives: paths, or texts and tables in memory, which are read as files are."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

from beyond_perplexity.corpus.held_texts import HeldTexts, listed_texts, table_texts
from beyond_perplexity.errors import InputError
from beyond_perplexity.storage.held_tables import HeldTable

TEXT_COLUMN, GROUP_COLUMN, _TITLE = "text", "group", "title"
_BATCH = 4096


def text_source(
    given: Any,
    name: str,
    groups: Any = None,
    *,
    field: str | None = None,
    group_column: str | None = None,
) -> Path | HeldTexts:
    """Return what texts are read from.

    Parameters
    ----------
    given : path, DataFrame, Arrow table or reader of record batches, or iterable of str
        A str is a path, never a text. Of tables the columns `field`, `group_column` and ``title``
        are read. Errors count texts and rows from 1. What an iterable raises itself passes through.
    name : str
        The argument.
    groups : iterable, optional
        The group of each text, where `given` is an iterable of texts.
    field, group_column : str, optional
        Columns of the texts and of the groups, which need not be there (``text``, ``group``).

    Raises
    ------
    InputError
        When it is none of these, or groups are given beside a file or table.
    """
    if isinstance(groups, str | bytes):
        raise InputError("groups: is one text; give the group of each, or group_column")
    if isinstance(given, str | os.PathLike):
        _refuse_groups(groups, name, "is a file")
        return Path(given)
    column = field or TEXT_COLUMN
    table = arrow_table(given, name, (column, group_column or GROUP_COLUMN, _TITLE))
    if table is not None:
        _refuse_groups(groups, name, "is a table")
        if column not in table.schema.names:
            raise InputError(f"{name}: has no column {column!r}; rename one, or give field")
        return table_texts(table, name)
    if groups is not None and (isinstance(groups, Mapping) or not isinstance(groups, Iterable)):
        kind = type(groups).__name__
        raise InputError(f"groups: is of type {kind}; give the group of each text, in a list")
    beside = None if groups is None else values_of(groups)
    return listed_texts(_iterated(given, name), beside, name)


def table_source(given: Any, name: str) -> str | HeldTable:
    """Return what a table of numbers is read from: the path of a file, or the table in memory."""
    if isinstance(given, str | os.PathLike):
        return str(Path(given))
    table = arrow_table(given, name)
    if table is None:
        kind = type(given).__name__
        raise InputError(f"{name}: is of type {kind}; give a path, a DataFrame or an Arrow table")
    return HeldTable(table, name)


def table_sources(given: Any, name: str) -> list[str | HeldTable]:
    """Return what one table or several are read from; see `table_source`."""
    several = listed(given, name)
    names = [name] if len(several) == 1 else [f"{name}[{k}]" for k in range(len(several))]
    return [table_source(one, own) for one, own in zip(several, names, strict=True)]


def arrow_table(
    given: Any, name: str, columns: Sequence[str] = ()
) -> pa.Table | pa.RecordBatchReader | None:
    """Return a DataFrame or anything of Arrow as such, with these columns or all; None: no table.

    Raises
    ------
    InputError
        When Arrow cannot hold a column.
    """
    if type(given).__name__ == "DataFrame" and type(given).__module__.startswith("pandas"):
        kept = [column for column in given.columns if column in columns or not columns]
        try:
            return pa.Table.from_pandas(given[kept], preserve_index=False)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            reason = " ".join("; ".join(map(str, error.args)).split())  # one by one from Arrow
            raise InputError(f"{name}: cannot be read ({reason}); convert the column") from error
    table = _of_arrow(given)
    if table is None or not columns:
        return table
    kept = [column for column in table.schema.names if column in columns]
    if isinstance(table, pa.Table):
        return table.select(kept)
    schema = pa.schema([table.schema.field(column) for column in kept])
    return pa.RecordBatchReader.from_batches(schema, (batch.select(kept) for batch in table))


def _of_arrow(given: Any) -> pa.Table | pa.RecordBatchReader | None:
    if isinstance(given, pa.Table | pa.RecordBatchReader):
        return given
    if isinstance(given, pa.RecordBatch):
        return pa.Table.from_batches([given])
    if hasattr(given, "__arrow_c_stream__") and not hasattr(given, "to_pylist"):  # Polars, DuckDB
        with suppress(pa.ArrowInvalid):  # of one column alone: an iterable
            return pa.RecordBatchReader.from_stream(given)
    return None


def values_of(given: Iterable[Any]) -> Iterable[Any]:
    """Return what holds values, each as a value of Python; other iterables are returned as given.

    Arrays of Arrow give scalars, which are converted; arrays of NumPy give their own, which are
    numbers and texts as those of Python.
    """
    if isinstance(given, pa.ChunkedArray):
        return (value for chunk in given.chunks for value in values_of(chunk))
    if isinstance(given, pa.Array):
        parts = (given.slice(start, _BATCH) for start in range(0, len(given), _BATCH))
        return (value for part in parts for value in part.to_pylist())
    return given


def _refuse_groups(groups: Any, name: str, what: str) -> None:
    if groups is not None:
        raise InputError(
            f"groups: {name} {what}; name the column of the groups by group_column instead"
        )


def _iterated(given: Any, name: str) -> Iterable[Any]:
    if hasattr(given, "__arrow_c_stream__") and not isinstance(given, Iterable):
        with suppress(pa.ArrowException):  # of a table without the column, told below
            given = pa.chunked_array(given)
    if isinstance(given, bytes | Mapping) or not isinstance(given, Iterable):
        raise InputError(
            f"{name}: is of type {type(given).__name__}; give a path, texts (a list or an iterator "
            f"of str), a DataFrame or an Arrow table with a column {TEXT_COLUMN!r}"
        )
    if (dimensions := getattr(given, "ndim", 1)) != 1:
        raise InputError(f"{name}: has {dimensions} dimensions; give a list of texts")
    return values_of(given)


def listed(given: Any, name: str) -> Sequence[Any]:
    """Return one or several of something as a list; tables and paths are one."""
    if isinstance(given, str | os.PathLike) or arrow_table(given, name) is not None:
        return [given]
    if isinstance(given, bytes | Mapping) or not isinstance(given, Iterable):
        raise InputError(
            f"{name}: is of type {type(given).__name__}; give a path, or several in a list"
        )
    return list(given)
