"""Shards: schemas are checked both ways, files appear whole or not at all.

Needs nothing. Oracles: the rows that were written, and the folder's listing after a failure.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from beyond_perplexity.errors import InputError
from beyond_perplexity.models.registry import save_tensors
from beyond_perplexity.schemas.columns import with_columns
from beyond_perplexity.schemas.corpora import ALIASES, KNOWLEDGE_GRAPH
from beyond_perplexity.schemas.draws import temperature_columns
from beyond_perplexity.storage import outputs, shards
from beyond_perplexity.training.interruptions import save_checkpoint

ROOT = Path(__file__).parents[2]
ROWS = {"subject": ["a", "b"], "relation": ["r", "r"], "object": ["c", None]}


def test_what_was_written_comes_back_with_its_record(tmp_path):
    path = tmp_path / "deep" / "graph.parquet"
    shards.write_shard(path, KNOWLEDGE_GRAPH, ROWS, {"seed": 7})
    batches = list(shards.read_batches(path, KNOWLEDGE_GRAPH, ["object", "subject"], batch_size=1))
    assert [b.to_pylist() for b in batches] == [
        [{"object": "c", "subject": "a"}],
        [{"object": None, "subject": "b"}],
    ]
    record = shards.read_record(path)
    assert record["seed"] == 7
    assert "end" in record


def test_a_failure_leaves_nothing_and_keeps_what_was_there(tmp_path):
    path = tmp_path / "graph.parquet"
    shards.write_shard(path, KNOWLEDGE_GRAPH, ROWS, {})
    before = path.read_bytes()

    def write_half() -> None:
        with shards.ShardWriter(path, KNOWLEDGE_GRAPH, {}) as writer:
            writer.write(ROWS)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        write_half()
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["graph.parquet"]


def start_writing(path: Path) -> subprocess.Popen[str]:
    """Start a process that has written half of a file and writes the rest when told to."""
    code = (
        "import sys; from beyond_perplexity.storage.outputs import atomic_path\n"
        "with atomic_path(sys.argv[1]) as path, path.open('w') as file:\n"
        "    print('ready', flush=True)\n"
        "    file.write(sys.stdin.readline())"
    )
    command = [sys.executable, "-c", code, str(path)]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=ROOT)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def listing(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_what_a_killed_process_left_of_this_very_file_is_removed(tmp_path):
    for name in ("a.csv", "a.b.csv"):
        process = start_writing(tmp_path / name)
        process.kill()
        process.communicate()
    assert len(listing(tmp_path)) == 2
    with outputs.atomic_path(tmp_path / "a.csv") as path:
        path.write_text("whole")
        assert len(listing(tmp_path)) == 2  # this one and what was left of the other
    assert "a.csv" in listing(tmp_path)
    (left,) = listing(tmp_path) - {"a.csv"}
    assert left.startswith(".a.b.csv.")
    outputs.write_json(tmp_path / "a.b.csv", 1)
    assert listing(tmp_path) == {"a.csv", "a.b.csv"}


def test_two_living_writers_both_finish_and_the_last_one_is_right(tmp_path):
    target = tmp_path / "a.csv"
    with start_writing(target) as first:
        with outputs.atomic_path(target) as path:
            path.write_text("mine")
            first.communicate("theirs")
            assert target.read_text() == "theirs"
        assert target.read_text() == "mine"
        assert first.returncode == 0
    with start_writing(target) as first:
        outputs.write_json(target, 5)
        first.communicate("theirs")
        assert first.returncode == 0
    assert target.read_text() == "theirs"
    assert listing(tmp_path) == {"a.csv"}


@pytest.mark.parametrize("umask", [0o022, 0o027, 0o077, 0o002])
def test_files_have_the_mode_of_the_umask(tmp_path, umask):
    """Oracle: a file that Python makes; safetensors makes its own with mode 600."""
    before = os.umask(umask)
    try:
        (tmp_path / "plain").touch()
        save_tensors(tmp_path / "model.safetensors", {"a": torch.zeros(2)})
        save_checkpoint(tmp_path / "checkpoints", 1, {"a": torch.zeros(2)}, {})
        shards.write_shard(tmp_path / "a.parquet", KNOWLEDGE_GRAPH, ROWS, {})
    finally:
        os.umask(before)
    modes = {path: path.stat().st_mode for path in tmp_path.rglob("*") if path.is_file()}
    assert len(modes) == 4
    assert set(modes.values()) == {modes[tmp_path / "plain"]}


def test_columns_must_be_those_of_the_schema(tmp_path):
    with pytest.raises(ValueError, match="columns"):
        shards.write_shard(tmp_path / "x.parquet", KNOWLEDGE_GRAPH, {"subject": ["a"]}, {})
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
        list(shards.read_batches(path, ALIASES, ["entity"]))
    assert str(path) in str(error.value)


def test_a_file_that_is_no_parquet_is_refused(tmp_path):
    (tmp_path / "x.parquet").write_text("hello")
    with pytest.raises(InputError, match="not a readable Parquet file"):
        list(shards.read_batches(tmp_path / "x.parquet", ALIASES, ["entity"]))
    with pytest.raises(InputError, match="not a readable Parquet file"):
        shards.read_record(tmp_path / "x.parquet")


def test_a_parquet_file_without_a_record_says_so(tmp_path):
    pq.write_table(pa.table({"a": [1]}), tmp_path / "x.parquet")
    with pytest.raises(InputError, match="no run record"):
        shards.read_record(tmp_path / "x.parquet")


def test_json_is_canonical(tmp_path):
    outputs.write_json(tmp_path / "a.json", {"b": 1, "a": 2})
    outputs.write_json(tmp_path / "b.json", {"a": 2, "b": 1})
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()


def test_columns_on_top_of_a_schema_are_written_checked_and_read(tmp_path):
    path, extra = tmp_path / "graph.parquet", pa.schema([pa.field("weight", pa.float64())])
    schema = with_columns(KNOWLEDGE_GRAPH, extra)
    shards.write_shard(path, schema, {**ROWS, "weight": [0.5, 2.0]}, {})
    (batch,) = shards.read_batches(path, schema, ["weight"])
    assert batch.column("weight").to_pylist() == [0.5, 2.0]
    other = with_columns(KNOWLEDGE_GRAPH, temperature_columns([1]))
    with pytest.raises(InputError, match=r"column 'log_q_tau_1\.0' is missing"):
        list(shards.read_batches(path, other, ["subject"]))
    assert temperature_columns([0.5, 2]).names == ["log_q_tau_0.5", "log_q_tau_2.0"]
