"""How `compare` reads: vocabulary, groups, lengths, training text, and wrong input of them.

Needs no data: the texts are small and drawn here. Oracles: the same texts read by hand beforehand,
and counting with plain Python.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beyond_perplexity.errors import InputError
from beyond_perplexity.report.compare import CompareOptions, compare_bodies, run_comparison
from beyond_perplexity.report.comparison_page import bodies_table
from beyond_perplexity.vocabulary import BPEVocabulary, ClosedVocabulary

WORDS = ["the", "a", "of", "and", "cat", "dog", "stone", "runs", ",", ".", "12", "was", "green"]
KNOWN = ["the", "a", "of", "cat", "dog", ",", "."]


def documents(seed: int, n: int, longest: int = 20) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(1, longest))) for _ in range(n)]


def write_text(path: Path, texts: list[str]) -> str:
    path.write_text("\n".join(texts) + "\n", encoding="utf-8")
    return str(path)


def write_jsonl(path: Path, texts: list[str], **fields: list[object]) -> str:
    rows = [dict(zip(fields, values, strict=True)) for values in zip(*fields.values(), strict=True)]
    rows = rows or [{} for _ in texts]
    lines = [json.dumps({"text": text} | row) for text, row in zip(texts, rows, strict=True)]
    return write_text(path, lines)


def compared(reference: str, samples: str, **more: object):
    how = {"tokenized": True, "permutations": 39, "bootstrap": 0, **more}
    with compare_bodies(CompareOptions(reference, samples, **how)) as found:
        return found


def values(table) -> dict[tuple[str, str], float]:
    keys = zip(table["tendency"], table["measure"], strict=True)
    return dict(zip(keys, table["value"], strict=True))


@pytest.fixture
def texts(tmp_path: Path) -> tuple[str, str]:
    reference = write_text(tmp_path / "a.txt", documents(1, 60))
    return reference, write_text(tmp_path / "b.txt", documents(2, 50))


# ---- vocabulary ----


def by_hand(texts: list[str]) -> list[str]:
    known = {*KNOWN, "<unk>"}
    return [" ".join(w if w in known else "<unk>" for w in text.split()) for text in texts]


@pytest.mark.parametrize("kind", ["json", "words"])
def test_both_texts_are_read_in_the_vocabulary_and_raw_beside(texts, tmp_path, kind) -> None:
    path = tmp_path / f"known.{kind}"
    if kind == "json":
        ClosedVocabulary(KNOWN, 6).save(path)
    else:
        path.write_text("\n".join(KNOWN))
    found = compared(*texts, vocabulary=str(path))
    replaced = [
        write_text(tmp_path / f"{name}.txt", by_hand(documents(seed, n)))
        for name, seed, n in (("c", 1, 60), ("d", 2, 50))
    ]
    same = compared(*replaced)
    assert found.measures["vocabulary"].unique().tolist() == ["known"]
    assert found.raw["vocabulary"].unique().tolist() == ["raw"]
    of_words = ["rank_frequency", "type_token_unigrams", "unigram", "length"]
    columns = ["tendency", "measure", "value", "p_value"]
    for left, right in ((found.measures, same.measures), (found.raw, compared(*texts).measures)):
        chosen = [t[t["tendency"].isin(of_words)][columns] for t in (left, right)]
        shared = [t[~t["measure"].str.contains("known")].reset_index(drop=True) for t in chosen]
        assert len(shared[0]) > 10
        assert shared[0].equals(shared[1])
    unknown = values(found.measures)["text", "unknown_share"]
    tokens = " ".join(by_hand(documents(2, 50))).split()
    assert unknown == pytest.approx(tokens.count("<unk>") / len(tokens))
    assert values(found.raw)["text", "unknown_share"] == 0
    assert same.raw is None


def test_an_open_vocabulary_is_said_and_reads_raw(texts, tmp_path, capsys) -> None:
    path = tmp_path / "vocabulary.json"
    BPEVocabulary.build([["a cat"]], 259).save(path)
    found = compared(*texts, vocabulary=str(path))
    assert found.raw is None
    assert set(found.measures["vocabulary"]) == {"raw"}
    assert "open vocabulary" in capsys.readouterr().err


def test_the_raw_table_is_a_file_of_its_own(texts, tmp_path) -> None:
    (tmp_path / "raw.txt").write_text("\n".join(KNOWN))  # not taken for the raw reading
    how = {"tokenized": True, "permutations": 9, "bootstrap": 0}
    options = CompareOptions(*texts, vocabulary=str(tmp_path / "raw.txt"), **how)
    run_comparison(options, tmp_path / "out")
    raw, read = ((tmp_path / "out" / f"{n}.csv").read_text() for n in ("raw", "tendencies"))
    assert raw.splitlines()[0] == read.splitlines()[0]
    assert raw.splitlines()[1].endswith(",raw")
    assert read.splitlines()[1].endswith(",raw.txt")


# ---- lengths, training text ----


def test_short_documents_are_left_out_and_long_ones_cut(texts) -> None:
    found = compared(*texts, minimum_tokens=5, maximum_tokens=12)
    told = values(found.measures)
    for suffix, seed, n, body in (
        ("_reference", 1, 60, found.reference),
        ("", 2, 50, found.samples),
    ):
        lengths = [len(text.split()) for text in documents(seed, n)]
        kept = [length for length in lengths if length >= 5]
        assert body.short == n - len(kept)
        assert told["vocabulary", f"documents{suffix}"] == len(kept)
        assert told["vocabulary", f"tokens{suffix}"] == sum(min(length, 12) for length in kept)
        assert told["text", f"cut_share{suffix}"] == pytest.approx(np.mean([k > 12 for k in kept]))


def test_copies_of_the_training_text_are_told(texts, tmp_path) -> None:
    copied = documents(2, 50)[:25]
    training = write_jsonl(tmp_path / "t.jsonl", [*documents(3, 30), *copied])
    told = values(compared(*texts, training=training).measures)

    def grams(text: str) -> list[tuple[str, ...]]:
        tokens = text.split()
        return [tuple(tokens[i : i + 8]) for i in range(len(tokens) - 7)]

    known = {gram for text in [*documents(3, 30), *copied] for gram in grams(text)}
    for suffix, seed, n in (("_reference", 1, 60), ("", 2, 50)):
        held = [gram in known for text in documents(seed, n) for gram in grams(text)]
        assert told["text", f"training_8grams{suffix}"] == pytest.approx(np.mean(held))
    assert told["text", "training_8grams"] > 0.3
    assert ("text", "training_8grams") not in values(compared(*texts).measures)
    assert ("text", "unfinished_share") not in told  # nobody knows


# ---- groups ----


def pages(n: int, size: int) -> list[object]:
    return [f"p{i // size}" for i in range(n)]


def test_groups_are_those_of_the_reference_by_default_or_by_name(texts, tmp_path) -> None:
    reference, samples = documents(1, 60), documents(2, 50)
    by_default = write_jsonl(tmp_path / "a.jsonl", reference, group=pages(60, 2), page=[3] * 60)
    table = {"text": reference, "page": [i // 2 for i in range(60)]}
    named = tmp_path / "a.parquet"
    pq.write_table(pa.table(table), named)
    plain = write_jsonl(tmp_path / "b.jsonl", samples)
    grouped = write_jsonl(tmp_path / "c.jsonl", samples, group=pages(50, 5))
    expected = [i // 2 for i in range(60)]
    found = compared(by_default, plain)
    assert found.reference.groups.tolist() == expected
    assert found.samples.groups is None
    assert found.groups == (30, None)
    assert compared(by_default, grouped).groups == (30, 10)
    assert compared(str(named), texts[1], group_column="page").groups == (30, None)
    assert compared(by_default, grouped, group_column="").groups == (None, None)
    assert compared(plain, grouped).groups == (None, 10)
    assert compared(texts[0], grouped).groups == (None, 10)
    assert compared(plain, grouped, group_column="group").groups == (None, 10)
    whole = write_jsonl(tmp_path / "w.jsonl", reference, group=list(range(60)))
    assert compared(whole, plain).groups == (None, None)  # each a group of its own: exact tests


def test_empty_documents_do_not_shift_the_groups(tmp_path) -> None:
    lines = [text if i % 3 else "" for i, text in enumerate(documents(1, 60))]
    reference = write_jsonl(tmp_path / "a.jsonl", lines, group=pages(60, 2))
    samples = write_text(tmp_path / "b.txt", documents(2, 50))
    found = compared(reference, samples)
    kept = [i // 2 for i in range(60) if i % 3]
    assert found.reference.groups.tolist() == kept
    assert found.reference.left_out == 20


def test_repeated_titles_are_warned_of_where_no_group_is_named(tmp_path, capsys) -> None:
    titles = [f"t{i // 4}" for i in range(60)]
    reference = write_jsonl(tmp_path / "a.jsonl", documents(1, 60), title=titles)
    samples = write_text(tmp_path / "b.txt", documents(2, 50))
    compared(reference, samples)
    said = capsys.readouterr().err
    assert "a.jsonl: 45 documents repeat a title" in said
    for column in ("title", ""):
        assert compared(reference, samples, group_column=column)
        assert "repeat a title" not in capsys.readouterr().err
    distinct = write_jsonl(tmp_path / "c.jsonl", documents(1, 60), title=list(map(str, range(60))))
    compared(distinct, samples)
    assert "repeat a title" not in capsys.readouterr().err


def test_titles_are_suggested_only_where_both_can_group_by_them(tmp_path, capsys) -> None:
    """Either text must have a title in every document, or in none."""
    titles = [f"t{i // 4}" for i in range(60)]
    whole = write_jsonl(tmp_path / "whole.jsonl", documents(1, 60), title=titles)
    partly = write_jsonl(tmp_path / "partly.jsonl", documents(2, 60), title=[*titles[:-1], ""])
    plain = write_text(tmp_path / "plain.txt", documents(3, 50))
    for reference, samples, can in (
        (whole, plain, True),
        (whole, whole, True),
        (whole, partly, False),
        (partly, whole, False),
        (plain, whole, True),
    ):
        compared(reference, samples, permutations=0)
        said = capsys.readouterr().err
        assert "repeat a title" in said
        assert ("group column title" in said) == can
        assert ("group column with a field that tells the groups" in said) == (not can)


def test_the_page_says_what_was_exchanged(texts, tmp_path) -> None:
    """Samples with a group of two among single ones are not exchanged for whole pages."""
    names = [f"p{i // 3}" for i in range(120)]
    reference = write_jsonl(tmp_path / "r.jsonl", documents(1, 120), group=names)
    single = [f"s{max(i, 1)}" for i in range(120)]
    samples = write_jsonl(tmp_path / "s.jsonl", documents(2, 120), group=single)
    large = write_jsonl(tmp_path / "l.jsonl", documents(2, 120), group=["a", "b"] * 60)
    assert compared(*texts).exchanged == "exchanged: documents"
    found = compared(reference, samples)
    swapped = "exchanged: groups of the reference with as many single samples"
    assert found.exchanged.startswith(f"{swapped} (the 119 groups of 120 documents of the samples")
    assert bodies_table(found).note == found.exchanged
    assert "swaps" in set(found.measures["exchanged"])
    found = compared(reference, large)
    assert found.exchanged.startswith("no verdict: 3.0 documents a group in the reference and 60.0")
    assert found.measures["p_value"].isna().all()


GROUPED = [{"text": "a b", "g": f"p{i // 2}"} for i in range(8)]


def lines_with(place: int, **change: object) -> str:
    """Return lines of JSON with fields of one changed, or removed where they are ``...``."""
    rows = [dict(row) for row in GROUPED]
    rows[place] |= change
    rows[place] = {key: value for key, value in rows[place].items() if value is not ...}
    return "\n".join(map(json.dumps, rows))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (lines_with(0, g=...), r"x\.jsonl: line 1: field 'g', which names the group, is missing"),
        (lines_with(4, g=...), r"x\.jsonl: line 5: field 'g', which names the group, is missing"),
        (lines_with(4, g=None), r"x\.jsonl: line 5: .*'g', which names the group, is null"),
        (lines_with(4, g=1.5), r"x\.jsonl: line 5: .*no string and no integer"),
        (lines_with(4, g=True), r"x\.jsonl: line 5: .*no string and no integer"),
        (lines_with(4, g=["a"]), r"x\.jsonl: line 5: .*no string and no integer"),
        (lines_with(4, g="\ud800"), r"x\.jsonl: line 5: .*surrogate"),
        ("\n".join([json.dumps(GROUPED[0])] * 4), r"x\.jsonl: field 'g' holds one single group"),
    ],
)
def test_wrong_groups_are_one_clear_error(content, message, texts, tmp_path) -> None:
    (tmp_path / "x.jsonl").write_text(content)
    with pytest.raises(InputError, match=message) as caught:
        compared(str(tmp_path / "x.jsonl"), texts[1], group_column="g")
    assert "\n" not in str(caught.value)


def test_wrong_groups_of_samples_and_other_formats(texts, tmp_path) -> None:
    good = tmp_path / "good.jsonl"
    good.write_text("\n".join(map(json.dumps, GROUPED)))
    bad = tmp_path / "bad.jsonl"
    for change, message in (
        (lines_with(4, g=...), r"bad\.jsonl: line 5: field 'g', .* is missing"),
        (lines_with(0, g=...), r"bad\.jsonl: line 2: field 'g', .* earlier documents lack"),
    ):
        bad.write_text(change)
        with pytest.raises(InputError, match=message):
            compared(str(good), str(bad), group_column="g")
    with pytest.raises(InputError, match=r"a\.txt: plain text has no field 'g'"):
        compared(*texts, group_column="g")
    for column, message in (
        ([1.5] * 8, "column 'g', which names the group, is double"),
        ([None, *"abcabca"], "row 1: .*'g', which names the group, is null"),
    ):
        pq.write_table(pa.table({"text": ["a b"] * 8, "g": column}), tmp_path / "x.parquet")
        with pytest.raises(InputError, match=rf"x\.parquet: {message}"):
            compared(str(tmp_path / "x.parquet"), texts[1], group_column="g")
    pq.write_table(pa.table({"text": ["a b"] * 8}), tmp_path / "x.parquet")
    with pytest.raises(InputError, match=r"x\.parquet: row 1: field 'g', .* is missing"):
        compared(str(tmp_path / "x.parquet"), texts[1], group_column="g")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"vocabulary": "none.json"}, r"none\.json: no such file"),
        ({"training": "none.txt"}, r"none\.txt: no such file"),
        ({"minimum_tokens": -1}, "minimum tokens -1"),
        ({"maximum_tokens": 0}, "maximum tokens 0"),
        ({"minimum_tokens": 100}, r"a\.txt: has no document with 100 tokens in it"),
    ],
)
def test_wrong_options_are_one_clear_error(texts, more, message) -> None:
    with pytest.raises(InputError, match=message) as caught:
        compared(*texts, **more)
    assert "\n" not in str(caught.value)
