"""The one place that opens Parquet files: what is wrong with one is said in a line."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from beyond_perplexity.errors import InputError
from beyond_perplexity.storage.inputs import DamagedError, check_input, said, unreadable


@contextmanager
def _explained(path: object) -> Iterator[None]:
    """Turn what pyarrow raises about a file into an `InputError`."""
    try:
        yield
    except UnicodeDecodeError as error:
        reason = "the name of a column is not UTF-8"
        raise DamagedError(str(path), "not a readable Parquet file", reason) from error
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise unreadable(path, error) from error
        raise DamagedError(str(path), "not a readable Parquet file", said(error)) from error


class ParquetInput(pq.ParquetFile):
    """A Parquet file whose batches hold what their types say.

    Parameters
    ----------
    path : path

    Raises
    ------
    InputError
        When it cannot be read, is no Parquet file, or has two columns of one name. Reading it
        raises one where a part cannot be unpacked or a string is no UTF-8: names column and row.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        check_input(path, again=True)
        self.path = path
        with _explained(path):
            super().__init__(path)
            names = Counter(self.schema_arrow.names)
        twice = [name for name, count in names.items() if count > 1]
        if twice:
            self.close()
            raise InputError(f"{path}: has column {twice[0]!r} more than once; leave one of them")

    def raw_batches(self, *arguments: Any, **keywords: Any) -> Iterator[pa.RecordBatch]:
        """Stream batches as `iter_batches` does, but do not check their strings."""
        with _explained(self.path):
            yield from super().iter_batches(*arguments, **keywords)

    def iter_batches(self, *arguments: Any, **keywords: Any) -> Iterator[pa.RecordBatch]:
        """Stream batches of rows; the arguments are those of pyarrow."""
        row = 0
        for batch in self.raw_batches(*arguments, **keywords):
            self._check(batch, row)
            yield batch
            row += batch.num_rows

    def _checked(self, read: Callable[..., pa.Table], *arguments: Any, **keywords: Any) -> pa.Table:
        with _explained(self.path):
            table = read(*arguments, **keywords)
        row = 0
        for batch in table.to_batches():
            self._check(batch, row)
            row += batch.num_rows
        return table

    def read(self, *arguments: Any, **keywords: Any) -> pa.Table:
        """Read all rows; the arguments are those of pyarrow."""
        return self._checked(super().read, *arguments, **keywords)

    def read_row_group(self, *arguments: Any, **keywords: Any) -> pa.Table:
        """Read a group of rows; the arguments are those of pyarrow."""
        return self._checked(super().read_row_group, *arguments, **keywords)

    def _check(self, batch: pa.RecordBatch, first: int) -> None:
        wrong = wrong_row(batch)
        if wrong:
            row, name = wrong
            raise InputError(
                f"{self.path}: row {first + row + 1}: column '{name}' is no {batch[name].type} "
                "(not UTF-8, or damaged); make the file again"
            )


def wrong_row(batch: pa.RecordBatch) -> tuple[int, str] | None:
    """Return index and column of the first value that is not what its type says; None: all are."""
    if _is_sound(batch):
        return None
    wrong = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if not _is_sound(column):
            rows = (row for row in range(len(column)) if not _is_sound(column.slice(row, 1)))
            wrong.append((next(rows, 0), name))
    return min(wrong, default=(0, batch.schema.names[0]))


def _is_sound(values: pa.RecordBatch | pa.Array) -> bool:
    try:
        values.validate(full=True)
    except pa.ArrowException:
        return False
    return True
