"""Outputs and shards: what cannot be written is said at once; files are whole or none.

Oracles: the folder's listing; 255 bytes a name; the system's words; the rows; Bash's braces.
"""

import argparse
import errno
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.figure import Figure

from beyond_perplexity.corpus import latent_instances, token_batches
from beyond_perplexity.errors import InputError
from beyond_perplexity.figures.style import save
from beyond_perplexity.models.registry import save_tensors
from beyond_perplexity.ngrams.arpa import write_arpa
from beyond_perplexity.schemas import draws, with_columns
from beyond_perplexity.schemas.corpora import ALIASES, KNOWLEDGE_GRAPH
from beyond_perplexity.storage import outputs, shards
from beyond_perplexity.storage.outputs import atomic_path, check_output, check_output_folder
from beyond_perplexity.storage.shards import FileRanges, ShardWriter, as_ranges, from_ranges
from beyond_perplexity.training.interruptions import save_checkpoint
from tests.unit.evaluator_oracles import check_refused
from tests.unit.test_ngrams import V, draw_sentences, fit

WORDS = [f"w{n}" for n in range(V)]
ROWS = {"subject": ["a"], "relation": ["r"], "object": ["c"]}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "file").write_text("held")
    (tmp_path / "folder").mkdir()
    (tmp_path / "around").symlink_to("around")
    os.mkfifo(tmp_path / "pipe")
    return tmp_path


@pytest.mark.parametrize(
    ("name", "words"),
    [
        *(("folder", "is a folder; name a file in it"), ("file/a.csv", "file is no folder")),
        ("file/a/b.csv", "file is no folder"),
        ("around/a.csv", "around is no folder|Too many levels"),
        ("pipe", "is no regular file"),
        ("x" * 256, "File name too long; give a shorter name"),
        ("é" * 128, "File name too long"),
        ("x" * 300 + "/a.csv", "File name too long"),
        ("a" + "/b" * 5_000, "File name too long; give a shorter name"),
        *(("/dev/full", "is no place for files"), ("/dev/fd/1", "is no place for files")),
        *(("/proc/a/b", "is no place for files"), ("", "is a folder")),
    ],
)
def test_what_cannot_be_written_is_said_at_once(place: Path, name: str, words: str) -> None:
    before = sorted(place.rglob("*"))
    with pytest.raises((InputError, OSError), match=words) as found, atomic_path(place / name):
        raise AssertionError("the work has started")
    assert "\n" not in str(found.value)
    assert sorted(place.rglob("*")) == before


def test_streams_are_not_replaced_and_folders_are_no_outputs(place: Path, monkeypatch) -> None:
    """Standard output may be a regular file; its name in /dev is a link that all processes use."""
    check = "from beyond_perplexity.storage.outputs import check_output as c; c('/dev/stdout')"
    with tempfile.TemporaryFile() as held:
        done = subprocess.run([sys.executable, "-c", check], stdout=held, stderr=subprocess.PIPE)
    assert b"is no place for files" in done.stderr
    assert Path("/dev/stdout").is_symlink()
    check_output_folder(place / "folder")
    check_output_folder(place / "new" / "deep")
    check_refused("is a file; name a folder", check_output_folder, place / "file")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as memory:
        check_output(Path(memory, "a.csv"))
    # Root may write everywhere, so the answer of the system is put in its place.
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(InputError, match="cannot be written to; check its permissions"):
        check_output(place / "new" / "a.csv")
    assert not (place / "new").exists()


@settings(max_examples=60, derandomize=True, deadline=None)
@given(st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=255))
def test_any_name_is_written_or_refused(name: str) -> None:
    """A name as long as the system allows has room for its temporary file, and no other is hit."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, name)
        if len(os.fsencode(name)) > 255 or name in (".", ".."):
            check_refused(r"name too long|is a folder", outputs.write_text, path, "whole")
            assert os.listdir(folder) == []
        else:
            outputs.write_text(path, "whole")
            assert os.listdir(folder) == [name]
            assert path.read_text() == "whole"


def test_an_error_names_the_output_and_not_its_temporary_file(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"disk|space") as found, atomic_path(tmp_path / "a") as path:
        raise OSError(errno.ENOSPC, "of pyarrow")
    assert found.value.filename.startswith(f"{tmp_path / 'a'}, or a file in ")
    with pytest.raises(PermissionError) as denied, atomic_path(tmp_path / "a") as path:
        raise PermissionError(errno.EACCES, "x", str(path))
    assert denied.value.filename == str(tmp_path / "a")
    with pytest.raises(FileNotFoundError) as other, atomic_path(tmp_path / "a"):
        (tmp_path / "input").read_text()
    assert other.value.filename == str(tmp_path / "input")
    assert list(tmp_path.iterdir()) == []


@contextmanager
def small_disk(size: int) -> Iterator[None]:
    """Let the system refuse to make files larger: as a full disk does, in the middle of writing."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def write_parquet(path: Path, raised: Exception | None = None) -> None:
    with ShardWriter(path, KNOWLEDGE_GRAPH, {}) as writer:
        writer.write(ROWS)
        if raised:
            raise raised


WRITERS = {
    "text": lambda path: outputs.write_text(path, "x" * 10_000),
    "parquet": write_parquet,
    "weights": lambda path: save_tensors(path, {"x": torch.zeros(1_000)}),
    "numbers": lambda path: token_batches.save_array(path, np.zeros(1_000)),
    "arpa": lambda path: write_arpa(path, fit(draw_sentences(), 3), WORDS),
    "figure": lambda path: save(Figure(), [path]),
}
SUFFIXES = {"weights": ".safetensors", "numbers": ".npy", "figure": ".pdf", "arpa": ".arpa.gz"}


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize("size", [0, 7])
def test_a_disk_that_fills_up(kind: str, size: int, tmp_path: Path) -> None:
    """Whichever library writes: the system's reason, the output's name, nothing left."""
    path = tmp_path / f"a{SUFFIXES.get(kind, '.txt')}"
    with small_disk(size), pytest.raises(OSError, match="File too large") as found:
        WRITERS[kind](path)
    assert found.value.filename == str(path)
    assert list(tmp_path.iterdir()) == []
    WRITERS[kind](path)
    assert path.stat().st_size > size


class _FullParquet(pq.ParquetWriter):
    """A writer whose disk is full when the footer is written."""

    def close(self) -> None:
        if self.is_open:
            super().close()
            raise OSError(errno.ENOSPC, "Error writing bytes to file")


def refuse(*_: object, **__: object) -> None:
    raise OSError(errno.EMFILE, "cannot be made")


@pytest.mark.parametrize(
    ("writer", "raised", "said"),
    [
        (_FullParquet, None, "No space"),  # at the footer
        (_FullParquet, KeyError("first"), "first"),
        (refuse, None, "cannot be made"),
    ],
)
def test_a_shard_that_is_not_finished_leaves_nothing(tmp_path, monkeypatch, writer, raised, said):
    monkeypatch.setattr(pq, "ParquetWriter", writer)
    with pytest.raises(type(raised) if raised else OSError, match=said):
        write_parquet(tmp_path / "a.parquet", raised)
    assert list(tmp_path.iterdir()) == []


def test_stores_that_are_interrupted_leave_no_scratch_file(tmp_path: Path, monkeypatch) -> None:
    def instances():
        yield latent_instances.Instance(0, {"tokens": [1, 2]})
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        latent_instances.InstanceStore.write(tmp_path / "i", "train", instances())
    assert list((tmp_path / "i").iterdir()) == []

    def texts(*_: object):
        raise OSError(errno.EIO, "x")
        yield

    monkeypatch.setattr("beyond_perplexity.corpus.token_batches.read_texts", texts)
    with pytest.raises(OSError, match="x"):
        token_batches.TokenStore.write(tmp_path / "t", "train", "d.parquet", None)
    assert list((tmp_path / "t").iterdir()) == []


ROOT = Path(__file__).parents[2]
TRIPLES = {"subject": ["a", "b"], "relation": ["r", "r"], "object": ["c", None]}


def test_what_was_written_comes_back_with_its_record(tmp_path):
    path = tmp_path / "deep" / "graph.parquet"
    shards.write_shard(path, KNOWLEDGE_GRAPH, TRIPLES, {"seed": 7})
    batches = list(shards.read_batches(path, KNOWLEDGE_GRAPH, ["object", "subject"], batch_size=1))
    expected = [{"object": "c", "subject": "a"}, {"object": None, "subject": "b"}]
    assert ([row for batch in batches for row in batch.to_pylist()], len(batches)) == (expected, 2)
    record = shards.read_record(path)
    assert record["seed"] == 7
    assert "end" in record
    before = path.read_bytes()
    with pytest.raises(RuntimeError):  # leaves nothing, and keeps what was there
        write_parquet(path, RuntimeError())
    assert (path.read_bytes(), listing(path.parent)) == (before, {"graph.parquet"})


def start_writing(path: Path) -> subprocess.Popen[str]:
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
    first, second, long = (tmp_path / name for name in ("a.csv", "a.b.csv", f"{'x' * 250}.csv"))
    for path in (first, second, long):
        process = start_writing(path)
        process.kill()
        process.communicate()
    assert len(listing(tmp_path)) == 3
    with outputs.atomic_path(first) as path:
        path.write_text("whole")
        assert len(listing(tmp_path)) == 3  # this one and what was left of the others
    left = listing(tmp_path) - {"a.csv"}
    assert sum(name.startswith(".a.b.csv.") for name in left) == 1
    for path in (second, long):
        outputs.write_json(path, 1)
    assert listing(tmp_path) == {first.name, second.name, long.name}


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
        shards.write_shard(tmp_path / "a.parquet", KNOWLEDGE_GRAPH, TRIPLES, {})
    finally:
        os.umask(before)
    modes = {path: path.stat().st_mode for path in tmp_path.rglob("*") if path.is_file()}
    assert (len(modes), set(modes.values())) == (4, {modes[tmp_path / "plain"]})


@pytest.mark.parametrize(
    ("table", "message", "of_record"),
    [
        ({"entity": ["a"]}, "column 'alias' is missing", "no run record"),
        ({"entity": ["a"], "alias": [1]}, "column 'alias' is int64, expected", "no run record"),
        (None, *["not a readable Parquet file"] * 2),
    ],
)
def test_a_foreign_file_is_refused_by_name_and_column(tmp_path, table, message, of_record):
    path = tmp_path / "x.parquet"
    path.write_text("hello") if table is None else pq.write_table(pa.table(table), path)
    with pytest.raises(InputError, match=message) as error:
        list(shards.read_batches(path, ALIASES, ["entity"]))
    assert str(path) in str(error.value)
    check_refused(of_record, shards.read_record, path)


def test_columns_are_those_of_a_schema_and_on_top_of_it_and_json_is_canonical(tmp_path):
    with pytest.raises(ValueError, match="columns"):
        shards.write_shard(tmp_path / "x.parquet", KNOWLEDGE_GRAPH, {"subject": ["a"]}, {})
    assert list(tmp_path.iterdir()) == []
    path, extra = tmp_path / "graph.parquet", pa.schema([pa.field("weight", pa.float64())])
    schema = with_columns(KNOWLEDGE_GRAPH, extra)
    shards.write_shard(path, schema, {**TRIPLES, "weight": [0.5, 2.0]}, {})
    (batch,) = shards.read_batches(path, schema, ["weight"])
    assert batch.column("weight").to_pylist() == [0.5, 2.0]
    other = with_columns(KNOWLEDGE_GRAPH, draws.temperature_columns([1]))
    with pytest.raises(InputError, match=r"column 'log_q_tau_1\.0' is missing"):
        list(shards.read_batches(path, other, ["subject"]))
    assert draws.temperature_columns([0.5, 2]).names == ["log_q_tau_0.5", "log_q_tau_2.0"]
    outputs.write_json(tmp_path / "a.json", {"b": 1, "a": 2})
    outputs.write_json(tmp_path / "b.json", {"a": 2, "b": 1})
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()


SHARDS = [f"samples/m/d/{shard:05d}.parquet" for shard in range(20_000)]


@pytest.mark.parametrize(
    ("files", "words"),
    [
        (SHARDS, ["samples/m/d/{00000..19999}.parquet"]),
        (["a/00000.parquet"], ["a/00000.parquet"]),
        (["a/1.txt", "a/2.txt", "b/3.txt"], ["a/{1..2}.txt", "b/3.txt"]),
        (["a/9", "a/10", "a/11"], ["a/9", "a/{10..11}"]),  # of another width
        (["a/2.x", "a/1.x", "a/1.x"], ["a/2.x", "a/1.x", "a/1.x"]),  # not following
        (["a/1.x", "a/2.y"], ["a/1.x", "a/2.y"]),
        (["a/00000-00008.p", "a/00000-00009.p"], ["a/00000-{00008..00009}.p"]),
        (["a/{1..2}.x", "x y/$1.z", "x y/$2.z"], ["a/{1..2}.x", "x y/${1..2}.z"]),
        ([], []),
    ],
)
def test_what_follows_is_one_word(files: list[str], words: list[str]) -> None:
    assert as_ranges(files) == words
    if "{" not in "".join(files[:1]):
        assert from_ranges(words) == files


def test_a_range_stands_for_what_bash_makes_of_it(tmp_path) -> None:
    words = ["a/{007..012}.parquet", "b/{3..5}", "c/{98..100}.x", "d/{0008..0010}"]
    command = ["bash", "-c", f"echo {' '.join(words)}"]
    expanded = subprocess.check_output(command, text=True).split()
    assert from_ranges([words[0], words[1], words[3]]) == [x for x in expanded if "c/" not in x]
    assert from_ranges([words[2]]) == [words[2]]  # never written: its ends are of two widths
    # An option takes both, and a file that is called like a range.
    file = tmp_path / "{1..3}.parquet"
    file.touch()
    parser = argparse.ArgumentParser()
    parser.add_argument("--files", nargs="+", action=FileRanges)
    given = parser.parse_args(["--files", "a/{0..1}.x", "b", str(file)])
    assert given.files == ["a/0.x", "a/1.x", "b", str(file)]
