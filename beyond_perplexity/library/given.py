"""What a caller gives: paths, or texts and tables in memory, which are files while they are read.

All readers stream files, and name the line of what is wrong. So what is in memory is written to a
folder of its own, which is removed afterwards; messages name the argument instead of that file.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from itertools import zip_longest
from numbers import Integral
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

from beyond_perplexity.errors import InputError
from beyond_perplexity.foreign_text import remarks_worded
from beyond_perplexity.options import LARGEST_NUMBER
from beyond_perplexity.storage.outputs import check_output

TEXT_COLUMN, GROUP_COLUMN, _TITLE = "text", "group", "title"
_BATCH = 4096
_BATCH_CHARACTERS = 1 << 24  # of texts that are held at once
_MISSING = object()


class GivenFiles(AbstractContextManager["GivenFiles"]):
    """The files of what was given; those that are made here live as long as the context.

    An `InputError` that is raised inside, and remarks, name arguments, not these files.
    """

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="beyond-perplexity-")
        self._worded = remarks_worded(self.named)

    def __enter__(self) -> Self:
        self._worded.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        place = f"{self._folder.name}{os.sep}"
        self._worded.__exit__(None, None, None)
        self._folder.cleanup()
        if isinstance(error, InputError) and place in str(error):
            raise InputError(self.named(str(error))) from None

    def named(self, message: str) -> str:
        """Name arguments in a message instead of files that were made here."""
        place = re.escape(f"{self._folder.name}{os.sep}")
        return re.sub(rf"{place}(.*?){re.escape(_SUFFIX)}", r"\1", message)

    def holds(self, path: Path) -> bool:
        """Say whether a file was made here."""
        return path.parent == Path(self._folder.name)

    def source(self, path: str | os.PathLike[str]) -> str:
        """Name a file for a record; one that was made here is gone by then."""
        return f"{self.named(str(path))} in memory" if self.holds(Path(path)) else str(path)

    def _new(self, name: str) -> Path:
        return Path(self._folder.name, f"{name}{_SUFFIX}")

    def texts(
        self,
        given: Any,
        name: str,
        groups: Any = None,
        *,
        field: str | None = None,
        group_column: str | None = None,
    ) -> Path:
        """Return the file of texts.

        Parameters
        ----------
        given : path, DataFrame, Arrow table or reader of record batches, or iterable of str
            A str is a path, never a text. Of tables the columns `field`, `group_column` and
            ``title`` are read. Errors count texts and rows from 1. What an iterable raises itself
            passes through.
        name : str
            The argument.
        groups : iterable, optional
            The group of each text, where `given` is an iterable of texts.
        field : str, optional
            Column of the texts; without it ``text``.
        group_column : str, optional
            Column of the groups, which need not be there; without it ``group``.

        Raises
        ------
        InputError
            When a text is none, groups are more or fewer than texts, or nothing was given.
        """
        column, group = field or TEXT_COLUMN, group_column or GROUP_COLUMN
        if isinstance(groups, str | bytes):
            raise InputError("groups: is one text; give the group of each, or group_column")
        if isinstance(given, str | os.PathLike):
            _refuse_groups(groups, name, "is a file")
            return Path(given)
        if (table := arrow_table(given, name, (column, group, _TITLE))) is not None:
            _refuse_groups(groups, name, "is a table")
            if column not in table.schema.names:
                raise InputError(f"{name}: has no column {column!r}; rename one, or give field")
            return self._write(name, _of_table(table))
        if groups is not None and (isinstance(groups, Mapping) or not isinstance(groups, Iterable)):
            kind = type(groups).__name__
            raise InputError(f"groups: is of type {kind}; give the group of each text, in a list")
        beside = None if groups is None else values_of(groups)
        return self._write(name, _batches(_iterated(given, name), beside, name, (column, group)))

    def table(self, given: Any, name: str) -> Path:
        """Return the file of a table of numbers: a path as it is, or one in memory.

        Raises
        ------
        InputError
            When it is neither.
        """
        if isinstance(given, str | os.PathLike):
            return Path(given)
        table = arrow_table(given, name)
        if table is None:
            raise InputError(
                f"{name}: is of type {type(given).__name__}; give a path, a DataFrame or an "
                "Arrow table"
            )
        return self._write(name, _of_table(table))

    def tables(self, given: Any, name: str) -> list[str]:
        """Return the files of one table or several; see `table`."""
        several = listed(given, name)
        names = [name] if len(several) == 1 else [f"{name}[{k}]" for k in range(len(several))]
        return [str(self.table(one, own)) for one, own in zip(several, names, strict=True)]

    def _write(self, name: str, parts: Iterator[Any]) -> Path:
        path, writer = self._new(name), None
        try:
            for part in parts:  # what the caller's own iterator raises is the caller's
                try:
                    writer = writer or pq.ParquetWriter(path, part.schema)
                    writer.write(part)
                except pa.ArrowException as error:
                    raise InputError(f"{name}: cannot be read ({_reason(error)})") from error
        finally:
            if writer:
                writer.close()
        if writer is None:
            raise InputError(f"{name}: is empty; give at least one")
        return path


_SUFFIX = ".parquet"


def arrow_table(
    given: Any, name: str, columns: Sequence[str] = ()
) -> pa.Table | pa.RecordBatchReader | None:
    """Return a DataFrame or anything of Arrow as such; None: it is no table.

    Parameters
    ----------
    given : object
    name : str
        The argument.
    columns : sequence of str
        What is taken of it, where it is there; all where none is named.

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
            raise InputError(
                f"{name}: cannot be read ({_reason(error)}); convert the column"
            ) from error
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


def _reason(error: Exception) -> str:
    """Say in one line what Arrow says, which gives its reasons one by one."""
    return " ".join("; ".join(map(str, error.args)).split())


def values_of(given: Iterable[Any]) -> Iterable[Any]:
    """Return what holds values, each as a value of Python; other iterables are returned as given.

    Parameters
    ----------
    given : iterable
        Arrays of Arrow give scalars, which are converted; arrays of NumPy give their own, which
        are numbers and texts as those of Python.
    """
    if isinstance(given, pa.ChunkedArray):
        return (value for chunk in given.chunks for value in values_of(chunk))
    if isinstance(given, pa.Array):
        parts = (given.slice(start, _BATCH) for start in range(0, len(given), _BATCH))
        return (value for part in parts for value in part.to_pylist())
    return given


def _of_table(table: pa.Table | pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    """Give the batches of a table; Polars' texts in the type that all readers of files know."""
    known = {pa.string_view(): pa.large_string()}
    fields = [field.with_type(known.get(field.type, field.type)) for field in table.schema]
    schema = pa.schema(fields, table.schema.metadata)
    for batch in table.to_batches(_BATCH) if isinstance(table, pa.Table) else table:
        yield batch if schema == table.schema else batch.cast(schema)


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


def _batches(
    texts: Iterable[Any], groups: Any, name: str, columns: tuple[str, str]
) -> Iterator[pa.RecordBatch]:
    pairs = ((text, None) for text in texts) if groups is None else _paired(texts, groups, name)
    texts_held: list[str] = []
    groups_held: list[str] = []
    characters = 0

    def batch() -> pa.RecordBatch:
        held = {columns[0]: pa.array(texts_held, pa.string())}
        if groups is not None:
            held[columns[1]] = pa.array(groups_held, pa.string())
        texts_held.clear()
        groups_held.clear()
        return pa.record_batch(held)

    for number, (text, group) in enumerate(pairs, start=1):
        _check_text(text, f"{name}: text {number}")
        texts_held.append(text)
        if groups is not None:
            groups_held.append(_group_of(group, f"{name}: text {number}"))
        characters += len(text)
        if len(texts_held) == _BATCH or characters >= _BATCH_CHARACTERS:
            characters = 0
            yield batch()
    if texts_held:
        yield batch()


def _group_of(group: Any, place: str) -> str:
    if type(group).__name__ in ("NoneType", "NAType", "NaTType") or bool(group != group):
        raise InputError(f"{place} has no group; give one to each or none")
    name = str(group)
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise InputError(f"{place} has a group that is no Unicode text") from error
    return name


def _paired(texts: Iterable[Any], groups: Iterable[Any], name: str) -> Iterator[tuple[Any, Any]]:
    for number, (text, group) in enumerate(zip_longest(texts, groups, fillvalue=_MISSING), start=1):
        if text is _MISSING or group is _MISSING:
            wrong = "groups than texts" if text is _MISSING else "texts than groups"
            raise InputError(f"{name}: there are more {wrong}, from number {number} on")
        yield text, group


def _check_text(text: Any, place: str) -> None:
    if not isinstance(text, str):
        raise InputError(f"{place} is of type {type(text).__name__}; give a str")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(f"{place} has half a surrogate pair; it is no Unicode text") from error


def listed(given: Any, name: str) -> Sequence[Any]:
    """Return one or several of something as a list; tables and paths are one.

    Raises
    ------
    InputError
        When it is neither one nor an iterable.
    """
    if isinstance(given, str | os.PathLike) or arrow_table(given, name) is not None:
        return [given]
    if isinstance(given, bytes | Mapping) or not isinstance(given, Iterable):
        raise InputError(
            f"{name}: is of type {type(given).__name__}; give a path, or several in a list"
        )
    return list(given)


def check_path_or_name(name: str, given: Any) -> None:
    """Refuse what is neither a path nor a name.

    Raises
    ------
    InputError
        Names the argument.
    """
    if not isinstance(given, str | os.PathLike):
        raise InputError(f"{name}: is of type {type(given).__name__}; give a path or a name")


def check_numbers(least: int, **numbers: Any) -> None:
    """Check arguments that are whole numbers, also NumPy's; None is one that was not given.

    Raises
    ------
    InputError
        When one is none, or below `least`; names it.
    """
    for name, number in numbers.items():
        if number is None:
            continue
        if isinstance(number, bool) or not isinstance(number, Integral):
            raise InputError(f"{name}: is {number!r}, expected a whole number")
        if not least <= int(number) <= LARGEST_NUMBER:
            raise InputError(f"{name}: is {number}, expected at least {least}")


def check_outputs(*paths: str | os.PathLike[str] | None) -> None:
    """Check files that are to be written, before any work; see `storage.outputs.check_output`."""
    for path in paths:
        if path is not None:
            check_output(path)
