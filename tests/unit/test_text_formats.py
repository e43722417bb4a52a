"""Which format a file of texts has, and which of its fields: everywhere the same.

Needs nothing but the checkout. Oracle: the same texts as plain lines, read by the same code; for
n-grams as well.
"""

from __future__ import annotations

import dataclasses
import gzip
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from beyond_perplexity.corpus.external import GroupField, read_cleaned, read_grouped
from beyond_perplexity.corpus.formats import guess_format
from beyond_perplexity.corpus.normalization import WHITE_SPACE_ONLY
from beyond_perplexity.errors import InputError
from beyond_perplexity.ngrams.sentence_files import (
    UnknownRule,
    WordIds,
    read_sentence_texts,
    read_sentences,
)
from beyond_perplexity.planning.corpora import Corpora
from beyond_perplexity.planning.validation import validate
from beyond_perplexity.report.comparison_input import CompareOptions
from beyond_perplexity.storage.shards import read_texts
from scripts import import_samples
from tests.unit.test_linked import run_options

ROOT = Path(__file__).parents[2]
TEXTS = ["The cat sat .", 'A "dog" : {ran}', "été , 3 % \u00a0 x"]


def plain(path: Path) -> Path:
    path.write_text("".join(f"{text}\n" for text in TEXTS), encoding="utf-8")
    return path


def objects(field: str) -> Callable[[Path], Path]:
    def write(path: Path) -> Path:
        lines = [json.dumps({"id": n, field: text}) + "\n" for n, text in enumerate(TEXTS)]
        path.write_text("".join(lines), encoding="utf-8")
        return path

    return write


def strings(path: Path) -> Path:
    path.write_text("".join(json.dumps(text) + "\n" for text in TEXTS), encoding="utf-8")
    return path


def packed(path: Path) -> Path:
    path.write_bytes(gzip.compress(strings(path).read_bytes(), mtime=0))
    return path


def table(column: str) -> Callable[[Path], Path]:
    def write(path: Path) -> Path:
        pq.write_table(pa.table({"id": [1, 2, 3], column: TEXTS}), path)
        return path

    return write


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
def test_the_same_texts_in_every_format(
    tmp_path: Path, name: str, write: Callable[[Path], Path], field: str | None
) -> None:
    path = write(tmp_path / name)
    expected = [" ".join(text.split()) for text in TEXTS]
    read = [text for part in read_cleaned(path, WHITE_SPACE_ONLY, field=field) for text in part]
    assert read == expected
    groups = GroupField("group", needed=False)
    assert list(read_grouped(path, None, groups, field)) == [(text, None) for text in TEXTS]


@pytest.mark.parametrize(("name", "write", "field"), FILES)
def test_the_same_sentences_of_n_grams_in_every_format(
    tmp_path: Path, name: str, write: Callable[[Path], Path], field: str | None
) -> None:
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


def test_a_line_break_in_a_record_ends_no_sentence(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a\\nb"}\n\n{"text": ""}\n"c <unk>"\n')
    assert list(read_sentence_texts([path], UnknownRule("x"))) == ["a b", "c x"]
    with pytest.raises(InputError, match=r"a\.jsonl: line 4: holds the word <unk>"):
        list(read_sentence_texts([path], UnknownRule()))
    with pytest.raises(InputError, match=r"a\.jsonl: line 4: holds the word <unk>"):
        list(read_sentences([path], WordIds([], UnknownRule(), grows=True)))


@pytest.mark.parametrize("name", ["a.csv", "a.TSV.gz", "a.pdf"])
def test_what_is_no_text_by_its_name_is_not_read_as_lines(tmp_path: Path, name: str) -> None:
    path = plain(tmp_path / name)
    with pytest.raises(InputError, match="by its name; give texts as JSONL or Parquet"):
        list(read_cleaned(path, None))
    assert list(read_cleaned(path, None, "text")) == [TEXTS]  # who says so means it
    assert guess_format(Path("a.csv.txt")) == "text"


def test_a_field_must_be_there_and_a_file_must_have_fields(tmp_path: Path) -> None:
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
    many = tmp_path / "c.jsonl"
    many.write_text(json.dumps({f"k{n}": "" for n in range(99)}))
    with pytest.raises(InputError, match=r"'k4', and 94 more: name that"):
        list(read_cleaned(many, None))


def test_a_corpus_of_a_configuration_names_its_field(tmp_path: Path) -> None:
    path = objects("body")(tmp_path / "a.jsonl")
    found = []
    for format_, file, more in (
        ("jsonl", path, {"field": "body"}),
        ("text", plain(tmp_path / "a.txt"), {}),
    ):
        source = {"format": format_, "paths": {"train": [str(file)]}, **more}
        found.append(run_options(tmp_path / format_, {"source": source})["documents"])
    assert found[0] == found[1]
    assert len(found[0]) == 3


def configured(path: str, **more: object) -> dict:
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
def test_samples_that_are_brought_are_read_by_their_suffix(
    path: str, more: dict, format_: str
) -> None:
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
def test_a_format_that_the_name_denies_is_an_error_before_the_first_job(
    path: str, more: dict, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        configured(path, **more)


def test_imported_samples_are_those_of_the_field(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, output = objects("body")(tmp_path / "a.jsonl"), tmp_path / "out.parquet"
    steps = json.dumps(dataclasses.asdict(WHITE_SPACE_ONLY))
    given = ["--input", path, "--format", "jsonl", "--field", "body", "--output", output]
    monkeypatch.setattr("sys.argv", ["x", *map(str, given), "--preprocessing", steps])
    import_samples.main()
    texts = [text for part in read_texts([output]) for text in part.to_pylist()]
    assert texts == [" ".join(text.split()) for text in TEXTS]


def test_both_texts_of_a_comparison_may_name_their_field(tmp_path: Path) -> None:
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
