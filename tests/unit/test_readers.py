"""Readers of text, JSONL and Parquet, compression, checksums, damaged files. Needs nothing.

Oracles: the documents that the test itself wrote to the files; hashlib for the checksum.
Of formats: the same texts as plain lines, read by the same code. Of inputs: the bytes that were
packed; what the operating system says of a path.
"""

from __future__ import annotations

import bz2
import dataclasses
import gzip
import hashlib
import json
import lzma
import os
import subprocess
import sys
import threading
import types
import typing
import zipfile
from dataclasses import fields
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from beyond_perplexity.corpus import readers
from beyond_perplexity.corpus.external import GroupField, check_file, read_cleaned, read_grouped
from beyond_perplexity.corpus.extraction_options import AutomaticTreeOptions, SourceOptions
from beyond_perplexity.corpus.formats import (
    AUTOMATIC,
    FORMATS,
    PARSERS,
    TEXT_FORMATS,
    Format,
    guess_format,
)
from beyond_perplexity.corpus.normalization import WHITE_SPACE_ONLY
from beyond_perplexity.corpus.readers import (
    LISTED,
    AnnotatedReader,
    Problems,
    Record,
    Skips,
    document_name,
    read_lines,
    resolve_path,
)
from beyond_perplexity.corpus.text_files import read_jsonl, read_parquet, read_text
from beyond_perplexity.errors import InputError
from beyond_perplexity.importance.draw_files import read_labels
from beyond_perplexity.ngrams.sentence_files import (
    UnknownRule,
    WordIds,
    read_line_blocks,
    read_sentence_texts,
    read_sentences,
)
from beyond_perplexity.options import choices_of
from beyond_perplexity.planning.configuration import Configuration, External, Source
from beyond_perplexity.planning.corpora import Corpora
from beyond_perplexity.planning.sections import keys_of, variants
from beyond_perplexity.planning.validation import validate
from beyond_perplexity.report.compare import CompareOptions
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
from beyond_perplexity.vocabulary import BUILT_KINDS
from scripts import import_samples
from scripts.verify_download import take
from tests.unit.small_corpora import put
from tests.unit.test_extract_corpus import run_options

TEXTS = ["Ein Käfer .", "Zwei  Käfer .", "three", "", "five"]


def texts(reader, path, skip=False):
    return [record.text for record in reader(path, Problems(skip))]


def test_byte_order_mark_and_carriage_returns_vanish(tmp_path):
    path = put(tmp_path / "windows.txt", "\ufeffone\r\ntwo\r\n".encode())
    assert texts(read_text, path) == ["one", "two"]


def test_jsonl_and_parquet_give_text_and_title(tmp_path):
    rows = [{"text": "one two", "title": "A"}, {"text": "three", "title": "B"}]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    for reader, content in (
        (read_jsonl, lines),
        (read_parquet, written(pa.Table.from_pylist(rows))),
    ):
        path = put(tmp_path / "c", content)
        found = [(record.title, record.text) for record in reader(path, Problems(False))]
        assert found == [("A", "one two"), ("B", "three")]


def test_line_breaks_inside_a_json_text_become_blanks(tmp_path):
    path = put(tmp_path / "c.jsonl", json.dumps({"text": "one\ntwo\u2028three"}) + "\n")
    assert texts(read_jsonl, path) == ["one two three"]


DEEP, MANY_DIGITS = b'{"text": ' + b"[" * 100_000, b'{"n": ' + b"1" * 5000 + b"}\n"
DAMAGED, UNUSABLE = "truncated or damaged archive", "unusable JSON line"
read_nested = partial(read_jsonl, field="a.b")
BROKEN_LINES = [
    (read_text, b"good\n\xff\xfe bad\nlast\n", "line 2: not UTF-8", "not UTF-8"),
    (read_text, "good\nlast\n".encode("utf-16-le"), "line 1: holds NUL", "holds NUL characters"),
    (read_text, b"BZh9" + bytes(100), DAMAGED, DAMAGED),
    (read_jsonl, b'{"text": "good"}\n{"text": \n', "line 2: not JSON", "not JSON"),
    (read_jsonl, MANY_DIGITS, "line 1: not JSON .*more than 4300 dig", "not JSON"),
    (read_jsonl, DEEP, "line 1: not JSON .*nested too deeply", "not JSON"),
    (read_jsonl, b"[\n", "it begins an array: write each text on a line", "not JSON"),
    (read_jsonl, b"{\n", "it begins an object: write each object on one line", "not JSON"),
    (read_jsonl, b'{"txt": "x"}\n', "'text' is missing", UNUSABLE),
    (read_jsonl, b'{"text": 3}\n', "'text' is no string", UNUSABLE),
    (read_jsonl, b'{"text": ["a"]}\n', "field 'text' is no string", UNUSABLE),
    (read_jsonl, b'{"text": null}\n', "field 'text' is null", UNUSABLE),
    (read_nested, b'{"a": {"b": "bad"}}\n', r"'a\.b' is missing; there are 'a'", UNUSABLE),
    (read_jsonl, b'{"text": "\\ud800"}\n', "half a surrogate pair", UNUSABLE),
    (read_jsonl, b'["x"]\n', "an array; write each", UNUSABLE),
    (read_jsonl, b"3\n", "neither an object nor a string", UNUSABLE),
]


@pytest.mark.parametrize(("reader", "content", "message", "reason"), BROKEN_LINES)
def test_broken_lines_are_errors_or_counted_skips(tmp_path, reader, content, message, reason):
    path = put(tmp_path / "broken", content)
    with pytest.raises(InputError, match=message) as error:
        texts(reader, path)
    assert str(path) in str(error.value)
    problems = Problems(skip=True)
    kept = [record.text for record in reader(path, problems)]
    assert problems.skips.counts[reason] >= 1
    assert all("bad" not in text for text in kept)


@pytest.mark.parametrize(
    "pack", [bz2.compress, gzip.compress, lzma.compress, lambda content: zstd(content)]
)
def test_truncated_archives_are_errors_or_keep_what_was_read(tmp_path, pack):
    # hexadecimal digests do not compress well, so that a half archive holds many blocks
    lines = [hashlib.sha256(str(n).encode()).hexdigest() for n in range(60_000)]
    whole = pack("\n".join(lines).encode())
    path = put(tmp_path / "cut", whole[: len(whole) // 2])
    with pytest.raises(
        InputError, match=f"{path}: decompressed byte .*truncated or damaged archive"
    ):
        texts(read_text, path)
    with pytest.raises(DamagedError, match=r"cut: decompressed byte \d+: truncated or damaged"):
        read_whole(path)
    problems = Problems(skip=True)
    kept = [record.text for record in read_text(path, problems)]
    assert len(kept) > 1000
    assert kept[:-1] == lines[: len(kept) - 1]
    assert problems.skips.counts == {"truncated or damaged archive": 1}


def test_parquet_without_text_is_an_error(tmp_path):
    for content, message in (
        (
            written(pa.table({"body": ["x"]})),
            r"'text' is missing; there are body: name that",
        ),
        (written(pa.table({"text": [1]})), "column 'text' is int64"),
        (b"no parquet", "not a readable Parquet file"),
        (written(pa.table({"text": ["x", None, "z"]})), "row 2: unusable row"),
    ):
        path = put(tmp_path / "c.parquet", content)
        with pytest.raises(InputError, match=message):
            texts(read_parquet, path)
    assert texts(read_parquet, path, skip=True) == ["x", "z"]


def test_paths_are_resolved_or_named():
    assert resolve_path("embedded:enwiki-excerpt").is_file()
    with pytest.raises(InputError, match="no such embedded corpus; there are enwiki-excerpt"):
        resolve_path("embedded:frwiki")
    with pytest.raises(InputError, match="no such file"):
        resolve_path("/nowhere/corpus.txt")


def test_skips_count_all_and_list_the_first():
    skips = Skips()
    for part in range(3):
        more = Skips()
        for number in range(LISTED - 5):
            more.add("short", f"{part}.{number}")
        skips.merge(more)
    listed = skips.to_json()["short"]
    assert listed["count"] == 3 * (LISTED - 5)
    assert listed["first"] == [f"0.{n}" for n in range(LISTED - 5)] + [f"1.{n}" for n in range(5)]


def test_every_format_has_a_reader():
    assert set(TEXT_FORMATS) == {"text", "jsonl", "parquet"}
    for name, row in FORMATS.items():
        assert callable(row.load()), name
        if row.kind == "annotated":
            assert issubclass(row.load(), AnnotatedReader)


def test_formats_and_their_options_are_those_of_the_configuration():
    """The oracle is what the sections of the configuration allow."""
    assert choices_of(keys_of(Source)["format"].hint) == list(FORMATS)
    assert set(keys_of(Source)) == {field.name for field in fields(SourceOptions)}
    assert choices_of(keys_of(External)["format"].hint) == [AUTOMATIC, *TEXT_FORMATS]
    assert choices_of(keys_of(AutomaticTreeOptions)["kind"].hint) == ["none", *PARSERS]
    vocabularies = typing.get_args(keys_of(Configuration)["vocabularies"].hint)[1]
    assert list(variants(vocabularies)[1]) == list(BUILT_KINDS)


def test_a_row_and_a_module_make_a_reader(tmp_path, monkeypatch):
    """A toy format, texts between bars: by its row and module alone it is read by its suffix."""
    module = types.ModuleType("toy_reader")
    module.read_bars = lambda path, problems: (
        Record(str(path), "", text) for text in path.read_text().split("|")
    )
    monkeypatch.setitem(sys.modules, "beyond_perplexity.corpus.toy_reader", module)
    monkeypatch.setitem(FORMATS, "bars", Format("texts between bars", "toy_reader:read_bars"))
    path = put(tmp_path / "a.bars", "a b|c")
    assert list(read_cleaned(path, WHITE_SPACE_ONLY, "bars")) == [["a b", "c"]]


ROOT = Path(__file__).parents[2]
FORMAT_TEXTS = ["The cat sat .", 'A "dog" : {ran}', "été , 3 % \u00a0 x"]


def plain(path):
    return put(path, "".join(f"{text}\n" for text in FORMAT_TEXTS))


def objects(field):
    rows = ({"id": n, field: text} for n, text in enumerate(FORMAT_TEXTS))
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    return lambda path: put(path, lines)


def strings(path):
    return put(path, "".join(json.dumps(text) + "\n" for text in FORMAT_TEXTS))


def packed(path):
    return put(path, gzip.compress(strings(path).read_bytes(), mtime=0))


def table(column):
    content = written(pa.table({"id": [1, 2, 3], column: FORMAT_TEXTS}))
    return lambda path: put(path, content)


def written(table):
    """Give the bytes of a table's Parquet file."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return sink.getvalue().to_pybytes()


FILES = [
    ("a.txt", plain, None),
    ("a", plain, None),
    ("a.jsonl", objects("text"), None),
    ("a.JSONL", objects("text"), None),
    ("a.json", objects("body"), "body"),
    ("a.ndjson", strings, None),
    ("a.jsonl.gz", packed, None),
    ("a.parquet", table("text"), None),
    ("a.parquet", table("body"), "body"),
    ("a.jsonl", objects("title"), "title"),
]


@pytest.mark.parametrize(("name", "write", "field"), FILES)
def test_the_same_texts_in_every_format(tmp_path, name, write, field):
    path = write(tmp_path / name)
    expected = [" ".join(text.split()) for text in FORMAT_TEXTS]
    read = [text for part in read_cleaned(path, WHITE_SPACE_ONLY, field=field) for text in part]
    assert read == expected
    groups = GroupField("group", needed=False)
    assert list(read_grouped(path, None, groups, field)) == [(text, None) for text in FORMAT_TEXTS]


@pytest.mark.parametrize(("name", "write", "field"), FILES)
def test_the_same_sentences_of_n_grams_in_every_format(tmp_path, name, write, field):
    reference = plain(tmp_path / "reference.txt")
    path = write(tmp_path / name)
    ids, same = (WordIds([], UnknownRule(), grows=True) for _ in range(2))
    expected = np.concatenate(list(read_sentences([reference], ids)))
    for size in (1, 1 << 20):
        found = np.concatenate(list(read_sentences([path], same, size, field)))
        assert found.tolist() == expected.tolist()
    assert same.words == ids.words
    texts = list(read_sentence_texts([path], UnknownRule(), field))
    assert texts == list(read_sentence_texts([reference], UnknownRule()))


def test_a_line_break_in_a_record_ends_no_sentence(tmp_path):
    path = put(tmp_path / "a.jsonl", '{"text": "a\\nb"}\n\n{"text": ""}\n"c <unk>"\n')
    assert list(read_sentence_texts([path], UnknownRule("x"))) == ["a b", "c x"]
    with pytest.raises(InputError, match=r"a\.jsonl: line 4: holds the word <unk>"):
        list(read_sentence_texts([path], UnknownRule()))
    with pytest.raises(InputError, match=r"a\.jsonl: line 4: holds the word <unk>"):
        list(read_sentences([path], WordIds([], UnknownRule(), grows=True)))


@pytest.mark.parametrize("name", ["a.csv", "a.TSV.gz", "a.pdf"])
def test_what_is_no_text_by_its_name_is_not_read_as_lines(tmp_path, name):
    path = plain(tmp_path / name)
    with pytest.raises(InputError, match="by its name; give texts as JSONL or Parquet"):
        list(read_cleaned(path, None))
    assert list(read_cleaned(path, None, "text")) == [FORMAT_TEXTS]  # who says so means it
    assert guess_format(Path("a.csv.txt")) == "text"


def test_a_field_must_be_there_and_a_file_must_have_fields(tmp_path):
    path = objects("body")(tmp_path / "a.jsonl")
    with pytest.raises(InputError, match=r"'text' is missing; there are 'id', 'body': name that"):
        list(read_cleaned(path, None))
    with pytest.raises(InputError, match=r"field 'other' is missing"):
        list(read_cleaned(path, None, field="other"))
    with pytest.raises(InputError, match="a string, without a field 'body'"):
        list(read_cleaned(strings(tmp_path / "b.jsonl"), None, field="body"))
    for read in (
        lambda path: read_cleaned(path, None, field="body"),
        lambda path: read_sentence_texts([path], UnknownRule(), "body"),
    ):
        with pytest.raises(InputError, match=r"a\.txt: is plain text and has no field 'body'"):
            list(read(plain(tmp_path / "a.txt")))
    many = put(tmp_path / "c.jsonl", json.dumps({f"k{n}": "" for n in range(99)}))
    with pytest.raises(InputError, match=r"'k4', and 94 more: name that"):
        list(read_cleaned(many, None))


def test_a_corpus_of_a_configuration_names_its_field(tmp_path):
    path = objects("body")(tmp_path / "a.jsonl")
    named = {"format": "jsonl", "paths": {"train": [str(path)]}, "field": "body"}
    lines = {"format": "text", "paths": {"train": [str(plain(tmp_path / "a.txt"))]}}
    first, second = (
        run_options(tmp_path / source["format"], {"source": source})["documents"]
        for source in (named, lines)
    )
    assert first == second
    assert len(first) == 3


def configured(path, **more):
    config = yaml.safe_load((ROOT / "configs" / "smoke.yaml").read_text(encoding="utf-8"))
    corpus = next(iter(config["corpora"]))
    config["external_samples"] = {"own": {"corpus": corpus, "path": path, **more}}
    validate(config)
    return config


@pytest.mark.parametrize(
    ("path", "more", "format_"),
    [
        ("a.jsonl", {}, "jsonl"),
        ("a.jsonl.gz", {"field": "body"}, "jsonl"),
        ("a.parquet", {"format": "auto"}, "parquet"),
        ("a.txt", {}, "text"),
        ("a.jsonl", {"format": "parquet"}, "parquet"),
        ({"url": "https://x.org/a.jsonl?x=1", "sha256": "0" * 64}, {}, "jsonl"),
    ],
)
def test_samples_that_are_external_are_read_by_their_suffix(path, more, format_):
    corpora = Corpora(configured(path, **more), "results")
    assert corpora.external_format("own") == format_
    assert corpora.external_field("own") == ([more["field"]] if "field" in more else [])
    assert corpora.external_code("own") == ["beyond_perplexity/corpus/text_files.py"]


@pytest.mark.parametrize(
    ("path", "more", "message"),
    [
        ("a.jsonl", {"format": "text"}, r"own\.format: is text, but a\.jsonl is jsonl by its name"),
        ("a.csv", {"format": "text"}, r"own\.format: is text, but a\.csv: is a table"),
        ("a.txt", {"field": "body"}, r"own\.field: a\.txt: is plain text"),
    ],
)
def test_a_format_that_the_name_denies_is_an_error_before_the_first_job(path, more, message):
    with pytest.raises(InputError, match=message):
        configured(path, **more)


def test_imported_samples_are_those_of_the_field(tmp_path, monkeypatch):
    path, output = objects("body")(tmp_path / "a.jsonl"), tmp_path / "out.parquet"
    steps = json.dumps(dataclasses.asdict(WHITE_SPACE_ONLY))
    given = ["--input", path, "--format", "jsonl", "--field", "body", "--output", output]
    monkeypatch.setattr("sys.argv", ["x", *map(str, given), "--preprocessing", steps])
    import_samples.main()
    found = [text for part in read_texts([output]) for text in part.to_pylist()]
    assert found == [" ".join(text.split()) for text in FORMAT_TEXTS]


def test_both_texts_of_a_comparison_may_name_their_field(tmp_path):
    reference, samples = plain(tmp_path / "a.txt"), objects("body")(tmp_path / "b.jsonl")
    both = CompareOptions(str(reference), str(samples), field="body")
    both.check_fields()
    assert [both.field_of(reference), both.field_of(samples, samples=True)] == [None, "body"]
    other = CompareOptions(str(samples), str(samples), field="id", samples_field="body")
    assert [other.field_of(samples), other.field_of(samples, samples=True)] == ["id", "body"]
    wrong = r"a\.txt: is plain text and has no field 'body'"
    with pytest.raises(InputError, match=wrong):
        CompareOptions(str(reference), str(reference), field="body").check_fields()
    with pytest.raises(InputError, match=wrong):
        other.field_of(reference, samples=True)


LINES = b"one\ntwo words\n\nlast"


def zstd(content):
    return pa.compress(content, codec="zstd", asbytes=True)


PACKERS = [bytes, gzip.compress, bz2.compress, lzma.compress, zstd]


# ---- packing ----


@pytest.mark.parametrize("pack", PACKERS)
def test_every_packing_is_known_by_its_content(tmp_path, pack):
    more = b"" if pack is bytes else b"\nsecond part"
    path, wanted = put(tmp_path / "no-ending", pack(LINES) + pack(more)), LINES + more
    with open_input(path) as file:
        assert file.readline() == b"one\n"
        assert file.read() == wanted[4:]
    lines = [text for _, text in read_lines(path, Problems(False))]
    assert lines == wanted.decode().split("\n")
    assert b"".join(block for _, block in read_line_blocks(path)) == wanted


@pytest.mark.parametrize(
    ("start", "what"), [(b"PK\x03\x04", "a zip archive"), (b"PAR1\x15", "a Parquet file")]
)
def test_other_kinds_are_named(tmp_path, start, what):
    path = put(tmp_path / "a.txt", start + bytes(20))
    with pytest.raises(InputError, match=f"a.txt: is {what}.*name"):
        open_input(path)


def test_names_end_before_their_packing():
    for end in inputs.PACKED:
        assert guess_format(Path(f"a.jsonl{end}")) == "jsonl"
        assert document_name(Path(f"a.b.conll{end}")) == "a.b"


# ---- what is no file ----


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nowhere/a.txt", "no such file"),
        ("https://example.org/a.txt", "is a URL, not a file.*sha256"),
        (".", "is a folder"),
        ("a" * 5000, "name too long"),
        ("a\0b", "NUL character"),
    ],
)
def test_what_cannot_be_opened_is_told(name, message):
    for read in (open_input, check_input, read_whole, readers.resolve_path, check_file):
        with pytest.raises(InputError, match=message) as caught:
            read(Path(name) if read is check_file else name)
        assert len(str(caught.value)) < 600
        assert "\n" not in str(caught.value)


def test_a_file_of_somebody_else_is_unreadable_not_damaged(tmp_path):
    path = put(tmp_path / "secret.txt", "one\n")
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


def test_a_pipe_is_read_where_once_is_enough_and_refused_elsewhere(tmp_path):
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


def test_what_is_held_whole_is_unpacked_and_utf8(tmp_path):
    path = put(tmp_path / "a.txt", gzip.compress(bytes(3000)))
    assert len(read_whole(path)) == 3000
    path.write_bytes("\ufeffa\nb".encode() + b"\xff")
    with pytest.raises(InputError, match="line 2: is not UTF-8"):
        read_utf8(path)


# ---- zip archives ----


def archive(path, content=b"A" * 1000):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as file:
        file.writestr("a.txt", content)
    return bytearray(path.read_bytes())


def test_a_member_is_copied_part_by_part(tmp_path, monkeypatch):
    monkeypatch.setattr(inputs, "INPUT_BYTES", 64)
    archive(tmp_path / "a.zip")
    sizes = []

    class Target:
        def write(self, part):
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
def test_archives_that_python_cannot_unpack_are_told(tmp_path, places, value, message):
    path = tmp_path / "a.zip"
    content = archive(path)
    for magic, place in zip((b"PK\x03\x04", b"PK\x01\x02"), places, strict=True):
        content[(content.find(magic) if place < 100 else 0) + place] = value
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        take(str(path), "a.txt", tmp_path / "out")


def test_archives_have_members(tmp_path):
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
def test_what_is_no_json_is_told(tmp_path, text, message):
    with pytest.raises(JSONTextError, match=message):
        parse_json(text)
    path = put(tmp_path / "a.json", text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError, match=f"a.json: is no spelling model: .*{message}.*; build it$"):
        read_json(path, "spelling model", "build it")


def test_json_with_a_mark_of_its_byte_order_is_read(tmp_path):
    value = {"a": [1, 2.5, None, "é"]}
    (tmp_path / "a.json").write_text("\ufeff" + json.dumps(value), encoding="utf-8")
    assert read_json(tmp_path / "a.json", "file", "") == value


def test_a_brief_form_takes_little_work():
    doubled: object = ("a", "b")
    for _ in range(200):
        doubled = (doubled, doubled)
    for value in (doubled, "x" * 10**6, 2**100_000, ["x" * 1000] * 1000, {"k": doubled}):
        assert len(brief_repr(value)) <= 80
    assert brief_repr(["a", 3]) == "['a', 3]"


# ---- Parquet ----


def invalid(value):
    """Make a string array of bytes that are no UTF-8."""
    return pa.array([value], pa.binary()).view(pa.string())


def samples(text):
    columns = []
    for field in TEXT_SAMPLES:
        whole = pa.types.is_integer(field.type)
        columns.append(pa.array([1] * len(text), field.type) if whole else pa.nulls(1, field.type))
    columns[TEXT_SAMPLES.get_field_index("text")] = text
    return columns


def test_strings_that_are_no_utf8_are_named_by_their_row(tmp_path):
    text = pa.concat_arrays([pa.array(["good"]), invalid(b"\xff\xfe"), pa.array(["last"])])
    path = put(tmp_path / "t.parquet", written(pa.table({"text": text})))
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


def test_two_columns_of_one_name_are_refused(tmp_path):
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
def test_a_footer_that_is_no_record_is_told(tmp_path, footer):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": [1]}).replace_schema_metadata({RECORD_KEY: footer}), path)
    for read in (read_record, read_labels):
        with pytest.raises(InputError, match=r"t\.parquet: its run record is no JSON"):
            read(path)


def test_a_parquet_file_cut_short_is_told_or_skipped(tmp_path):
    path = put(tmp_path / "t.parquet", written(pa.table({"text": ["a"] * 1000}))[:-9])
    with pytest.raises(InputError, match="not a readable Parquet file"):
        list(read_parquet(path, Problems(False)))
    problems = Problems(True)
    assert not list(read_parquet(path, problems))
    assert problems.skips.counts == {"not a readable Parquet file": 1}
