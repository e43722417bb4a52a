"""Shards: schemas are checked both ways, files appear whole or not at all.

Needs nothing. Oracles: the rows that were written, and the folder's listing after a failure.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beyond_perplexity.errors import InputError
from beyond_perplexity.schemas import temperature_columns
from beyond_perplexity.storage import shards

ROWS = {"subject": ["a", "b"], "relation": ["r", "r"], "object": ["c", None]}


def test_what_was_written_comes_back_with_its_record(tmp_path):
    path = tmp_path / "deep" / "graph.parquet"
    shards.write_shard(path, "knowledge_graph", ROWS, {"seed": 7})
    batches = list(
        shards.read_batches(path, "knowledge_graph", ["object", "subject"], batch_size=1)
    )
    assert [b.to_pylist() for b in batches] == [
        [{"object": "c", "subject": "a"}],
        [{"object": None, "subject": "b"}],
    ]
    record = shards.read_record(path)
    assert record["seed"] == 7
    assert "end" in record


def test_a_failure_leaves_nothing_and_keeps_what_was_there(tmp_path):
    path = tmp_path / "graph.parquet"
    shards.write_shard(path, "knowledge_graph", ROWS, {})
    before = path.read_bytes()

    def write_half() -> None:
        with shards.ShardWriter(path, "knowledge_graph", {}) as writer:
            writer.write(ROWS)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        write_half()
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["graph.parquet"]


def test_what_a_killed_process_left_is_removed(tmp_path):
    left = tmp_path / ".graph.999.partial.parquet"
    other = tmp_path / ".other.999.partial.parquet"
    for path in (left, other):
        path.write_bytes(b"half")
    shards.write_shard(tmp_path / "graph.parquet", "knowledge_graph", ROWS, {})
    assert not left.exists()
    assert other.exists()


def test_columns_must_be_those_of_the_schema(tmp_path):
    with pytest.raises(ValueError, match="columns"):
        shards.write_shard(tmp_path / "x.parquet", "knowledge_graph", {"subject": ["a"]}, {})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (pa.table({"entity": ["a"]}), "column 'alias' is missing"),
        (pa.table({"entity": ["a"], "alias": [1]}), "column 'alias' is int64, expected string"),
    ],
)
def test_a_foreign_file_is_refused_by_name_and_column(tmp_path, table, message):
    path = tmp_path / "x.parquet"
    pq.write_table(table, path)
    with pytest.raises(InputError, match=message) as error:
        list(shards.read_batches(path, "aliases", ["entity"]))
    assert str(path) in str(error.value)


def test_a_file_that_is_no_parquet_is_refused(tmp_path):
    (tmp_path / "x.parquet").write_text("hello")
    with pytest.raises(InputError, match="not a readable Parquet file"):
        list(shards.read_batches(tmp_path / "x.parquet", "aliases", ["entity"]))
    with pytest.raises(InputError, match="not a readable Parquet file"):
        shards.read_record(tmp_path / "x.parquet")


def test_a_parquet_file_without_a_record_says_so(tmp_path):
    pq.write_table(pa.table({"a": [1]}), tmp_path / "x.parquet")
    with pytest.raises(InputError, match="no run record"):
        shards.read_record(tmp_path / "x.parquet")


def test_json_is_canonical(tmp_path):
    shards.write_json(tmp_path / "a.json", {"b": 1, "a": 2})
    shards.write_json(tmp_path / "b.json", {"a": 2, "b": 1})
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()


def test_columns_on_top_of_a_schema_are_written_checked_and_read(tmp_path):
    path, extra = tmp_path / "graph.parquet", pa.schema([pa.field("weight", pa.float64())])
    shards.write_shard(path, "knowledge_graph", {**ROWS, "weight": [0.5, 2.0]}, {}, extra)
    (batch,) = shards.read_batches(path, "knowledge_graph", ["weight"], extra=extra)
    assert batch.column("weight").to_pylist() == [0.5, 2.0]
    other = temperature_columns([1])
    with pytest.raises(InputError, match=r"column 'log_q_tau_1\.0' is missing"):
        list(shards.read_batches(path, "knowledge_graph", ["subject"], extra=other))
    assert temperature_columns([0.5, 2]).names == ["log_q_tau_0.5", "log_q_tau_2.0"]
