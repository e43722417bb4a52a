"""What jobs take and ask for: by jobs that ran, by a plan, or guessed from their models and shards.

Needs no data. Oracles: times that follow from a start and a rate that the test chose; properties
(more weights, more documents, another attempt); the tensors of every family, made without memory
(PyTorch's device ``meta``), and the counts of the papers' models.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import yaml

from beyond_perplexity.models.families import FAMILIES, families_of
from beyond_perplexity.planning.job_costs import (
    DAY,
    NEEDS,
    PLAN_FILE,
    SHORTEST,
    START,
    Finished,
    JobCosts,
    PlannedJob,
    Timing,
    expect,
    fit_finished,
    fit_timing,
    kind_of,
    plan_content,
    read_plan,
)
from beyond_perplexity.planning.run import Run
from beyond_perplexity.planning.validation import validate
from beyond_perplexity.planning.work import ASSUMED_BYTES, ASSUMED_WORDS, Work, count_weights
from beyond_perplexity.storage.benchmarks import read_benchmark

ROOT = Path(__file__).parents[2]
SHARD = {"model": "transformer", "decoding": "ancestral", "shard": "00000"}


def costs(path: str, change=None) -> JobCosts:
    config = yaml.safe_load((ROOT / path).read_text())
    config["pathvars"] = {"results": "/nowhere"}
    if change:
        change(config)
    validate(config)
    return JobCosts(Work(Run(config)))


@pytest.fixture(scope="module")
def paper() -> JobCosts:
    return costs("configs/paper.yaml")


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

        return costs("configs/paper.yaml", change).seconds("generate", SHARD)

    start = START
    each = [(seconds(n) - start) / n for n in (100, 5_000, 1_000_000)]
    assert each == pytest.approx([each[0]] * 3)
    assert paper.minutes("generate", SHARD) > SHORTEST


def test_what_was_measured_is_asked_for_with_a_margin() -> None:
    work = costs("configs/paper.yaml").work
    known = JobCosts(work, {"generate/transformer/ancestral": Timing(60, 0.1, 0, 0)})
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
        return costs("configs/paper.yaml", change).megabytes("train", {"model": "trigram"})

    assert of(10_000) == 3100
    assert of(10**9) == pytest.approx(3000 + 40 * 977.5, abs=200)
    assert of(10**12) == 64_000


def test_a_model_of_counts_asks_for_its_file_once_it_is_there(tmp_path) -> None:
    def change(config):
        config["pathvars"]["results"] = str(tmp_path)

    found = costs("configs/smoke.yaml", change)
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
    work = costs("configs/paper-importance.yaml").work
    config = yaml.safe_load((ROOT / "configs" / "paper-importance.yaml").read_text())
    proposal, held = next(iter(config["proposals"].items()))
    job = {"model": held["model"], "proposal": proposal, "instances": "00000", "samples": "00000"}
    plan = work.run.importance
    setting = next(iter(plan.settings("weights", proposal)))
    found = work.units("draw", {**job, "draw": "weights", "setting": setting})
    assert found == 50 * 10_000
    setting = next(iter(plan.settings("beams", proposal)))
    found = work.units("draw", {**job, "draw": "beams", "setting": setting})
    assert found == 50 * (1 + 10 + 100)
    assert work.job_weights(job) > work.job_weights({"model": held["model"]}) > 0


# ---- jobs that ran ----


def test_two_sizes_tell_the_start_from_the_rate() -> None:
    jobs = [Finished(n, 7 + 0.5 * n, 100 + n, 8 * n) for n in (10, 30, 20)]
    timing = fit_timing(jobs)
    assert (timing.start, timing.seconds) == pytest.approx((7, 0.5))
    assert timing.megabytes == 130
    assert timing.output_bytes == pytest.approx(8)
    assert timing.total(1000) == pytest.approx(507)
    assert not timing.rough


def test_one_size_takes_some_seconds_for_the_start() -> None:
    timing = fit_timing([Finished(10, 25, 0, 0), Finished(10, 25, 0, 0)])
    assert (timing.start, timing.seconds) == (5, 2)
    assert fit_timing([Finished(10, 2, 0, 0)]).total(10) == 2


def test_noise_gives_no_negative_time() -> None:
    """A larger job that was faster, and one that took more than in proportion."""
    for jobs in ([(10, 9.0), (30, 8.0)], [(10, 1.0), (30, 90.0)]):
        timing = fit_timing([Finished(n, s, 0, 0) for n, s in jobs])
        assert timing.start >= 0
        assert timing.total(30) == pytest.approx(jobs[1][1])
        assert timing.seconds > 0
        assert timing.rough == (jobs[1][1] < jobs[0][1])


def test_the_kind_of_a_job_leaves_out_which_part_it_is() -> None:
    held = {"model": "lstm", "decoding": "beam", "shard": "00003"}
    assert kind_of("generate", held) == "generate/lstm/beam"
    assert kind_of("train", {"model": "lstm"}) == "train/lstm"


BROKEN = ["", "x", "[]", "{}", '{"s": null}', '{"s": "a"}', "\n", '{"s": NaN}', '{"s": -1}']


@pytest.mark.parametrize("text", BROKEN)
def test_what_is_no_benchmark_says_nothing(tmp_path, text) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(text)
    assert read_benchmark(path) is None
    assert read_benchmark(tmp_path / "away.jsonl") is None
    assert read_plan(path) == {}


def test_a_plan_with_numbers_that_cannot_be_leaves_them_aside(tmp_path) -> None:
    rows = {"a": Timing(1, 2, 3, 4), "b": Timing(1, math.inf, 3, 4), "c": Timing(-1, 2, 3, 4)}
    (tmp_path / "plan.json").write_text(json.dumps(plan_content(rows, "here")))
    assert read_plan(tmp_path / "plan.json") == {"a": Timing(1, 2, 3, 4)}


def test_the_last_attempt_counts_and_memory_may_be_unknown(tmp_path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"s": 1, "max_rss": 2}\n{"s": 3.5, "max_rss": "NA"}\n')
    assert read_benchmark(path) == (3.5, 0.0)


def test_jobs_that_need_not_run_come_before_the_plan_and_the_plan_before_the_job(tmp_path) -> None:
    """Of documents with beams of two: twice as many units."""
    known = costs("configs/smoke.yaml")

    def shard(number: int, seconds: float | None = None) -> PlannedJob:
        wildcards = {"model": "lstm", "decoding": "beam", "shard": f"{number:05d}"}
        benchmark, output = tmp_path / f"{number}.jsonl", tmp_path / f"{number}.parquet"
        if seconds:
            benchmark.write_text(json.dumps({"s": seconds, "max_rss": 40}))
            output.write_bytes(b"0" * 24)
        return known.describe_job(
            "generate", wildcards, {"gpu": 1, "mem_mb": 700}, benchmark, [output]
        )

    job = shard(0)
    assert (job.kind, job.units, job.gpus, job.megabytes) == ("generate/lstm/beam", 60, 1, 700)
    assert PlannedJob(**json.loads(json.dumps(job._asdict())))._replace(outputs=job.outputs) == job
    (guess,) = expect([job], [], {})
    assert guess == job
    assert not job.measured
    (own,) = expect([shard(0, 9)], [], {})
    assert (own.minutes, own.measured, own.output_bytes) == (9 / 60, True, 24)
    (tmp_path / PLAN_FILE).write_text(
        json.dumps(plan_content({job.kind: fit_timing([Finished(10, 25, 0, 0)])}, "here"))
    )
    planned = read_plan(tmp_path / PLAN_FILE)
    assert expect([job], [], planned)[0].minutes == (5 + 2 * 60) / 60
    assert expect([job], [shard(1, 3)], planned)[0].minutes == 3 / 60
    (tmp_path / "1.parquet").unlink()
    assert fit_finished([shard(1), PlannedJob("plot")]) == {}  # its output is not there


# ---- weights ----


@pytest.mark.parametrize(
    ("name", "millions"),
    [
        ("transformer", 204.4),
        ("transformer-adaptive-softmax", 315.0),
        ("cnn", 133.0),
        ("lstm", 59.6),
    ],
)
def test_the_papers_models_are_counted_to_a_hundredth(paper, name, millions) -> None:
    assert paper.work.weights(name) == pytest.approx(millions * 1e6, rel=0.01)
    assert paper.work.weights("trigram") == 0
    assert paper.work.training(name)["batch_tokens"] == 65536
    assert paper.work.training(name)["optimizer"] == "adamw"  # a default


def test_options_change_the_count_as_they_change_the_model() -> None:
    """By hand: two directions of embeddings and biases; an LSTM has four gates."""
    asked = {"layers": 1, "hidden_size": 30, "embedding_size": 10, "tie_weights": False}
    gates = 4 * 30 * (10 + 30 + 2)
    assert count_weights("lstm", asked, 500) == gates + 500 * 10 + 500 * 30 + 500
    assert count_weights("sentence-rnn", {"size": 7}, 100) > 100 * 7


def test_every_family_has_a_count_that_grows_with_its_vocabulary() -> None:
    """The default run has all of them; what is worked out or counted has none."""
    words = ASSUMED_WORDS * 10

    def grow(config):
        config["vocabularies"]["words"]["maximum_size"] = words

    small, large = costs("config.yaml").work, costs("config.yaml", grow).work
    config = small.run.config
    for name in [*config["models"], *config["proposals"]]:
        family = small.run.models.find(name)["family"]
        none = family in (*families_of("counted"), "optimal")
        assert (small.weights(name) == 0) == none
    assert large.weights("rnng") > 5 * small.weights("rnng")
    for family in families_of("trained", "unnormalized", "latent", "proposal"):
        if FAMILIES[family].reference:
            assert count_weights(family, {}, 2_000) > count_weights(family, {}, 1_000)


def test_what_is_not_built_is_as_large_as_its_files(tmp_path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"\0" * 4_000)
    trained = tmp_path / "models" / "lstm" / "model.safetensors"
    trained.parent.mkdir(parents=True)
    trained.write_bytes(b"\0" * 8_000)

    def bring(config):
        config["pathvars"] = {"results": str(tmp_path)}
        for name, path in (("here", str(tmp_path)), ("there", "someone/model")):
            held = {"family": "huggingface", "corpus": "wikipedia", "architecture": {"path": path}}
            config["models"][name] = held

    work = costs("configs/smoke.yaml", bring).work
    assert work.weights("here") == 1_000
    assert work.weights("there") == ASSUMED_BYTES // 4
    assert work.weights("lstm") == 2_000
