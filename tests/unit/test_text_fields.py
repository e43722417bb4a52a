"""Texts as people have them: lines of programs, fields by path, CSV, folders and rows of datasets.

Oracle: the texts that were written, in the forms that the programs write.
"""

import csv
import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import beyond_perplexity
from beyond_perplexity.corpus import external
from beyond_perplexity.corpus.text_fields import follow_path
from beyond_perplexity.models.registry import save_model
from beyond_perplexity.storage.accounts import Account, accounts
from beyond_perplexity.vocabulary import ClosedVocabulary
from tests.unit.evaluator_oracles import check_refused
from tests.unit.small_models import TINIEST, make

TEXTS = ["one two", 'three, "four"', "fünf\nsechs"]
FLAT = ["one two", 'three, "four"', "fünf sechs"]


def read(path, field=None, groups=None):
    """Read a file: its texts, and its account."""
    named = None if groups is None else external.GroupField(groups, True)
    with accounts() as found:
        batches = external.read_records(
            path, field=field, groups=named, account=Account(path, "documents")
        )
        records = [record for batch in batches for record in batch]
    return records, found[0]


def chat(text):
    turns = [("system", "be brief"), ("user", "say it"), ("assistant", text)]
    return {"messages": [{"role": role, "content": said} for role, said in turns]}


def answer(text, plain=False):
    choice = {"text": text} if plain else {"message": {"role": "assistant", "content": text}}
    return {"id": "c1", "choices": [{"index": 0, "finish_reason": "stop", **choice}]}


FORMS = {
    "chat": chat,
    "parts": lambda text: {
        "messages": [{"role": "assistant", "content": [{"type": "text", "text": text}]}]
    },
    "chat completion": answer,
    "completion": lambda text: answer(text, plain=True),
    "batch": lambda text: {
        "custom_id": "r1",
        "response": {"status_code": 200, "body": answer(text)},
        "error": None,
    },
    "harness": lambda text: {"doc_id": 0, "resps": [[text]], "filtered_resps": [text]},
    "old harness": lambda text: {"doc_id": 0, "target": "x", "resps": [[text]]},
    "pairs": lambda text: {"prompt": "say it", "completion": text},
    "responses": lambda text: {"instruction": "say it", "response": text},
}


@pytest.mark.parametrize("form", FORMS)
def test_lines_of_programs_are_read_by_their_shape_and_said(form, tmp_path, capsys):
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(FORMS[form](text)) + "\n" for text in TEXTS))
    records, account = read(path)
    assert [record.text for record in records] == FLAT
    assert [record.as_it_is for record in records] == TEXTS
    assert (account["read"], account["used"], account["left_out"]) == (3, 3, {})
    said = capsys.readouterr().err
    assert said.count("a.jsonl: line 1: read as") == 1


def test_failed_requests_are_left_out_and_counted_and_other_shapes_are_named(tmp_path):
    path = tmp_path / "a.jsonl"
    good, failed = FORMS["batch"]("fine"), {"custom_id": "r2", "response": None, "error": {}}
    wrong = {"custom_id": "r3", "response": {"status_code": 429, "body": {}}}
    path.write_text("\n".join(map(json.dumps, [good, failed, wrong, good])) + "\n")
    records, account = read(path)
    assert [record.text for record in records] == ["fine", "fine"]
    assert (account["read"], account["left_out"]) == (4, {"failed request": 2})
    two = answer("x")
    two["choices"] *= 2
    for value, words in (
        (two, "has 2 choices; name one"),
        ({"choices": []}, "has 0 choices"),
        ({"messages": [{"role": "user", "content": "x"}]}, "no text of the assistant"),
        ({"messages": "x"}, "no text of the assistant"),
        ({"resps": [[[-1.5, False]]]}, "'resps' is no string"),
        ({"body": "x"}, "field 'text' is missing; there are 'body'"),
    ):
        path.write_text(json.dumps(value))
        check_refused(f"a.jsonl: line 1: .*{words}", read, path)
    path.write_text(json.dumps(two))
    (record,) = read(path, "choices.1.message.content")[0]
    assert record.text == "x"


def test_fields_are_found_by_paths_and_a_path_that_leads_nowhere_says_what_is_there(tmp_path):
    value = {"a": [{"b.c": "x"}, {"d": "y"}], "e": {"f": ["z"]}, "g.h": "w", "who": {"id": 7}}
    for path, found in (
        *(("a.1.d", "y"), ("a.-1.d", "y"), ("e.f.0", "z"), ("g.h", "w"), ("who.id", 7)),
    ):
        assert follow_path(value, path) == found
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(value) + "\n")
    for field, words in (
        ("a.2.d", "no '2' behind 'a'; there are 2 entries, from 0 on"),
        ("a.x", "no 'x' behind 'a'; there are 2 entries"),
        ("e.g", "no 'g' behind 'e'; there are 'f'"),
        ("b.c", "no 'b'; there are 'a', 'e', 'g.h', 'who'"),
        ("a.1", "field 'a.1' is no string"),
        ("e.f.0.x", "no 'x' behind 'e.f.0'; there is no key"),
    ):
        check_refused(f"a.jsonl: line 1: .*{words}", read, path, field)
    (record,), _ = read(path, "e.f.0", "who.id")
    assert (record.text, record.group) == ("z", "7")


def test_tables_have_paths_and_shapes_too(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.Table.from_pylist([chat(text) | {"n": 1} for text in TEXTS]), path)
    assert [record.text for record in read(path)[0]] == FLAT
    records, account = read(path, "messages.2.content", "n")
    assert [(record.text, record.group) for record in records] == [(text, "1") for text in FLAT]
    assert account["read"] == 3
    check_refused("row 1: .*no 'x' behind 'messages.0'", read, path, "messages.0.x")
    check_refused("column 'text' is missing; there are n", read, _of(tmp_path / "b.parquet", n=[1]))


def _of(path, **columns):
    pq.write_table(pa.table(columns), path)
    return path


@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
def test_csv_has_a_header_row_and_cells_over_several_lines(suffix, tmp_path):
    path = tmp_path / f"a{suffix}"
    with path.open("w", newline="") as file:
        writer = csv.writer(file, delimiter="\t" if suffix == ".tsv" else ",")
        writer.writerows([["id", "text", "who"], *([k, text, "x"] for k, text in enumerate(TEXTS))])
    records, account = read(path)
    assert [record.as_it_is for record in records] == TEXTS
    assert (account["read"], account["used"]) == (3, 3)
    assert [record.group for record in read(path, "text", "who")[0]] == ["x"] * 3
    check_refused("column 'body' is missing; there are id, text, who", read, path, "body")
    path.write_text('text\none\n"two\n')
    check_refused(rf"a{suffix}: line \d: not CSV", read, path)
    path.write_text("text,id\none,1\ntwo\n".replace(",", "\t" if suffix == ".tsv" else ","))
    check_refused(rf"a{suffix}: line 3: .*more or fewer cells", read, path)
    path.write_bytes(b"text\ncaf\xe9\n")
    check_refused("not CSV in UTF-8", read, path)


def arrow_folder(folder, parts):
    """Write a folder as `Dataset.save_to_disk` of the library datasets does."""
    folder.mkdir(parents=True)
    for number, texts in enumerate(parts):
        table = pa.table({"text": texts, "page": [number] * len(texts)})
        with pa.ipc.new_stream(
            str(folder / f"data-{number:05d}-of-{len(parts):05d}.arrow"), table.schema
        ) as stream:
            stream.write_table(table)
    files = [{"filename": file.name} for file in sorted(folder.glob("*.arrow"))]
    (folder / "state.json").write_text(json.dumps({"_data_files": files}))
    (folder / "dataset_info.json").write_text("{}")
    return folder


def test_folders_of_datasets_are_read_and_several_splits_are_named(tmp_path):
    folder = arrow_folder(tmp_path / "all" / "train", [TEXTS[:2], TEXTS[2:]])
    records, account = read(folder)
    assert [record.text for record in records] == FLAT
    assert (account["read"], account["used"]) == (3, 3)
    assert [record.group for record in read(folder, None, "page")[0]] == ["0", "0", "1"]
    check_refused("all: holds train; give one of them", read, tmp_path / "all")
    hub = tmp_path / "hub" / "data"
    hub.mkdir(parents=True)
    _of(hub / "train-00000-of-00001.parquet", text=TEXTS)
    assert [record.text for record in read(tmp_path / "hub")[0]] == FLAT
    _of(hub / "test-00000-of-00001.parquet", text=TEXTS)
    check_refused("hub: holds test, train; give one of them", read, tmp_path / "hub")
    (tmp_path / "nothing").mkdir()
    check_refused("nothing: is a folder without Arrow or Parquet files", read, tmp_path / "nothing")
    (folder / "data-00001-of-00002.arrow").write_bytes(b"\0" * 9)
    check_refused("data-00001-of-00002.arrow: is no Arrow stream", read, folder)


def test_rows_in_memory_are_read_as_lines_are_whatever_they_come_from(tmp_path):
    """As the rows of a dataset object are, which gives a dict a row."""
    vocabulary = ClosedVocabulary(["one", "two"], 0)
    save_model(tmp_path / "m", make("lstm", TINIEST, vocabulary.size), vocabulary, {})
    how = {"tokenized": True, "device": "cpu"}
    plain = beyond_perplexity.perplexity(tmp_path / "m", ["one two", "two"], **how).summary
    rows = [{"a": {"b": "one two"}}, {"a": {"b": "two"}}]

    class Rows:
        """Gives rows anew each time, as a dataset does."""

        column_names = ("a",)

        def __iter__(self):
            return iter(rows)

    for texts in (rows, iter(rows), Rows()):
        found = beyond_perplexity.perplexity(tmp_path / "m", texts, field="a.b", **how)
        assert found.summary["log_prob"] == plain["log_prob"]
        assert found.files[0]["read"] == 2
    found = beyond_perplexity.perplexity(tmp_path / "m", [chat("one two"), chat("two")], **how)
    assert found.summary["log_prob"] == plain["log_prob"]
    frame = pd.DataFrame([chat("one two"), chat("two")])
    for texts, given in ((frame, {}), (pa.Table.from_pylist(rows), {"field": "a.b"})):
        found = beyond_perplexity.perplexity(tmp_path / "m", texts, **given, **how)
        assert found.summary["log_prob"] == plain["log_prob"]
    check_refused(
        "texts: text 1: .*no 'c' behind 'a'; there are 'b'",
        lambda: beyond_perplexity.perplexity(tmp_path / "m", rows, field="a.c", **how),
    )
    check_refused(
        "field: has no effect on texts in memory",
        lambda: beyond_perplexity.perplexity(tmp_path / "m", ["one"], field="x", **how),
    )
    assert np.isfinite(plain["log_prob"])
