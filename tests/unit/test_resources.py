"""Memory and time of jobs: functions of the model, the shard and the attempt.

Needs nothing. Oracle: properties (more weights, more documents, another attempt), and the largest
model of the paper, whose weights are counted by hand.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from beyond_perplexity.planning.resources import DAY, NEEDS, SHORTEST, JobSizes
from beyond_perplexity.planning.run import Run
from beyond_perplexity.planning.timings import Timing
from beyond_perplexity.planning.validation import validate
from beyond_perplexity.planning.work import Work

ROOT = Path(__file__).parents[2]
SHARD = {"model": "transformer", "decoding": "ancestral", "shard": "00000"}


def sizes(path: str, change=None) -> JobSizes:
    config = yaml.safe_load((ROOT / "configs" / path).read_text())
    config["pathvars"] = {"results": "/nowhere"}
    if change:
        change(config)
    validate(config, ROOT / "rules" / "config.schema.yaml")
    return JobSizes(Work(Run(config)))


@pytest.fixture(scope="module")
def paper() -> JobSizes:
    return sizes("paper.yaml")


@pytest.mark.parametrize("rule", ["train", "generate", "measure_perplexity", "count_samples"])
def test_both_double_with_every_attempt(paper, rule) -> None:
    wildcards = {**SHARD, "block": "00000"}
    for found in (paper.megabytes, paper.minutes):
        first, second, third = (found(rule, wildcards, attempt) for attempt in (1, 2, 3))
        assert (second, third) == (2 * first, 4 * first)


def test_a_larger_model_asks_for_more(paper) -> None:
    """315 million weights: 28 bytes each in training, 10 when it is run."""
    large = {"model": "transformer-adaptive-softmax"}
    assert paper.megabytes("train", large) == pytest.approx(3000 + 28 * 315, abs=200)
    assert paper.megabytes("measure_perplexity", large) == pytest.approx(3000 + 10 * 315, abs=200)
    for rule in ("train", "generate", "measure_perplexity"):
        of = {
            name: paper.megabytes(rule, {**SHARD, "model": name})
            for name in ("lstm", "transformer")
        }
        assert of["lstm"] < of["transformer"] < paper.megabytes(rule, {**SHARD, **large})
    assert paper.seconds("generate", {**SHARD, **large}) > paper.seconds("generate", SHARD)


def test_a_larger_shard_asks_for_more_time_and_all_shards_for_the_same(paper) -> None:
    def seconds(documents: int) -> float:
        def change(config):
            config["generation"]["documents_per_shard"] = documents

        return sizes("paper.yaml", change).seconds("generate", SHARD)

    start = NEEDS["generate"].start
    each = [(seconds(n) - start) / n for n in (100, 5_000, 1_000_000)]
    assert each == pytest.approx([each[0]] * 3)
    assert paper.minutes("generate", SHARD) > SHORTEST


def test_what_was_measured_is_asked_for_with_a_margin() -> None:
    work = sizes("paper.yaml").work
    known = JobSizes(work, {"generate/transformer/ancestral": Timing(60, 0.1, 0, 0)})
    assert known.seconds("generate", SHARD) == 60 + 0.1 * 50_000
    assert known.minutes("generate", SHARD) == 260  # 3 x 84.3, up to tens
    assert known.minutes("generate", SHARD, attempt=2) == 520


def test_a_beam_writes_all_its_hypotheses(paper) -> None:
    work = paper.work
    assert work.units("generate", {**SHARD, "decoding": "beam"}) == 5 * 50_000
    assert work.units("generate", SHARD) == 50_000
    assert work.units("plot", {"exhibit": "main"}) == 1


def test_a_training_asks_for_a_day_at_first_at_most(paper) -> None:
    assert paper.minutes("train", {"model": "transformer"}) == DAY
    assert paper.minutes("train", {"model": "transformer"}, attempt=3) == 4 * DAY


def test_counts_ask_for_what_their_corpus_holds_and_a_limit(tmp_path) -> None:
    def of(tokens: int) -> int:
        def change(config):
            config["pathvars"]["results"] = str(tmp_path)

        folder = tmp_path / "corpora" / "wikipedia"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "extraction.json").write_text(json.dumps({"tokens": tokens}))
        return sizes("paper.yaml", change).megabytes("train", {"model": "trigram"})

    assert of(10_000) == 3100
    assert of(10**9) == pytest.approx(3000 + 40 * 977.5, abs=200)
    assert of(10**12) == 64_000


def test_a_model_of_counts_asks_for_its_file_once_it_is_there(tmp_path) -> None:
    def change(config):
        config["pathvars"]["results"] = str(tmp_path)

    found = sizes("smoke.yaml", change)
    wildcards = {"model": "kn-3"}
    before = found.megabytes("measure_perplexity", wildcards)
    file = tmp_path / "models" / "kn-3" / "model.safetensors"
    file.parent.mkdir(parents=True)
    with open(file, "wb") as stream:
        stream.truncate(10**9)
    assert found.megabytes("measure_perplexity", wildcards) == before + 2000


def test_every_need_is_that_of_a_rule_and_the_rules_ask_for_it() -> None:
    text = "\n".join(path.read_text() for path in (ROOT / "rules").glob("*.smk"))
    for rule, need in NEEDS.items():
        assert f"\nrule {rule}:\n" in text
        assert f'mem_mb=memory("{rule}")' in text
        assert (f'runtime=minutes("{rule}")' in text) == bool(need.seconds)


def test_draws_count_what_they_draw() -> None:
    work = sizes("paper-importance.yaml").work
    config = yaml.safe_load((ROOT / "configs" / "paper-importance.yaml").read_text())
    proposal, held = next(iter(config["proposals"].items()))
    job = {"model": held["model"], "proposal": proposal, "instances": "00000", "samples": "00000"}
    plan = work._run.importance
    setting = next(iter(plan.settings("weights", proposal)))
    found = work.units("draw", {**job, "draw": "weights", "setting": setting})
    assert found == 50 * 10_000
    setting = next(iter(plan.settings("beams", proposal)))
    found = work.units("draw", {**job, "draw": "beams", "setting": setting})
    assert found == 50 * (1 + 10 + 100)
    assert work.weights(job) > work.weights({"model": held["model"]}) > 0
