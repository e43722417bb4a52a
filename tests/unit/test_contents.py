"""Hashes of what tables hold: the same however rows are cut, another where a value differs.

Needs nothing. Oracles: Arrow's own equality of tables, and hashlib on the bytes of one column.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import math
import pkgutil
from itertools import pairwise

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import beyond_perplexity.schemas
from beyond_perplexity.storage.provenance import ContentHash, table_hash
from beyond_perplexity.storage.shards import ShardWriter, content_of, read_record

ROWS = pa.table(
    {
        "whole": pa.array([1, None, -3, 4, 5], pa.int32()),
        "real": pa.array([0.5, math.nan, None, -0.0, math.inf], pa.float64()),
        "half": pa.array([0.5, None, 1.0, 2.0, 3.0], pa.float32()),
        "flag": pa.array([True, None, False, True, True]),
        "text": pa.array(["", "ab", None, "c", "é"]),
        "long": pa.array(["", "ab", None, "c", "é"], pa.large_string()),
        "bytes": pa.array([b"", b"\x00", None, b"c", b"d"]),
        "list": pa.array([[1], [], None, [2, None], [3]], pa.list_(pa.int64())),
        "texts": pa.array([["a"], [], None, ["", None], ["b"]], pa.list_(pa.string())),
        "fixed": pa.array([[1.0, 2.0], [2.0, 1.0], *[[1.0, 2.0]] * 3], pa.list_(pa.float32(), 2)),
        "struct": pa.array([{"x": 1, "y": "a"}, None, {"x": None, "y": ""}, *[{"x": 2}] * 2]),
        "time": pa.array([0, 1, None, 3, 4], pa.timestamp("ms")),
        "words": pa.array(["a", "b", None, "a", "b"]).dictionary_encode(),
        "none": pa.nulls(5),
    }
)


def hashed(*tables: pa.Table) -> ContentHash:
    content = ContentHash(tables[0].schema)
    for table in tables:
        content.add(table)
    return content


@pytest.mark.parametrize("cuts", [[0, 5], [0, 1, 2, 3, 4, 5], [0, 2, 2, 5], [0, 4, 5]])
def test_cuts_leave_no_trace(cuts):
    parts = [ROWS.slice(a, b - a) for a, b in pairwise(cuts)]
    assert hashed(*parts).columns() == hashed(ROWS).columns()
    assert hashed(pa.concat_tables(parts)).table() == hashed(ROWS).table()
    batches = [part for table in parts for part in table.to_batches()]
    assert hashed(*batches).table() == hashed(ROWS).table()


@pytest.mark.parametrize("name", [name for name in ROWS.column_names if name != "none"])
def test_every_change_of_a_column_is_seen_there_alone(name):
    """Oracle: the values say which of the changed columns are others."""
    column, place = ROWS.column(name), ROWS.schema.get_field_index(name)
    before = hashed(ROWS).columns()
    seen = {before[name]}
    for order in ([1, 0, 2, 3, 4], [0, 1, 3, 2, 4], [4, 1, 2, 3, 0]):
        changed = column.take(pa.array(order))
        if repr(changed.to_pylist()) == repr(column.to_pylist()):
            continue
        found = hashed(ROWS.set_column(place, ROWS.schema.field(name), changed)).columns()
        assert {key for key, value in found.items() if value != before[key]} == {name}
        seen.add(found[name])
    assert len(seen) > 1


def test_what_is_read_has_the_hash_of_what_was_written(tmp_path):
    with ShardWriter(tmp_path / "a.parquet", ROWS.schema, {}) as writer:
        writer.write(ROWS.slice(0, 2))
        writer.write(ROWS.slice(2))
    record = read_record(tmp_path / "a.parquet")
    read = pq.read_table(tmp_path / "a.parquet")
    assert hashed(read).columns() == record["columns"] == hashed(ROWS).columns()
    assert record["rows"] == 5
    assert content_of(tmp_path / "a.parquet") == record["content_hash"] == hashed(ROWS).table()


def test_what_looks_alike_is_told_apart():
    def of(values: list[object], kind: pa.DataType) -> str:
        return hashed(pa.table({"a": pa.array(values, kind)})).table()

    different = [
        of([1, 2], pa.int32()),
        of([1, 2], pa.int64()),
        of([0, 2], pa.int64()),
        of([None, 2], pa.int64()),
        of(["a", "bc"], pa.string()),
        of(["ab", "c"], pa.string()),
        of(["", None], pa.string()),
        of([None, ""], pa.string()),
        of([[1], [2, 3]], pa.list_(pa.int64())),
        of([[1, 2], [3]], pa.list_(pa.int64())),
        of([0.0], pa.float64()),
        of([-0.0], pa.float64()),
        of([math.nan], pa.float64()),
        of([None], pa.float64()),
        of([], pa.float64()),
    ]
    assert len(set(different)) == len(different)
    assert of([math.nan], pa.float64()) == of([-math.nan], pa.float64())


def test_no_rows_are_no_rows_in_one_part_or_in_none():
    empty = ROWS.schema.empty_table()
    none = ContentHash(ROWS.schema)
    assert hashed(empty).table() == hashed(ROWS.slice(0, 0)).table() == none.table()
    assert none.table() != hashed(ROWS).table()


def test_a_column_of_numbers_equals_hashlib():
    table = pa.table({"a": pa.array([3, 4], pa.int64())})
    streams = {"/valid": b"\x01\x01", "/values": (3).to_bytes(8, "little") + b"\x04" + bytes(7)}
    held = {place: hashlib.sha256(content).hexdigest() for place, content in streams.items()}
    expected = hashlib.sha256(json.dumps(["int64", held]).encode()).hexdigest()
    assert hashed(table).columns() == {"a": expected[:16]}


def test_measured_seconds_do_not_count():
    columns = {"a": "1", "seconds": "2"}
    assert table_hash(3, columns) == table_hash(3, {"a": "1", "seconds": "5"})
    assert table_hash(3, columns) != table_hash(4, columns)
    assert table_hash(3, columns) != table_hash(3, {"a": "2", "seconds": "2"})


def test_columns_of_every_schema_have_a_hash():
    names = [found.name for found in pkgutil.iter_modules(beyond_perplexity.schemas.__path__)]
    modules = [importlib.import_module(f"beyond_perplexity.schemas.{name}") for name in names]
    held = [value for module in modules for value in vars(module).values()]
    schemas = [value for value in held if isinstance(value, pa.Schema)]
    assert len(schemas) > 20
    for schema in schemas:
        assert len(hashed(schema.empty_table()).table()) == 64


def test_other_types_are_refused():
    with pytest.raises(TypeError, match="decimal"):
        hashed(pa.table({"a": pa.array([None], pa.decimal128(5, 2))}))
