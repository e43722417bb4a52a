"""Run records, hashes of what tables hold, and `beyond-perplexity provenance`.

Oracles: hashlib; Arrow's equality of tables; what was done to a tree of three generations and
between a shard and the plan; stand-ins for nvidia-smi and torch.
"""

import hashlib
import importlib
import json
import math
import os
import pkgutil
import shutil
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import beyond_perplexity.schemas
from beyond_perplexity.commands import provenance as command
from beyond_perplexity.planning import snakemake_hooks as notes
from beyond_perplexity.schemas.corpora import ALIASES
from beyond_perplexity.storage import fingerprint, outputs, provenance, shards, verification
from beyond_perplexity.storage.shards import ShardWriter, content_of, read_record
from beyond_perplexity.storage.verification import list_hashes, verify_tree
from tests.unit.evaluator_oracles import check_refused


def test_hashes_equal_hashlib_and_a_run_record_names_code_options_and_times(tmp_path):
    (tmp_path / "a").write_bytes(b"abc" * 100_000)
    expected = hashlib.sha256(b"abc" * 100_000).hexdigest()
    assert provenance.content_hash(tmp_path / "a") == expected
    provenance.check_sha256(tmp_path / "a", expected.upper())
    check_refused("expected 00", provenance.check_sha256, tmp_path / "a", "00" * 32)
    begun = provenance.run_record("beyond_perplexity/commands/tokenize.py", {"x": 1}, seed=3)
    record = provenance.finished(begun)
    assert record["seed"] == 3
    assert record["start"] <= record["end"]
    assert len(record["code_fingerprint"]) == 16
    assert "gpus" not in record
    assert provenance.value_hash({"a": 1, "b": 2}) == provenance.value_hash({"b": 2, "a": 1})


ROWS = pa.table(
    {
        "whole": pa.array([1, None, -3, 4, 5], pa.int32()),
        "real": pa.array([0.5, math.nan, None, -0.0, math.inf], pa.float64()),
        "half": pa.array([0.5, None, 1.0, 2.0, 3.0], pa.float32()),
        "flag": pa.array([True, None, False, True, True]),
        "text": pa.array(["", "ab", None, "c", "é"]),
        "list": pa.array([[1], [], None, [2, None], [3]], pa.list_(pa.int64())),
        "texts": pa.array([["a"], [], None, ["", None], ["b"]], pa.list_(pa.string())),
    }
)


def hashed(*tables: pa.Table) -> provenance.ContentHash:
    content = provenance.ContentHash(tables[0].schema)
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


@pytest.mark.parametrize("name", ROWS.column_names)
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


def test_what_is_read_has_the_hash_of_what_was_written_and_what_looks_alike_differs(tmp_path):
    with ShardWriter(tmp_path / "a.parquet", ROWS.schema, {}) as writer:
        writer.write(ROWS.slice(0, 2))
        writer.write(ROWS.slice(2))
    record = read_record(tmp_path / "a.parquet")
    read = pq.read_table(tmp_path / "a.parquet")
    assert hashed(read).columns() == record["columns"] == hashed(ROWS).columns()
    assert record["rows"] == 5
    assert content_of(tmp_path / "a.parquet") == record["content_hash"] == hashed(ROWS).table()

    def of(values: list[object], kind: pa.DataType) -> str:
        return hashed(pa.table({"a": pa.array(values, kind)})).table()

    alike = {
        pa.int32(): [[1, 2]],
        pa.int64(): [[1, 2], [0, 2], [None, 2]],
        pa.string(): [["a", "bc"], ["ab", "c"], ["", None], [None, ""]],
        pa.list_(pa.int64()): [[[1], [2, 3]], [[1, 2], [3]]],
        pa.float64(): [[0.0], [-0.0], [math.nan], [None], []],
    }
    different = [of(values, kind) for kind, held in alike.items() for values in held]
    assert len(set(different)) == len(different) == 15
    assert of([math.nan], pa.float64()) == of([-math.nan], pa.float64())
    columns = {"a": "1", "seconds": "2"}  # measured seconds do not count
    assert provenance.table_hash(3, columns) == provenance.table_hash(3, {"a": "1", "seconds": "5"})
    assert provenance.table_hash(3, columns) != provenance.table_hash(4, columns)
    assert provenance.table_hash(3, columns) != provenance.table_hash(3, {"a": "2", "seconds": "2"})


def test_a_column_of_numbers_equals_hashlib_and_every_schema_has_a_hash():
    table = pa.table({"a": pa.array([3, 4], pa.int64())})
    streams = {"/valid": b"\x01\x01", "/values": (3).to_bytes(8, "little") + b"\x04" + bytes(7)}
    held = {place: hashlib.sha256(content).hexdigest() for place, content in streams.items()}
    expected = hashlib.sha256(json.dumps(["int64", held]).encode()).hexdigest()
    assert hashed(table).columns() == {"a": expected[:16]}
    names = [found.name for found in pkgutil.iter_modules(beyond_perplexity.schemas.__path__)]
    modules = [importlib.import_module(f"beyond_perplexity.schemas.{name}") for name in names]
    values = [value for module in modules for value in vars(module).values()]
    schemas = [value for value in values if isinstance(value, pa.Schema)]
    assert len(schemas) > 20
    for schema in schemas:
        assert len(hashed(schema.empty_table()).table()) == 64
    with pytest.raises(TypeError, match="decimal"):
        hashed(pa.table({"a": pa.array([None], pa.decimal128(5, 2))}))
    empty, none = ROWS.schema.empty_table(), provenance.ContentHash(ROWS.schema)
    assert hashed(empty).table() == hashed(ROWS.slice(0, 0)).table() == none.table()
    assert none.table() != hashed(ROWS).table()


def write(path: Path, rows: list[str], seed: int = 1, **options: object) -> None:
    """Write a shard as a job of its own would, which reads the shards of a folder if it is told."""
    provenance.forget_reads()
    source = options.get("source")
    for read in sorted(Path(str(source)).glob("*.parquet")) if source else ():
        list(shards.read_batches(read, ALIASES, ["entity"]))
    weights = path.parents[1] / "model.safetensors"
    checkpoint = weights if weights.exists() else None
    record = provenance.run_record("scripts/generate.py", options, seed=seed, checkpoint=checkpoint)
    shards.write_shard(path, ALIASES, {"entity": rows, "alias": rows}, record)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "results"
    (folder / "m").mkdir(parents=True)
    (folder / "m" / "model.safetensors").write_bytes(b"weights")
    for number, rows in enumerate((["a", "b"], ["c"], ["d"])):
        write(folder / f"m/s/0000{number}.parquet", rows, first=number, count=len(rows))
    write(folder / "merged/all.parquet", ["a", "b", "c", "d"], source=str(folder / "m/s"))
    provenance.forget_reads()
    summary = {"value": 3, "record": provenance.run_record("scripts/train.py", {})}
    outputs.write_json(folder / "summary.json", summary)
    words = {"words": ["a"]}
    outputs.write_json(folder / "m/vocabulary.json", words)
    sums = {"weights_sha256": provenance.content_hash(folder / "m/model.safetensors")}
    held = {**sums, "vocabulary": {"sha256": provenance.value_hash(words)}}
    outputs.write_json(folder / "m/model.json", held)
    (folder / "table.csv").write_text("a\n")
    return folder


def problems(tree: Path) -> dict[str, str]:
    found = verify_tree(tree).mismatches
    return {str(path.relative_to(tree)): what for path, what in reversed(found)}


def edit(path: Path, **columns: list[str]) -> None:
    footer = pq.read_metadata(path).metadata
    pq.write_table(pa.table(columns).replace_schema_metadata(footer), path)


def edit_record(path: Path, **changes: object) -> None:
    table = pq.read_table(path)
    key = {shards.RECORD_KEY: json.dumps({**shards.read_record(path), **changes}).encode()}
    pq.write_table(table.replace_schema_metadata({**table.schema.metadata, **key}), path)


def test_what_was_written_is_verified(tree: Path) -> None:
    found = verify_tree(tree)
    assert not found.mismatches
    assert found.unrecorded == 4  # table.csv and the model's files, which no run has noted
    expected = {f"m/s/0000{number}.parquet" for number in range(3)}
    expected |= {"merged/all.parquet", "summary.json"}
    assert {str(path.relative_to(tree)) for path in found.hashes} == expected
    moved = tree.with_name("elsewhere")
    shutil.move(tree, moved)
    assert not problems(moved)


def test_equal_data_have_equal_hashes_whenever_they_were_written(tree: Path) -> None:
    path = tree / "m/s/00000.parquet"
    before, content = path.read_bytes(), dict(list_hashes(tree))
    write(path, ["a", "b"], first=0, count=2, start="then")
    assert path.read_bytes() != before
    assert dict(list_hashes(tree)) == content


def test_files_cut_short_are_named_and_edits_by_their_column(tree: Path) -> None:
    path = tree / "m/s/00002.parquet"
    path.write_bytes(path.read_bytes()[:-40])
    (tree / "summary.json").write_bytes(b"{")
    edit(tree / "m/s/00000.parquet", entity=["a", "x"], alias=["a", "b"])
    edit(tree / "m/s/00001.parquet", entity=["c", "c"], alias=["c", "c"])
    found = problems(tree)
    assert "column 'entity' is not what was written" in found["m/s/00000.parquet"]
    assert "has 2 rows, 1 were written" in found["m/s/00001.parquet"]
    cut = {"m/s/00002.parquet", "summary.json"}
    assert all("cut short" in found[name] for name in cut)
    assert set(found) == {"m/s/00000.parquet", "m/s/00001.parquet", *cut}


def test_what_is_in_the_place_of_another_is_named(tree: Path) -> None:
    (tree / "m/model.safetensors").write_bytes(b"of another training")
    found = problems(tree)
    assert "model.safetensors beside it" in found["m/model.json"]
    shards_of_it = [f"m/s/0000{number}.parquet" for number in range(3)]
    assert all("was made of another" in found[name] for name in shards_of_it)
    (tree / "m/model.safetensors").write_bytes(b"weights")
    shutil.copy(tree / "m/s/00001.parquet", tree / "m/s/00000.parquet")
    assert "was written as" in problems(tree)["m/s/00000.parquet"]
    write(tree / "m/s/00000.parquet", ["a", "b"], first=0, count=2)
    pq.write_table(pa.table({"a": [1]}), tree / "foreign.parquet")
    assert "no run record" in problems(tree)["foreign.parquet"]
    (tree / "logs").mkdir()
    shutil.move(tree / "foreign.parquet", tree / "logs/foreign.parquet")
    assert not problems(tree)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"content_hash": "00"}, "content hash is not that"),
        ({"options": {"first": 9}}, "options are not those of their hash"),
        ({"columns": 3}, "footer was edited"),
        ({"inputs": None}, "footer was edited"),
        ({"seed": 2}, "of another run: seed 2, where other shards of its folder have 1"),
        ({"output": "results/m/s/00007.parquet"}, "was written as results/m/s/00007.parquet"),
    ],
)
def test_an_edited_footer_is_named(tree: Path, changes: dict[str, object], message: str) -> None:
    edit_record(tree / "m/s/00001.parquet", **changes)
    assert message in problems(tree)["m/s/00001.parquet"]


def test_a_shard_of_another_run_is_named_with_what_was_made_of_the_former(tree: Path) -> None:
    path = tree / "m/s/00002.parquet"
    write(path, ["x"], seed=2, first=2, count=1)
    found = problems(tree)
    assert "of another run: seed 2" in found["m/s/00002.parquet"]
    assert "was made of another ../m/s/00002.parquet" in found["merged/all.parquet"]
    assert set(found) == {"m/s/00002.parquet", "merged/all.parquet"}
    write(path, ["d"], first=2, count=1, decoding={"kind": "beam"})  # its own block is not named
    found = problems(tree)
    assert set(found) == {"m/s/00002.parquet"}
    assert "option decoding" in found["m/s/00002.parquet"]


@pytest.mark.parametrize("name", ["m/model.json", "m/vocabulary.json", "table.csv", "figure.svg"])
def test_what_has_no_record_is_known_by_the_manifest(tree, name, monkeypatch, capsys) -> None:
    """Edited, removed, made again, and forgotten where it is wanted no more."""
    path = tree / name
    monkeypatch.chdir(tree.parent)
    monkeypatch.setenv(outputs.RESULTS, "results")
    content = path.read_text() if path.exists() else "<svg/>"
    outputs.write_text(path, content)
    found = verify_tree(tree)
    assert not found.mismatches
    assert found.hashes[path] == provenance.content_hash(path)
    path.write_text(f"{content} ")
    assert "is not what was written" in problems(tree)[name]
    path.unlink()
    assert problems(tree)[name] == "is missing; make it again"
    monkeypatch.setattr(sys, "argv", ["provenance", "--verify", "results"])
    check_refused("files do not match", command.main)
    *_, advice = capsys.readouterr().out.splitlines()
    assert advice.startswith("beyond-perplexity run --remake ")
    assert f"results/{name}" in advice.split()
    outputs.forget_files(tree, [f"results/{name}"])
    assert name in problems(tree)
    outputs.forget_files(tree, [])
    assert name not in problems(tree)
    outputs.write_text(path, content)
    assert not problems(tree)
    note = tree / outputs.MANIFEST / f"{name}{outputs.SUFFIX}"
    with outputs.scratch_path(note) as left:  # by a job that is killed while it notes
        left.write_text("half a n")
        assert not problems(tree)
        outputs.forget_files(tree, [])
        assert left.exists()


def test_jobs_at_once_note_each_its_own_file_which_is_no_input_of_theirs(tmp_path, monkeypatch):
    """And nothing of checkpoints and logs, nor of files elsewhere."""
    monkeypatch.setenv(outputs.RESULTS, str(tmp_path / "results"))
    names = [f"t/{number}.csv" for number in range(40)]
    with ThreadPoolExecutor(8) as pool:
        write = partial(outputs.write_text, text="a\n")
        list(pool.map(write, [tmp_path / "results" / name for name in names]))
    outputs.write_text(tmp_path / "results/checkpoints/m/a", "a")
    outputs.write_text(tmp_path / "elsewhere", "a")
    noted = dict(outputs.read_notes(tmp_path / "results"))
    assert noted == {tmp_path / "results" / name: sha256(b"a\n").hexdigest() for name in names}
    assert set(dict(outputs.read_notes(tmp_path / "results/t"))) == set(noted)
    for name in ("between", "last"):
        shards.write_shard(tmp_path / f"{name}.parquet", ALIASES, {"entity": [], "alias": []}, {})
        list(shards.read_batches(tmp_path / f"{name}.parquet", ALIASES, ["entity"]))
    assert shards.read_record(tmp_path / "last.parquet")["inputs"] == {}


def test_the_command_says_where_a_file_came_from(tree: Path, capsys) -> None:
    (tree / "m/s/00002.parquet").unlink()
    command.main([str(tree / "merged/all.parquet")])
    lines = capsys.readouterr().out.splitlines()
    record = read_record(tree / "merged/all.parquet")
    assert f"  content   {record['content_hash']} (4 rows)" in lines
    assert "  seed      1" in lines
    made = [line for line in lines if line.startswith("  made of")]
    assert [Path(line.split()[2]).name for line in made] == [f"0000{k}.parquet" for k in range(3)]
    assert made[0].endswith("by scripts/generate.py, seed 1")
    assert made[2].endswith("which is gone")
    (weights,) = {line for line in lines if line.startswith("    made of")}
    assert provenance.content_hash(tree / "m/model.safetensors")[:16] in weights


def test_the_command_lists_the_hashes_of_a_folder_and_fails_where_one_is_another(tree, capsys):
    command.main([str(tree)])
    listed = dict(reversed(line.split("  ")) for line in capsys.readouterr().out.splitlines())
    assert (listed["m/s/00000.parquet"], len(listed)) == (content_of(tree / "m/s/00000.parquet"), 5)
    command.main(["--verify", str(tree)])
    assert "5 files are what was written" in capsys.readouterr().err
    (tree / "summary.json").write_text("{")
    check_refused("1 files do not match", command.main, ["--verify", str(tree)])
    assert "summary.json': is no JSON" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        *((["table.csv"], "no run record"), (["nothing"], "no such file")),
        *((["--verify", "table.csv"], "is no folder"), (["m/vocabulary.json"], "no run record")),
    ],
)
def test_what_has_no_record_is_an_error(tree: Path, arguments: list[str], message: str) -> None:
    *flags, name = arguments
    check_refused(message, command.main, [*flags, str(tree / name)])


SCRIPT = "scripts/merge_statistics.py"
COMMAND = """
        python -m scripts.merge_statistics \\
            --inputs in.parquet \\
            --note 'two words' \\
            --threads {threads} --memory-mb {memory} \\
            --output out.parquet \\
            2>&1 | tee -a log
        """


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(outputs.RUN, raising=False)
    provenance.forget_reads()
    verification._content.cache_clear()


def start_run(monkeypatch) -> None:
    monkeypatch.setenv(outputs.RUN, "")
    outputs.number_run()


def test_a_job_of_an_earlier_run_leaves_what_a_later_one_is_about(monkeypatch):
    start_run(monkeypatch)
    earlier = os.environ[outputs.RUN]
    outputs.claim(["a/shared", "a/own"])
    outputs.write_text("a/shared", "earlier")
    start_run(monkeypatch)
    outputs.claim([os.path.abspath("a/shared"), "a/new"])
    outputs.write_text("a/shared", "later")
    monkeypatch.setenv(outputs.RUN, earlier)
    check_refused(r"^a/shared: is left to a later run", outputs.write_text, "a/shared", "too late")
    assert sorted(os.listdir("a")) == ["shared"]
    with open("a/shared") as file:
        assert file.read() == "later"
    outputs.write_text(os.path.abspath("a/own"), "earlier")
    monkeypatch.delenv(outputs.RUN)
    outputs.write_text("a/shared", "of a command that is no job")
    # of a machine whose clock is ahead
    monkeypatch.setenv(outputs.RUN, str(time.time_ns() + 10**15))
    outputs.claim(["b"])
    start_run(monkeypatch)
    outputs.claim(["b"])
    outputs.write_text("b", "later")


def write_aliases(path: str, entity: str = "a") -> None:
    shards.write_shard(path, ALIASES, {"entity": [entity], "alias": ["b"]}, {})


def make(monkeypatch) -> None:
    """Write a shard as the command would, by a process of its own."""
    write_aliases("in.parquet")
    arguments = notes.arguments_in(COMMAND.format(threads=1, memory=2000))
    monkeypatch.setattr(sys, "argv", [str(fingerprint.ROOT / SCRIPT), *arguments])
    provenance.forget_reads()
    list(shards.read_batches("in.parquet", ALIASES, ["entity"]))
    record = provenance.run_record(SCRIPT, {"note": "two words"})
    shards.write_shard("out.parquet", ALIASES, {"entity": ["a"], "alias": ["b"]}, record)


def make_by_other_code(monkeypatch) -> None:
    monkeypatch.setattr(provenance, "fingerprint", lambda script: "0" * 16)
    make(monkeypatch)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda patch: None, False),
        (make, False),
        (lambda patch: os.remove("in.parquet"), False),
        (lambda patch: write_aliases("in.parquet", "c"), True),
        (lambda patch: os.truncate("out.parquet", 100), True),
        (make_by_other_code, True),
    ],
    ids=["same", "again", "input gone", "other input", "damaged", "other code"],
)
def test_what_has_no_note_is_compared_by_its_record(monkeypatch, change, found):
    make(monkeypatch)
    change(monkeypatch)
    assert notes.made_otherwise(["out.parquet"], COMMAND.format(threads=4, memory=8000)) == found


def test_another_command_is_another_result_and_what_has_no_record_says_nothing(monkeypatch):
    make(monkeypatch)
    for old, new in (("two words", "words"), ("--note", "--title"), ("--inputs in", "--inputs a")):
        assert notes.made_otherwise(["out.parquet"], COMMAND.replace(old, new))
    outputs.write_text("table.csv", "a\n")
    outputs.write_json("list.json", {})
    assert not notes.made_otherwise(["table.csv", "list.json"], COMMAND)


@pytest.fixture(autouse=True)
def nothing_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provenance, "_watches", {})


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_nvidia_smi_is_asked_about_this_gpu_and_records_have_what_was_used(tmp_path, monkeypatch):
    install(tmp_path, monkeypatch, 'test "$1" = --id=GPU-7 && echo 62')
    assert provenance.busy_percent("GPU-7") == 62
    assert provenance.busy_percent("GPU-8") is None
    install(tmp_path, monkeypatch, "echo '[N/A]'")
    assert provenance.busy_percent("GPU-7") is None
    (tmp_path / "nvidia-smi").unlink()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert provenance.busy_percent("GPU-7") is None
    install(tmp_path, monkeypatch, "echo 40")
    monkeypatch.setattr(provenance, "_FIRST_SAMPLE", 0.01)
    monkeypatch.setattr(provenance, "SECONDS_BETWEEN_SAMPLES", 0.01)
    reserved, gpu = lambda device: 3_000_000_000, SimpleNamespace(name="A GPU", uuid="7")
    cuda = SimpleNamespace(is_available=lambda: True, max_memory_reserved=reserved)
    cuda.get_device_properties = lambda device: gpu
    stand_in = SimpleNamespace(cuda=cuda, device=torch.device)
    monkeypatch.setitem(sys.modules, "torch", stand_in)
    record = provenance.run_record("scripts/generate.py", {}, device="cuda")
    deadline = time.monotonic() + 20
    while (found := provenance.finished(record)["gpus"][0])["samples"] < 2:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    provenance._watches["cuda"]._ended.set()
    expected = {"name": "A GPU", "memory_mb": 3000, "busy_percent": 40.0}
    assert {key: found[key] for key in expected} == expected


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_real_gpu_is_watched() -> None:
    record = provenance.run_record("scripts/generate.py", {}, device="cuda")
    square = torch.ones(2000, 2000, device="cuda")
    end = time.monotonic() + 3
    while time.monotonic() < end:
        square = square @ square / 2000
    torch.cuda.synchronize()
    (found,) = provenance.finished(record)["gpus"]
    assert found["memory_mb"] >= 16
    assert found["samples"] >= 1
    assert found["busy_percent"] > 0
