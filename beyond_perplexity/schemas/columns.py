"""How a schema is written down."""

from __future__ import annotations

import pyarrow as pa

_NAME = b"beyond_perplexity.schema"  # the key of a schema's name in its metadata


def columns(name: str, **types: pa.DataType) -> pa.Schema:
    """Make a schema of columns in their order that knows what a file of it is called."""
    return pa.schema(list(types.items()), metadata={_NAME: name.encode()})


def schema_name(schema: pa.Schema) -> str:
    """Return what a file of a schema is called."""
    return (schema.metadata or {}).get(_NAME, b"file").decode()


def with_columns(schema: pa.Schema, extra: pa.Schema) -> pa.Schema:
    """Return a schema with columns on top."""
    return pa.schema([*schema, *extra], metadata=schema.metadata)
