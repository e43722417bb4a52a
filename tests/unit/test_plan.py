"""What rules look up, what jobs take and ask for, the pilot that measures it, how far a run is.

Oracles: times from a chosen start and rate; other attempts and sizes; tensors of every family on
device ``meta``, the papers' counts; shipped configurations; a log by hand; living and killed
processes, Snakemake's own formatter, filter and parser.
"""

import atexit
import io
import json
import logging
import os
import signal
import subprocess
import sys
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import pytest
import yaml
from snakemake.logging import ColorizingTextHandler, DefaultFilter, DefaultFormatter
from snakemake_interface_logger_plugins.common import LogEvent

from beyond_perplexity.commands import plan, progress
from beyond_perplexity.commands.progress import describe_progress, read_progress
from beyond_perplexity.commands.run import snakemake_command
from beyond_perplexity.figures import FIGURES
from beyond_perplexity.models.families import FAMILIES, families_of, is_analytic
from beyond_perplexity.planning import job_costs, snakemake_hooks, validation
from beyond_perplexity.planning import snakemake_hooks as run_record
from beyond_perplexity.planning.job_costs import DAY, NEEDS, START, JobCosts, PlannedJob, Timing
from beyond_perplexity.planning.models import ASSUMED_WEIGHTS, ASSUMED_WORDS, count_weights
from beyond_perplexity.planning.pilot import (
    advise_shards,
    link_finished,
    prerequisites,
    round_size,
    shrink,
    summarize_run,
    targets,
)
from beyond_perplexity.planning.run import Run, prepare_environment
from beyond_perplexity.report import TABLES
from beyond_perplexity.storage.benchmarks import read_benchmark
from tests.unit import evaluator_oracles, planned
from tests.unit.planned import ROOT, SMOKE

SHARD = {"model": "transformer", "decoding": "ancestral", "shard": "00000"}
SIZE = {"documents": 2, "instances": 1, "samples": 5, "steps": 3}


def load(path, results, **sections):
    """Return a configuration as it is written, some of its sections changed, and its run."""
    given = path, {"pathvars": {"results": str(results)}}
    return planned.load(*given, **sections), planned.run_of(*given, **sections)


def costs(path, results="/nowhere", **changes):
    return JobCosts(load(path, results, **changes)[1])


@pytest.fixture(scope="module")
def paper():
    return costs("configs/paper.yaml")


def test_jobs_ask_for_what_was_measured_with_a_margin_and_double_with_every_attempt(paper):
    for rule in ("train", "generate", "measure_perplexity", "count_samples"):
        for found in (paper.megabytes, paper.minutes):
            asked = [found(rule, {**SHARD, "block": "00000"}, attempt) for attempt in (1, 2, 3)]
            assert asked == [asked[0], 2 * asked[0], 4 * asked[0]]
    assert paper.minutes("train", {"model": "transformer"}) == DAY
    known = JobCosts(paper.run, {"generate/transformer/ancestral": Timing(60, 0.1, 9_000, 0)})
    assert known.seconds("generate", SHARD) == 60 + 0.1 * 50_000
    assert known.minutes("generate", SHARD) == 260  # 3 x 84.3, up to tens
    assert known.minutes("generate", SHARD, attempt=2) == 520
    assert known.megabytes("generate", SHARD) == 13_500
    small = JobCosts(paper.run, {"generate/transformer/ancestral": Timing(60, 0.1, 10, 0)})
    assert small.megabytes("generate", SHARD) == paper.megabytes("generate", SHARD)


def test_a_model_asks_for_the_weights_of_its_file_or_of_its_architecture(tmp_path):
    """28 bytes of a weight in training, 10 when it is run; weights of 4 bytes, also of counts."""
    common = {"family": "huggingface", "corpus": "wikipedia"}
    paths = {"here": str(tmp_path), "there": "someone/model"}
    external = {name: common | {"architecture": {"path": path}} for name, path in paths.items()}
    words = {"words": {"kind": "closed", "maximum_size": 50_000}}
    found = costs(SMOKE, tmp_path, models=external, vocabularies=words)
    guess = found.models.weights("lstm")
    assert guess > 50_000
    for rule, size, start in (("train", 28, 3000), ("generate", 10, 2000)):
        asked = found.megabytes(rule, SHARD | {"model": "lstm"})
        assert asked == pytest.approx(start + size * guess / 1e6, abs=200)
    assert found.models.weights("there") == ASSUMED_WEIGHTS
    scored = {"model": "kn-3"}
    before = found.megabytes("measure_perplexity", scored)
    for name, size in (("lstm", 8_000), ("kn-3", 4_000_000_000)):
        file = tmp_path / "models" / name / "model.safetensors"
        file.parent.mkdir(parents=True)
        with open(file, "wb") as stream:
            stream.truncate(size)
    (tmp_path / "model.safetensors").write_bytes(b"\0" * 4_000)
    found = costs(SMOKE, tmp_path, models=external)
    sizes = {name: found.models.weights(name) for name in ("here", "lstm", "kn-3", "trigram")}
    assert sizes == {"here": 1_000, "lstm": 2_000, "kn-3": 10**9, "trigram": 0}
    assert (before, found.megabytes("measure_perplexity", scored)) == (3_000, 13_000)
    latent = costs("configs/paper-importance.yaml")
    proposal, held = next(iter(latent.config["proposals"].items()))
    pair = {"model": held["model"], "proposal": proposal}
    alone = latent.megabytes("describe_latents", {"model": held["model"]})
    assert latent.megabytes("describe_latents", pair) > alone > 2_000


def test_a_larger_shard_asks_for_more_time_and_all_shards_for_the_same(paper):
    def seconds(documents):
        size = {"documents_per_shard": documents}
        return costs("configs/paper.yaml", generation=size).seconds("generate", SHARD)

    each = [(seconds(n) - START) / n for n in (100, 5_000, 1_000_000)]
    assert each == pytest.approx([each[0]] * 3)
    assert paper.minutes("generate", SHARD) > job_costs.SHORTEST


def test_units_are_what_time_grows_with_and_counts_ask_for_what_their_corpus_holds(paper, tmp_path):
    """A beam writes all its hypotheses; a training reads its steps, or its epochs of the split."""
    assert paper.units("generate", {**SHARD, "decoding": "beam"}) == 5 * 50_000
    assert (paper.units("generate", SHARD), paper.units("plot", {"exhibit": "main"})) == (50_000, 1)
    assert paper.units("measure_tendencies", SHARD) == paper.config["generation"]["documents"]
    drawn = costs("configs/paper-importance.yaml")
    job = {"model": "kglm", "instances": "00000", "samples": "00000"}
    for name in drawn.config["proposals"]:
        for draw, units in (("weights", 50 * 10_000), ("beams", 50)):
            setting = next(iter(drawn.run.importance.settings(draw, name)))
            assert drawn.units("draw", {**job, "draw": draw, "setting": setting}) == units
    few = {"models.lstm.training": {"maximum_steps": 3, "batch_tokens": 100}}
    short = JobCosts(planned.run_of(SMOKE, few))
    assert short.units("train", {"model": "lstm"}) == 300
    tokens = short.run.corpora.tokens("wikipedia")
    share = short.config["corpora"]["wikipedia"]["split"]["train"]
    assert short.units("train", {"model": "trigram"}) == tokens * share
    assert short.units("extract_corpus", {"corpus": "wikipedia"}) == tokens
    folder = tmp_path / "corpora" / "wikipedia"
    folder.mkdir(parents=True)

    def of(tokens):
        (folder / "extraction.json").write_text(json.dumps({"tokens": tokens}))
        return costs("configs/paper.yaml", tmp_path).megabytes("train", {"model": "trigram"})

    assert (of(10_000), of(10**9)) == (3100, pytest.approx(3000 + 40 * 977.5, abs=200))
    assert of(10**12) == 64_000


def test_needs_are_those_of_rules_and_of_benchmarks_the_last_attempt_counts(tmp_path):
    text = "\n".join(path.read_text() for path in (ROOT / "rules").glob("*.smk"))
    for rule, (_, _, seconds) in NEEDS.items():
        assert f"\nrule {rule}:\n" in text
        assert f'mem_mb=memory("{rule}")' in text
        assert (f'runtime=minutes("{rule}")' in text) == bool(seconds)
    path = tmp_path / "a.jsonl"
    for text in BROKEN:
        path.write_text(text)
        assert read_benchmark(path) is None
    assert read_benchmark(tmp_path / "away.jsonl") is None
    assert job_costs.read_plan(tmp_path / "away.json") == {}
    path.write_text('{"s": 1, "max_rss": 2}\n{"s": 3.5, "max_rss": "NA"}\n')
    assert read_benchmark(path) == (3.5, 0.0)


def test_sizes_tell_the_start_from_the_rate_and_noise_gives_no_negative_time():
    jobs = [(n, 7 + 0.5 * n, 100 + n, 8 * n) for n in (10, 30, 20)]
    timing = job_costs.fit_timing(jobs)
    assert ((timing.start, timing.seconds), timing.megabytes) == (pytest.approx((7, 0.5)), 130)
    assert (timing.output_bytes, timing.total(1000)) == (pytest.approx(8), pytest.approx(507))
    timing = job_costs.fit_timing([(10, 25, 0, 0), (10, 35, 0, 0)])
    assert (timing.start, timing.seconds) == (START, 1)
    timing = job_costs.fit_timing([(10, 24, 0, 0)])
    assert (timing.start, timing.seconds) == pytest.approx((16, 0.8))
    # A larger job that was faster, and one that took more than in proportion
    for jobs in ([(10, 9.0), (30, 8.0)], [(10, 1.0), (30, 90.0)]):
        timing = job_costs.fit_timing([(n, s, 0, 0) for n, s in jobs])
        assert timing.start >= 0
        assert timing.total(30) == pytest.approx(jobs[1][1])
        assert timing.seconds > 0


@pytest.mark.parametrize("start", [0, 0.4, 3, START])
@pytest.mark.parametrize("rate", [0, 0.01, 1, 60])
def test_jobs_of_one_size_tell_within_a_factor_of_2_what_one_of_4_times_takes(start, rate):
    """Whatever of the time is the start."""
    for units in (1, 30, 50_000):
        known = job_costs.fit_timing([(units, start + rate * units, 0, 0)])
        real = start + rate * 4 * units
        assert real / 2.000001 <= known.total(4 * units) <= 2.000001 * real


BROKEN = ["", "x", "[]", "{}", '{"s": null}', '{"s": "a"}', "\n", '{"s": NaN}', '{"s": -1}']


class DryJob:
    resources = {"gpu": 1, "mem_mb": 700}  # noqa: RUF012

    def __init__(self, folder, number):
        self.wildcards_dict = {"model": "lstm", "decoding": "beam", "shard": f"{number:05d}"}
        self.benchmark, self.output = folder / f"{number}.jsonl", [folder / f"{number}.parquet"]


def test_jobs_that_need_not_run_come_before_the_plan_and_the_plan_before_the_job(tmp_path):
    """Of documents with beams of two: twice as many units."""
    known = costs(SMOKE)

    def shard(number, seconds=None):
        job = DryJob(tmp_path, number)
        if seconds:
            job.benchmark.write_text(json.dumps({"s": seconds, "max_rss": 40}))
            job.output[0].write_bytes(b"0" * 24)
        return known.describe_job("generate", job)

    def expect(job, *done, **planned):
        (found,) = job_costs.expect([job], done, planned.get("planned", {}))
        return found

    job = shard(0)
    assert (job.kind, job.units, job.gpus, job.megabytes) == ("generate/lstm/beam", 60, 1, 700)
    assert PlannedJob(**json.loads(json.dumps(job._asdict())))._replace(outputs=job.outputs) == job
    assert expect(job) == job
    assert not job.measured
    own = expect(shard(0, 9))
    assert (own.minutes, own.measured, own.output_bytes) == (pytest.approx(9 / 60), True, 24)
    timing, file = Timing(5, 2, 0, 0), tmp_path / job_costs.PLAN_FILE
    older = {**timing._asdict(), "rough": 1}  # as plans had it once
    file.write_text(json.dumps({"machine": "", "timings": {job.kind: older}}))
    plan = job_costs.read_plan(file)
    assert (plan, expect(job, planned=plan).minutes) == ({job.kind: timing}, (5 + 2 * 60) / 60)
    assert expect(job, shard(1, 3), planned=plan).minutes == pytest.approx(3 / 60)
    (tmp_path / "1.parquet").unlink()
    assert job_costs.fit_finished([shard(1), PlannedJob("plot")]) == {}  # its output is not there


def test_the_papers_models_are_counted_and_options_change_the_count_as_the_model(paper):
    millions = {"transformer": 204.4, "transformer-adaptive-softmax": 315.0, "cnn": 133.0}
    millions |= {"lstm": 59.6, "trigram": 0}
    found = {name: paper.models.weights(name) / 1e6 for name in millions}
    assert found == pytest.approx(millions, rel=0.01)
    # By hand: two directions of embeddings and biases; an LSTM has four gates
    asked = {"layers": 1, "hidden_size": 30, "embedding_size": 10, "tie_weights": False}
    gates = 4 * 30 * (10 + 30 + 2)
    assert count_weights("lstm", asked, 500) == gates + 500 * 10 + 500 * 30 + 500
    assert count_weights("sentence-rnn", {"size": 7}, 100) > 100 * 7


ANALYTIC = [name for name in families_of("proposal") if is_analytic(name)]


def test_every_family_has_a_count_that_grows_with_its_vocabulary():
    """The default run has all of them; what is derived or counted has none."""
    small, config = costs("config.yaml"), yaml.safe_load((ROOT / "config.yaml").read_text())
    words = {**config["vocabularies"]["words"], "maximum_size": ASSUMED_WORDS * 10}
    large = costs("config.yaml", vocabularies={"words": words})
    for name in [*small.config["models"], *small.config["proposals"]]:
        none = small.models.find(name)["family"] in (*families_of("counted"), *ANALYTIC)
        assert (small.models.weights(name) == 0) == none
    assert large.models.weights("rnng") > 5 * small.models.weights("rnng")
    for family in families_of("trained", "unnormalized", "latent", "proposal"):
        if FAMILIES[family].reference and not FAMILIES[family].bring:
            assert count_weights(family, {}, 2_000) > count_weights(family, {}, 1_000)


def make_pilot(raw, run):
    small = shrink(raw, run, SIZE)
    assert yaml.safe_load(yaml.safe_dump(small)) == small
    validation.validate(small)
    return Run(small)


@pytest.mark.parametrize("path", ["config.yaml", *map(str, ROOT.glob("configs/*.yaml"))])
def test_every_shipped_configuration_has_a_pilot(path, tmp_path):
    """Its shards are few: two of every sample set, and as many of each model elsewhere."""
    raw, run = load(path, tmp_path)
    before = yaml.safe_dump(raw)
    pilot = make_pilot(raw, run)
    assert yaml.safe_dump(raw) == before
    made = targets(pilot)
    assert made
    assert all(file.startswith(f"{tmp_path}/plan/run/") for file in made)
    for model in run.config["generation"]["models"]:
        assert len(pilot.samples.shards(model)) == 2
        assert pilot.samples.shard_range("00000")[1] == 15 * pilot.samples.shard_range("00001")[1]
    for name in run.config["evaluators"]:
        held = pilot.config["evaluators"][name].get("training", {})
        networks = run.evaluators.is_trained(name) and run.evaluators.row(name).network
        assert (held.get("maximum_steps") == 3) == networks
    for name in (*run.config["models"], *run.config["proposals"]):
        steps = pilot.models.find(name).get("training", {}).get("maximum_steps")
        row = pilot.models.row(name)
        shortened = row.kind not in ("counted", "external") and row.reference is not None
        assert (steps == 3) == shortened


def test_a_pilot_takes_what_is_there_and_what_it_cannot_shorten_is_made_before(tmp_path):
    for name in ("models/lstm/model.json", "evaluators/word2vec/evaluator.json", "corpora/x.y"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).touch()
    (tmp_path / "models" / "rnn").mkdir()  # begun
    _, run = load(SMOKE, tmp_path)
    for _ in range(2):  # a second pilot begins anew
        folder = link_finished(run)
        held = {str(path.relative_to(folder)) for path in folder.rglob("*")}
        links = {"corpora", "models/lstm", "evaluators/word2vec"}
        assert held == {*links, "models", "evaluators"}
        assert all((folder / link).is_symlink() for link in links)
        (folder / "samples").mkdir()
        (folder / "models" / "rnn").mkdir()
    assert (tmp_path / "models/lstm/model.json").exists()
    _, run = load(SMOKE, tmp_path)
    files = ["corpora/wikipedia/documents.parquet", "vocabularies/wikipedia/words.json"]
    files += [f"models/{name}/model.json" for name in ("kn-3", "trigram")]
    assert prerequisites(run) == sorted(f"{tmp_path}/{file}" for file in files)


def test_a_shard_of_half_an_hour_follows_from_start_and_rate(tmp_path):
    """Shards of 30 documents with beams of two: 60 units; half an hour less a minute is 1740 s."""
    _, run = load(SMOKE, tmp_path)
    timings = {"generate/lstm/beam": Timing(60, 0.25, 900, 10), "train/lstm": Timing(0, 2, 700, 1)}
    timings |= {"generate/lstm/ancestral": Timing(0, 1, 800, 10)}
    timings |= {"of another run": Timing(0, 1, 1, 1)}
    units = {"generate/lstm/beam": 60, "generate/lstm/ancestral": 30, "train/lstm": 90}
    jobs = [PlannedJob("", kind, held / part) for kind, held in units.items() for part in (2, 1)]
    lines = advise_shards(run, timings, jobs)
    assert [line.split()[0] for line in lines[1:4]] == sorted(units)
    assert lines[2].split()[3:] == ["1.2", f"{round_size(1740 / 0.5):,}"]  # 1.25 min of a shard
    assert "generation.documents_per_shard: 2,600; 1,800  (now 30)" in "\n".join(lines)
    assert [round_size(number) for number in (7.4, 99.6, 1234, 98_765)] == [7, 100, 1200, 99_000]


REFUSED = {
    "--documents 0": "--documents: ",
    "--configfile {folder}/away.yaml": "away.yaml: ",
    "--configfile {folder}/bad.yaml": "bad.yaml: cannot be read as YAML",
    "--configfile {folder}/list.yaml": "list.yaml: is no configuration",
    "--configfile {folder}/odd.yaml": "config: ",
}


def test_what_cannot_be_planned_is_said_before_anything_runs(tmp_path, monkeypatch):
    for name, text in (("bad", "{"), ("list", "[1]"), ("odd", "sead: 1")):
        (tmp_path / f"{name}.yaml").write_text(text)
    monkeypatch.setattr(subprocess, "run", None)
    for given, said in REFUSED.items():
        monkeypatch.setattr("sys.argv", ["plan", *given.format(folder=tmp_path).split()])
        evaluator_oracles.check_refused(said, plan.main)


LOG = """\
Job stats:
job         count
--------  -------
train           1
generate        4
all             1
total           6

Select jobs to execute...
[Sun Nov 22 10:00:00 2026]
rule train:
    jobid: 3
[Sun Nov 22 10:10:00 2026]
Finished jobid: 3 (Rule: train)
1 of 6 steps (17%) done
[Sun Nov 22 10:10:00 2026]
rule generate:
    jobid: 1
[Sun Nov 22 10:10:00 2026]
rule generate:
    jobid: 2
[Sun Nov 22 10:15:00 2026]
Error in rule generate:
    jobid: 1
Trying to restart job 1.
[Sun Nov 22 10:15:00 2026]
rule generate:
    jobid: 1
[Sun Nov 22 10:20:00 2026]
Finished jobid: 2 (Rule: generate)
Finished jobid: 2 (Rule: generate)
"""


def test_jobs_are_counted_by_rule_and_the_end_is_estimated_from_what_they_take():
    """Of 600 + 4 × 300 + 450 seconds of work 900 took 20 minutes; 1350 are left."""
    found = read_progress(LOG)
    assert found.planned == {"train": 1, "generate": 4, "all": 1}
    assert (found.finished, found.failed) == ({"train": 1, "generate": 1}, {"generate": 1})
    assert found.end({"train": 600, "generate": 300}) == datetime(2026, 11, 22, 10, 50)
    assert found.end({}) == datetime(2026, 11, 22, 11, 0)  # 2 of 6 jobs in 20 minutes
    assert read_progress("\n".join(LOG.splitlines()[:10])).end({}) is None
    done = LOG + "".join(f"Finished jobid: {k} (Rule: generate)\n" for k in (1, 4, 5))
    done += "Finished jobid: 0 (Rule: all)\n"
    assert describe_progress(read_progress(done), {}).endswith("6 of 6 jobs done (100%)")


def test_the_command_reads_the_newest_log(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["progress"])
    evaluator_oracles.check_refused("no log of a run", progress.main)
    folder = tmp_path / ".snakemake/log"
    folder.mkdir(parents=True)
    (folder / "a.snakemake.log").write_text(LOG)
    for rule, seconds in (("train", 600), ("generate", 300)):
        path = tmp_path / f"results/benchmarks/{rule}/a.jsonl"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps({"s": seconds}))
    progress.main()
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].split() == ["generate", "4", "1", "1", "1"]
    assert lines[-2] == "2 of 6 jobs done (33%)"
    assert lines[-1].startswith("ends about Sun 22 Nov 10:50")
    report = folder / "b.snakemake.log"
    report.write_text("Building DAG of jobs...\nReport created.\n")
    os.utime(report, (2**33, 2**33))
    progress.main([])
    assert capsys.readouterr().out.splitlines() == lines
    for name, said in ((report, "no log of a run with jobs"), ("none", "no such file")):
        evaluator_oracles.check_refused(said, progress.main, [f"--log={name}"])


SHA = "ab" * 32


@pytest.fixture
def config():
    place = {"url": "http://x.org/a/t.txt?b=1", "sha256": SHA}
    external = {"mine": {"corpus": "wikipedia", "path": place}}
    return load(SMOKE, "results", external_samples=external)[1].config


@pytest.mark.parametrize("per_shard", [1, 7, 30, 60, 1000])
def test_shards_cover_every_document_once(config, per_shard):
    config["generation"]["documents_per_shard"] = per_shard
    run = Run(config)
    ranges = [run.samples.shard_range(shard) for shard in run.samples.shards("lstm")]
    assert ranges[0][0] == 0
    assert all(first + count == following for (first, count), (following, _) in pairwise(ranges))
    assert sum(count for _, count in ranges) == config["generation"]["documents"]
    assert run.samples.shards("external") == ["00000"]


@pytest.mark.parametrize(("per_count", "n_blocks"), [(1, 9), (14, 5), (20, 3), (21, 3), (55, 2)])
def test_blocks_of_shards_are_counted_together_and_hold_each_once(config, per_count, n_blocks):
    config["generation"]["documents_per_shard"] = 7  # nine shards
    config["tendencies"]["documents_per_count"] = per_count
    samples = Run(config).samples
    blocks = samples.blocks("lstm")
    held = [samples.block_files("lstm", "beam", block) for block in blocks]
    shards = [f"<results>/samples/lstm/beam/{shard}.parquet" for shard in samples.shards("lstm")]
    assert [file for files in held for file in files] == shards
    assert len(blocks) == n_blocks
    merged = samples.statistics_file("lstm", "beam")
    assert merged == "<results>/statistics/lstm/beam/merged.parquet"
    config["generation"]["documents"] += 200
    grown = Run(config).samples
    n_full = 60 // (-(-per_count // 7) * 7)
    assert [grown.block_files("lstm", "beam", b) for b in blocks[:n_full]] == held[:n_full]


def test_sample_sets_are_models_by_decodings_and_external_ones_and_small_ones_stay_whole(config):
    samples = Run(config).samples
    expected = ["lstm/ancestral", "lstm/beam", "trigram/ancestral", "trigram/beam"]
    assert (samples.sources(), samples.sources("another")) == ([*expected, "external/mine"], [])
    for names in (("lstm", "beam"), ("external", "mine")):
        file = samples.statistics_file(*names)
        assert [file] == samples.counted_files(*names)
        assert file.endswith("/00000.parquet")
        assert samples.corpus_of(*names) == "wikipedia"
    assert len(samples.block_files("lstm", "beam", "00000")) == 2


def test_files_are_local_embedded_text_is_none_and_missing_ones_can_be_planned(config, tmp_path):
    corpora = Run(config).corpora
    place = corpora.local_path(config["external_samples"]["mine"]["path"])
    assert place == f"results/downloads/{SHA}/t.txt"
    assert corpora.downloads[SHA]["url"] == "http://x.org/a/t.txt?b=1"
    assert corpora.members(SHA) == corpora.source_files("wikipedia") == []
    there = tmp_path / "there.xml"
    there.write_text("x")
    paths = [str(there), "missing.xml", {"url": "http://x.org/b.xml", "sha256": SHA}]
    config["corpora"]["wikipedia"]["source"]["paths"] = paths
    corpora, download = Run(config).corpora, f"results/downloads/{SHA}/b.xml"
    assert corpora.source_files("wikipedia") == [str(there), "missing.xml", download]
    assert corpora.present(corpora.source_files("wikipedia")) == [str(there), download]
    assert json.loads(corpora.options("wikipedia"))["source"]["paths"][2] == download


def test_figures_and_tables_are_made_of_what_they_show(config):
    run = Run(config)
    report, (group, *others) = run.report, run.report.groups()
    assert group == "tendencies/wikipedia"
    assert others == [f"{paper}/wikipedia" for paper in ("contrastive", "semantics", "relations")]
    sample_sets = len(run.samples.sources("wikipedia"))
    figures, tables = ("sample_size", "figure_7", "training"), ("table_4", "sensitivity")
    named = [*((FIGURES, name) for name in figures), *((TABLES, name) for name in tables)]
    kinds = {name: report.inputs(rows, group, name) for rows, name in named}
    held = {(n, k): len(files) for n, of in kinds.items() for k, files in of.items() if files}
    assert held == {
        ("sample_size", "sample_size"): sample_sets,
        ("figure_7", "curves"): sample_sets + 2,  # human text in a vocabulary, and raw
        ("training", "training"): 1,  # a trigram has no curve
        ("table_4", "raw_measures"): sample_sets,
        ("table_4", "resamples"): config["tendencies"]["resamples"],
        ("sensitivity", "sensitivity"): 1,
    }
    codes = {report.code("plot", FIGURES, group, f"figure_{n}") for n in range(1, 10)}
    assert len(codes) == 9  # also of functions of one file
    files = report.files()
    of_contrasts = 2 * 3 + 3 * 6  # nothing of pairs, which are external
    of_meaning, of_relations = 2 * 3 + 3 * 6, 2 * 1 + 3 * 3
    expected = 2 * 19 + 3 * 13 + of_contrasts + of_meaning + of_relations
    assert len(set(files)) == len(files) == expected


def test_figures_with_nothing_to_show_are_left_out_and_neural_models_ask_for_a_gpu(config):
    config["generation"]["models"] = ["trigram"]
    report = Run(config).report
    (group,) = report.groups("tendencies")
    every = [key.split("/")[1] for key in FIGURES if key.startswith("tendencies/")]
    shown = report.names(FIGURES, group)
    lacking = ("training", "perplexity_parts", "perplexity_by_position")
    assert shown == [name for name in every if name not in lacking]
    config["generation"]["models"] = ["lstm"]
    config["perplexity"]["parts_of"] = ["trigram", "lstm"]
    run = Run(config)
    names = [f"<results>/perplexity_tokens/{name}.parquet" for name in ("trigram", "lstm")]
    assert run.models.token_files("wikipedia") == names
    assert run.report.inputs(FIGURES, group, "perplexity_parts") == {
        "perplexity_parts": ["<results>/perplexity_parts/wikipedia.parquet"]
    }
    config["generation"]["models"], config["external_samples"] = [], {}
    config["contrastive"]["models"] = config["semantics"]["models"] = []
    assert Run(config).report.groups() == Run(config).report.files() == []
    models = Run(config).models
    assert [models.gpus(name) for name in ("lstm", "trigram")] == [1, 0]
    assert all((ROOT / file).is_file() for file in models.code("lstm"))


def test_a_model_that_is_external_depends_on_its_files_and_no_vocabulary(config, tmp_path):
    for name in ("config.json", "model.safetensors", "tokenizer.json", "pytorch_model.bin"):
        (tmp_path / name).write_text("")
    external = {"family": "huggingface", "corpus": "wikipedia", "training": {}}
    config["models"]["local"] = {**external, "architecture": {"path": str(tmp_path)}}
    hub = {"architecture": {"path": "a/b"}, "training": {"beta2": 1}}
    config["models"]["hub"] = external | hub
    config["generation"]["models"] += ["local", "hub"]
    run = Run(config)
    expected = ["config.json", "model.safetensors", "tokenizer.json"]
    assert run.models.external_files("local") == [str(tmp_path / name) for name in expected]
    assert run.models.external_files("hub") == run.models.external_files("lstm") == []
    assert run.models.vocabulary_files("local") == []
    assert run.models.vocabulary_files("lstm") == ["<results>/vocabularies/wikipedia/words.json"]
    # A curve of one point is none: only what is trained has one.
    files = run.report.inputs(FIGURES, "tendencies/wikipedia", "training")["training"]
    assert [Path(file).parts[2] for file in files] == ["lstm", "hub"]
    assert run.models.gpus("local") == 1


def test_the_summary_adds_up_counts_latent_models_and_names_missing_files(config, tmp_path):
    jobs = [
        PlannedJob("generate", gpus=1, minutes=90, measured=True, megabytes=5000, output_bytes=2e9),
        PlannedJob("generate", gpus=1, minutes=60, measured=True, megabytes=4000, output_bytes=1e9),
        PlannedJob("plot", minutes=50),
    ]
    text = summarize_run(Run(config), jobs)
    for said in (
        *("240 (4 sets of 60)", "5: lstm, trigram, kn-3, rnn, sentence-rnn", "3 to do"),
        *("2  generate      75.0 min each\n", "1  plot          50.0 min each  guessed\n"),
        *("GPU-hours    2.5\n", "CPU-hours    0.8 ", "75% of the time", "3.0 GB"),
        "5,000 MB in a job at most (generate)",
    ):
        assert said in text
    assert "missing" not in text
    own = {**config["external_samples"]["mine"], "path": str(tmp_path / "own.txt")}
    config["external_samples"]["own"] = own
    text = summarize_run(Run(config), [])
    assert f"1 of the files that it reads\n    {tmp_path}/own.txt" in text
    (tmp_path / "own.txt").touch()
    assert "missing" not in summarize_run(Run(config), [])
    latent = planned.run_of("configs/smoke-importance.yaml")
    models = latent.importance.models()
    text = summarize_run(latent, [])
    assert f"({len(models)} of them with latent variables): " in text
    assert all(name in text for name in models)


def test_the_environment_is_prepared_once(monkeypatch):
    monkeypatch.setenv("PATH", "/bin")
    monkeypatch.setenv("PYTHONPATH", "")
    monkeypatch.setenv("PYTHONSAFEPATH", "")
    for _ in range(2):
        prepare_environment("/somewhere")
    assert os.environ["PATH"].split(os.pathsep)[1:] == ["/bin"]
    assert os.environ["PYTHONPATH"] == "/somewhere"
    assert os.environ["PYTHONSAFEPATH"] == "1"  # no folder `scripts` of the user comes first


# A run that holds its record; its job, which outlives a kill of the run alone, holds it too.
HOLD = """
import subprocess, sys, time
from beyond_perplexity.planning.snakemake_hooks import RunRecord
record = RunRecord("results", sys.argv[1] == "elsewhere")
if sys.argv[1] == "job":
    command = f"set -euo pipefail; {record.prefix}echo $$; exec sleep 60"
    subprocess.Popen(["bash", "-c", command])
else:
    print("holds", flush=True)
time.sleep(60)
"""


@pytest.fixture
def arrive(tmp_path, monkeypatch):
    """Begin a run in this process; it ends with the test, or before."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(run_record, "PATIENCE", 0.3)
    held = []

    def begin():
        held.append(snakemake_hooks.RunRecord("results", elsewhere=False))
        return held[-1]

    yield begin
    for record in held:
        record.end()
        atexit.unregister(record.end)


@pytest.fixture
def start():
    held = []

    def run(kind="run"):
        command = [sys.executable, "-c", HOLD, kind]
        held.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        return held[-1], held[-1].stdout.readline().strip()

    yield run
    for process in held:
        kill(process)
        process.stdout.close()


def kill(process):
    process.kill()
    process.wait()


def lock(output="results/a.parquet"):
    snakemake_hooks.LOCKS.mkdir(parents=True, exist_ok=True)
    (snakemake_hooks.LOCKS / "0.input.lock").write_text("corpus.txt\n")
    (snakemake_hooks.LOCKS / "0.output.lock").write_text(f"{output}\n")
    return snakemake_hooks.LOCKS / "0.output.lock"


def test_what_a_killed_run_locked_is_unlocked_and_one_at_work_stays_locked(arrive, start):
    process, _ = start()
    locked = lock()
    asked = arrive()
    assert asked.said == snakemake_hooks.AT_WORK
    assert locked.exists()
    asked.end()
    kill(process)
    held = arrive()
    assert held.said == snakemake_hooks.UNLOCKED
    assert not locked.exists()
    assert list(snakemake_hooks.RECORDS.iterdir()) == [held.path]


def test_a_job_that_outlives_its_run_is_at_work(arrive, start):
    process, job = start("job")
    locked = lock()
    kill(process)
    asked = arrive()
    assert asked.said == snakemake_hooks.AT_WORK
    assert locked.exists()
    subprocess.run(["kill", f"-{signal.SIGKILL}", job], check=True)
    asked.end()
    assert arrive().said == snakemake_hooks.UNLOCKED


@pytest.mark.parametrize("who", ["nobody known", "another boot", "a cluster", "other outputs"])
def test_on_doubt_the_command_is_said_and_nothing_unlocked(arrive, start, who):
    locked = lock("elsewhere/a.parquet" if who == "other outputs" else "results/a.parquet")
    if who != "nobody known":
        process, _ = start("elsewhere" if who == "a cluster" else "run")
        kill(process)
        [record] = snakemake_hooks.RECORDS.iterdir()
    if who == "another boot":
        record.rename(snakemake_hooks.RECORDS / f"0b1c-22.{process.pid}.here")
    for _ in range(2):  # who has asked once knows no more
        asked = arrive()
        assert asked.said.endswith("--unlock")
        assert locked.exists()
        asked.end()


def test_who_unlocks_is_believed_and_a_run_that_ends_leaves_no_record(arrive, start, monkeypatch):
    kill(start("elsewhere")[0])
    lock()
    monkeypatch.setattr(sys, "argv", ["snakemake", "--unlock"])
    held = arrive()
    assert held.said == ""
    assert list(snakemake_hooks.RECORDS.iterdir()) == [held.path]
    held.end()
    assert list(snakemake_hooks.RECORDS.iterdir()) == []


JOB = {"event": LogEvent.JOB_INFO, "rule_name": "generate", "rule_msg": None, "indent": False}
JOB |= {"wildcards": {"model": "lstm", "shard": "00001"}}
JOB |= {"reason": "Missing output files: results/samples/lstm/00001.parquet"}
ERROR = {"event": LogEvent.JOB_ERROR, "levelno": logging.ERROR, "levelname": "ERROR", "aux": {}}
ERROR |= {"rule_name": "generate", "rule_msg": None, "jobid": 7, "conda_env": None}
ERROR |= {"input": ["results/models/lstm/model.json"], "shellcmd": "python -m scripts.generate"}
ERROR |= {"output": ["results/samples/lstm/00001.parquet"]}


def printed(*records):
    stream = io.StringIO()
    formatter = DefaultFormatter(set(), show_failed_logs=True)
    handler = ColorizingTextHandler(nocolor=True, stream=stream, formatter=formatter)
    handler.addFilter(DefaultFilter(set(), False, False, False, True).filter)
    handler.name = "DefaultStreamHandler"
    logger = logging.Logger("a run")
    logger.addHandler(handler)
    snakemake_hooks.print_job_lines(logger, "results/logs")
    for record in records:
        plain = {"levelno": logging.INFO, "levelname": "INFO", "msg": "said"}
        logger.handle(logging.makeLogRecord({**plain, **record}))
    return stream.getvalue()


def test_a_job_is_a_line_and_reasons_and_commands_are_none():
    text = printed(
        {"event": LogEvent.RUN_INFO, "stats": {"generate": 2, "all": 1, "total": 3}},
        JOB,
        {"event": LogEvent.SHELLCMD, "cmd": "python -m scripts.generate"},
        {"msg": "Select jobs to execute..."},
        {"event": LogEvent.JOB_STARTED, "jobs": [7], "msg": "Execute 1 jobs..."},
        {"event": LogEvent.JOB_FINISHED, "job_id": 7, "msg": "Finished jobid: 7"},
        {"event": LogEvent.PROGRESS, "done": 1, "total": 3},
        {**JOB, "rule_name": "all", "wildcards": {}},
        {"msg": "Adding figure_1.svg (86.14 KB)."},
    )
    lines = [line for line in text.splitlines() if line]
    assert lines[0] == "3 jobs; each has its log in results/logs"
    done = ["0 of 3 done  generate lstm 00001", "1 of 3 done  all"]
    assert [line[10:] for line in lines[1:]] == done


def test_errors_warnings_and_what_is_news_are_as_snakemake_says_them(tmp_path):
    log = tmp_path / "generate.log"
    log.write_text("error: no room left\n")
    error = {**ERROR, "log": [str(log)]}
    text = printed(error, {"levelno": logging.WARNING, "levelname": "WARNING", "msg": "look out"})
    whole = DefaultFormatter(set(), show_failed_logs=True)
    shown = whole.format(logging.makeLogRecord({"msg": "said", **error}))
    assert shown.split("\n", 1)[1] in text  # but for the time
    assert "error: no room left" in text
    assert str(log) in text
    assert text.endswith("look out\n")
    assert "Nothing to be done" in printed({"msg": "Nothing to be done (all is there)."})


@pytest.mark.parametrize(
    ("options", "folder"),
    [
        ([], "results"),
        (["--cores", "2", "--forcerun", "train", "--keep-going"], "results"),
        (["--configfile", "other.yaml", "--profile=profiles/slurm"], "elsewhere/made"),
        *((["--directory", "inner"], "inner-results"), (["-n"], None), (["--touch"], None)),
        (["--until", "train"], None),
        (["--quiet", "--", "results/models/lstm/model.json"], None),
        (["perplexity"], None),
        (["--report", "results/report.zip"], None),
    ],
)
def test_the_report_is_made_after_a_run_of_everything(options, folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "inner").mkdir()
    for name, text in {
        "config.yaml": "seed: 1\n",
        "other.yaml": "pathvars: {results: elsewhere/made}\n",
        "inner/config.yaml": "pathvars: {results: inner-results}\n",
    }.items():
        (tmp_path / name).write_text(text)
    command = snakemake_command(options)
    added = command[command.index(options[-1]) + 1 :] if options else command[5:]
    expected = ["--report", f"{folder}/report.html", "--report-after-run"] if folder else []
    assert added == expected
