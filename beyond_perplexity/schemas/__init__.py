"""The columns of every kind of Parquet file, a module a stage; here how they are written down."""

from __future__ import annotations

from functools import partial

import pyarrow as pa

_NAME = b"beyond_perplexity.schema"  # the key of a schema's name in its metadata


def columns(name: str, *groups: list[pa.Field]) -> pa.Schema:
    """Make a schema of columns in their order that knows what a file of it is called."""
    held = [field for group in groups for field in group]
    return pa.schema(held, metadata={_NAME: name.encode()})


def fields(kind: pa.DataType, names: str) -> list[pa.Field]:
    """Give columns of one type, whose names stand in one text."""
    return [pa.field(name, kind) for name in names.split()]


strings = partial(fields, pa.string())
flags = partial(fields, pa.bool_())
floats = partial(fields, pa.float64())
int64s = partial(fields, pa.int64())  # ids, hashes, counts of a corpus
int32s = partial(fields, pa.int32())  # counts of a document, places


def schema_name(schema: pa.Schema) -> str:
    """Return what a file of a schema is called."""
    return (schema.metadata or {}).get(_NAME, b"file").decode()


def with_columns(schema: pa.Schema, extra: pa.Schema) -> pa.Schema:
    """Return a schema with columns on top."""
    return pa.schema([*schema, *extra], metadata=schema.metadata)
