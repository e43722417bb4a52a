"""What the rules look up for contrastive entropy, and what a configuration must have.

Needs no data. Oracles: counts by hand; that shards cover every sentence and draw once; the key and
the advice that an error names.
"""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml

from beyond_perplexity.errors import InputError
from beyond_perplexity.planning.contrastive import ContrastivePlan
from beyond_perplexity.planning.run import Run
from beyond_perplexity.planning.validation import validate

ROOT = Path(__file__).parents[2]


def settings(name: str = "configs/smoke.yaml", **contrastive: Any) -> dict[str, Any]:
    config: dict[str, Any] = yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))
    config["contrastive"] = config.get("contrastive", {}) | contrastive
    return config


def run_of(config: dict[str, Any]) -> Run:
    validate(config, ROOT / "rules" / "config.schema.yaml")
    return Run(config)


def plan(**contrastive: Any) -> ContrastivePlan:
    return run_of(settings(**contrastive)).contrastive


@pytest.mark.parametrize(
    ("sentences", "draws", "curve_draws"), [(60, 3, 5), (61, 7, 2), (20, 1, 1)]
)
def test_the_shards_cover_every_sentence_and_draw_once(
    sentences: int, draws: int, curve_draws: int
) -> None:
    given = {"sentences_per_shard": 20, "draws_per_shard": 3, "curve": [0.0, 0.5, 0.8]}
    held = plan(sentences=sentences, draws=draws, curve_draws=curve_draws, **given)
    numbers = {0.0: 1, 0.1: draws, 0.5: max(draws, curve_draws), 0.8: curve_draws}
    expected = {
        (sentence, level, draw)
        for level, number in numbers.items()
        for sentence, draw in product(range(sentences), range(number))
    }
    seen = []
    for path in held.score_files("lstm"):
        units, part = Path(path).stem.split("-")
        first, count = held.sentence_range(units)
        for level, (start, number) in json.loads(held.versions(part)).items():
            own = product(range(first, first + count), range(start, start + number))
            seen += [(sentence, float(level), draw) for sentence, draw in own]
    assert len(seen) == len(set(seen))
    assert set(seen) == expected


def test_a_larger_run_leaves_whole_blocks_as_they_are() -> None:
    given = {"sentences_per_shard": 20, "draws_per_shard": 3, "curve": []}
    small, large = plan(sentences=50, draws=7, **given), plan(sentences=90, draws=12, **given)

    def job(held: ContrastivePlan, path: str) -> tuple[Any, ...]:
        units, draws = Path(path).stem.split("-")
        return held.sentence_range(units), held.limit(units), held.versions(draws)

    shared = set(small.score_files("lstm")) & set(large.score_files("lstm"))
    assert len(shared) == 9
    same = {Path(path).stem for path in shared if job(small, path) == job(large, path)}
    # the last block of 10 sentences grows, and so does that of one draw
    assert same == {f"{units:05d}-{draws:05d}" for units, draws in product((0, 1), (0, 1))}
    assert small.limit("00002") == [50]
    assert small.limit("00001") == []


def test_files_are_those_of_the_models_of_each_corpus() -> None:
    config = settings(pairs={"islands": {"path": "pairs.tsv"}})
    held = run_of(config).contrastive
    folder = "<results>/contrastive"
    models = ["kn-3", "rnn", "lstm", "sentence-rnn"]
    assert held.files() == [
        *(f"{folder}/wikipedia/{name}.parquet" for name in models),
        "<results>/partitions/sentence-rnn.parquet",
        f"{folder}/wikipedia/differences.parquet",
        *(f"{folder}/pairs/islands/{name}.parquet" for name in models),
    ]
    assert held.normalized() == models[:3]
    assert held.substitutes("lstm") == ["<results>/vocabularies/wikipedia/words.json"]
    assert plan(distortion={"substitutes": "text"}).substitutes("lstm") == []
    assert plan(models=["lstm"]).files() == [f"{folder}/wikipedia/lstm.parquet"]


def test_without_models_there_is_nothing() -> None:
    held = plan(models=[])
    assert held.files() == held.corpora() == []
    assert held.describe() == "none"


def test_documents_of_a_treebank_may_be_sentences() -> None:
    for given, document, flag in (
        (None, "tree", ["--whole"]),
        (None, "file", []),
        (False, "tree", []),
        (True, "file", ["--whole"]),
    ):
        config = settings(documents_are_sentences=given)
        config["corpora"]["wikipedia"]["source"] = {
            "format": "penn",
            "paths": ["trees.mrg"],
            "document": document,
        }
        config["corpora"]["wikipedia"]["preprocessing"] = {}
        assert run_of(config).contrastive.whole_flag_of_model("lstm") == flag


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"models": ["lstn"]}, "contrastive.models: no model is named 'lstn'"),
        ({"levels": [0.1, 1.5]}, r"contrastive.levels.1: 1.5 is greater than the maximum of 1"),
        ({"levels": []}, r"contrastive.levels: \[\] should be non-empty"),
        ({"base_level": 0.2}, "contrastive.base_level: 0.2 is not among the levels"),
        ({"distortion": {"substitution": 0.6}}, "the shares add up to 1.1, not to 1"),
        ({"distortion": {"swap": 1}}, "contrastive.distortion.swap: unknown key"),
        ({"vocabulary": "letters"}, "contrastive.vocabulary: no vocabulary is named 'letters'"),
        ({"pairs": {"a": {}}}, "contrastive.pairs.a: key 'path' is missing"),
        ({"partition": {"proposal": "x"}}, "contrastive.partition.proposal: no model is named 'x'"),
        (
            {"partition": {"proposal": "sentence-rnn"}},
            r"'sentence-rnn' \(sentence-rnn\) is no language model",
        ),
    ],
)
def test_what_is_not_possible_is_named(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        plan(**given)


def test_vocabularies_of_substitutes() -> None:
    config = settings(models=["lstm"])
    config["vocabularies"]["subwords"] = {"kind": "bpe", "size": 300}
    config["models"]["lstm"]["vocabulary"] = "subwords"
    with pytest.raises(InputError, match="no listed model of wikipedia has a closed vocabulary"):
        run_of(json.loads(json.dumps(config)))
    named = json.loads(json.dumps(config))
    named["contrastive"]["vocabulary"] = "words"
    folder = "<results>/vocabularies/wikipedia"
    assert run_of(named).contrastive.substitutes("lstm") == [f"{folder}/words.json"]
    config["contrastive"]["vocabulary"] = "subwords"
    with pytest.raises(InputError, match=r"contrastive.vocabulary: 'subwords' has parts of words"):
        run_of(config)


def test_models_that_cannot_be_scored() -> None:
    config = settings()
    config["models"]["differences"] = config["models"]["lstm"]
    config["contrastive"]["models"] = ["differences"]
    with pytest.raises(InputError, match="'differences' is the name of a file"):
        run_of(config)
    latent = settings("config.yaml", models=["rnng"])
    with pytest.raises(InputError, match=r"contrastive.models: 'rnng' \(rnng\) has latent"):
        run_of(latent)
    empty = settings(split="valid")
    empty["corpora"]["wikipedia"]["split"] = {"train": 0.6, "valid": 0, "test": 0.4}
    with pytest.raises(InputError, match=r"corpora.wikipedia.split.valid: is 0, but models.kn-3"):
        run_of(empty)


def test_a_proposal_shares_the_vocabulary() -> None:
    config = settings(partition={"proposal": "lstm"})
    run_of(json.loads(json.dumps(config)))
    config["vocabularies"]["few"] = {"kind": "closed", "maximum_size": 50}
    config["models"]["lstm"]["vocabulary"] = "few"
    with pytest.raises(InputError, match="another corpus or vocabulary than 'sentence-rnn'"):
        run_of(config)


@pytest.mark.parametrize("name", ["config.yaml", "configs/paper-contrastive.yaml"])
def test_configurations_of_the_repository(name: str) -> None:
    config = settings(name)
    held = run_of(config).contrastive
    assert len(held.models()) >= 7
    assert {"0.1", "0.3", "0.5"} <= json.loads(held.versions("00000")).keys()
