"""The workflow on a real SLURM: GPUs are given out, a killed shard is made again, results equal.

Needs root, slurm-wlm and munge (else skipped), and some minutes. Oracles: the same run without
SLURM, byte for byte; SLURM's own record of its jobs.
"""

import os
import signal
import subprocess
import sys
import time
from base64 import b64encode
from dataclasses import dataclass
from pathlib import Path

import pytest

from beyond_perplexity.storage.shards import content_of
from tests.cluster.slurm import running_cluster
from tests.workflow.conftest import SMOKE, Checkout, copy_checkout

# What this machine needs on top of the profile: no accounting database, two cores, short jobs. More
# jobs than cores outlast the second look, 12 s after they start, and wait for the third, at 33 s.
MACHINE = [
    *("--slurm-status-command=squeue", "--slurm-init-seconds-before-status-checks=1"),
    *("--seconds-between-status-checks=1", "--latency-wait=10", "--jobs=2"),
]
KILLED = "results/samples/lstm/ancestral/00001.parquet"
# A job through SLURM costs seconds of its own: one model stands for all that generate documents,
# one for all that tell text from noise; one, with one evaluator, for all that predict sentences.
FEWER = [
    "--config",
    "generation={models: [lstm], decodings: [ancestral]}",
    "contrastive={models: [kn-3]}",
    "semantics={models: [lstm], evaluators: [skipthought]}",
]
RESAMPLES = [f"results/references/wikipedia/resamples/00{k}/statistics.parquet" for k in range(3)]
# And a few of the exhibits of every paper, which two rules make, with all that they are made of.
SHOWN = "results/{}/wikipedia/{}"
TABLES = ("table_1", "sensitivity", "embeddings", "perplexity_differences")
PAPERS = ("contrastive", "semantics", "relations")
TARGETS = [
    *(SHOWN.format(f"tables/{paper}", "findings.csv") for paper in PAPERS),
    *(SHOWN.format("tables/tendencies", f"{table}.csv") for table in TABLES),
    SHOWN.format("figures/tendencies", "sample_size.svg"),
    SHOWN.format("figures/contrastive", "figure_1.svg"),
    *(path.replace("statistics", "measures") for path in RESAMPLES),
    "results/references/wikipedia/words/curves.parquet",
]
SECONDS = 1200
LSTM = "results/models/lstm/model.json"


@dataclass(frozen=True)
class ClusterRun:
    """A finished run of the tiny configuration through SLURM."""

    checkout: Checkout
    printed: str
    jobs: list[dict[str, str]]
    gpus: dict[str, set[str]]

    def of_rule(self, rule, *wildcards):
        """Return SLURM's records of the jobs of a rule, oldest first."""
        comment = "_wildcards_".join([f"rule_{rule}", *filter(None, ["_".join(wildcards)])])
        whole = bool(wildcards)
        return [
            job
            for job in self.jobs
            if (found := job.get("Comment", "")) == comment
            or (not whole and found.startswith(f"{comment}_wildcards_"))
        ]


def python_environment(**others):
    """Return an environment in which `python` is the one that runs the tests."""
    given = {**os.environ, "PYTHONPATH": "", **others}
    return {**given, "PATH": os.pathsep.join([str(Path(sys.executable).parent), given["PATH"]])}


def _snakemake(checkout, log, *arguments, **others):
    environment = python_environment(**others)
    command = [sys.executable, "-m", "snakemake", *SMOKE, *arguments, *FEWER]
    with open(log, "wb") as file:
        return subprocess.Popen(
            command, cwd=checkout.path, env=environment, stdout=file, stderr=subprocess.STDOUT
        )


def _finish(process, log):
    """Wait for a run and return what it printed; one that hangs is interrupted."""
    try:
        code = process.wait(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        process.wait(timeout=60)
        code = -1
    printed = log.read_text(errors="replace")
    assert code == 0, printed[-8000:]
    return printed


def _signal_once(process, checkout, words, number):
    """Send a signal to the command that has words among its arguments, as soon as it runs."""
    while process.poll() is None:
        for pid in processes_of(checkout.path, words):
            os.kill(pid, number)
            return pid
        time.sleep(0.05)
    raise AssertionError("the run has ended")


def processes_of(folder, words):
    """Return the processes that work in a folder and whose arguments hold all the words."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            arguments = (path / "cmdline").read_bytes().decode(errors="replace").split("\0")
            if words <= set(arguments) and os.readlink(path / "cwd") == str(folder.resolve()):
                found.append(int(path.name))
        except OSError:  # it has ended meanwhile
            continue
    return found


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    """Run the tiny configuration without SLURM, uninterrupted."""
    folder = tmp_path_factory.mktemp("local")
    checkout = copy_checkout(folder / "checkout")
    log = folder / "log"
    _finish(_snakemake(checkout, log, *TARGETS, "--cores=2"), log)
    return checkout


@pytest.fixture(scope="module")
def through_slurm(cluster, tmp_path_factory):
    """Run it through SLURM, and kill the command of one shard once."""
    folder = tmp_path_factory.mktemp("slurm")
    checkout = copy_checkout(folder / "checkout")
    log = folder / "log"
    process = _snakemake(
        checkout, log, *TARGETS, "--profile=profiles/slurm", *MACHINE, **cluster.environment()
    )
    _signal_once(process, checkout, {"scripts.generate", KILLED}, signal.SIGKILL)
    printed = _finish(process, log)
    return ClusterRun(checkout, printed, cluster.jobs(), cluster.visible_gpus())


def test_two_clusters_run_side_by_side(cluster):
    with running_cluster() as other:
        assert other.ask("sinfo", "--noheader", "--format=%G").strip() == "gpu:2"
        other.ask("srun", "--gpus=2", "true")
        assert [job["TresPerJob"] for job in other.jobs()] == ["gres:gpu:2"]
        assert other.visible_gpus() == {"1": {"0,1"}}
        folder = other.folder
    assert not folder.exists()
    assert cluster.node_state() is not None


def test_results_equal_those_of_a_local_run(local, through_slurm):
    expected = local.results()
    assert len(expected) > 20
    assert through_slurm.checkout.results() == expected


@pytest.mark.parametrize(("rule", "model"), [("train", "lstm"), ("generate", "lstm")])
def test_gpu_jobs_are_given_one_gpu(through_slurm, rule, model):
    jobs = [job for job in through_slurm.of_rule(rule) if model in job["Comment"]]
    assert jobs
    for job in jobs:
        assert job["TresPerJob"] == "gres:gpu:1"
        assert through_slurm.gpus[job["JobId"]] in ({"0"}, {"1"})


def test_other_jobs_are_given_no_gpu(through_slurm):
    jobs = through_slurm.of_rule("build_vocabulary") + through_slurm.of_rule("count_samples")
    assert jobs
    for job in jobs:
        assert "TresPerJob" not in job
        assert through_slurm.gpus[job["JobId"]] == {"none"}


def test_a_killed_shard_is_made_again_with_more_memory(through_slurm):
    first, second = through_slurm.of_rule("generate", "lstm", "ancestral", "00001")
    assert first["JobState"] == "FAILED"
    assert second["JobState"] == "COMPLETED"
    memory = [int(job["MinMemoryNode"].removesuffix("M")) for job in (first, second)]
    assert memory[1] == 2 * memory[0]
    failed = [job for job in through_slurm.jobs if job["JobState"] != "COMPLETED"]
    assert failed == [first]


def test_every_job_asks_for_time_and_memory(through_slurm):
    for job in through_slurm.jobs:
        if job.get("Comment", "").startswith("rule_"):
            assert job["TimeLimit"] != "UNLIMITED"
            assert job["MinMemoryNode"] != "0"
            assert job["Requeue"] == "1"


def test_a_second_run_submits_nothing(cluster, through_slurm, tmp_path):
    """Not even for a finished shard whose job still runs, as Snakemake notes it, under another."""
    before = len(cluster.jobs())
    incomplete = through_slurm.checkout.path / ".snakemake/incomplete"
    note = incomplete / b64encode(KILLED.encode()).decode()
    note.write_text('{"external_jobid": "1"}')
    log = tmp_path / "log"
    arguments = (*TARGETS, "--profile=profiles/slurm", *MACHINE)
    process = _snakemake(through_slurm.checkout, log, *arguments, **cluster.environment())
    assert "Nothing to be done" in _finish(process, log)
    assert len(cluster.jobs()) == before


def _edit(checkout, name, old, new):
    path = checkout.path / name
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))


def _wait_for(condition, seconds=600):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.5)


def test_what_outlives_a_killed_snakemake_is_planned_on_a_change(cluster, through_slurm, tmp_path):
    """And a job of it that still runs leaves its output to the run that makes it anew."""
    copied = ["cp", "-a", str(through_slurm.checkout.path), str(tmp_path / "checkout")]
    subprocess.run(copied, check=True)
    outlive(cluster, Checkout(tmp_path / "checkout"), tmp_path / "log")


def outlive(cluster, checkout, log):
    config, script = "configs/smoke.yaml", "scripts/count_statistics.py"
    through_slurm = ["--profile=profiles/slurm", *MACHINE, "--jobs=4"]
    stopped, *others = RESAMPLES
    before = {job["JobId"] for job in cluster.jobs()}

    def states():
        return sorted(j["JobState"] for j in cluster.jobs() if j["JobId"] not in before)

    _edit(checkout, config, "hidden_size: 64", "hidden_size: 48")
    _edit(checkout, config, "documents: 60\n", "documents: 50\n")
    started = _snakemake(checkout, log, *through_slurm, *RESAMPLES, LSTM, **cluster.environment())
    words = {"scripts.count_statistics", stopped}
    old = _signal_once(started, checkout, words, signal.SIGSTOP)
    try:
        _wait_for(lambda: len(states()) == 4 and "PENDING" not in states())
        started.kill()
        started.wait()
        _wait_for(lambda: states() == ["COMPLETED"] * 3 + ["RUNNING"])
        assert checkout.planned(*others, LSTM) == {}

        _edit(checkout, config, "hidden_size: 48", "hidden_size: 40")
        _edit(checkout, script, "    if size is None:\n", "    if not size and size is None:\n")
        assert checkout.planned(*others, LSTM) == {"count_resample": 2, "train": 1}

        _edit(checkout, config, "documents: 50\n", "documents: 40\n")
        again = _snakemake(
            checkout, log, *through_slurm, "--nolock", *RESAMPLES, **cluster.environment()
        )
        _finish(again, log)
        made = [content_of(checkout.path / path) for path in RESAMPLES]
    finally:
        os.kill(old, signal.SIGCONT)
    _wait_for(lambda: "RUNNING" not in states())
    assert states() == ["COMPLETED"] * 6 + ["FAILED"]
    assert [content_of(checkout.path / path) for path in RESAMPLES] == made
    assert checkout.planned(*RESAMPLES) == {}
