"""A hash of what a table holds: the same however its rows were cut, and of nothing else.

When and where a table was written is in the footer of its file, so that equal tables are files of
other bytes. This hash is of names, types and values alone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

# Columns that a repetition of the same work fills with other values.
MEASURED = ("seconds",)
_DIGITS = 16


class ContentHash:
    """The hash of a table that comes in parts.

    Values are hashed column by column, in the order of the rows: validity, lengths and values each
    in a stream of their own, so that the parts leave no trace. All NaN count as one value; a
    negative zero is another than zero.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._streams: dict[str, dict[str, hashlib._Hash]] = {name: {} for name in schema.names}
        self.rows = 0
        self.add(schema.empty_table())  # so that a column has the same streams without any row

    def add(self, table: pa.Table | pa.RecordBatch) -> None:
        """Add the next rows."""
        self.rows += table.num_rows
        for name, streams in self._streams.items():
            column = table.column(name)
            chunks = column.iterchunks() if isinstance(column, pa.ChunkedArray) else [column]
            for chunk in chunks:
                _feed(streams, "", chunk)

    def columns(self) -> dict[str, str]:
        """Return the hash of each column, 16 hexadecimal digits (of a SHA-256)."""
        kinds = {field.name: _kind(field.type) for field in self._schema}
        return {
            name: _digest([kinds[name], {at: s.hexdigest() for at, s in streams.items()}])[:_DIGITS]
            for name, streams in self._streams.items()
        }

    def table(self) -> str:
        """Return the hash of the whole: 64 hexadecimal digits; without the columns `MEASURED`."""
        return table_hash(self.rows, self.columns())


def table_hash(rows: int, columns: Mapping[str, str]) -> str:
    """Return the hash of a table from the hashes of its columns, less those of `MEASURED`."""
    kept = {name: value for name, value in columns.items() if name not in MEASURED}
    return _digest([rows, kept])


def _kind(kind: pa.DataType) -> str:
    """Name a type; Parquet gives the items of lists a name of its own, which does not count."""
    if pa.types.is_dictionary(kind):
        return f"dictionary of {_kind(kind.value_type)}"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        size = f" of {kind.list_size}" if pa.types.is_fixed_size_list(kind) else ""
        return f"list{size} of {_kind(kind.value_type)}"
    if pa.types.is_struct(kind):
        return f"struct of {[(field.name, _kind(field.type)) for field in kind]}"
    return str(kind)


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _feed(streams: dict[str, hashlib._Hash], place: str, array: pa.Array) -> None:
    """Add the values of an array to the streams of a place of the column's type."""

    def add(kind: str, content: bytes | memoryview) -> None:
        streams.setdefault(f"{place}/{kind}", hashlib.sha256()).update(content)

    kind = array.type
    if pa.types.is_dictionary(kind):
        return _feed(streams, place, array.dictionary_decode())
    add("valid", _bytes(pc.cast(array.is_valid(), pa.uint8())))
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        wide = pa.large_string() if pa.types.is_string(kind) else pa.large_binary()
        return _feed_text(add, array.cast(wide))
    if pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        return _feed_text(add, array)
    if pa.types.is_struct(kind):
        for field, part in zip(kind, array.flatten(), strict=True):
            _feed(streams, f"{place}/{field.name}", part)
    elif (
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    ):
        add("lengths", _bytes(pc.list_value_length(array).cast(pa.int64()).fill_null(0)))
        _feed(streams, f"{place}/item", array.flatten())
    else:
        add("values", _bytes(_plain(array)))
    return None


def _plain(array: pa.Array) -> pa.Array:
    """Return the values of fixed width as numbers, with zeros where there is none."""
    kind = array.type
    if pa.types.is_boolean(kind):
        array = array.cast(pa.uint8())
    elif pa.types.is_timestamp(kind) or pa.types.is_time64(kind) or pa.types.is_date64(kind):
        array = array.cast(pa.int64())
    elif pa.types.is_null(kind):
        array = array.cast(pa.uint8())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise TypeError(f"no content hash for columns of type {kind}")
    return array.fill_null(0)


def _bytes(array: pa.Array) -> bytes:
    values = array.to_numpy(zero_copy_only=False)
    if values.dtype.kind == "f":
        values = np.where(np.isnan(values), values.dtype.type(np.nan), values)
    little: bytes = values.astype(values.dtype.newbyteorder("<"), copy=False).tobytes()
    return little


def _feed_text(add: object, array: pa.Array) -> None:
    assert callable(add)
    whole = array.fill_null("" if pa.types.is_large_string(array.type) else b"")
    add("lengths", _bytes(pc.binary_length(whole)))
    _, ends, data = whole.buffers()
    offsets = np.frombuffer(ends, np.int64)[whole.offset : whole.offset + len(whole) + 1]
    if data is not None and len(whole):
        add("values", memoryview(data)[offsets[0] : offsets[-1]])
