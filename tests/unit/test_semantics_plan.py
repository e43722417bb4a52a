"""What the rules look up for the meaning of predictions, and what a configuration must have.

Needs no data. Oracles: counts by hand; that blocks cover every sentence once; that a job of a
smaller run is the same in a larger one; the key and the advice that an error names.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from beyond_perplexity.errors import InputError
from beyond_perplexity.planning.run import Run
from beyond_perplexity.planning.semantics import SemanticsPlan
from beyond_perplexity.planning.validation import validate
from beyond_perplexity.schemas.semantics import WORDS_EVALUATOR
from scripts.predict_words import read_options

ROOT = Path(__file__).parents[2]
FOLDER = "<results>/semantics/wikipedia"
WORD2VEC = {"family": "word2vec", "corpus": "wikipedia"}


def settings(name: str = "configs/smoke.yaml", **semantics: Any) -> dict[str, Any]:
    config: dict[str, Any] = yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))
    config["semantics"] = config.get("semantics", {}) | semantics
    return config


def run_of(config: dict[str, Any]) -> Run:
    validate(config, ROOT / "rules" / "config.schema.yaml")
    return Run(config)


def plan(**semantics: Any) -> SemanticsPlan:
    return run_of(settings(**semantics)).semantics


def jobs(held: SemanticsPlan) -> dict[str, Any]:
    """Return what the command of every job is made of, by the file that it writes."""
    shared = held.options["measures"], held.prediction_options()
    found: dict[str, Any] = {}
    for model in held.models():
        for path in held.prediction_files(model):
            block = Path(path).stem
            asked = held.whole_flag_of_model(model), held.sentence_range(block), held.limit(block)
            found[path] = *asked, shared[1]
        for path in held.score_files(model):
            name = Path(path).parts[-2]
            found[path] = held.evaluator_options(name), held.evaluator_files(name), shared[0]
    for corpus in held.corpora():
        for path in (file for file in held.files() if f"/{corpus}/probes/" in file):
            name = Path(path).stem
            found[path] = held.evaluator_options(name), held.whole_flag(corpus), shared[0]
    return found


@pytest.mark.parametrize("sentences", [60, 61, 7])
def test_the_blocks_cover_every_sentence_once(sentences: int) -> None:
    held = plan(sentences=sentences, sentences_per_shard=20)
    seen: list[int] = []
    for block in held.blocks():
        first, count = held.sentence_range(block)
        seen += range(first, first + count)
        assert held.limit(block) == ([sentences] if block == held.blocks()[-1] else [])
    assert seen == list(range(sentences))


def test_a_larger_run_leaves_whole_blocks_as_they_are() -> None:
    small, large = (jobs(plan(sentences=n, sentences_per_shard=20)) for n in (50, 90))
    predicted = {path for path in small if "predictions" in path}
    same = {Path(path).stem for path in predicted if small[path] == large[path]}
    assert same == {"00000", "00001"}


def test_an_evaluator_that_is_added_changes_no_job() -> None:
    names = ["word2vec", "skipthought"]
    small, large = (jobs(plan(evaluators=listed)) for listed in (names[:1], names))
    assert small == {path: large[path] for path in small}
    assert {part for path in large.keys() - small.keys() for part in Path(path).parts} & {
        "skipthought",
        "skipthought.parquet",
    }


def test_a_model_that_is_added_changes_no_job() -> None:
    small, large = (jobs(plan(models=listed)) for listed in (["lstm"], ["lstm", "trigram"]))
    assert small == {path: large[path] for path in small}
    assert all("trigram" in path for path in large.keys() - small.keys())


def test_files_are_those_of_the_models_of_each_corpus() -> None:
    held = plan(evaluators=["word2vec"], sentences=30, sentences_per_shard=20)
    blocks = ("00000", "00001")
    assert held.files() == [
        *(f"{FOLDER}/{name}.parquet" for name in ("lstm", "trigram")),
        *(f"{FOLDER}/{name}.parquet" for name in ("differences", "correlations")),
        *(f"{FOLDER}/probes/{name}.parquet" for name in (WORDS_EVALUATOR, "word2vec")),
    ]
    assert held.prediction_files("lstm") == [
        f"<results>/predictions/lstm/{block}.parquet" for block in blocks
    ]
    assert held.score_files("lstm") == [
        f"{FOLDER}/scores/lstm/{name}/{block}.parquet"
        for name in (WORDS_EVALUATOR, "word2vec")
        for block in blocks
    ]
    single = plan(models=["lstm"], evaluators=[])
    assert single.files() == [f"{FOLDER}/lstm.parquet", f"{FOLDER}/probes/words.parquet"]


def test_without_models_there_is_nothing() -> None:
    held = plan(models=[])
    assert held.files() == held.corpora() == held.evaluators() == []
    assert held.describe() == "none"


def test_the_summary_says_who_judges_what() -> None:
    words = plan(evaluators=["word2vec"], sentences=1200).describe()
    assert words == "2 models on 1,200 sentences of each of valid, test at most, by words, word2vec"


def test_what_models_are_asked_is_what_the_command_reads() -> None:
    held = plan(samples=4, continuation={"prefix": 2, "decoding": "sample"})
    options = read_options(json.loads(held.prediction_options()))
    assert options.samples == 4
    assert options.continuation is not None
    assert (options.continuation.prefix, options.continuation.decoding) == (2, "sample")
    assert read_options(json.loads(plan(continuation=None).prediction_options())).samples == 2


def test_documents_may_be_sentences_of_one_corpus() -> None:
    config = settings("configs/paper-semantics.yaml")
    held = run_of(config).semantics
    assert held.whole_flag_of_model("lstm-treebank") == ["--whole"]
    assert held.whole_flag_of_model("lstm-wikitext") == []
    assert held.whole_flag("treebank") == ["--whole"]
    assert plan(documents_are_sentences=True).whole_flag_of_model("lstm") == ["--whole"]
    with pytest.raises(InputError, match="documents_are_sentences: no corpus is named 'news'"):
        plan(documents_are_sentences={"news": True})


def test_files_of_people_are_local_wherever_they_are_from() -> None:
    place = {"url": "https://example.org/pairs.tsv", "sha256": "0" * 64}
    config = settings(human_scores={"a": {"path": "mine.tsv"}, "b": {"path": place, "gold": "s"}})
    run = run_of(config)
    local = f"results/downloads/{'0' * 64}/pairs.tsv"
    expected = {"a": ["mine.tsv", "score"], "b": [local, "s"]}
    assert json.loads(run.semantics.human_scores()) == expected
    assert run.semantics.human_files() == ["mine.tsv", local]
    assert run.corpora.present(run.semantics.human_files()) == [local]
    assert "0" * 64 in run.corpora.downloads


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"models": ["lstn"]}, "semantics.models: no model is named 'lstn'"),
        ({"models": ["sentence-rnn"]}, r"'sentence-rnn' \(sentence-rnn\) gives no next word"),
        ({"evaluators": ["bert"]}, "semantics.evaluators: no evaluator is named 'bert'"),
        ({"splits": []}, r"semantics.splits: \[\] should be non-empty"),
        ({"splits": ["dev"]}, r"semantics.splits.0: 'dev' is not allowed"),
        ({"sentences": 0}, "semantics.sentences: 0 is less than the minimum of 1"),
        ({"samples": -1}, "semantics.samples: -1 is less than the minimum of 0"),
        ({"continuation": {"prefix": 0}}, "semantics.continuation.prefix: 0 is less than"),
        ({"continuation": {"decoding": "beam"}}, "semantics.continuation.decoding: 'beam' is not"),
        ({"measures": {"tau": 1}}, "semantics.measures.tau: unknown key"),
        ({"human_scores": {"a": {}}}, "semantics.human_scores.a: key 'path' is missing"),
    ],
)
def test_what_is_not_possible_is_named(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        plan(**given)


def test_models_that_cannot_be_asked() -> None:
    config = settings(models=["correlations"])
    config["models"]["correlations"] = config["models"]["lstm"]
    with pytest.raises(InputError, match="'correlations' is the name of a file; rename"):
        run_of(config)
    latent = settings("config.yaml", models=["rnng"])
    with pytest.raises(InputError, match=r"semantics.models: 'rnng' \(rnng\) gives no next word"):
        run_of(latent)
    empty = settings(splits=["valid"])
    empty["corpora"]["wikipedia"]["split"] = {"train": 0.6, "valid": 0, "test": 0.4}
    with pytest.raises(InputError, match=r"corpora.wikipedia.split.valid: is 0, but models.lstm"):
        run_of(empty)


@pytest.mark.parametrize(
    ("name", "models"), [("config.yaml", 5), ("configs/paper-semantics.yaml", 10)]
)
def test_configurations_of_the_repository(name: str, models: int) -> None:
    run = run_of(settings(name))
    assert len(run.semantics.models()) == models
    plain = {name for name in run.semantics.models() if "scheduled-sampling" not in name}
    for model in set(run.semantics.models()) - plain:
        twin = model.replace("-scheduled-sampling", "")
        assert twin in plain
        options, other = (json.loads(run.models.options(held)) for held in (model, twin))
        assert options["training"].pop("scheduled_sampling") != "none"
        ours = {k: v for k, v in options["training"].items() if not k.startswith("sampling_")}
        assert ours == other["training"]  # trained for as long
        assert options["architecture"] == other["architecture"]
