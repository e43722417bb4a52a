"""Pairs of sentences that are brought: reading, accuracy, H_C, what is counted.

Oracles: counts and sums by hand; SciPy's Wilson interval; another reader of ARPA files; bad files.
Needs nothing beyond the package.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest

from beyond_perplexity import contrast
from beyond_perplexity.commands.estimate_ngram import main as estimate_ngram
from beyond_perplexity.contrastive.pairs import (
    SentencePair,
    contrast_pairs,
    read_pairs,
    wilson_interval,
)
from beyond_perplexity.corpus.normalization import Preprocessing
from beyond_perplexity.errors import InputError
from beyond_perplexity.ngrams.arpa import read_arpa, summarize_arpa
from beyond_perplexity.ngrams.sentence_files import UnknownRule
from tests.unit.test_contrastive import WORDS, Unigram


class Values(Unigram):
    """Word w7 scores −7; what is unknown scores −3."""

    def __init__(self) -> None:
        super().__init__(-np.array([0, 0, 3, *range(len(WORDS))], float))


def rows_of(pairs: Sequence[tuple[str, str, str]], scorer: Unigram | None = None) -> list[Any]:
    given = [SentencePair(*pair, f"pairs.tsv: line {k}") for k, pair in enumerate(pairs, 2)]
    found = contrast_pairs(scorer or Values(), given, None, "model").to_pylist()
    return list(found)


def test_accuracy_and_entropy_of_each_phenomenon() -> None:
    first = [("w1 w2", "w1 w4", "a")] * 20 + [("w5", "w4 w0", "a")] * 5  # lost 2, won −1
    ties = [("w1 w2", "w2 w1", "a")] * 4 + [("w1", "w1", "a")] * 3
    found = rows_of([*first, *ties, ("w1", "w2", "b")])
    assert [row["phenomenon"] for row in found] == ["a", "b"]
    row = found[0]
    assert (row["pairs"], row["identical"], row["undecided"]) == (32, 3, 4)
    assert row["accuracy"] == pytest.approx((20 + 4 / 2) / 29)
    assert row["contrastive_entropy"] == pytest.approx((20 * 2 - 5) / 29)
    assert row["per_word"] == pytest.approx((20 * 2 - 5) / (20 * 2 + 5 + 4 * 2))
    assert row["length_difference"] == pytest.approx(-5 / 29)
    assert row["good_shorter"] == pytest.approx(5 / 29)
    assert "3 identical pairs are left out" in row["note"]
    assert "sums favour the shorter" in row["note"]
    gaps = np.array([2.0] * 20 + [-1.0] * 5 + [0.0] * 4)
    half = 2.048407 * gaps.std(ddof=1) / math.sqrt(29)  # Student's t of 28 degrees
    assert row["high"] - row["contrastive_entropy"] == pytest.approx(half, rel=1e-6)
    assert (found[1]["low"], found[1]["accuracy"]) == (None, 1.0)
    assert "fewer than 20" in found[1]["note"]


def test_wilson_intervals_equal_scipys() -> None:
    for right, count in ((0, 7), (3, 10), (50, 50), (812, 1000)):
        known = binomtest(right, count).proportion_ci(method="wilson")
        assert wilson_interval(right / count, count) == pytest.approx((known.low, known.high))


def test_pairs_that_are_all_identical_and_impossible_ones() -> None:
    row = rows_of([("w1", "w1", "a"), ("w2", "w2", "a")])[0]
    assert (row["pairs"], row["identical"], row["accuracy"]) == (2, 2, None)
    never = Values()
    never.weights[4] = -math.inf
    row = rows_of([("w0", "w1", "a"), ("w0", "w2", "a")], never)[0]
    assert (row["accuracy"], row["contrastive_entropy"]) == (1.0, None)
    assert "1 pairs have an impossible sentence" in row["note"]


def test_cleaning_may_make_pairs_identical_or_empty() -> None:
    lower = Preprocessing(lower_case=True)
    pairs = [SentencePair("W1", "w1", "a", "p: line 1"), SentencePair("w1", "w3", "a", "p: line 2")]
    row = contrast_pairs(Values(), pairs, lower.apply, "model").to_pylist()[0]
    assert (row["identical"], row["contrastive_entropy"]) == (1, 2.0)
    empty = [SentencePair("\u200b", "w1", "a", "p: line 1")]
    with pytest.raises(InputError, match="p: line 1: no word is left"):
        contrast_pairs(Values(), empty, lambda texts: [t.strip("\u200b") for t in texts], "m")


def test_batches_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [(f"w{k % 7} w3", f"w{k % 5}", f"p{k % 3}") for k in range(100)]
    whole = rows_of(pairs)
    monkeypatch.setattr("beyond_perplexity.contrastive.pairs._BATCH", 7)
    assert rows_of(pairs) == whole


def test_json_and_tables_are_read_alike(tmp_path: Path) -> None:
    rows = [{"sentence_good": "a b", "sentence_bad": "b a", "UID": "swap"}] * 2
    lines = [json.dumps(row) for row in rows]
    (tmp_path / "pairs.jsonl").write_text("\n\n".join(lines) + "\n")
    (tmp_path / "pairs.tsv").write_text(
        "good\tphenomenon\tbad\r\na b\tswap\tb a\r\na b\tswap\tb a\n"
    )
    found = [list(read_pairs(tmp_path / name)) for name in ("pairs.jsonl", "pairs.tsv")]
    assert [pair[:3] for pair in found[0]] == [pair[:3] for pair in found[1]]
    assert found[0][1] == SentencePair("a b", "b a", "swap", f"{tmp_path}/pairs.jsonl: line 3")
    (tmp_path / "island.tsv").write_text("good\tbad\nx\ty\n")
    assert [pair.phenomenon for pair in read_pairs(tmp_path / "island.tsv")] == ["island"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.tsv", "good\na b\n", "line 1: the columns are 'good'"),
        ("a.tsv", "a b\nc d\n", "line 1: the columns are 'a b'"),
        ("a.tsv", "good\tbad\na b\n", "line 2: has 1 fields, expected 2"),
        ("a.tsv", "good\tbad\na\t \n", "line 2: bad is empty"),
        ("a.jsonl", '{"good": "a"}\n', "line 1: has the fields good; a pair has"),
        ("a.jsonl", '{"good": "a", "bad": ""}\n', "line 1: bad is empty"),
        ("a.jsonl", '{"good": "a", "bad": 3}\n', "line 1: bad is empty or no text"),
        ("a.jsonl", "[1]\n", "line 1: is no JSON object"),
        ("a.jsonl", '{"good": \n', "line 1: is no JSON"),
        ("a.tsv", "", "is empty"),
    ],
)
def test_files_that_hold_no_pairs(name: str, content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=message):
        list(read_pairs(tmp_path / name))


def test_a_file_with_names_alone(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("good\tbad\n")
    with pytest.raises(InputError, match="pairs: the file has none"):
        contrast_pairs(Values(), read_pairs(tmp_path / "a.tsv"), None, "model")


PAIRS = {
    "order.jsonl": [("the cat sat", "cat the sat"), ("a cat is", "is cat a")],
    "other.tsv": [("the dog sat", "dog the sat"), ("on the mat", "mat on the"), ("a", "a a")],
}


def test_a_folder_of_files_under_an_arpa_file_and_the_means_over_files(tmp_path: Path) -> None:
    """Oracle: the scores of each sentence by the reader of ARPA files that needs no torch."""
    lines = [f"the cat sat on the mat {k}\nthe dog sat {k}\na cat is a dog" for k in range(7)]
    (tmp_path / "text.txt").write_text("\n".join(lines) + "\n")
    given = ["--text", tmp_path / "text.txt", "--order", 2, "--arpa", tmp_path / "model.arpa"]
    estimate_ngram([*map(str, given)])
    folder = tmp_path / "pairs"
    folder.mkdir()
    (folder / "README.md").write_text("no pairs")
    for name, pairs in PAIRS.items():
        held = (
            [json.dumps({"sentence_good": good, "sentence_bad": bad}) for good, bad in pairs]
            if name.endswith("jsonl")
            else ["good\tbad", *("\t".join(pair) for pair in pairs)]
        )
        (folder / name).write_text("\n".join(held) + "\n")
    model = read_arpa(tmp_path / "model.arpa")

    def score(sentence: str) -> float:
        (tmp_path / "s.txt").write_text(sentence + "\n")
        found = summarize_arpa(model, [tmp_path / "s.txt"], UnknownRule())
        return float(found["log10_prob"] * math.log(10))

    gains = [[score(good) - score(bad) for good, bad in pairs] for pairs in PAIRS.values()]
    right = [[(gain > 0) for gain in own] for own in gains]
    found = contrast(folder, model=tmp_path / "model.arpa")
    assert found.table["phenomenon"].tolist() == ["order", "other"]
    entropies = found.table["contrastive_entropy"].tolist()
    assert entropies == pytest.approx([np.mean(own) for own in gains])
    assert found.summary["contrastive_entropy"] == pytest.approx(np.mean([*map(np.mean, gains)]))
    assert found.summary["accuracy"] == pytest.approx(np.mean([*map(np.mean, right)]))
    assert found.summary["files"] == 2
    assert "mean over 2 files" in found.text
    assert f"  accuracy     {found.summary['accuracy']:.3f}\n" in found.text


def test_a_folder_without_pairs(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("good\tbad\n")
    with pytest.raises(InputError, match=r"has no file of pairs \(\.jsonl, \.ndjson, \.tsv\)"):
        list(read_pairs(tmp_path))
