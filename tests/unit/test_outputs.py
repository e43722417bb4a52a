"""Outputs: what cannot be written is said before the work starts, and a failure leaves nothing.

Oracles: the folder's listing afterwards; the limits of file systems (255 bytes a
name); the words of the operating system.
"""

from __future__ import annotations

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
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.figure import Figure

from beyond_perplexity.corpus import latent_instances as instance_store
from beyond_perplexity.corpus.latent_instances import Instance, InstanceStore
from beyond_perplexity.corpus.token_batches import TokenStore
from beyond_perplexity.errors import InputError
from beyond_perplexity.figures.style import save
from beyond_perplexity.models.checkpoint import save_tensors
from beyond_perplexity.ngrams.arpa import write_arpa
from beyond_perplexity.schemas.corpora import KNOWLEDGE_GRAPH
from beyond_perplexity.storage import outputs
from beyond_perplexity.storage.outputs import atomic_path, check_output, check_output_folder
from beyond_perplexity.storage.shards import ShardWriter
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
        ("folder", "is a folder; name a file in it"),
        ("file/a.csv", "file is no folder"),
        ("file/a/b.csv", "file is no folder"),
        ("around/a.csv", "around is no folder|Too many levels"),
        ("pipe", "is no regular file"),
        ("x" * 256, "File name too long; give a shorter name"),
        ("é" * 128, "File name too long"),
        ("x" * 300 + "/a.csv", "File name too long"),
        ("a" + "/b" * 5_000, "File name too long; give a shorter name"),
        ("/dev/full", "is no place for files"),
        ("/dev/fd/1", "is no place for files"),
        ("/proc/a/b", "is no place for files"),
        ("", "is a folder"),
    ],
)
def test_what_cannot_be_written_is_said_at_once(place: Path, name: str, words: str) -> None:
    before = sorted(place.rglob("*"))
    with pytest.raises((InputError, OSError), match=words) as found, atomic_path(place / name):
        raise AssertionError("the work has started")
    assert "\n" not in str(found.value)
    assert sorted(place.rglob("*")) == before


def test_the_streams_of_the_system_are_not_replaced() -> None:
    """Standard output may be a regular file; its name in /dev is a link that all processes use."""
    check = "from beyond_perplexity.storage.outputs import check_output as c; c('/dev/stdout')"
    with tempfile.TemporaryFile() as held:
        done = subprocess.run([sys.executable, "-c", check], stdout=held, stderr=subprocess.PIPE)
    assert b"is no place for files" in done.stderr
    assert Path("/dev/stdout").is_symlink()


def test_memory_that_is_a_folder_is_written_to() -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        check_output(Path(folder, "a.csv"))


def test_a_folder_without_permission(place: Path, monkeypatch) -> None:
    """Root may write everywhere, so the answer of the system is put in its place."""
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(InputError, match="cannot be written to; check its permissions"):
        check_output(place / "new" / "a.csv")


def test_a_folder_as_an_output(place: Path) -> None:
    check_output_folder(place / "folder")
    check_output_folder(place / "new" / "deep")
    with pytest.raises(InputError, match="is a file; name a folder"):
        check_output_folder(place / "file")
    assert not (place / "new").exists()


@settings(max_examples=60, derandomize=True, deadline=None)
@given(st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=255))
def test_any_name_is_written_or_refused(name: str) -> None:
    """A name as long as the system allows has room for its temporary file, and no other is hit."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, name)
        if len(os.fsencode(name)) > 255 or name in (".", ".."):
            with pytest.raises(InputError, match=r"name too long|is a folder"):
                outputs.write_text(path, "whole")
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


def write_parquet(path: Path) -> None:
    with ShardWriter(path, KNOWLEDGE_GRAPH, {}) as writer:
        writer.write(ROWS)


WRITERS = {
    "text": lambda path: outputs.write_text(path, "x" * 10_000),
    "parquet": write_parquet,
    "weights": lambda path: save_tensors(path, {"x": torch.zeros(1_000)}),
    "numbers": lambda path: instance_store._save(path, np.zeros(1_000)),
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


def test_a_disk_that_is_full_at_the_footer_leaves_nothing(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(pq, "ParquetWriter", _FullParquet)
    with (
        pytest.raises(OSError, match="No space"),
        ShardWriter(tmp_path / "a.parquet", KNOWLEDGE_GRAPH, {}) as writer,
    ):
        writer.write(ROWS)
    with (
        pytest.raises(KeyError, match="first"),
        ShardWriter(tmp_path / "a.parquet", KNOWLEDGE_GRAPH, {}) as writer,
    ):
        raise KeyError("first")
    assert list(tmp_path.iterdir()) == []


def test_a_writer_that_cannot_be_made_leaves_nothing(tmp_path: Path, monkeypatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EMFILE, "x")

    monkeypatch.setattr(pq, "ParquetWriter", refuse)
    with pytest.raises(OSError, match="x"), ShardWriter(tmp_path / "a", KNOWLEDGE_GRAPH, {}):
        raise AssertionError
    assert list(tmp_path.iterdir()) == []


def test_stores_that_are_interrupted_leave_no_scratch_file(tmp_path: Path, monkeypatch) -> None:
    def instances():
        yield Instance(0, {"tokens": [1, 2]})
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        InstanceStore.write(tmp_path / "i", "train", instances())
    assert list((tmp_path / "i").iterdir()) == []

    def texts(*_: object):
        raise OSError(errno.EIO, "x")
        yield

    monkeypatch.setattr("beyond_perplexity.corpus.token_batches.read_texts", texts)
    with pytest.raises(OSError, match="x"):
        TokenStore.write(tmp_path / "t", "train", "d.parquet", None)
    assert list((tmp_path / "t").iterdir()) == []


def test_what_a_killed_process_left_of_a_long_name_is_removed(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / ("x" * 250 + ".csv")
    monkeypatch.setattr(outputs.shutil, "rmtree", lambda *_, **__: None)
    with pytest.raises(KeyboardInterrupt), atomic_path(path):
        raise KeyboardInterrupt
    monkeypatch.undo()
    assert len(list(tmp_path.iterdir())) == 1
    outputs.write_json(path, 1)
    assert list(tmp_path.iterdir()) == [path]
