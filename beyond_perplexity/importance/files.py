"""Tables of numbers in Parquet or CSV files, ours or a user's; errors name the row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from beyond_perplexity.errors import InputError

BATCH_ROWS = 65_536


class Batch(NamedTuple):
    """Some rows that follow each other.

    Attributes
    ----------
    first : int
        Index of the first row in the file, from 0.
    columns : dict of str to ndarray
        int64 or float64, one value a row.
    """

    first: int
    columns: dict[str, np.ndarray]


class TableFile:
    """A Parquet file, or a CSV file (suffix ``.csv``) with a line of column names.

    Parameters
    ----------
    path : path
        The file.

    Attributes
    ----------
    names : tuple of str
        Its columns.
    n_groups : int
        Groups of rows that can be read one by one: the row groups of a Parquet file.

    Raises
    ------
    InputError
        When it cannot be read.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._csv = self.path.suffix.lower() == ".csv"
        try:
            if self._csv:
                with pyarrow.csv.open_csv(self.path) as stream:
                    self.names = tuple(stream.schema.names)
                self._group_rows = [0]
            else:
                with pq.ParquetFile(self.path) as file:
                    self.names = tuple(file.schema_arrow.names)
                    groups = [file.metadata.row_group(k) for k in range(file.num_row_groups)]
                    self._group_rows = [group.num_rows for group in groups]
        except (OSError, pa.ArrowException) as error:
            raise InputError(f"{path}: not a readable Parquet or CSV file ({error})") from error
        self.n_groups = len(self._group_rows)

    def place(self, row: int) -> str:
        """Name a row, counted from 0, as users do: the line of a CSV file, else the row from 1."""
        return f"{self.path}: line {row + 2}" if self._csv else f"{self.path}: row {row + 1}"

    def require(self, names: Sequence[str], what: str) -> None:
        """Raise `InputError` unless the file has the columns."""
        missing = [name for name in names if name not in self.names]
        if missing:
            raise InputError(
                f"{self.path}: column {', '.join(repr(name) for name in missing)} is missing; "
                f"{what} have {', '.join(names)}"
            )

    def batches(self, columns: Mapping[str, pa.DataType], group: int = 0) -> Iterator[Batch]:
        """Stream columns of one group of rows.

        Parameters
        ----------
        columns : mapping of str to pyarrow.DataType
            The columns and what they are read as, int64 or float64.
        group : int
            Index of the group.

        Yields
        ------
        Batch

        Raises
        ------
        InputError
            When a value is empty or no such number; names the row.
        """
        first = sum(self._group_rows[:group])
        for batch in self._record_batches(columns, group):
            found = {
                name: self._numbers(batch.column(name), name, kind, first)
                for name, kind in columns.items()
            }
            yield Batch(first, found)
            first += batch.num_rows

    def _record_batches(
        self, columns: Mapping[str, pa.DataType], group: int
    ) -> Iterator[pa.RecordBatch]:
        try:
            if self._csv:
                convert = pyarrow.csv.ConvertOptions(
                    column_types=dict(columns), include_columns=list(columns), null_values=[""]
                )
                with pyarrow.csv.open_csv(self.path, convert_options=convert) as stream:
                    yield from stream
            else:
                with pq.ParquetFile(self.path) as file:
                    yield from file.iter_batches(
                        BATCH_ROWS, row_groups=[group], columns=list(columns)
                    )
        except (OSError, pa.ArrowException) as error:
            raise InputError(f"{self.path}: cannot be read ({error})") from error

    def _numbers(self, column: pa.Array, name: str, kind: pa.DataType, first: int) -> np.ndarray:
        if column.null_count:
            row = first + int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
            raise InputError(f"{self.place(row)}: {name} is empty; give a number in every row")
        try:
            return column.cast(kind).to_numpy(zero_copy_only=False)
        except pa.ArrowException as error:
            raise InputError(
                f"{self.path}: column '{name}' is {column.type}, expected {kind} ({error})"
            ) from error

    def check(self, batch: Batch, name: str, bad: np.ndarray, wanted: str) -> None:
        """Raise `InputError` for the first row where `bad` holds; says what was `wanted`."""
        if bad.any():
            index = int(np.argmax(bad))
            value = batch.columns[name][index]
            raise InputError(
                f"{self.place(batch.first + index)}: {name} is {value}, expected {wanted}"
            )

    def check_log_p(self, batch: Batch, name: str = "log_p") -> None:
        """Raise `InputError` where log p is NaN or +inf; −inf is an impossible latent."""
        values = batch.columns[name]
        self.check(batch, name, np.isnan(values) | np.isposinf(values), "a number or -inf")
