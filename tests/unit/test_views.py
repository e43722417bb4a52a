"""Reading texts in a vocabulary and up to a length.

Needs nothing but the package. Oracle: the same reading word by word in plain Python.
"""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beyond_perplexity.errors import InputError
from beyond_perplexity.tendencies import statistics
from beyond_perplexity.tendencies.statistics import (
    StatisticsCounter,
    check_comparable,
    count_classes,
    count_types,
    read_statistics,
)
from beyond_perplexity.tendencies.tokens import (
    UNKNOWN_WORD,
    WHOLE_TEXT,
    TextView,
    TokenBatch,
    tokenize_batch,
    vocabulary_words,
)
from beyond_perplexity.tendencies.word_classes import StopWords
from beyond_perplexity.vocabulary import SPECIAL_TOKENS, UNK, BPEVocabulary, ClosedVocabulary

TOKENS = ["a", "the", "cat", "Ünï", "中", "<unk>", "<s>", "x1"]
TEXTS = st.lists(st.lists(st.sampled_from(TOKENS), max_size=8).map(" ".join), max_size=12)


def words(batch: TokenBatch) -> list[list[str]]:
    tokens = np.array([*batch.types.to_pylist(), ""], object)[batch.ids].tolist()
    return [tokens[start:end] for start, end in pairwise(batch.offsets)]


def read_by_hand(text: str, known: set[str] | None, longest: int | None) -> list[str]:
    tokens = text.split()[:longest]
    return [token if known is None or token in known else "<unk>" for token in tokens]


@settings(max_examples=200, deadline=None)
@given(
    texts=TEXTS,
    known=st.none() | st.sets(st.sampled_from(TOKENS)),
    longest=st.none() | st.integers(1, 9),
)
def test_a_view_reads_as_word_by_word(texts, known, longest):
    held = None if known is None else pa.array(sorted(known), pa.string())
    batch = TextView(held, longest).batch(pa.array(texts, pa.string()))
    assert words(batch) == [read_by_hand(text, known, longest) for text in texts]
    assert set(batch.types.to_pylist()) == {word for line in words(batch) for word in line}
    assert len(set(batch.types.to_pylist())) == len(batch.types)


@given(texts=TEXTS)
def test_reading_twice_changes_nothing(texts):
    view = TextView(pa.array(["a", "cat"]), 3)
    once = view.batch(pa.array(texts, pa.string()))
    assert words(view.read(once)) == words(once)


def test_a_closed_vocabulary_reads_the_text_as_its_model_does():
    texts = ["the cat saw a cat", "</s> the <unk> dog", ""]
    vocabulary = ClosedVocabulary(["the", "cat"], 3)
    view = TextView(pa.array(["the", "cat"]))
    assert SPECIAL_TOKENS[UNK] == UNKNOWN_WORD
    read = [" ".join(line) for line in words(view.batch(pa.array(texts)))]
    assert read == vocabulary.decode(vocabulary.encode(texts))


def test_short_documents_are_told_before_any_cut():
    texts = pa.array(["a b c", "a  b", None, "a\tb\nc d"])
    assert TextView(None, 1, 3).admits(texts).tolist() == [True, False, False, True]
    assert WHOLE_TEXT.admits(texts).all()


@pytest.mark.parametrize("size", [1, 3, 1024])
def test_counts_of_documents_do_not_depend_on_blocks(size, monkeypatch):
    """The plain program of `test_statistics` holds at the default; here blocks are made small."""
    rng = np.random.default_rng(0)
    texts = [" ".join(f"w{k}" for k in rng.zipf(1.5, n) % 9) for n in rng.integers(0, 30, 40)]
    batch = tokenize_batch(pa.array(texts))
    monkeypatch.setattr(statistics, "_BLOCK", size)
    unigrams, bigrams = count_types(batch)
    assert unigrams.tolist() == [len(set(text.split())) for text in texts]
    assert bigrams.tolist() == [len(set(pairwise(text.split()))) for text in texts]
    names = [f"w{k}" for k in range(9)]
    masks = {name: np.array(batch.types.to_pylist()) == name for name in names}
    assert {name: found.tolist() for name, found in count_classes(batch, masks).items()} == {
        name: [text.split().count(name) for text in texts] for name in names
    }


def test_classes_of_long_documents_take_more_passes():
    """Bits of a class are as many as the longest document needs; 3 * 21 + 3 * 21 bits here."""
    n = 2**20 + 5
    ids = (np.arange(n + 3) % 3).astype(np.int32)
    batch = TokenBatch(pa.array(["a", "b", "c"]), ids, np.array([0, n, n, n + 3]))
    masks = {str(k): np.arange(3) != k for k in range(3)}
    masks |= {f"all{k}": np.ones(3, bool) for k in range(3)}
    found = count_classes(batch, masks)
    for k in range(3):
        assert found[str(k)].tolist() == [n - np.count_nonzero(ids[:n] == k), 0, 2]
        assert found[f"all{k}"].tolist() == [n, 0, 3]


def count(path, texts, view):
    with StatisticsCounter(StopWords("test", frozenset({"a"})), view=view) as counter:
        counter.add(pa.array(texts))
        counter.write(path, {})
    return path


def test_statistics_are_those_of_the_view_and_others_are_not_comparable(tmp_path):
    texts = ["the cat saw a cat", "a dog", "the end"]
    view = TextView(pa.array(["the", "cat"]), 4)
    closed = count(tmp_path / "closed.parquet", texts, view)
    by_hand = [" ".join(read_by_hand(text, {"the", "cat"}, 4)) for text in texts]
    plain = count(tmp_path / "plain.parquet", by_hand, WHOLE_TEXT)
    found, expected = read_statistics(closed), read_statistics(plain)
    assert found.types.equals(expected.types)
    assert found.counts.tolist() == expected.counts.tolist()
    other_order = TextView(pa.array(["cat", "the", "cat"]), 4)
    check_comparable(closed, count(tmp_path / "same.parquet", texts, other_order))
    with pytest.raises(InputError, match="vocabulary 'raw'"):
        check_comparable(closed, plain)
    longer = count(tmp_path / "longer.parquet", texts, TextView(view.words, 5))
    with pytest.raises(InputError, match="maximum_tokens 5"):
        check_comparable(closed, longer)


def test_vocabularies_of_models_and_of_users(tmp_path):
    closed, bpe, listed = (tmp_path / name for name in ("v.json", "bpe.json", "words.txt"))
    ClosedVocabulary(["the", "cat"], 3).save(closed)
    BPEVocabulary.build([["a cat"]], 259).save(bpe)
    listed.write_bytes("\ufeffthe\r\ncat\n\n{\n".encode())
    assert vocabulary_words(closed).to_pylist() == ["the", "cat"]
    assert vocabulary_words(bpe) is None
    assert vocabulary_words(listed).to_pylist() == ["the", "cat", "{"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"the\na cat\n", "a.txt: line 2: holds 2 words"),
        ("a.txt", b"the\n\xff\n", "a.txt: line 2: not UTF-8"),
        ("a.txt", b"the\nc\0t\n", "a.txt: line 2: holds NUL"),
        ("a.txt", b"\n \n", "a.txt: holds no word"),
        ("a.json", b"the\n", "a.json: line 1: not JSON"),
        ("a.json", b"[" * 100_000, "a.json: line 1: not JSON"),
        ("a.json", b"[1]", "a.json: has no 'kind'"),
        ("a.json", b'{"kind": "closed"}', "a.json: a closed vocabulary without 'words'"),
        ("a.json", b'{"kind": "closed", "words": ["a", 1]}', r"a.json: words\[1\] is no string"),
        ("a.txt", b'{"text": "the cat"}\n{"text": "b"}\n', "a.txt: line 2: not JSON"),
    ],
)
def test_what_is_no_vocabulary_is_told(name, content, message, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message) as error:
        vocabulary_words(tmp_path / name)
    assert "\n" not in str(error.value)


def test_missing_vocabularies_are_told(tmp_path):
    said = {tmp_path / "none.txt": "no such file", tmp_path: "cannot be read"}
    for path, message in said.items():
        with pytest.raises(InputError, match=f"{path}: {message}"):
            vocabulary_words(path)


def test_a_description_survives_json():
    view = TextView(pa.array(["b", "a"]), 3, 2)
    assert json.loads(json.dumps(view.describe())) == view.describe()
