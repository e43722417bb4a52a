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
from itertools import islice, zip_longest
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

from beyond_perplexity.errors import InputError
from beyond_perplexity.options import LARGEST_NUMBER
from beyond_perplexity.storage.outputs import check_output

TEXT_COLUMN, GROUP_COLUMN, _TITLE = "text", "group", "title"
_BATCH = 4096
_MISSING = object()


class GivenFiles(AbstractContextManager["GivenFiles"]):
    """The files of what was given; those that are made here live as long as the context.

    An `InputError` that is raised inside names arguments, not these files.
    """

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="beyond-perplexity-")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        place = f"{self._folder.name}{os.sep}"
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
            ``title`` are read.
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
        return self._write(name, _batches(_iterated(given, name), groups, name, (column, group)))

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
            for part in parts:
                writer = writer or pq.ParquetWriter(path, part.schema)
                writer.write(part)
        except (pa.ArrowException, TypeError) as error:
            raise InputError(f"{name}: cannot be read ({' '.join(str(error).split())})") from error
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
        except (pa.ArrowException, TypeError, ValueError) as error:
            said = " ".join(str(error).split())
            raise InputError(f"{name}: cannot be read ({said}); convert the column") from error
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


def _of_table(table: pa.Table | pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    yield from table.to_batches(_BATCH) if isinstance(table, pa.Table) else table


def _refuse_groups(groups: Any, name: str, what: str) -> None:
    if groups is not None:
        raise InputError(
            f"groups: {name} {what}; name the column of the groups by group_column instead"
        )


def _iterated(given: Any, name: str) -> Iterable[Any]:
    if isinstance(given, bytes | Mapping) or not isinstance(given, Iterable):
        raise InputError(
            f"{name}: is of type {type(given).__name__}; give a path, texts (a list or an iterator "
            f"of str), a DataFrame or an Arrow table with a column {TEXT_COLUMN!r}"
        )
    return given


def _batches(
    texts: Iterable[Any], groups: Any, name: str, columns: tuple[str, str]
) -> Iterator[pa.RecordBatch]:
    pairs = ((text, None) for text in texts) if groups is None else _paired(texts, groups, name)
    first = 1
    while part := list(islice(pairs, _BATCH)):
        for number, (text, group) in enumerate(part, start=first):
            _check_text(text, f"{name}: text {number}")
            if groups is not None and (group is None or group != group):
                raise InputError(f"{name}: text {number} has no group; give one to each or none")
        held = {columns[0]: pa.array([text for text, _ in part], pa.string())}
        if groups is not None:
            held[columns[1]] = pa.array([str(group) for _, group in part], pa.string())
        yield pa.record_batch(held)
        first += len(part)


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
    """Return one or several of something as a list; tables and paths are one."""
    if isinstance(given, str | os.PathLike) or arrow_table(given, name) is not None:
        return [given]
    return list(given)


def check_numbers(least: int, **numbers: int | None) -> None:
    """Check arguments that are whole numbers; None is one that was not given.

    Raises
    ------
    InputError
        When one is none, or below `least`; names it.
    """
    for name, number in numbers.items():
        if number is None:
            continue
        if isinstance(number, bool) or not isinstance(number, int):
            raise InputError(f"{name}: is {number!r}, expected a whole number")
        if not least <= number <= LARGEST_NUMBER:
            raise InputError(f"{name}: is {number}, expected at least {least}")


def check_outputs(*paths: str | os.PathLike[str] | None) -> None:
    """Check files that are to be written, before any work; see `storage.outputs.check_output`."""
    for path in paths:
        if path is not None:
            check_output(path)
