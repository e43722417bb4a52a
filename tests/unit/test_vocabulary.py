"""Vocabularies, and the words that texts are compared in.

Oracles: counts and cuts made by hand, exact round trips of generated texts; sets and dictionaries
in plain Python; a property: over many random splits of one text, training and test text have the
same share of compared words, where the vocabulary's own share differs because it was chosen on the
training text.
"""

import json
import math
import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beyond_perplexity.tendencies import document_files as module
from beyond_perplexity.tendencies.document_files import DocumentFiles, least_units, shared_words
from beyond_perplexity.vocabulary import (
    BOS,
    EOS,
    UNK,
    BPEVocabulary,
    ClosedVocabulary,
    build_vocabulary,
    load_vocabulary,
)
from tests.unit.evaluator_oracles import check_refused
from tests.unit.text_pairs import write_documents

TEXTS = ["b b b a a c c d", "e the lowest of the low , the lower low"]
BPE = BPEVocabulary.build([TEXTS], 300)
WORDS = st.text(st.characters(exclude_characters=" ", codec="utf-8"), min_size=1, max_size=6)


def test_words_are_cut_by_count_and_encoded_and_decoded():
    built = ClosedVocabulary.build([["b b b c"], pa.array(["a a c d </s>"])], minimum_count=2)
    assert built.describe()["words"] == ["b", "a", "c"]
    assert (built.size, built.unknown_types) == (6, 1)
    cut = ClosedVocabulary.build([["b b b c", "a a c d"]], maximum_size=2)
    assert cut.describe()["words"] == ["b", "a"]
    assert cut.unknown_types == 2
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


def test_bpe_words_are_alike_everywhere_and_broken_ids_decode_to_clean_words():
    first, inside = BPE.encode(["low", "the low"])
    the = BPE.encode(["the"])[0]
    assert inside.tolist() == [*the, *first]
    byte = BPE.encode(["\u00e9"])[0]
    broken = np.concatenate([[BOS], byte[:-1], byte[:1], byte[:1], [EOS]])
    (text,) = BPE.decode([broken])
    assert "  " not in text
    assert "<s>" not in text


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
    check_refused(words, load_vocabulary, path)


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
    check_refused(words, build_vocabulary, [TEXTS], config)


def test_bpe_does_not_depend_on_threads_and_options_are_json_safe():
    json.dumps(build_vocabulary([TEXTS], {"kind": "closed"}).describe())
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


TYPES, MINIMUM = 400, 3


def texts(count: int, seed: int) -> list[list[str]]:
    generator = np.random.default_rng(seed)
    shares = 1 / np.arange(1, TYPES + 1) ** 1.1
    lengths = generator.geometric(1 / 30, count)
    return [
        [f"w{word}" for word in generator.choice(TYPES, size=length, p=shares / shares.sum())]
        for length in lengths
    ]


def written(path: Path, documents: list[list[str]], n_train: int, titles: list[str]) -> str:
    splits = ["train"] * n_train + ["test"] * (len(documents) - n_train)
    return write_documents(path, [" ".join(words) for words in documents], splits, titles)


def chosen(path: str, words: list[str], group_column: str | None = None) -> list[str]:
    test = DocumentFiles((path,), "test", group_column=group_column)
    found = shared_words(pa.array(words), replace(test, split="train"), test)
    return found.to_pylist()


def vocabulary(training: list[list[str]]) -> list[str]:
    counts = Counter(word for words in training for word in words)
    return sorted(word for word, count in counts.items() if count >= MINIMUM)


@pytest.mark.parametrize("waiting", [1, 4_000_000])
@pytest.mark.parametrize("grouped", [False, True])
def test_words_are_those_of_a_plain_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, grouped: bool, waiting: int
) -> None:
    monkeypatch.setattr(module, "_WAITING", waiting)
    documents, n_train = texts(300, 0), 200
    titles = [f"page {place // 5}" for place in range(300)]
    path = written(tmp_path / "documents.parquet", documents, n_train, titles)
    units = titles if grouped else [str(place) for place in range(300)]
    known = vocabulary(documents[:n_train])
    least = math.ceil((MINIMUM + 3 * math.sqrt(MINIMUM)) / (n_train / 300))
    holding = Counter(
        word for word, _ in {(w, u) for u, ws in zip(units, documents, strict=True) for w in ws}
    )
    expected = [word for word in known if holding[word] >= least]
    assert 10 < len(expected) < len(known) - 10
    assert chosen(path, known, "title" if grouped else None) == expected


def test_the_number_of_units_is_that_of_the_module_and_few_keep_a_word(tmp_path: Path) -> None:
    assert least_units(np.array([0, 4, 9]), 0.5) == 20
    assert least_units(np.array([0, 0]), 1.0) == 4
    path = written(tmp_path / "d.parquet", [["a", "b"], ["a"], ["a", "b"]], 2, ["", "", ""])
    assert chosen(path, ["b", "a"]) == ["a"]


def test_training_text_is_read_like_test_text(tmp_path: Path) -> None:
    documents, n_train = texts(240, 1), 160
    generator = np.random.default_rng(2)
    differences: dict[str, list[float]] = {"vocabulary": [], "compared": []}
    for repeat in range(60):
        order = generator.permutation(len(documents))
        mixed = [documents[place] for place in order]
        path = written(tmp_path / f"{repeat}.parquet", mixed, n_train, [""] * len(mixed))
        known = vocabulary(mixed[:n_train])
        for name, words in (("vocabulary", known), ("compared", chosen(path, known))):
            held = set(words)
            shares = [
                np.mean([word in held for words in side for word in words])
                for side in (mixed[:n_train], mixed[n_train:])
            ]
            differences[name].append(float(shares[0] - shares[1]))
    errors = {name: np.std(x) / math.sqrt(len(x)) for name, x in differences.items()}
    assert np.mean(differences["vocabulary"]) > 5 * errors["vocabulary"]
    assert abs(np.mean(differences["compared"])) < 3 * errors["compared"]
