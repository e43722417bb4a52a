"""Word vectors that are trained on a corpus: the stand-in where no package is installed.

Oracles: words that stand in the same contexts are alike; a second training; gensim's own rule of
which words are frequent enough.
"""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

from beyond_perplexity.errors import InputError
from beyond_perplexity.semantics.evaluators.contract import load_evaluator
from beyond_perplexity.semantics.evaluators.job import EvaluatorJob
from beyond_perplexity.semantics.evaluators.word2vec import fit_word2vec
from scripts import train_evaluator
from tests.unit.evaluator_oracles import write_documents

OPTIONS = {"family": "word2vec", "width": 8, "window": 2, "minimum_count": 3, "negatives": 3}
OPTIONS |= {"epochs": 60}


@pytest.fixture
def job(tmp_path):
    random = np.random.default_rng(0)
    texts = []
    for _ in range(240):
        animal, food = random.choice(["cat", "dog"]), random.choice(["fish", "bread"])
        texts.append(f"the {animal} runs and the {animal} sleeps .")
        texts.append(f"we eat {food} with cold {food}")
    write_documents(tmp_path / "documents.parquet", [*texts, "the <unk> seldom", "</s> <unk> runs"])
    return EvaluatorJob(
        options=OPTIONS,
        documents=tmp_path / "documents.parquet",
        vocabulary=None,
        preprocessing={"lower_case": True},
        seed=1,
        device="cpu",
        threads=1,
        output=tmp_path / "evaluator",
        checkpoints=tmp_path / "checkpoints",
    )


def test_words_of_the_same_contexts_are_alike_and_the_folder_loads(job):
    fit_word2vec(job)
    given = {"family": "word2vec", "path": str(job.output)}
    evaluator = load_evaluator(given)
    like, unlike = evaluator.score([("cat", "dog"), ("cat", "fish")])["average"]
    assert like > unlike
    words = (job.output / "words.txt").read_text(encoding="utf-8").split()
    # Neither <unk> nor what stands less than three times.
    assert set(words) == {
        *("the", "cat", "dog", "runs", "and", "sleeps", "."),
        *("we", "eat", "fish", "bread", "with", "cold"),
    }
    assert evaluator.cleaning.apply(["The CAT."]) == ["the cat ."]
    described = evaluator.describe()
    assert described["title"] == "word2vec of the corpus"
    held = json.loads((job.output / "evaluator.json").read_text(encoding="utf-8"))
    assert held["sha256"] == described["sha256"]
    np.save(job.output / "vectors.npy", np.zeros((13, 8), np.float32))
    with pytest.raises(InputError, match=r"is not the file that evaluator\.json describes"):
        load_evaluator(given)


def test_the_same_seed_gives_the_same_vectors(job, tmp_path, monkeypatch):
    fit_word2vec(job)
    again = tmp_path / "again"
    flags = {
        "--options": json.dumps(OPTIONS),
        "--documents": job.documents,
        "--output": again,
        "--checkpoints": tmp_path / "checkpoints",
    }
    arguments = [str(part) for pair in flags.items() for part in pair]
    monkeypatch.setattr(sys, "argv", ["train_evaluator", *arguments])
    train_evaluator.main()
    name = "vectors.npy"
    assert (again / name).read_bytes() == (job.output / name).read_bytes()
    other = EvaluatorJob(**(vars(job) | {"seed": 2, "output": tmp_path / "other"}))
    fit_word2vec(other)
    assert (other.output / name).read_bytes() != (job.output / name).read_bytes()


def test_what_cannot_be_trained_is_told(job, monkeypatch):
    seldom = EvaluatorJob(**(vars(job) | {"options": OPTIONS | {"minimum_count": 10_000}}))
    with pytest.raises(InputError, match="no word of the split 'train' occurs 10000 times"):
        fit_word2vec(seldom)
    arguments = ["--options", '{"family": "vectors"}', "--output", "x", "--checkpoints", "y"]
    monkeypatch.setattr(sys, "argv", ["train_evaluator", *arguments])
    with pytest.raises(InputError, match="vectors evaluators are not trained here"):
        train_evaluator.main()
