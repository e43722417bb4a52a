"""Tables of numbers in memory, which are read as a Parquet file of one group of rows is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa

from beyond_perplexity.errors import InputError
from beyond_perplexity.storage.shards import wrong_row
from beyond_perplexity.storage.table_files import BATCH_ROWS, TableFile


class HeldTable(TableFile):
    """A table of Arrow under the name of an argument; a reader of batches is read whole."""

    def __init__(self, table: pa.Table | pa.RecordBatchReader, name: str) -> None:
        self.path, self._csv = Path(name), False
        self.table = table if isinstance(table, pa.Table) else table.read_all()
        self.names = tuple(self.table.schema.names)
        self._group_rows, self.n_groups = [len(self.table)], 1
        self._refuse_twice()

    def __str__(self) -> str:
        return str(self.path)

    def columns(self, kinds: Mapping[str, pa.DataType]) -> Iterator[pa.RecordBatch]:
        """Stream columns as they are."""
        return self._record_batches(kinds, 0)

    def _record_batches(
        self, columns: Mapping[str, pa.DataType], group: int
    ) -> Iterator[pa.RecordBatch]:
        first = 0
        for batch in self.table.select(list(columns)).to_batches(BATCH_ROWS):
            if wrong := wrong_row(batch):
                row, name = wrong
                kind = batch[name].type
                raise InputError(f"{self.place(first + row)}: column '{name}' is no {kind}")
            yield batch
            first += batch.num_rows
