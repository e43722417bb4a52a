"""The words that texts are compared in.

Oracles: sets and dictionaries in plain Python; a property: over many random splits of one text,
training and test text have the same share of shared vocabulary, where the vocabulary's own share
differs because it was chosen on the training text.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from beyond_perplexity.tendencies import document_files as module
from beyond_perplexity.tendencies.document_files import DocumentFiles, least_units, shared_words
from tests.unit.text_pairs import write_documents

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
