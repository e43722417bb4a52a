"""Scores a document, and intervals over documents and groups.

Oracles: a model whose probabilities are enumerated by hand; Student's interval of a mean (SciPy),
which the jackknife of a ratio is where all groups are equal; a jackknife written out.
"""

from __future__ import annotations

import json
import math
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy import stats

from beyond_perplexity.errors import InputError
from beyond_perplexity.inference.intervals import ratio_interval, sum_groups
from beyond_perplexity.models import registry
from beyond_perplexity.models.registry import save_model
from beyond_perplexity.perplexities.summary import (
    ScoredText,
    measure,
    rows_table,
    score_rows,
    texts_of_split,
)
from beyond_perplexity.schemas.corpora import DOCUMENTS
from beyond_perplexity.schemas.perplexity import DOCUMENT_SCORES
from beyond_perplexity.storage.provenance import hash_bytes
from beyond_perplexity.storage.shards import ShardWriter, check_schema, write_shard
from beyond_perplexity.vocabulary import ClosedVocabulary
from tests.unit.test_perplexity import Fixed

VOCABULARY = ClosedVocabulary(["é", "bb"], unknown_types=5)
MODEL = Fixed([0.0, 0.25, 0.125, 0.5, 0.125])  # <s> </s> <unk> é bb


def rows_of(texts, **options):
    return [row for rows in score_rows(MODEL, VOCABULARY, texts, **options) for row in rows]


def test_a_row_says_what_was_scored_and_what_the_model_says():
    first, second = rows_of(
        [ScoredText(7, "é  bb ", "page"), "é x"], spell=lambda texts, unknown: [-3.0] * len(texts)
    )
    assert (first.doc_id, first.scored_text, first.group) == (7, "cleaned", "page")
    assert first.log_likelihood == pytest.approx(math.log(0.5 * 0.125 * 0.25), abs=1e-6)
    assert first.log_likelihood_spelled == pytest.approx(first.log_likelihood - 3)
    assert (first.tokens, first.words, first.characters, first.bytes) == (2, 2, 4, 5)
    assert first.text_hash == hash_bytes("é bb".encode())
    assert (second.doc_id, second.group, second.unknown, second.impossible) == (1, None, 1, 0)


def test_raw_text_is_counted_as_it_is():
    (row,) = rows_of(["é \tbb"], text="raw")
    assert (row.scored_text, row.words, row.characters, row.bytes) == ("raw", 2, 5, 6)
    assert row.text_hash == hash_bytes("é \tbb".encode()) != rows_of(["é bb"])[0].text_hash
    assert row.log_likelihood_spelled is None


def test_hashes_are_the_same_on_every_machine():
    # printf 'the same text' | b2sum -l 64
    digest = bytes.fromhex("6342281f14c1a306")
    assert hash_bytes(b"the same text") == int.from_bytes(digest, "little", signed=True)
    assert len({hash_bytes(bytes([byte])) for byte in range(256)}) == 256


def test_rows_are_written_and_the_documents_of_a_page_are_a_group(tmp_path):
    documents = {
        "doc_id": [3, 5, 8, 9],
        "split": ["test", "train", "test", "test"],
        "title": ["A", "A", "A", ""],
        "text": ["é", "bb", "bb bb", "é é"],
        "n_tokens": [1, 1, 2, 2],
    }
    write_shard(tmp_path / "documents.parquet", DOCUMENTS, documents, {})
    path = str(tmp_path / "documents.parquet")
    with ShardWriter(tmp_path / "rows.parquet", DOCUMENT_SCORES, {}) as writer:
        for rows in score_rows(MODEL, VOCABULARY, texts_of_split(path, "test", grouped=True)):
            writer.write(rows_table(rows))
    held = check_schema(tmp_path / "rows.parquet", DOCUMENT_SCORES).read().to_pydict()
    assert held["doc_id"] == [3, 8, 9]
    assert held["group"] == ["A", "A", None]
    assert held["log_likelihood_spelled"] == [None] * 3
    assert [item.group for item in texts_of_split(path, "test")] == [None] * 3


def test_the_interval_of_equal_groups_is_students():
    random = np.random.default_rng(1)
    sums = random.exponential(size=30)
    found = ratio_interval(sums, np.full(30, 4.0))
    low, high = stats.t.interval(0.95, 29, sums.mean() / 4, stats.sem(sums) / 4)
    assert (found.low, found.high) == (pytest.approx(low), pytest.approx(high))
    assert (found.groups, found.effective) == (30, pytest.approx(30))


def test_the_jackknife_leaves_out_a_group_at_a_time():
    random = np.random.default_rng(2)
    sizes = random.integers(1, 50, 40).astype(float)
    sums = random.normal(sizes, 1)
    found = ratio_interval(sums, sizes, level=0.9)
    without = [np.delete(sums, g).sum() / np.delete(sizes, g).sum() for g in range(40)]
    error = math.sqrt(39 / 40 * sum((ratio - found.value) ** 2 for ratio in without))
    effective = sizes.sum() ** 2 / (sizes**2).sum()
    assert found.effective == pytest.approx(effective)
    half = stats.t.ppf(0.95, effective - 1) * error
    assert found.high - found.low == pytest.approx(2 * half)
    assert sum(sums) / sum(sizes) == pytest.approx(found.value)


def test_too_few_groups_have_no_interval():
    assert math.isnan(ratio_interval(np.arange(19.0), np.ones(19)).low)
    uneven = ratio_interval(np.arange(30.0), np.array([1000.0, *np.ones(29)]))
    assert math.isnan(uneven.high)
    assert uneven.groups == 30
    assert uneven.effective < 2
    assert math.isnan(ratio_interval(np.ones(1), np.ones(1)).standard_error)


def test_sums_of_groups_are_those_of_their_documents():
    (found,) = sum_groups(np.array([5, -1, 5, 2]), np.array([1.0, 2.0, 4.0, 8.0]))
    assert found.tolist() == [2.0, 8.0, 5.0]


def test_a_summary_has_the_intervals_of_its_units_over_groups():
    random = np.random.default_rng(3)
    texts = [
        ScoredText(place, " ".join(random.choice(["é", "bb", "x"], 5)), f"page {place // 2}")
        for place in range(60)
    ]
    found = measure(MODEL, VOCABULARY, texts, spell=lambda _, unknown: -2.0 * np.array(unknown))
    interval = found["interval"]
    assert (interval["groups"], interval["level"], interval["note"]) == (30, 0.95, "")
    rows = rows_of(texts)
    pages = [(rows[2 * page], rows[2 * page + 1]) for page in range(30)]
    bits = np.array([-sum(row.log_likelihood for row in page) / math.log(2) for page in pages])
    sizes = np.array([sum(row.bytes + 1 for row in page) for page in pages])
    expected = ratio_interval(bits, sizes)
    assert interval["bits"]["byte"] == pytest.approx([expected.low, expected.high])
    assert interval["effective_groups"] == pytest.approx(expected.effective)
    low, high = interval["perplexity"]["word"]
    assert low < found["perplexity"]["word"] < high
    assert interval["spelled"]["bits"]["byte"][0] > interval["bits"]["byte"][0]
    few = measure(MODEL, VOCABULARY, texts[:30])["interval"]
    assert (few["groups"], few["note"]) == (15, "fewer than 20 effective groups")
    impossible = measure(Fixed([0.0, 0.5, 0.0, 0.5, 0.0]), VOCABULARY, texts)["interval"]
    assert impossible["note"] == "a document is impossible"


@pytest.fixture
def run(tmp_path, capsys, monkeypatch):
    """Run the command on a file; return what it prints and the rows that it writes."""
    from beyond_perplexity.commands import perplexity as command

    vocabulary = ClosedVocabulary(["a", "b"], 0)
    config = {"family": "lstm", "architecture": {"embedding_size": 4, "hidden_size": 4}}
    save_model(tmp_path / "model", registry.build(config, vocabulary.size), vocabulary, {})

    def done(name, content, *more):
        (tmp_path / name).write_text(content, encoding="utf-8")
        flags = ["--model", str(tmp_path / "model"), "--text", str(tmp_path / name)]
        flags += ["--tokenized", "--device", "cpu", "--per-document", str(tmp_path / "a.parquet")]
        monkeypatch.setattr(sys, "argv", ["perplexity", *flags, *more])
        command.main()
        rows = pq.read_table(tmp_path / "a.parquet", schema=DOCUMENT_SCORES).to_pylist()
        return json.loads(capsys.readouterr().out), rows

    return done


def test_the_command_writes_a_row_a_document(run):
    found, rows = run("text.txt", "a b\n\nb  b c\n")
    assert sum(row["log_likelihood"] for row in rows) == pytest.approx(found["log_prob"])
    assert [row["doc_id"] for row in rows] == [0, 2]  # places in the file
    assert [row["bytes"] for row in rows] == [3, 5]


def test_the_command_leaves_the_end_out_of_everything(run):
    found, rows = run("text.txt", "a b\nb\n", "--no-count-eos")
    whole, ended = run("text.txt", "a b\nb\n")
    assert sum(row["log_likelihood"] for row in rows) == pytest.approx(found["log_prob"])
    assert found["log_prob"] > whole["log_prob"]
    assert found["n"]["token"] == 3 == whole["n"]["token"] - 2
    assert [row["ended"] for row in rows] == [False, False]
    assert [row["ended"] for row in ended] == [True, True]
    expected = math.exp(-found["log_prob"] / 3)
    assert found["perplexity"]["token"] == pytest.approx(expected)


def test_the_command_takes_groups_where_the_file_has_them(run):
    lines = [{"text": "a b", "group": "x", "page": 1}, {"text": "b", "group": "y", "page": 1}]
    content = "".join(json.dumps(line) + "\n" for line in lines)
    found, rows = run("text.jsonl", content)
    assert [row["group"] for row in rows] == ["x", "y"]
    assert found["interval"]["groups"] == 2
    found, rows = run("text.jsonl", content, "--group-column", "page")
    assert [row["group"] for row in rows] == ["1", "1"]
    assert found["interval"]["groups"] == 1
    with pytest.raises(InputError, match=r"text\.jsonl: line 1: field 'chapter'"):
        run("text.jsonl", content, "--group-column", "chapter")
    with pytest.raises(InputError, match=r"text\.txt: is plain text and has no 'page'"):
        run("text.txt", "a b\n", "--group-column", "page")
