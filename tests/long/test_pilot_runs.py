"""Plans: of thousands of jobs; a pilot of the tiny run, and what dry runs make of it; a larger run.

Oracles: the configuration; the folder of results; what the jobs of a run took that was four times
as large. A plan may take a minute of the processor and a GB.
"""

import json
import resource
import subprocess
import sys

import pytest
import yaml

from beyond_perplexity.planning.job_costs import PlannedJob, read_plan
from beyond_perplexity.planning.pilot import JOBS_VARIABLE
from beyond_perplexity.storage.benchmarks import read_benchmark
from tests.workflow.conftest import (  # noqa: F401 (a fixture)
    SMOKE,
    checkout,
    planned_jobs,
)

SECONDS, MEGABYTES = 60, 1024


def children() -> tuple[float, float]:
    """Return the seconds of all children so far, and the MiB of the largest one."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


@pytest.mark.parametrize("shards", [400, 741])
def test_a_million_documents_in_small_shards_can_be_planned(checkout, shards):  # noqa: F811
    """741 shards of 27 sample sets are 20,007."""
    path = checkout.path / "configs" / "paper.yaml"
    config = yaml.safe_load(path.read_text())
    generation = config["generation"]
    generation["documents_per_shard"] = -(-generation["documents"] // shards)
    path.write_text(yaml.safe_dump(config))
    before, _ = children()
    printed = checkout.snakemake("--dry-run", "--quiet", "--configfile=configs/paper.yaml").stdout
    seconds, memory = children()
    seconds -= before
    jobs = planned_jobs(printed)
    print(f"{sum(jobs.values()):,} jobs planned in {seconds:.0f} s, {memory:.0f} MiB")
    sample_sets = len(generation["models"]) * len(generation["decodings"])
    assert jobs["generate"] == shards * sample_sets
    assert jobs["count_samples"] == jobs["measure_tendencies"] == sample_sets
    assert seconds < SECONDS
    assert memory < MEGABYTES


GENERATED = {f"generate/{m}/{d}" for m in ("lstm", "trigram") for d in ("ancestral", "beam")}
CONTRASTED = {f"score_contrast/wikipedia/{m}" for m in ("kn-3", "rnn", "lstm", "sentence-rnn")}
PREDICTED = {"predict_words/lstm", "predict_words/trigram"}
PLAN = [sys.executable, "-m", "beyond_perplexity", "plan"]


def test_a_pilot_measures_every_model_and_leaves_the_run_alone(checkout):  # noqa: F811
    command = [*PLAN, *SMOKE, "--documents=8", "--", "--cores=2"]
    done = subprocess.run(command, cwd=checkout.path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-6000:]
    results = checkout.path / "results"
    plan = read_plan(results / "plan.json")
    assert {*GENERATED, *CONTRASTED, *PREDICTED, "train/lstm"} <= set(plan)
    assert all(held.total(1) > 0 and held.megabytes > 0 for held in plan.values())
    # Snakemake looks at a job's memory now and then, at that of shorter ones perhaps too early.
    assert all(held.megabytes > 50 for held in plan.values() if held.start > 1)
    assert json.loads((results / "plan.json").read_text())["machine"]
    assert not (results / "samples").exists()
    assert not (results / "models" / "lstm").exists()  # trained for 20 steps, in the pilot's folder
    assert (results / "models" / "trigram" / "model.json").exists()  # counted, for the run itself
    assert "generation.documents_per_shard: " in done.stdout
    summary = done.stdout[done.stdout.index("\nThis run\n") :]
    lines = [line for line in summary.splitlines() if " generate " in line]
    assert len(lines) == 1
    assert "guessed" not in lines[0]
    again = checkout.snakemake("--dry-run", *SMOKE, "--quiet").stdout
    assert again.rstrip().endswith(summary.splitlines()[-1])


def test_a_finished_run_tells_what_one_four_times_as_large_takes(checkout, monkeypatch):  # noqa: F811
    """Within a factor of two; both on one core, so that jobs do not wait for each other."""
    checkout.snakemake(*SMOKE, "--cores=1")
    large = yaml.safe_load((checkout.path / "configs" / "smoke.yaml").read_text())
    large["pathvars"] = {"results": "large"}
    large["tendencies"]["documents_per_count"] *= 4
    units = {"generation": "documents", "contrastive": "sentences", "semantics": "sentences"}
    for section, key in units.items():
        for name in (key, f"{key}_per_shard"):
            large[section][name] *= 4
    (checkout.path / "large.yaml").write_text(yaml.safe_dump(large))
    given = ["--configfile=large.yaml", "--finished=results"]
    subprocess.run([*PLAN, *given], cwd=checkout.path, check=True, capture_output=True)
    monkeypatch.setenv(JOBS_VARIABLE, str(checkout.path / "jobs.json"))
    checkout.snakemake("--configfile=large.yaml", "--dry-run", "--quiet")
    monkeypatch.delenv(JOBS_VARIABLE)
    jobs = [PlannedJob(**row) for row in json.loads((checkout.path / "jobs.json").read_text())]
    checkout.snakemake("--configfile=large.yaml", "--cores=1")
    took = sum(read_benchmark(checkout.path / job.benchmark)[0] for job in jobs if job.benchmark)
    expected = 60 * sum(job.minutes for job in jobs if job.benchmark)
    print(f"{expected:.0f} s expected, {took:.0f} s taken")
    assert took / 2 < expected < 2 * took
