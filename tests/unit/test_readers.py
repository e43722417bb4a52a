"""Readers of text, JSONL and Parquet, compression, checksums, damaged files; how a run reads.

Oracles: documents and bytes that were written; hashlib; the same texts as plain lines, by hand and
in other shards; the system's words of a path; the configuration.
"""

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

from beyond_perplexity.corpus import formats, moses, readers
from beyond_perplexity.corpus.external import GroupField, check_file, read_cleaned, read_grouped
from beyond_perplexity.corpus.extraction_options import AutomaticTreeOptions, SourceOptions
from beyond_perplexity.corpus.normalization import WHITE_SPACE_ONLY, Preprocessing
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
from beyond_perplexity.planning import configuration, validation
from beyond_perplexity.planning.corpora import Corpora
from beyond_perplexity.planning.sections import keys_of, variants
from beyond_perplexity.report.compare import CompareOptions
from beyond_perplexity.schemas.corpora import TEXT_SAMPLES
from beyond_perplexity.storage import inputs, shards, table_files
from beyond_perplexity.tendencies.document_files import DocumentFiles
from beyond_perplexity.tendencies.statistics import read_statistics
from beyond_perplexity.tendencies.tokens import TextView
from beyond_perplexity.vocabulary import BUILT_KINDS, ClosedVocabulary
from scripts import count_statistics, import_samples, measure_tendencies, verify_download
from tests.unit.evaluator_oracles import check_refused
from tests.unit.small_corpora import put, write_documents
from tests.unit.test_extract_corpus import run_options
from tests.unit.text_pairs import run_script, write_samples

TEXTS = ["Ein Käfer .", "Zwei  Käfer .", "three", "", "five"]


def texts(reader, path, skip=False):
    return [record.text for record in reader(path, readers.Problems(skip))]


def test_jsonl_and_parquet_give_text_and_title_without_marks_and_line_breaks(tmp_path):
    rows = [{"text": "one two", "title": "A"}, {"text": "three", "title": "B"}]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    for read, content in ((read_jsonl, lines), (read_parquet, written(pa.Table.from_pylist(rows)))):
        path = put(tmp_path / "c", content)
        found = [(record.title, record.text) for record in read(path, readers.Problems(False))]
        assert found == [("A", "one two"), ("B", "three")]
    path = put(tmp_path / "c.jsonl", json.dumps({"text": "one\ntwo\u2028three"}) + "\n")
    assert texts(read_jsonl, path) == ["one two three"]
    path = put(tmp_path / "windows.txt", "\ufeffone\r\ntwo\r\n".encode())
    assert texts(read_text, path) == ["one", "two"]


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
    (read_nested, b'{"a": {"c": "bad"}}\n', r"'a\.b' is missing: no 'b' behind 'a'", UNUSABLE),
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
    problems = readers.Problems(skip=True)
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
    damaged = f"{path}: decompressed byte .*truncated or damaged archive"
    check_refused(damaged, texts, read_text, path)
    said = r"cut: decompressed byte \d+: truncated or damaged"
    with pytest.raises(inputs.DamagedError, match=said):
        inputs.read_whole(path)
    problems = readers.Problems(skip=True)
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
        check_refused(message, texts, read_parquet, path)
    assert texts(read_parquet, path, skip=True) == ["x", "z"]


def test_paths_are_resolved_or_named_and_names_end_before_their_packing():
    assert readers.resolve_path("embedded:enwiki-excerpt").is_file()
    with pytest.raises(InputError, match="no such embedded corpus; there are enwiki-excerpt"):
        readers.resolve_path("embedded:frwiki")
    check_refused("no such file", readers.resolve_path, "/nowhere/corpus.txt")
    for end in inputs.PACKED:
        assert formats.guess_format(Path(f"a.jsonl{end}")) == "jsonl"
        assert readers.document_name(Path(f"a.b.conll{end}")) == "a.b"


def test_skips_count_all_and_list_the_first():
    skips = readers.Skips()
    for part in range(3):
        more = readers.Skips()
        for number in range(readers.LISTED - 5):
            more.add("short", f"{part}.{number}")
        skips.merge(more)
    listed = skips.to_json()["short"]
    assert listed["count"] == 3 * (readers.LISTED - 5)
    first = [f"0.{n}" for n in range(readers.LISTED - 5)]
    assert listed["first"] == [*first, *(f"1.{n}" for n in range(5))]


def test_every_format_has_a_reader_and_options_of_the_configuration():
    assert set(formats.TEXT_FORMATS) == {"text", "jsonl", "parquet", "csv", "dataset"}
    for name, row in formats.FORMATS.items():
        assert callable(row.load()), name
        if row.kind == "annotated":
            assert issubclass(row.load(), readers.AnnotatedReader)
    # The oracle is what the sections of the configuration allow
    assert choices_of(keys_of(configuration.Source)["format"].hint) == list(formats.FORMATS)
    assert set(keys_of(configuration.Source)) == {field.name for field in fields(SourceOptions)}
    known = [formats.AUTOMATIC, *formats.TEXT_FORMATS]
    assert choices_of(keys_of(configuration.External)["format"].hint) == known
    assert choices_of(keys_of(AutomaticTreeOptions)["kind"].hint) == ["none", *formats.PARSERS]
    vocabularies = typing.get_args(keys_of(configuration.Configuration)["vocabularies"].hint)[1]
    assert list(variants(vocabularies)[1]) == list(BUILT_KINDS)


def test_a_row_and_a_module_make_a_reader(tmp_path, monkeypatch):
    """A toy format, texts between bars: by its row and module alone it is read by its suffix."""
    module = types.ModuleType("toy_reader")
    module.read_bars = lambda path, problems: (
        readers.Record(str(path), "", text) for text in path.read_text().split("|")
    )
    monkeypatch.setitem(sys.modules, "beyond_perplexity.corpus.toy_reader", module)
    bars = formats.Format("texts between bars", "toy_reader:read_bars")
    monkeypatch.setitem(formats.FORMATS, "bars", bars)
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
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return sink.getvalue().to_pybytes()


FILES = [
    *(("a.txt", plain, None), ("a", plain, None), ("a.jsonl", objects("text"), None)),
    *(("a.JSONL", objects("text"), None), ("a.json", objects("body"), "body")),
    *(("a.ndjson", strings, None), ("a.jsonl.gz", packed, None)),
    *(("a.parquet", table("text"), None), ("a.parquet", table("body"), "body")),
    ("a.jsonl", objects("title"), "title"),
]


@pytest.mark.parametrize(("name", "write", "field"), FILES)
def test_the_same_texts_and_sentences_in_every_format(tmp_path, name, write, field):
    path = write(tmp_path / name)
    expected = [" ".join(text.split()) for text in FORMAT_TEXTS]
    read = [text for part in read_cleaned(path, WHITE_SPACE_ONLY, field=field) for text in part]
    assert read == expected
    groups = GroupField("group", needed=False)
    assert list(read_grouped(path, None, groups, field)) == [(text, None) for text in FORMAT_TEXTS]
    reference = plain(tmp_path / "reference.txt")
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


def test_words_that_the_tokenizer_cuts_are_counted_as_they_are_read_and_told_once(tmp_path, capsys):
    """Oracles: counts by hand, and the tokens of Moses."""
    words = ["<unk>", "@-@", "[UNK]", "<UNK>"]
    assert [len(line.split()) for line in moses.tokenize_lines(words)] == [3] * len(words)
    path = tmp_path / "x.txt"
    path.write_text("a <unk> b <unk> 5 @-@ c\n[UNK]\n<UNK> d\na < b > [UN] @ unk &lt;\n" * 3000)
    groups = GroupField("g", False)
    for read in (
        lambda steps: [text for part in read_cleaned(path, steps) for text in part],
        lambda steps: [text for text, _ in read_grouped(path, steps, groups)],
    ):
        assert read(Preprocessing())[0] == "a < unk > b < unk > 5 @ - @ c"
        (told,) = [line for line in capsys.readouterr().err.splitlines() if "cuts" in line]
        assert told.startswith(f"warning: {path}: the tokenizer cuts {', '.join(words)} into three")
        assert "(occurrences: 15,000; texts: 9,000)" in told
        assert "option tokenized" in told
        assert (read(WHITE_SPACE_ONLY)[0], read(None)[1]) == ("a <unk> b <unk> 5 @-@ c", "[UNK]")
        assert "cuts" not in capsys.readouterr().err


@pytest.mark.parametrize("name", ["a.xlsx", "a.HTML.gz", "a.pdf"])
def test_what_is_no_text_by_its_name_is_not_read_as_lines(tmp_path, name):
    path = plain(tmp_path / name)
    check_refused("by its name; give texts as JSONL or Parquet", read_cleaned, path, None)
    assert list(read_cleaned(path, None, "text")) == [FORMAT_TEXTS]  # who says so means it
    assert formats.guess_format(Path("a.pdf.txt")) == "text"


def test_a_field_must_be_there_and_a_file_must_have_fields(tmp_path):
    path = objects("body")(tmp_path / "a.jsonl")
    check_refused(r"'text' is missing; there are 'id', 'body': name that", read_cleaned, path, None)
    check_refused(r"field 'other' is missing", read_cleaned, path, None, field="other")
    with pytest.raises(InputError, match="a string, without a field 'body'"):
        list(read_cleaned(strings(tmp_path / "b.jsonl"), None, field="body"))
    for read in (
        lambda path: read_cleaned(path, None, field="body"),
        lambda path: read_sentence_texts([path], UnknownRule(), "body"),
    ):
        with pytest.raises(InputError, match=r"a\.txt: is plain text and has no field 'body'"):
            list(read(plain(tmp_path / "a.txt")))
    many = put(tmp_path / "c.jsonl", json.dumps({f"k{n}": "" for n in range(99)}))
    check_refused(r"'k4', and 94 more: name that", read_cleaned, many, None)
    named = {"format": "jsonl", "paths": {"train": [str(path)]}, "field": "body"}
    lines = {"format": "text", "paths": {"train": [str(plain(tmp_path / "a.txt"))]}}
    first, second = (run_options(tmp_path / s["format"], {"source": s}) for s in (named, lines))
    assert first["documents"] == second["documents"]
    assert len(first["documents"]) == 3


def configured(path, **more):
    config = yaml.safe_load((ROOT / "configs" / "smoke.yaml").read_text(encoding="utf-8"))
    corpus = next(iter(config["corpora"]))
    config["external_samples"] = {"own": {"corpus": corpus, "path": path, **more}}
    validation.validate(config)
    return config


@pytest.mark.parametrize(
    ("path", "more", "format_"),
    [
        *(("a.jsonl", {}, "jsonl"), ("a.jsonl.gz", {"field": "body"}, "jsonl")),
        *(("a.parquet", {"format": "auto"}, "parquet"), ("a.txt", {}, "text")),
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
        ("a.csv", {"format": "text"}, r"own\.format: is text, but a\.csv is csv by its name"),
        ("a.xlsx", {"format": "text"}, r"own\.format: is text, but a\.xlsx: is a table"),
        ("a.txt", {"field": "body"}, r"own\.field: a\.txt: is plain text"),
    ],
)
def test_a_format_that_the_name_denies_is_an_error_before_the_first_job(path, more, message):
    check_refused(message, configured, path, **more)


def test_imported_samples_and_both_texts_of_a_comparison_name_their_field(tmp_path, monkeypatch):
    path, output = objects("body")(tmp_path / "a.jsonl"), tmp_path / "out.parquet"
    steps = json.dumps(dataclasses.asdict(WHITE_SPACE_ONLY))
    given = ["--input", path, "--format", "jsonl", "--field", "body", "--output", output]
    monkeypatch.setattr("sys.argv", ["x", *map(str, given), "--preprocessing", steps])
    import_samples.main()
    found = [text for part in shards.read_texts([output]) for text in part.to_pylist()]
    assert found == [" ".join(text.split()) for text in FORMAT_TEXTS]
    reference, samples = plain(tmp_path / "a.txt"), objects("body")(tmp_path / "b.jsonl")
    both = CompareOptions(str(reference), str(samples), field="body")
    both.check_fields()
    assert [both.field_of(reference), both.field_of(samples, samples=True)] == [None, "body"]
    other = CompareOptions(str(samples), str(samples), field="id", samples_field="body")
    assert [other.field_of(samples), other.field_of(samples, samples=True)] == ["id", "body"]
    wrong = r"a\.txt: is plain text and has no field 'body'"
    check_refused(wrong, CompareOptions(str(reference), str(reference), field="body").check_fields)
    check_refused(wrong, other.field_of, reference, samples=True)


LINES = b"one\ntwo words\n\nlast"


def zstd(content):
    return pa.compress(content, codec="zstd", asbytes=True)


PACKERS = [bytes, gzip.compress, bz2.compress, lzma.compress, zstd]


@pytest.mark.parametrize("pack", PACKERS)
def test_every_packing_is_known_by_its_content(tmp_path, pack):
    more = b"" if pack is bytes else b"\nsecond part"
    path, wanted = put(tmp_path / "no-ending", pack(LINES) + pack(more)), LINES + more
    with inputs.open_input(path) as file:
        assert (file.readline(), file.read()) == (b"one\n", wanted[4:])
    lines = [text for _, text in readers.read_lines(path, readers.Problems(False))]
    assert lines == wanted.decode().split("\n")
    assert b"".join(block for _, block in read_line_blocks(path)) == wanted


@pytest.mark.parametrize(
    ("start", "what"), [(b"PK\x03\x04", "a zip archive"), (b"PAR1\x15", "a Parquet file")]
)
def test_other_kinds_are_named(tmp_path, start, what):
    path = put(tmp_path / "a.txt", start + bytes(20))
    check_refused(f"a.txt: is {what}.*name", inputs.open_input, path)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nowhere/a.txt", "no such file"),
        ("https://example.org/a.txt", "is a URL, not a file.*sha256"),
        *((".", "is a folder"), ("a" * 5000, "name too long"), ("a\0b", "NUL character")),
    ],
)
def test_what_cannot_be_opened_is_told(name, message):
    opened = inputs.open_input, inputs.check_input, inputs.read_whole, readers.resolve_path
    for read in (*opened, check_file):
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
    command = [sys.executable, "-c", code, path]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
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
    for open_it in (table_files.TableFile, shards.ParquetInput):
        check_refused(r"pipe\.csv: is a pipe.*write it to a file", open_it, tmp_path / "pipe.csv")


def test_what_is_held_whole_is_utf8_and_two_columns_of_one_name_are_refused(tmp_path):
    path = put(tmp_path / "a.txt", gzip.compress(bytes(3000)))
    assert len(inputs.read_whole(path)) == 3000
    path.write_bytes("\ufeffa\nb".encode() + b"\xff")
    check_refused("line 2: is not UTF-8", inputs.read_utf8, path)
    path = tmp_path / "t.parquet"
    columns = [*samples(pa.array(["a"])), pa.array(["b"])]
    pq.write_table(pa.Table.from_arrays(columns, names=[*TEXT_SAMPLES.names, "text"]), path)
    for read in (
        lambda: list(shards.read_texts([path])),
        lambda: list(read_parquet(path, readers.Problems(False))),
    ):
        check_refused("has column 'text' more than once", read)


def archive(path, content=b"A" * 1000):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as file:
        file.writestr("a.txt", content)
    return bytearray(path.read_bytes())


def test_members_of_archives_are_copied_part_by_part_or_told(tmp_path, monkeypatch):
    monkeypatch.setattr(inputs, "INPUT_BYTES", 64)
    archive(tmp_path / "a.zip")
    sizes = []

    class Target:
        def write(self, part):
            sizes.append(len(part))

    inputs.copy_member(tmp_path / "a.zip", "a.txt", Target())
    assert (sum(sizes), max(sizes)) == (1000, 64)
    verify_download.take(str(tmp_path / "a.zip"), "a.txt", tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == b"A" * 1000
    archive(tmp_path / "a.zip")
    with pytest.raises(InputError, match=r"no zip archive with a member 'b\.txt'"):
        verify_download.take(str(tmp_path / "a.zip"), "b.txt", tmp_path / "out")
    (tmp_path / "b.zip").write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(InputError, match=r"b\.zip: .* cannot be unpacked \(File is not a zip file"):
        verify_download.take(str(tmp_path / "b.zip"), "a.txt", tmp_path / "out")


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
    check_refused(message, verify_download.take, str(path), "a.txt", tmp_path / "out")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1" * 5000, "more than 4300 digits"),
        ('{"a": -' + "9" * 5000 + "}", "more than 4300 digits"),
        *(("[" * 100_000, "nested too deeply"), ('{"a":' * 100_000, "nested too deeply")),
        *(('{"a": 1,}', "line 1 column"), (b"\xff\xfe", "not UTF-8 at byte 0")),
        ("", "Expecting value"),
    ],
)
def test_what_is_no_json_is_told(tmp_path, text, message):
    with pytest.raises(inputs.JSONTextError, match=message):
        inputs.parse_json(text)
    path = put(tmp_path / "a.json", text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError, match=f"a.json: is no spelling model: .*{message}.*; build it$"):
        inputs.read_json(path, "spelling model", "build it")


def test_json_with_a_mark_of_its_byte_order_is_read_and_brief_forms_take_little(tmp_path):
    value = {"a": [1, 2.5, None, "é"]}
    (tmp_path / "a.json").write_text("\ufeff" + json.dumps(value), encoding="utf-8")
    assert inputs.read_json(tmp_path / "a.json", "file", "") == value
    doubled: object = ("a", "b")
    for _ in range(200):
        doubled = (doubled, doubled)
    for value in (doubled, "x" * 10**6, 2**100_000, ["x" * 1000] * 1000, {"k": doubled}):
        assert len(inputs.brief_repr(value)) <= 80
    assert inputs.brief_repr(["a", 3]) == "['a', 3]"


def invalid(value):
    return pa.array([value], pa.binary()).view(pa.string())


def samples(text):
    columns = []
    for field in TEXT_SAMPLES:
        whole = pa.types.is_integer(field.type)
        columns.append(pa.array([1] * len(text), field.type) if whole else pa.nulls(1, field.type))
    columns[TEXT_SAMPLES.get_field_index("text")] = text
    return columns


def test_strings_that_are_no_utf8_are_named_by_their_row_and_cut_files_told(tmp_path):
    text = pa.concat_arrays([pa.array(["good"]), invalid(b"\xff\xfe"), pa.array(["last"])])
    path = put(tmp_path / "t.parquet", written(pa.table({"text": text})))
    with pytest.raises(InputError, match=r"t\.parquet: row 2: not UTF-8 \(column 'text'\)"):
        list(read_parquet(path, readers.Problems(False)))
    problems = readers.Problems(True)
    assert [record.text for record in read_parquet(path, problems)] == ["good", "last"]
    assert problems.skips.counts == {"not UTF-8": 1}
    check_refused(r"row 2: column 'text' is no string", shards.ParquetInput(path).read)
    shard = tmp_path / "s.parquet"
    pq.write_table(pa.Table.from_arrays(samples(invalid(b"\xff")), schema=TEXT_SAMPLES), shard)
    check_refused(r"s\.parquet: row 1: column 'text' is no string", shards.read_texts, [shard])
    path = put(tmp_path / "t.parquet", written(pa.table({"text": ["a"] * 1000}))[:-9])
    check_refused("not a readable Parquet file", read_parquet, path, readers.Problems(False))
    problems = readers.Problems(True)
    assert not list(read_parquet(path, problems))
    assert problems.skips.counts == {"not a readable Parquet file": 1}


@pytest.mark.parametrize("footer", [b"{nope", b"\xff\xfe", b"[1]", b"[" * 100_000, b"1" * 5000])
def test_a_footer_that_is_no_record_is_told(tmp_path, footer):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": [1]}).replace_schema_metadata({shards.RECORD_KEY: footer}), path)
    for read in (shards.read_record, read_labels):
        check_refused(r"t\.parquet: its run record is no JSON", read, path)


KNOWN = ["w0", "w1", "w2", "w3", "w5", "."]


def drawn(seed: int, n: int) -> list[str]:
    rng = np.random.default_rng(seed)
    return [" ".join(f"w{k}" for k in rng.zipf(1.6, size) % 12) for size in rng.integers(1, 30, n)]


@pytest.fixture
def files(tmp_path):
    """Write 60 documents of test and 90 of training."""
    splits = ["test" if i % 5 < 2 else "train" for i in range(150)]
    titles = [f"t{i // 3}" for i in range(150)]
    write_documents(tmp_path / "documents.parquet", drawn(1, 150), splits, titles)
    ClosedVocabulary(KNOWN, 5).save(tmp_path / "words.json")
    return tmp_path


def count(folder: Path, name: str, inputs: list[str], *flags: object) -> Path:
    kind = "documents" if "--split" in flags else "samples"
    output = folder / f"{name}.parquet"
    run_script(count_statistics, "--input", *inputs, "--kind", kind, *flags, "--output", output)
    return output


def measured(files: Path, samples: list[str], *more: object) -> dict[str, pa.Table]:
    documents = str(files / "documents.parquet")
    words = ["--vocabulary", str(files / "words.json")]
    lengths = ["--minimum-tokens", "3", "--maximum-tokens", "20"]
    human = [*lengths, "--split", "test", "--first", 50]
    raw = count(files, "raw", [documents], *human)
    closed = count(files, "closed", [documents], *human, *words)
    own = count(files, "own", samples, *words, *lengths)
    run_script(
        measure_tendencies,
        *("--reference-statistics", closed, "--raw-reference-statistics", raw),
        *("--sample-statistics", own, "--sample-documents", *samples),
        *("--reference-documents", documents, "--reference-split", "test", "--first", 50),
        *("--pool-split", "train", "--training-split", "train", "--source", "m/d"),
        *("--options", '{"permutations": 39, "bootstrap": 9, "monte_carlo": 0}'),
        *("--sample-size-options", '{"sizes": [20], "subsets": 2, "permutations": 9}'),
        *("--measures", files / "measures", "--raw", files / "raw_measures"),
        *("--sample-size", files / "sizes", "--curves", files / "curves"),
        *(*words, *lengths, *more),
    )
    names = ("measures", "raw_measures", "sizes", "curves")
    return {name: pq.read_table(files / name) for name in names}


def values(table: pa.Table) -> dict[tuple[str, str], float]:
    rows = table.to_pylist()
    return {(row["tendency"], row["measure"]): row["value"] for row in rows}


def copied(texts: list[str]) -> float:
    """Return the share of 8 tokens in a row that the training text has, of known words."""

    def grams(text: str) -> list[tuple[str, ...]]:
        tokens = [token if token in KNOWN else "<unk>" for token in text.split()[:20]]
        found = [tuple(tokens[i : i + 8]) for i in range(len(tokens) - 7)]
        return [gram for gram in found if "<unk>" not in gram]

    training = [text for i, text in enumerate(drawn(1, 150)) if i % 5 >= 2]
    known = {gram for text in training for gram in grams(text)}
    return float(np.mean([gram in known for text in texts for gram in grams(text)]))


def test_a_body_is_measured_in_its_vocabulary_and_raw_whatever_the_shards(files) -> None:
    texts = drawn(2, 40)
    samples = write_samples(files / "s.parquet", texts, known=True)
    found = measured(files, [samples])
    assert set(found["measures"]["vocabulary"].to_pylist()) == {"words"}
    assert set(found["raw_measures"]["vocabulary"].to_pylist()) == {"raw"}
    cut = [text.split()[:20] for text in texts if len(text.split()) >= 3]
    tokens = [token for words in cut for token in words]
    read = values(found["measures"])
    assert read["vocabulary", "tokens"] == len(tokens)
    unknown = np.mean([token not in KNOWN for token in tokens])
    assert read["text", "unknown_share"] == pytest.approx(unknown)
    assert values(found["raw_measures"])["text", "unknown_share"] == 0
    kept = [i for i, text in enumerate(texts) if len(text.split()) >= 3]
    assert read["text", "unfinished_share"] == pytest.approx(np.mean([i % 4 == 0 for i in kept]))
    human = [i for i in range(150) if i % 5 < 2][:50]
    lengths = [len(drawn(1, 150)[i].split()) for i in human]
    assert read["vocabulary", "documents_reference"] == sum(n >= 3 for n in lengths)
    assert read["text", "training_8grams"] == pytest.approx(copied(texts))
    distances = [row for row in found["measures"].to_pylist() if row["measure"] == "tvd"]
    assert 0 < distances[0]["baseline"] < 1
    assert read["unigram", "tvd"] != values(found["raw_measures"])["unigram", "tvd"]
    whole = measured(files, [write_samples(files / "s.parquet", texts, known=True)])
    cuts = (0, 7), (7, 30), (30, 40)
    parts = [write_samples(files / f"{a}.parquet", texts[a:b], a, known=True) for a, b in cuts]
    again = measured(files, parts)
    assert all(whole[name].equals(again[name]) for name in whole)


def test_groups_of_the_reference_and_samples_that_were_external(files) -> None:
    samples = [write_samples(files / "s.parquet", drawn(2, 40))]
    found = measured(files, samples, "--group-column", "title")
    rows = found["measures"].to_pylist()
    kept = [i for i in range(150) if i % 5 < 2][:50]
    titles = {i // 3 for i in kept if len(drawn(1, 150)[i].split()) >= 3}
    assert {row["groups_reference"] for row in rows} == {len(titles)}
    assert ("text", "unfinished_share") not in values(found["measures"])


def test_further_documents_are_thinned_as_the_reference_is(files) -> None:
    """50 of the 60 documents of the test split are 5 in 6: of the 90 for training 75 are taken."""
    human = DocumentFiles((files / "documents.parquet",), "test", 50, TextView(), "title")
    assert human.other_split("train", as_thin=True).first == 75
    assert human.other_split("train").first is None
    whole = DocumentFiles((files / "documents.parquet",), "test", 60)
    assert whole.other_split("train", as_thin=True).first is None


def test_a_subset_is_as_large_as_the_reference(files) -> None:
    flags = ("--split", "train", "--resample", 0, "--size-of-split", "test")
    documents = [str(files / "documents.parquet")]
    for first, expected in ((10, 10), (50, 45)):  # at most half of 90
        path = count(files, "drawn", documents, *flags, "--first", first)
        assert read_statistics(path).n_documents == expected
