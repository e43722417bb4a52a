"""How a schema is written down: its columns in their order, those of one type side by side."""

from __future__ import annotations

import pyarrow as pa

_NAME = b"beyond_perplexity.schema"  # the key of a schema's name in its metadata


def columns(name: str, *groups: list[pa.Field], **types: pa.DataType) -> pa.Schema:
    """Make a schema of columns in their order that knows what a file of it is called."""
    held = [field for group in groups for field in group]
    return pa.schema([*held, *types.items()], metadata={_NAME: name.encode()})


def fields(kind: pa.DataType, names: str) -> list[pa.Field]:
    """Give columns of one type, whose names stand in one text."""
    return [pa.field(name, kind) for name in names.split()]


def strings(names: str) -> list[pa.Field]:
    """Give columns of text."""
    return fields(pa.string(), names)


def floats(names: str) -> list[pa.Field]:
    """Give columns of numbers, double precision."""
    return fields(pa.float64(), names)


def int64s(names: str) -> list[pa.Field]:
    """Give columns of whole numbers: ids, hashes, counts of a corpus."""
    return fields(pa.int64(), names)


def int32s(names: str) -> list[pa.Field]:
    """Give columns of whole numbers: counts of a document, places."""
    return fields(pa.int32(), names)


def flags(names: str) -> list[pa.Field]:
    """Give columns of true and false."""
    return fields(pa.bool_(), names)


def schema_name(schema: pa.Schema) -> str:
    """Return what a file of a schema is called."""
    return (schema.metadata or {}).get(_NAME, b"file").decode()


def with_columns(schema: pa.Schema, extra: pa.Schema) -> pa.Schema:
    """Return a schema with columns on top."""
    return pa.schema([*schema, *extra], metadata=schema.metadata)
