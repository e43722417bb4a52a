"""Tables of numbers, ours or a user's: Parquet, CSV, or in memory; errors name the row."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import IO, NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from beyond_perplexity.errors import InputError
from beyond_perplexity.former_names import renamed
from beyond_perplexity.storage.accounts import Account
from beyond_perplexity.storage.inputs import check_input, said, unreadable
from beyond_perplexity.storage.shards import ParquetInput, refuse_twice, wrong_row

BATCH_ROWS = 65_536
CSV_SUFFIXES = (".csv", ".csv.gz")
TABLE_SUFFIXES = (*CSV_SUFFIXES, ".parquet")
# pyarrow numbers the row of an error only when one thread parses
ONE_THREAD = pyarrow.csv.ReadOptions(use_threads=False)

LARGEST_LOG = 1e100  # so that sums of squares are finite

Kinds = Mapping[str, pa.DataType]


class RowBatch(NamedTuple):
    """Some rows that follow each other."""

    first: int  # index of the first row in the file, from 0
    columns: dict[str, np.ndarray]  # int64 or float64, one value a row


def is_csv(path: str | Path) -> bool:
    """Tell by its name whether a file is CSV, gzipped or not."""
    return Path(path).name.lower().endswith(CSV_SUFFIXES)


class TableFile:
    """A Parquet file (``.parquet``), or a CSV file (``.csv``, ``.csv.gz``) with a header row."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._csv = is_csv(path)
        self.metadata: dict[bytes, bytes] = {}
        self._group_rows = [0]
        check_input(path, again=True)
        if not self.path.name.lower().endswith(TABLE_SUFFIXES):
            raise InputError(f"{path}: expected a name that ends in {', '.join(TABLE_SUFFIXES)}")
        try:
            if self._csv:
                self._check_separator()
                with self._stream_csv() as stream:
                    self.names = tuple(stream.schema.names)
            else:
                with ParquetInput(self.path) as file:
                    self.metadata = file.metadata.metadata or {}
                    self.names = tuple(file.schema_arrow.names)
                    groups = [file.metadata.row_group(k) for k in range(file.num_row_groups)]
                    self._group_rows = [group.num_rows for group in groups]
        except UnicodeDecodeError as error:
            raise InputError(f"{path}: line 1: is not UTF-8; convert the file") from error
        except (OSError, EOFError, zlib.error, pa.ArrowException) as error:
            kind = "CSV" if self._csv else "Parquet"
            raise self._unreadable(error, f"not a readable {kind} file") from error
        refuse_twice(path, self.names)

    def __str__(self) -> str:
        return str(self.path)

    @property
    def n_groups(self) -> int:
        """How many groups of rows there are."""
        return len(self._group_rows)

    def _check_separator(self) -> None:
        """Raise `InputError` where something else than commas separates the names."""
        with self._open() as file:
            header = file.readline(1 << 16).decode("utf-8-sig", "replace").strip()
        if "," not in header and any(separator in header for separator in ";\t| "):
            wrong = f"there is one column {header[:80]!r}, so every other is missing"
            raise InputError(f"{self.path}: line 1: {wrong}: the separator must be a comma")

    @property
    def _packed(self) -> bool:
        return self.path.suffix.lower() == ".gz"

    def _stream_csv(
        self, kinds: Kinds | None = None, *, as_bytes: bool = False
    ) -> pyarrow.csv.CSVStreamingReader:
        """Stream columns of a CSV file, all of them or some that are read as types."""
        convert = pyarrow.csv.ConvertOptions(
            include_columns=list(kinds or ()),
            column_types=dict(kinds or {}),
            null_values=[""],
            strings_can_be_null=True,
            check_utf8=not as_bytes,
        )
        # on its own pyarrow knows a gzipped one by ``.gz`` alone
        stream = pa.input_stream(str(self.path), "gzip" if self._packed else None)
        return pyarrow.csv.open_csv(stream, ONE_THREAD, convert_options=convert)

    def _open(self) -> IO[bytes]:
        """Open a CSV file for its lines."""
        return cast("IO[bytes]", gzip.open(self.path)) if self._packed else open(self.path, "rb")

    def place(self, row: int) -> str:
        """Name a row, counted from 0, as users do: the line of a CSV file, else the row from 1."""
        if not self._csv:
            return f"{self.path}: row {row + 1}"
        with self._open() as file:  # lines that are empty are no rows
            filled = (number for number, line in enumerate(file, 1) if line.strip(b"\r\n"))
            return f"{self.path}: line {next(islice(filled, row + 1, None), row + 2)}"

    def _unreadable(self, error: Exception, what: str) -> InputError:
        """Say in one line why pyarrow could not read on, and where if it says so."""
        if isinstance(error, OSError) and error.errno is not None:
            return unreadable(self.path, error)
        text = said(error)
        # pyarrow counts the header row and leaves out empty lines
        row = re.search(r"Row #(\d+): ", text) if self._csv else None
        place = self.place(int(row[1]) - 2) if row else str(self.path)
        return InputError(f"{place}: {what} ({text.replace(row[0], '') if row else text})")

    def count_read(self, rows: int) -> None:
        """Account for all rows of the file, of which a reader passed so many on."""
        account = Account(self.path, "rows")
        account.read = rows
        account.close(self._lines_of_rows(rows) if self._csv else sum(self._group_rows))

    def _lines_of_rows(self, rows: int) -> int:
        """Count the lines of a CSV file that are rows; with quotes, a row may have several."""
        count = -1
        with self._open() as file:
            for line in file:
                if b'"' in line:
                    return rows
                count += bool(line.strip(b"\r\n"))
        return count

    def require(self, names: Sequence[str], what: str) -> None:
        """Raise `InputError` unless the file has the columns."""
        missing = [name for name in names if name not in self.names]
        if missing:
            wrong = f"{self.path}: column {', '.join(repr(name) for name in missing)} is missing"
            was = "".join(renamed(name, self.names) for name in missing)
            raise InputError(f"{wrong}; {what} have {', '.join(names)}{was}")

    def columns(self, kinds: Kinds, group: int | None = None) -> Iterator[pa.RecordBatch]:
        """Stream columns (of one group) as they are, with what is empty; of CSV as types."""
        if self._csv:
            with self._stream_csv(kinds, as_bytes=group is not None) as stream:
                yield from stream
        else:
            groups = None if group is None else [group]
            with ParquetInput(self.path) as file:
                yield from file.iter_batches(BATCH_ROWS, groups, list(kinds))

    def batches(self, kinds: Kinds, group: int = 0) -> Iterator[RowBatch]:
        """Stream columns of one group of rows as the given types, int64 or float64; an `InputError`
        names the row of an empty value or no such number."""
        first = sum(self._group_rows[:group])
        # Texts of CSV are made numbers here, where it is known in which row they stand.
        texts = dict.fromkeys(kinds, pa.string()) if self._csv else kinds
        try:
            for batch in self.columns(texts, group):
                held = kinds.items()
                found = {k: self._numbers(batch.column(k), k, kind, first) for k, kind in held}
                yield RowBatch(first, found)
                first += batch.num_rows
        except (OSError, pa.ArrowException) as error:
            raise self._unreadable(error, "cannot be read") from error

    def _numbers(self, column: pa.Array, name: str, kind: pa.DataType, first: int) -> np.ndarray:
        if column.null_count:
            row = first + int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
            empty = "empty or NaN" if pa.types.is_floating(kind) else "empty"
            raise InputError(f"{self.place(row)}: {name} is {empty}; give a number in every row")
        values = pc.ascii_trim_whitespace(column) if self._csv else column
        try:
            return values.cast(kind).to_numpy(zero_copy_only=False)
        except pa.ArrowException as error:
            row = _first_wrong(values, kind)
            value, held = column[row], "" if self._csv else f" is {column.type} and"
            raw = value.as_buffer().to_pybytes() if self._csv else b""
            shown = raw.decode("utf-8", "replace") if self._csv else value.as_py()
            wanted = "a whole number" if pa.types.is_integer(kind) else "a number"
            wrong = f"column '{name}'{held} has the invalid value {shown!r:.80}"
            raise InputError(f"{self.place(first + row)}: {wrong}, expected {wanted}") from error

    def check(self, batch: RowBatch, name: str, bad: np.ndarray, wanted: str) -> None:
        """Raise `InputError` for the first row where `bad` holds; says what was `wanted`."""
        if bad.any():
            index = int(np.argmax(bad))
            value = batch.columns[name][index]
            place = self.place(batch.first + index)
            raise InputError(f"{place}: {name} is {value}, expected {wanted}")

    def check_log_p(self, batch: RowBatch, name: str = "log_p") -> None:
        """Raise `InputError` where log p is no logarithm; −inf is an impossible latent."""
        values = batch.columns[name]
        bad = ~(np.abs(values) < LARGEST_LOG) & ~np.isneginf(values)
        self.check(batch, name, bad, f"a number or -inf, no larger than {LARGEST_LOG:g}")


def _first_wrong(column: pa.Array, kind: pa.DataType) -> int:
    """Return the index of the first value that cannot be cast, in a column that has one."""
    for row in range(len(column)):
        try:
            column.slice(row, 1).cast(kind)
        except pa.ArrowException:
            return row
    return 0


def open_table(given: str | Path | TableFile) -> TableFile:
    """Open a file; what is open already, such as a table in memory, is returned."""
    return given if isinstance(given, TableFile) else TableFile(given)


class HeldTable(TableFile):
    """A table of Arrow under the name of an argument; a reader of batches is read whole."""

    def __init__(self, table: pa.Table | pa.RecordBatchReader, name: str) -> None:
        self.path, self._csv = Path(name), False
        self.table = table if isinstance(table, pa.Table) else table.read_all()
        self.metadata = self.table.schema.metadata or {}
        self.names = tuple(self.table.schema.names)
        self._group_rows = [len(self.table)]
        refuse_twice(self.path, self.names)

    def columns(self, kinds: Kinds, group: int | None = None) -> Iterator[pa.RecordBatch]:
        """Stream columns as they are."""
        first = 0
        for batch in self.table.select(list(kinds)).to_batches(BATCH_ROWS):
            if wrong := wrong_row(batch):
                row, name = wrong
                kind = batch[name].type
                raise InputError(f"{self.place(first + row)}: column '{name}' is no {kind}")
            yield batch
            first += batch.num_rows
