"""Counts of types in bounded memory: sorted runs on disk and their merge."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

COUNTED = pa.schema([("type", pa.string()), ("count", pa.int64())])
_ROWS = 65_536  # of a run held at a time while merging


def add_up(tables: list[pa.Table]) -> pa.Table:
    """Add the counts of equal types; every type once, sorted in the order of UTF-8 bytes."""
    if not tables:
        return COUNTED.empty_table()
    summed = pa.concat_tables(tables).group_by("type").aggregate([("count", "sum")])
    summed = summed.select(["type", "count_sum"]).rename_columns(["type", "count"])
    return summed.sort_by("type").cast(COUNTED)


class _Run:
    """A sorted stream of tables with a head that can be cut at a bound."""

    def __init__(self, tables: Iterable[pa.Table]) -> None:
        self._tables = iter(tables)
        self.head = COUNTED.empty_table()
        self.fill()

    def fill(self) -> None:
        """Load the next table when the head is used up."""
        while self.head.num_rows == 0:
            following = next(self._tables, None)
            if following is None:
                return
            self.head = following

    def last(self) -> str:
        return str(self.head["type"][-1].as_py())

    def take(self, bound: str) -> pa.Table:
        """Remove and return the rows up to and including `bound`."""
        n = pc.sum(pc.less_equal(self.head["type"], bound), min_count=0).as_py()
        taken, self.head = self.head.slice(0, n), self.head.slice(n)
        self.fill()
        return taken


def merge_runs(runs: Iterable[Iterable[pa.Table]]) -> Iterator[pa.Table]:
    """Merge streams of (type, count), each sorted with each type once, into one such stream.

    Counts of equal types are added; memory holds one table of each run.
    """
    waiting = [run for tables in runs if (run := _Run(tables)).head.num_rows]
    while waiting:
        # Below the smallest of the last types in memory no run can bring a type later.
        bound = min((run.last() for run in waiting), key=lambda last: last.encode())
        yield add_up([run.take(bound) for run in waiting])
        waiting = [run for run in waiting if run.head.num_rows]


class TypeCounter:
    """Count types; beyond a limit of types in memory, sorted runs go to a temporary folder.

    A context manager, which removes the folder at the end. `limit` rows (types, with repetitions
    between batches) are held before they are added up; when the distinct ones alone exceed half of
    it, they are spilled.
    """

    def __init__(self, limit: int = 4_000_000) -> None:
        self._limit = limit
        self._held: list[pa.Table] = []
        self._rows = 0
        self._runs: list[Path] = []
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> TypeCounter:
        self._folder = tempfile.TemporaryDirectory(prefix="types-")
        return self

    def __exit__(self, *exception: object) -> None:
        assert self._folder is not None
        self._folder.cleanup()

    def add(self, types: pa.Array, counts: np.ndarray) -> None:
        """Add counts (int64, shape (V,)) of types (string, shape (V,))."""
        table = pa.table([types, pa.array(counts, pa.int64())], schema=COUNTED)
        self._held.append(table)
        self._rows += table.num_rows
        if self._rows > self._limit:
            self._compact()

    def _compact(self) -> None:
        summed = add_up(self._held)
        self._held, self._rows = [summed], summed.num_rows
        if 2 * self._rows > self._limit:
            assert self._folder is not None
            path = Path(self._folder.name) / f"{len(self._runs)}.parquet"
            pq.write_table(summed, path, row_group_size=_ROWS)
            self._runs.append(path)
            self._held, self._rows = [], 0

    def sorted_counts(self) -> Iterator[pa.Table]:
        """Yield all types with their counts, sorted by type."""
        last = add_up(self._held)
        if not self._runs:
            yield last
            return
        runs: list[Iterable[pa.Table]] = [_read_run(path) for path in self._runs]
        yield from merge_runs([*runs, [last]])


def _read_run(path: Path) -> Iterator[pa.Table]:
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=_ROWS):
            yield pa.Table.from_batches([batch])
