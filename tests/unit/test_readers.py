"""Readers of text, JSONL and Parquet, compression, checksums, damaged files. Needs nothing.

Oracles: the documents that the test itself wrote to the files; hashlib for the checksum.
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import json
import sys
import types
import typing
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beyond_perplexity.corpus.annotated import AnnotatedReader
from beyond_perplexity.corpus.external import read_cleaned
from beyond_perplexity.corpus.extraction_options import AutomaticTreeOptions, SourceOptions
from beyond_perplexity.corpus.formats import AUTOMATIC, FORMATS, PARSERS, TEXT_FORMATS, Format
from beyond_perplexity.corpus.normalization import WHITE_SPACE_ONLY
from beyond_perplexity.corpus.readers import (
    LISTED,
    Problems,
    Record,
    Skips,
    read_chunks,
    resolve_path,
)
from beyond_perplexity.corpus.text_files import read_jsonl, read_parquet, read_text
from beyond_perplexity.errors import InputError
from beyond_perplexity.options import choices_of
from beyond_perplexity.planning.configuration import Configuration
from beyond_perplexity.planning.sections import keys_of, variants
from beyond_perplexity.planning.text_sections import External, Source
from beyond_perplexity.vocabulary import BUILT_KINDS

TEXTS = ["Ein Käfer .", "Zwei  Käfer .", "three", "", "five"]


def texts(reader: Callable, path: Path, skip: bool = False) -> list[str]:
    return [record.text for record in reader(path, Problems(skip))]


@pytest.mark.parametrize("pack", [bytes, bz2.compress, gzip.compress])
def test_text_lines_whatever_the_compression_and_name(
    tmp_path: Path, pack: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / "corpus.dat"
    path.write_bytes(pack("\n".join(TEXTS).encode()))
    assert texts(read_text, path) == TEXTS


def test_byte_order_mark_and_carriage_returns_vanish(tmp_path: Path) -> None:
    path = tmp_path / "windows.txt"
    path.write_bytes("\ufeffone\r\ntwo\r\n".encode())
    assert texts(read_text, path) == ["one", "two"]


def test_concatenated_bz2_streams_are_one_file(tmp_path: Path) -> None:
    path = tmp_path / "parts.bz2"
    path.write_bytes(bz2.compress(b"one\n") + bz2.compress(b"two\n"))
    assert texts(read_text, path) == ["one", "two"]


def test_jsonl_and_parquet_give_text_and_title(tmp_path: Path) -> None:
    rows = [{"text": "one two", "title": "A"}, {"text": "three", "title": "B"}]
    lines, table = tmp_path / "c.jsonl", tmp_path / "c.parquet"
    lines.write_text("".join(json.dumps(row) + "\n" for row in rows))
    pq.write_table(pa.Table.from_pylist(rows), table)
    for reader, path in ((read_jsonl, lines), (read_parquet, table)):
        found = [(record.title, record.text) for record in reader(path, Problems(False))]
        assert found == [("A", "one two"), ("B", "three")]


def test_line_breaks_inside_a_json_text_become_blanks(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    path.write_text(json.dumps({"text": "one\ntwo\u2028three"}) + "\n")
    assert texts(read_jsonl, path) == ["one two three"]


BROKEN_LINES = [
    (read_text, b"good\n\xff\xfe bad\nlast\n", "line 2: not UTF-8", "not UTF-8"),
    (read_text, "good\nlast\n".encode("utf-16-le"), "line 1: holds NUL", "holds NUL characters"),
    (read_jsonl, b'{"text": "good"}\n{"text": \n', "line 2: not JSON", "not JSON"),
    (read_jsonl, b'{"txt": "x"}\n', "'text' is missing", "unusable JSON line"),
    (read_jsonl, b'{"text": 3}\n', "'text' is no string", "unusable JSON line"),
    (read_jsonl, b'{"text": "\\ud800"}\n', "half a surrogate pair", "unusable JSON line"),
    (read_jsonl, b'["x"]\n', "an array; write each", "unusable JSON line"),
    (read_jsonl, b'[\n"x"\n', "it begins an array", "not JSON"),
    (read_jsonl, b"3\n", "neither an object nor a string", "unusable JSON line"),
]


@pytest.mark.parametrize(("reader", "content", "message", "reason"), BROKEN_LINES)
def test_broken_lines_are_errors_or_counted_skips(
    tmp_path: Path, reader: Callable, content: bytes, message: str, reason: str
) -> None:
    path = tmp_path / "broken"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message) as error:
        texts(reader, path)
    assert str(path) in str(error.value)
    problems = Problems(skip=True)
    kept = [record.text for record in reader(path, problems)]
    assert problems.skips.counts[reason] >= 1
    assert all("bad" not in text for text in kept)


@pytest.mark.parametrize("pack", [bz2.compress, gzip.compress])
def test_truncated_archives_are_errors_or_keep_what_was_read(
    tmp_path: Path, pack: Callable[[bytes], bytes]
) -> None:
    # hexadecimal digests do not compress well, so that a half archive holds many blocks
    lines = [hashlib.sha256(str(n).encode()).hexdigest() for n in range(60_000)]
    whole = pack("\n".join(lines).encode())
    path = tmp_path / "truncated"
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match="truncated or damaged archive") as error:
        texts(read_text, path)
    assert f"{path}: decompressed byte " in str(error.value)
    problems = Problems(skip=True)
    kept = [record.text for record in read_text(path, problems)]
    assert len(kept) > 1000
    assert kept[:-1] == lines[: len(kept) - 1]
    assert problems.skips.counts == {"truncated or damaged archive": 1}


def test_damaged_archive_is_named(tmp_path: Path) -> None:
    path = tmp_path / "damaged.bz2"
    path.write_bytes(b"BZh9" + bytes(100))
    with pytest.raises(InputError, match="truncated or damaged archive"):
        list(read_chunks(path, Problems(False)))


def test_parquet_without_text_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "c.parquet"
    pq.write_table(pa.table({"body": ["x"]}), path)
    with pytest.raises(InputError, match=r"column 'text' is missing; there are body: name that"):
        texts(read_parquet, path)
    pq.write_table(pa.table({"text": [1]}), path)
    with pytest.raises(InputError, match="column 'text' is int64"):
        texts(read_parquet, path)
    path.write_bytes(b"no parquet")
    with pytest.raises(InputError, match="not a readable Parquet file"):
        texts(read_parquet, path)


def test_missing_parquet_text_is_an_error_or_a_skip(tmp_path: Path) -> None:
    path = tmp_path / "c.parquet"
    pq.write_table(pa.table({"text": ["x", None, "z"]}), path)
    with pytest.raises(InputError, match="row 2: unusable row"):
        texts(read_parquet, path)
    assert texts(read_parquet, path, skip=True) == ["x", "z"]


def test_paths_are_resolved_or_named() -> None:
    assert resolve_path("embedded:enwiki-excerpt").is_file()
    with pytest.raises(InputError, match="no such embedded corpus; there are enwiki-excerpt"):
        resolve_path("embedded:frwiki")
    with pytest.raises(InputError, match="no such file"):
        resolve_path("/nowhere/corpus.txt")


def test_skips_count_all_and_list_the_first() -> None:
    skips = Skips()
    for part in range(3):
        more = Skips()
        for number in range(LISTED - 5):
            more.add("short", f"{part}.{number}")
        skips.merge(more)
    listed = skips.to_json()["short"]
    assert listed["count"] == 3 * (LISTED - 5)
    assert listed["first"] == [f"0.{n}" for n in range(LISTED - 5)] + [f"1.{n}" for n in range(5)]


def test_every_format_has_a_reader() -> None:
    assert set(TEXT_FORMATS) == {"text", "jsonl", "parquet"}
    for name, row in FORMATS.items():
        assert callable(row.load()), name
        if row.kind == "annotated":
            assert issubclass(row.load(), AnnotatedReader)


def test_formats_and_their_options_are_those_of_the_configuration() -> None:
    """The oracle is what the sections of the configuration allow."""
    assert choices_of(keys_of(Source)["format"].hint) == list(FORMATS)
    assert set(keys_of(Source)) == {field.name for field in fields(SourceOptions)}
    assert choices_of(keys_of(External)["format"].hint) == [AUTOMATIC, *TEXT_FORMATS]
    assert choices_of(keys_of(AutomaticTreeOptions)["kind"].hint) == ["none", *PARSERS]
    vocabularies = typing.get_args(keys_of(Configuration)["vocabularies"].hint)[1]
    assert list(variants(vocabularies)[1]) == list(BUILT_KINDS)


def test_a_row_and_a_module_make_a_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A toy format, texts between bars: by its row and module alone it is read by its suffix."""
    module = types.ModuleType("toy_reader")
    module.read_bars = lambda path, problems: (
        Record(str(path), "", text) for text in path.read_text().split("|")
    )
    monkeypatch.setitem(sys.modules, "beyond_perplexity.corpus.toy_reader", module)
    monkeypatch.setitem(FORMATS, "bars", Format("texts between bars", "toy_reader:read_bars"))
    path = tmp_path / "a.bars"
    path.write_text("a b|c")
    assert list(read_cleaned(path, WHITE_SPACE_ONLY, "bars")) == [["a b", "c"]]
