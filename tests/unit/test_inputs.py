"""Opening inputs: what packs them, what is none, archives, Parquet, JSON. Needs nothing.

Oracles: the bytes that the test itself wrote and packed; what the operating system says of a path.
"""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beyond_perplexity.corpus import readers
from beyond_perplexity.corpus.annotated import document_name
from beyond_perplexity.corpus.external import check_file, read_cleaned
from beyond_perplexity.corpus.formats import guess_format
from beyond_perplexity.corpus.readers import Problems, read_lines
from beyond_perplexity.corpus.text_files import read_parquet
from beyond_perplexity.errors import InputError
from beyond_perplexity.importance.weight_labels import read_labels
from beyond_perplexity.ngrams.sentence_files import read_line_blocks
from beyond_perplexity.schemas.corpora import TEXT_SAMPLES
from beyond_perplexity.storage import inputs
from beyond_perplexity.storage.inputs import (
    DamagedError,
    JSONTextError,
    brief_repr,
    check_input,
    copy_member,
    open_input,
    parse_json,
    read_json,
    read_utf8,
    read_whole,
)
from beyond_perplexity.storage.shards import RECORD_KEY, ParquetInput, read_record, read_texts
from beyond_perplexity.storage.table_files import TableFile
from scripts.verify_download import take

LINES = b"one\ntwo words\n\nlast"


def zstd(content: bytes) -> bytes:
    return pa.compress(content, codec="zstd", asbytes=True)


PACKERS = [bytes, gzip.compress, bz2.compress, lzma.compress, zstd]


# ---- packing ----


@pytest.mark.parametrize("pack", PACKERS)
def test_every_packing_is_known_by_its_content(
    tmp_path: Path, pack: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / "no-ending"
    path.write_bytes(pack(LINES) + (pack(b"\nsecond part") if pack is not bytes else b""))
    wanted = LINES + (b"\nsecond part" if pack is not bytes else b"")
    with open_input(path) as file:
        assert file.readline() == b"one\n"
        assert file.read() == wanted[4:]
    lines = [text for _, text in read_lines(path, Problems(False))]
    assert lines == wanted.decode().split("\n")
    assert b"".join(block for _, block in read_line_blocks(path)) == wanted


@pytest.mark.parametrize("pack", PACKERS[1:])
def test_a_cut_archive_is_damaged_and_gives_what_it_has(
    tmp_path: Path, pack: Callable[[bytes], bytes]
) -> None:
    content = os.urandom(1 << 18).hex().encode()
    whole, path = pack(content), tmp_path / "cut"
    path.write_bytes(whole[: len(whole) // 2])
    problems = Problems(True)
    found = b"".join(readers.read_chunks(path, problems))
    assert content.startswith(found)
    assert problems.skips.counts == {"truncated or damaged archive": 1}
    with pytest.raises(DamagedError, match=r"cut: decompressed byte \d+: truncated or damaged"):
        read_whole(path)


@pytest.mark.parametrize(
    ("start", "what"), [(b"PK\x03\x04", "a zip archive"), (b"PAR1\x15", "a Parquet file")]
)
def test_other_kinds_are_named(tmp_path: Path, start: bytes, what: str) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(start + bytes(20))
    with pytest.raises(InputError, match=f"a.txt: is {what}.*name"):
        open_input(path)


def test_names_end_before_their_packing() -> None:
    for end in inputs.PACKED:
        assert guess_format(Path(f"a.jsonl{end}")) == "jsonl"
        assert document_name(Path(f"a.b.conll{end}")) == "a.b"


# ---- what is no file ----


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nowhere/a.txt", "no such file"),
        ("https://example.org/a.txt", "is an address, not a file.*sha256"),
        (".", "is a folder"),
        ("a" * 5000, "name too long"),
        ("a\0b", "NUL character"),
    ],
)
def test_what_cannot_be_opened_is_told(name: str, message: str) -> None:
    for read in (open_input, check_input, read_whole, readers.resolve_path, check_file):
        with pytest.raises(InputError, match=message) as caught:
            read(Path(name) if read is check_file else name)
        assert len(str(caught.value)) < 600
        assert "\n" not in str(caught.value)


def test_a_file_of_somebody_else_is_unreadable_not_damaged(tmp_path: Path) -> None:
    path = tmp_path / "secret.txt"
    path.write_text("one\n")
    path.chmod(0)
    code = (
        "import os, sys\n"
        "from beyond_perplexity.corpus.readers import Problems\n"
        "from beyond_perplexity.corpus.text_files import read_text\n"
        "os.getuid() or os.setuid(65534)\n"
        "for skip in (False, True):\n"
        "    try: list(read_text(sys.argv[1], Problems(skip)))\n"
        "    except Exception as error: print(type(error).__name__, error)\n"
    )
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-c", code, path], capture_output=True, text=True, check=True
    )
    said = f"InputError {path}: cannot be read (Permission denied); "
    assert [line.startswith(said) for line in done.stdout.splitlines()] == [True, True]


def test_a_pipe_is_read_where_once_is_enough_and_refused_elsewhere(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    for content in (LINES, gzip.compress(LINES)):
        writer = threading.Thread(target=path.write_bytes, args=(content,))
        writer.start()
        batches = list(read_cleaned(path, None))
        writer.join()
        assert [text for batch in batches for text in batch] == LINES.decode().split("\n")
    os.mkfifo(tmp_path / "pipe.csv")
    for open_it in (TableFile, ParquetInput):
        with pytest.raises(InputError, match=r"pipe\.csv: is a pipe.*write it to a file"):
            open_it(tmp_path / "pipe.csv")


def test_what_is_held_whole_is_unpacked_and_utf8(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(gzip.compress(bytes(3000)))
    assert len(read_whole(path)) == 3000
    path.write_bytes("\ufeffa\nb".encode() + b"\xff")
    with pytest.raises(InputError, match="line 2: is not UTF-8"):
        read_utf8(path)


# ---- zip archives ----


def archive(path: Path, content: bytes = b"A" * 1000) -> bytearray:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as file:
        file.writestr("a.txt", content)
    return bytearray(path.read_bytes())


def test_a_member_is_copied_part_by_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "INPUT_BYTES", 64)
    archive(tmp_path / "a.zip")
    sizes = []

    class Target:
        def write(self, part: bytes) -> None:
            sizes.append(len(part))

    copy_member(tmp_path / "a.zip", "a.txt", Target())
    assert sum(sizes) == 1000
    assert max(sizes) == 64
    take(str(tmp_path / "a.zip"), "a.txt", tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == b"A" * 1000


@pytest.mark.parametrize(
    ("places", "value", "message"),
    [
        ((6, 8), 1, "'a.txt' .*encrypted"),
        ((8, 10), 77, "cannot be unpacked"),
        ((200, 200), 0, "cannot be unpacked"),
    ],
)
def test_archives_that_python_cannot_unpack_are_told(
    tmp_path: Path, places: tuple[int, int], value: int, message: str
) -> None:
    path = tmp_path / "a.zip"
    content = archive(path)
    for magic, place in zip((b"PK\x03\x04", b"PK\x01\x02"), places, strict=True):
        content[(content.find(magic) if place < 100 else 0) + place] = value
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        take(str(path), "a.txt", tmp_path / "out")


def test_archives_have_members(tmp_path: Path) -> None:
    archive(tmp_path / "a.zip")
    with pytest.raises(InputError, match=r"no zip archive with a member 'b\.txt'"):
        take(str(tmp_path / "a.zip"), "b.txt", tmp_path / "out")
    (tmp_path / "b.zip").write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(InputError, match=r"b\.zip: .* cannot be unpacked \(File is not a zip file"):
        take(str(tmp_path / "b.zip"), "a.txt", tmp_path / "out")


# ---- JSON ----


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1" * 5000, "more than 4300 digits"),
        ('{"a": -' + "9" * 5000 + "}", "more than 4300 digits"),
        ("[" * 100_000, "nested too deeply"),
        ('{"a":' * 100_000, "nested too deeply"),
        ('{"a": 1,}', "line 1 column"),
        (b"\xff\xfe", "not UTF-8 at byte 0"),
        ("", "Expecting value"),
    ],
)
def test_what_is_no_json_is_told(tmp_path: Path, text: str | bytes, message: str) -> None:
    with pytest.raises(JSONTextError, match=message):
        parse_json(text)
    path = tmp_path / "a.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError, match=f"a.json: is no speller: .*{message}.*; build it$"):
        read_json(path, "speller", "build it")


def test_json_with_a_mark_of_its_byte_order_is_read(tmp_path: Path) -> None:
    value = {"a": [1, 2.5, None, "é"]}
    (tmp_path / "a.json").write_text("\ufeff" + json.dumps(value), encoding="utf-8")
    assert read_json(tmp_path / "a.json", "file", "") == value


def test_a_brief_form_takes_little_work() -> None:
    doubled: object = ("a", "b")
    for _ in range(200):
        doubled = (doubled, doubled)
    for value in (doubled, "x" * 10**6, 2**100_000, ["x" * 1000] * 1000, {"k": doubled}):
        assert len(brief_repr(value)) <= 80
    assert brief_repr(["a", 3]) == "['a', 3]"


# ---- Parquet ----


def invalid(value: bytes) -> pa.Array:
    """Make a string array of bytes that are no UTF-8."""
    return pa.array([value], pa.binary()).view(pa.string())


def samples(text: pa.Array) -> list[pa.Array]:
    columns = []
    for field in TEXT_SAMPLES:
        whole = pa.types.is_integer(field.type)
        columns.append(pa.array([1] * len(text), field.type) if whole else pa.nulls(1, field.type))
    columns[TEXT_SAMPLES.get_field_index("text")] = text
    return columns


def test_strings_that_are_no_utf8_are_named_by_their_row(tmp_path: Path) -> None:
    text = pa.concat_arrays([pa.array(["good"]), invalid(b"\xff\xfe"), pa.array(["last"])])
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"text": text}), path)
    with pytest.raises(InputError, match=r"t\.parquet: row 2: not UTF-8 \(column 'text'\)"):
        list(read_parquet(path, Problems(False)))
    problems = Problems(True)
    assert [record.text for record in read_parquet(path, problems)] == ["good", "last"]
    assert problems.skips.counts == {"not UTF-8": 1}
    with pytest.raises(InputError, match=r"row 2: column 'text' is no string"):
        ParquetInput(path).read()
    shard = tmp_path / "s.parquet"
    pq.write_table(pa.Table.from_arrays(samples(invalid(b"\xff")), schema=TEXT_SAMPLES), shard)
    with pytest.raises(InputError, match=r"s\.parquet: row 1: column 'text' is no string"):
        list(read_texts([shard]))


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    columns = [*samples(pa.array(["a"])), pa.array(["b"])]
    pq.write_table(pa.Table.from_arrays(columns, names=[*TEXT_SAMPLES.names, "text"]), path)
    for read in (
        lambda: list(read_texts([path])),
        lambda: list(read_parquet(path, Problems(False))),
    ):
        with pytest.raises(InputError, match="has column 'text' more than once"):
            read()


@pytest.mark.parametrize("footer", [b"{nope", b"\xff\xfe", b"[1]", b"[" * 100_000, b"1" * 5000])
def test_a_footer_that_is_no_record_is_told(tmp_path: Path, footer: bytes) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": [1]}).replace_schema_metadata({RECORD_KEY: footer}), path)
    for read in (read_record, read_labels):
        with pytest.raises(InputError, match=r"t\.parquet: its run record is no JSON"):
            read(path)


def test_a_parquet_file_cut_short_is_told_or_skipped(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"text": ["a"] * 1000}), path)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(InputError, match="not a readable Parquet file"):
        list(read_parquet(path, Problems(False)))
    problems = Problems(True)
    assert not list(read_parquet(path, problems))
    assert problems.skips.counts == {"not a readable Parquet file": 1}
