"""Hundreds of jobs of many shards through a real SLURM, without an error; the overhead of a job.

Needs root, slurm-wlm and munge (else skipped), and half an hour. Oracles: SLURM's own record; the
same statistics counted in one process. What a job costs beside its work is printed.
"""

import os
import statistics
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml

from beyond_perplexity.storage.benchmarks import read_benchmark
from beyond_perplexity.tendencies import document_files, tokens, word_classes
from beyond_perplexity.tendencies.statistics import StatisticsCounter
from tests.cluster.conftest import cluster  # noqa: F401 (a fixture)
from tests.workflow.conftest import Checkout, checkout  # noqa: F401 (a fixture)

COUNTING = int(os.environ.get("COUNTING_JOBS", "200"))  # jobs, of five shards each
PER_SHARD, PER_COUNT = 4, 20
MACHINE = [
    *("--slurm-status-command=squeue", "--slurm-init-seconds-before-status-checks=1"),
    *("--seconds-between-status-checks=2", "--latency-wait=10", "--jobs=4", "--retries=0"),
]


def make_config(folder):
    """Make a run of one model of counts and one decoding, in shards of a few documents."""
    config = yaml.safe_load((folder / "configs" / "smoke.yaml").read_text())
    config["models"] = {"trigram": config["models"]["trigram"]}
    held = {"documents": COUNTING * PER_COUNT, "documents_per_shard": PER_SHARD}
    config["generation"] |= {"models": ["trigram"], "decodings": ["ancestral"], **held}
    config["tendencies"] = {"documents_per_count": PER_COUNT}
    for name in ("contrastive", "semantics", "evaluators"):
        config.pop(name)
    path = folder / "configs" / "many.yaml"
    path.write_text(yaml.safe_dump(config))
    return path


def run(checkout, *arguments, **others):  # noqa: F811
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PYTHONPATH": "", "PATH": path, **others}
    done = subprocess.run(
        [sys.executable, "-m", "snakemake", *arguments],
        cwd=checkout.path,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert done.returncode == 0, done.stdout[-6000:]
    return done.stdout


def write_shards(checkout):  # noqa: F811
    """Cut one large shard, which one job wrote, into many: what is tried is not generating."""
    folder = checkout.path / "results/samples/trigram/ancestral"
    whole = pq.read_table(folder / "whole.parquet")
    (folder / "whole.parquet").unlink()
    for shard in range(len(whole) // PER_SHARD):
        rows = whole.slice(shard * PER_SHARD, PER_SHARD)
        pq.write_table(rows, folder / f"{shard:05d}.parquet")


@pytest.fixture
def prepared(checkout):  # noqa: F811
    """Give a checkout with a trained model and with all shards of its samples."""
    path = make_config(checkout.path)
    config = path.read_text()
    documents = COUNTING * PER_COUNT
    larger = f"documents_per_shard: {documents}"
    path.write_text(config.replace(f"documents_per_shard: {PER_SHARD}", larger))
    samples = "results/samples/trigram/ancestral/00000.parquet"
    words = "results/shared_vocabulary/wikipedia/words.txt"
    run(checkout, "--cores=2", f"--configfile={path}", "--", samples, words)
    (checkout.path / samples).rename(checkout.path / samples.replace("00000", "whole"))
    path.write_text(config)
    write_shards(checkout)
    return checkout


def count_at_once(checkout):  # noqa: F811
    shards = sorted((checkout.path / "results/samples/trigram/ancestral").glob("*.parquet"))
    output = checkout.path / "at_once.parquet"
    words = checkout.path / "results/shared_vocabulary/wikipedia/words.txt"
    view = tokens.TextView(tokens.vocabulary_words(str(words)))
    with StatisticsCounter(word_classes.load_stop_words("gensim"), view=view) as counter:
        for texts in document_files.DocumentFiles([*map(str, shards)], view=view).texts():
            counter.add(texts)
        counter.write(output, {})
    return pq.read_table(output)


def seconds_of(job):
    start, end = (datetime.fromisoformat(job[key]) for key in ("StartTime", "EndTime"))
    return (end - start).total_seconds()


def test_hundreds_of_jobs_of_many_shards_end_without_an_error(
    prepared,
    cluster,  # noqa: F811
):
    """Each counts five shards, and one more adds all up."""
    before = len(cluster.jobs())
    begun = time.monotonic()
    merged = "results/statistics/trigram/ancestral/merged.parquet"
    slurm = ["--profile=profiles/slurm", *MACHINE, "--rerun-triggers=mtime"]
    file = "--configfile=configs/many.yaml"
    run(prepared, *slurm, file, "--", merged, **cluster.environment())
    seconds = time.monotonic() - begun
    jobs = [job for job in cluster.jobs()[before:] if job.get("Comment", "").startswith("rule_")]
    assert {job["JobState"] for job in jobs} == {"COMPLETED"}
    counted = [job for job in jobs if job["Comment"].startswith("rule_count_samples")]
    assert len(counted) == COUNTING
    assert len(jobs) == COUNTING + 1
    assert pq.read_table(prepared.path / merged).equals(count_at_once(prepared))
    benchmarks = prepared.path / "results/benchmarks/count_samples/trigram/ancestral"
    work = [read_benchmark(path) for path in benchmarks.glob("*.jsonl")]
    worked = statistics.mean(held[0] for held in work if held)
    overhead = statistics.mean(map(seconds_of, counted)) - worked
    print(
        f"{len(jobs)} jobs in {seconds:.0f} s; a counting job: {worked:.1f} s of work, "
        f"{overhead:.1f} s of overhead; {seconds / len(jobs):.1f} s a job in all"
    )
