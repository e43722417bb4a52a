"""Vocabularies. Oracles: counts and cuts made by hand, exact round trips of generated texts."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beyond_perplexity.errors import InputError
from beyond_perplexity.vocabulary import (
    BOS,
    EOS,
    UNK,
    BPEVocabulary,
    ClosedVocabulary,
    build_vocabulary,
    load_vocabulary,
)

TEXTS = ["b b b a a c c d", "e the lowest of the low , the lower low"]
BPE = BPEVocabulary.build([TEXTS], 300)
WORDS = st.text(st.characters(exclude_characters=" ", codec="utf-8"), min_size=1, max_size=6)


def test_words_are_cut_by_count_and_ties_go_by_code_point():
    built = ClosedVocabulary.build([["b b b c"], pa.array(["a a c d </s>"])], minimum_count=2)
    assert built.describe()["words"] == ["b", "a", "c"]
    assert (built.size, built.unknown_types) == (6, 1)
    cut = ClosedVocabulary.build([["b b b c", "a a c d"]], maximum_size=2)
    assert cut.describe()["words"] == ["b", "a"]
    assert cut.unknown_types == 2


def test_closed_encoding_and_decoding():
    closed = ClosedVocabulary(["a", "b"], 0)
    ids = closed.encode(["a  x b ", "", "<unk> a"])
    assert [part.tolist() for part in ids] == [[3, UNK, 4], [], [UNK, 3]]
    assert all(part.dtype == np.int32 for part in ids)
    assert closed.decode([*ids, np.array([BOS, 3, EOS])]) == ["a <unk> b", "", "<unk> a", "a"]


@pytest.mark.parametrize("vocabulary", [ClosedVocabulary(["a"], 0), BPE])
def test_written_special_tokens_are_ordinary_text(vocabulary):
    (ids,) = vocabulary.encode(["<s> a </s> <s></s>"])
    assert not set(ids.tolist()) & {BOS, EOS}


@given(st.lists(WORDS, max_size=8))
def test_bpe_gives_back_any_text(words):
    text = " ".join(words)
    ids = BPE.encode([text])
    assert BPE.decode(ids) == [text]
    assert all(3 <= token < BPE.size for token in ids[0])


def test_bpe_words_are_alike_at_the_start_and_inside():
    first, inside = BPE.encode(["low", "the low"])
    the = BPE.encode(["the"])[0]
    assert inside.tolist() == [*the, *first]


def test_generated_ids_that_are_no_text_decode_to_clean_words():
    byte = BPE.encode(["\u00e9"])[0]
    broken = np.concatenate([[BOS], byte[:-1], byte[:1], byte[:1], [EOS]])
    (text,) = BPE.decode([broken])
    assert "  " not in text
    assert "<s>" not in text


def test_bpe_does_not_depend_on_threads_or_on_the_process():
    code = (
        "import sys; from beyond_perplexity.vocabulary import *;"
        "texts = [' '.join(f'w{i % 97}x{j % 13}' for j in range(50)) for i in range(400)];"
        "print(BPEVocabulary.build([texts[:100], texts[100:]], 500).hash)"
    )
    found = set()
    for parallel, hashing in (("false", "1"), ("true", "2")):
        environment = {"TOKENIZERS_PARALLELISM": parallel, "PYTHONHASHSEED": hashing}
        command, own = [sys.executable, "-c", code], {**os.environ, **environment}
        found.add(subprocess.run(command, env=own, capture_output=True, check=True).stdout)
    assert len(found) == 1


@pytest.mark.parametrize("vocabulary", [ClosedVocabulary(["a", "é"], 7), BPE])
def test_files_hold_all_of_it(vocabulary, tmp_path):
    vocabulary.save(tmp_path / "v.json")
    loaded = load_vocabulary(tmp_path / "v.json")
    assert loaded.hash == vocabulary.hash
    assert (loaded.kind, loaded.size) == (vocabulary.kind, vocabulary.size)
    texts = ["a é low", "zz"]
    for ours, theirs in zip(vocabulary.encode(texts), loaded.encode(texts), strict=True):
        assert ours.tolist() == theirs.tolist()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "no such file"),
        ("{", "is no vocabulary file"),
        ('{"kind": "other"}', "unknown kind"),
        ('{"kind": "bpe", "tokenizer": {}}', "is no vocabulary file"),
        ('{"kind": "closed", "words": ["a", "a"], "unknown_types": 0}', "names a word twice"),
    ],
)
def test_foreign_files_are_named(content, words, tmp_path):
    path = tmp_path / "v.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(InputError, match=words):
        load_vocabulary(path)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"kind": "closed", "minimum": 2}, "vocabulary.minimum: unknown key; allowed are kind"),
        ({"kind": "words"}, "vocabulary.kind: is 'words'"),
        ({"kind": "bpe", "size": 100}, "at least 259"),
        ({"kind": "bpe"}, "missing"),
        ({"kind": "closed", "minimum_count": 99}, "no word is left"),
    ],
)
def test_wrong_options_are_named(config, words):
    with pytest.raises(InputError, match=words):
        build_vocabulary([TEXTS], config)


def test_building_from_options_is_json_safe():
    json.dumps(build_vocabulary([TEXTS], {"kind": "closed"}).describe())
