"""What a cluster does to jobs: preemption, limits of time and memory, nodes and controllers lost.

Needs root, slurm-wlm and munge (else skipped), and three minutes: five tiny jobs meet a fault each,
stopped (SIGSTOP) in the middle of their work. Oracles: the same work without a fault, byte for
byte; SLURM's own record.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from beyond_perplexity.storage.shards import content_of
from beyond_perplexity.training.fitting import fit_files
from beyond_perplexity.vocabulary import ClosedVocabulary
from tests.cluster.slurm import Cluster, reason_to_skip, running_cluster
from tests.cluster.test_slurm import MACHINE, processes_of, python_environment
from tests.unit.small_corpora import write_documents

ROOT = Path(__file__).parents[2]
EPOCHS = {"maximum_epochs": 40, "patience": 100, "batch_tokens": 64}
TRAINING = {
    "family": "lstm",
    "architecture": {"embedding_size": 8, "hidden_size": 8, "layers": 1},
    "training": {**EPOCHS, "warmup_steps": 5, "checkpoint_steps": 50},
}
SHARD_DOCUMENTS = 3000
NODES = {"preempted": "node1", "lost": "node2", "timed": "node3"}
# A word of the command of each job that is stopped, and what there is when it is at work.
SIGNS = {
    **{f"{name}.checkpoints": f"{name}.checkpoints/*/0*.safetensors" for name in NODES},
    "shard.parquet": ".shard.parquet.*",
}
SECONDS = 600


def python_processes(folder: Path, word: str) -> list[int]:
    """Return the processes of a script of the workflow that work in a folder and name a word."""
    scripts = ("scripts.train", "scripts.generate")
    return [pid for script in scripts for pid in processes_of(folder, {script, word})]


def write_data(folder: Path) -> None:
    """Write a corpus of counting words, and a model that was trained on it without a fault."""
    folder.mkdir()
    random = np.random.default_rng(0)
    starts, sizes = random.integers(0, 10, 80), random.integers(1, 25, 80)
    pairs = zip(starts, sizes, strict=True)
    texts = [" ".join(f"w{(start + i) % 10}" for i in range(size)) for start, size in pairs]
    files = folder / "documents.parquet", folder / "vocabulary.json"
    write_documents(files[0], texts, ["train"] * 60 + ["valid"] * 20)
    ClosedVocabulary([f"w{i}" for i in range(10)], 1).save(files[1])
    torch.set_num_threads(1)
    cpu = torch.device("cpu")
    fit_files(*files, TRAINING, 1, cpu, folder / "whole", folder / "checkpoints")


@dataclass
class FaultyRun:
    """A run whose jobs meet faults."""

    cluster: Cluster
    folder: Path
    process: subprocess.Popen[bytes]
    # The stopped process of each job, by the word of its command that names it.
    stopped: dict[str, int] = field(default_factory=dict)

    def stop_in_the_middle(self, signs: dict[str, str]) -> None:
        """Stop commands, named by a word of theirs, once a file says that they are at work."""
        for _ in self.while_running():
            for word in signs.keys() - self.stopped.keys():
                found = any(self.folder.glob(signs[word])) and python_processes(self.folder, word)
                if found:
                    os.kill(found[0], signal.SIGSTOP)
                    self.stopped[word] = found[0]
            if len(self.stopped) == len(signs):
                return

    def while_running(self, pause: float = 0.05) -> Iterator[None]:
        """Look again and again, as long as the run lasts."""
        end = time.monotonic() + SECONDS
        while self.process.poll() is None:
            assert time.monotonic() < end, "the run takes too long"
            yield
            time.sleep(pause)
        raise AssertionError(f"the run has ended:\n{self.log()}")

    def log(self) -> str:
        return (self.folder / "run.log").read_text()[-6000:]

    def job_of(self, word: str) -> str:
        """Return SLURM's id of the job of a stopped process."""
        environment = Path(f"/proc/{self.stopped[word]}/environ").read_bytes().split(b"\0")
        values = dict(pair.partition(b"=")[::2] for pair in environment)
        return values[b"SLURM_JOB_ID"].decode()

    def hasten(self) -> None:
        """Let SLURM start at once what it has queued again, instead of after two minutes.

        What it holds after the fault of a node is released, as docs/slurm.md says.
        """
        for job in self.cluster.jobs():
            if job["JobState"] == "PENDING" and "held" in job["Reason"].lower():
                self.cluster.ask("scontrol", "release", job["JobId"])
            if job["JobState"] == "PENDING" and job["Reason"] == "BeginTime":
                self.cluster.ask("scontrol", "update", f"JobId={job['JobId']}", "StartTime=now")


def lose_controller(cluster: Cluster) -> None:
    """Kill the controller, and start it again from what it has saved."""
    time.sleep(5)  # by then it has saved what it has told others
    cluster.end("slurmctld", signal.SIGKILL)
    time.sleep(2)
    cluster.launch("slurmctld")
    while cluster.node_state() is None:
        time.sleep(0.2)


def lose_node(run: FaultyRun, word: str, node: str) -> None:
    """Kill all that runs on the node of a job, its daemon first; then start the node again.

    Where it registers without a job that began less than BatchStartTimeout and MessageTimeout ago,
    10 s each, SLURM believes that the job is still being started, and asks no more.
    """
    job, daemon = run.job_of(word), f"slurmd-{node}"
    (began,) = (one["StartTime"] for one in run.cluster.jobs() if one["JobId"] == job)
    time.sleep(max(0.0, 25 - (datetime.now() - datetime.fromisoformat(began)).total_seconds()))
    run.cluster.end(daemon, signal.SIGKILL)
    for pid in processes_of_job(run.cluster, job):
        with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
            os.kill(pid, signal.SIGKILL)
    run.cluster.launch(daemon)


def processes_of_job(cluster: Cluster, job: str) -> list[int]:
    """Return the processes of a job and of the daemons of its steps.

    Clusters that run side by side, in other processes of the tests, have jobs of the same number.
    """
    conf, number = f"SLURM_CONF={cluster.folder}/slurm.conf", f"SLURM_JOB_ID={job}"
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            variables = (path / "environ").read_bytes().split(b"\0")
            named = (path / "cmdline").read_bytes().startswith(f"slurmstepd: [{job}.".encode())
        except OSError:  # it has ended meanwhile
            continue
        if conf.encode() in variables and (named or number.encode() in variables):
            found.append(int(path.name))
    return found


def preempt(run: FaultyRun) -> subprocess.Popen[bytes]:
    """Ask for the whole node of a job from a partition whose jobs come first."""
    whole = [f"--nodelist={NODES['preempted']}", "--cpus-per-task=64", "--mem=1000"]
    environment = {**os.environ, **run.cluster.environment()}
    return subprocess.Popen(["srun", "--partition=urgent", *whole, "true"], env=environment)


def start(cluster: Cluster, folder: Path) -> FaultyRun:
    command = [sys.executable, "-m", "snakemake", "--profile", str(ROOT / "profiles/slurm")]
    command += ["--snakefile", str(ROOT / "tests/cluster/faults.smk"), *MACHINE, "--jobs=5"]
    given = {"root": str(ROOT), "nodes": NODES, "training": json.dumps(TRAINING)}
    config = folder / "config.json"
    config.write_text(json.dumps({**given, "documents": SHARD_DOCUMENTS}))
    environment = python_environment(PYTHONPATH=str(ROOT), **cluster.environment())
    with open(folder / "run.log", "wb") as log:
        process = subprocess.Popen(
            [*command, "--configfile", str(config)],
            cwd=folder,
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    return FaultyRun(cluster, folder, process)


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultyRun]:
    """Run the five jobs to their end through all faults."""
    if reason := reason_to_skip():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("faults")
    write_data(folder / "data")
    with running_cluster(nodes=3) as cluster:
        run = start(cluster, folder)
        try:
            meet_faults(run)
            yield run
        finally:
            run.process.kill()  # where it has not ended
            run.process.wait()


def meet_faults(run: FaultyRun) -> None:
    """Let every job that is at work meet its fault, the controller too, and wait for the end."""
    run.stop_in_the_middle(SIGNS)
    for _ in run.while_running(pause=0.5):
        if any(job["JobState"] == "COMPLETED" for job in jobs_of(run, "rule_hungry")):
            break
    urgent = preempt(run)
    lose_node(run, "lost.checkpoints", NODES["lost"])
    trainings = [f"rule_train_wildcards_{name}" for name in ("lost", "preempted")]
    for _ in run.while_running(pause=0.5):
        if all(int(jobs_of(run, name)[0]["Restarts"]) for name in trainings):
            break
    lose_controller(run.cluster)
    for _ in run.while_running(pause=1):
        run.hasten()
        if all((run.folder / name / "model.json").exists() for name in ("lost", "preempted")):
            break
    urgent.wait(SECONDS)
    assert run.process.wait(SECONDS) == 0, run.log()


def jobs_of(run: FaultyRun, comment: str) -> list[dict[str, str]]:
    """Return SLURM's records of a job and its repetitions, oldest first."""
    return [job for job in run.cluster.jobs() if job.get("Comment") == comment]


@pytest.mark.parametrize("name", ["preempted", "lost", "timed"])
def test_trainings_end_as_without_a_fault(faulty: FaultyRun, name: str) -> None:
    for file in ("model.safetensors", "model.json"):
        found = (faulty.folder / name / file).read_bytes()
        assert found == (faulty.folder / "data" / "whole" / file).read_bytes()
    curves = [faulty.folder / f / "training.parquet" for f in (name, "data/whole")]
    assert content_of(curves[0]) == content_of(curves[1])


@pytest.mark.parametrize("name", ["preempted", "timed"])
def test_trainings_that_slurm_asked_to_end_went_on_from_where_they_were(faulty, name):
    """The checkpoint of the signal is of a step at which none was due.

    A log is of the last attempt; that of a failed one is printed by the run.
    """
    steps = TRAINING["training"]["checkpoint_steps"]
    log = (faulty.folder / f"{name}.log").read_text()
    first = re.findall(r"([0-9]+)/[0-9]+ \[00:00<\?", log)[0]
    assert int(first) % steps
    printed = (faulty.folder / "run.log").read_text()
    said = f"step {first} is kept: the same command goes on from there"
    assert (said in printed) or name == "preempted"  # which has not failed


@pytest.mark.parametrize("name", ["preempted", "lost"])
def test_slurm_queues_a_job_again_that_was_preempted_or_lost_its_node(faulty: FaultyRun, name: str):
    (job,) = jobs_of(faulty, f"rule_train_wildcards_{name}")
    assert job["JobState"] == "COMPLETED"
    assert int(job["Restarts"]) >= 1


@pytest.mark.parametrize("comment", ["rule_train_wildcards_timed", "rule_generate"])
def test_a_job_out_of_time_is_submitted_with_more(faulty: FaultyRun, comment: str) -> None:
    *cut, last = jobs_of(faulty, comment)
    assert [job["JobState"] for job in cut] == ["TIMEOUT"] * len(cut)
    assert cut
    assert last["JobState"] == "COMPLETED"
    assert last["TimeLimit"] > cut[0]["TimeLimit"]


def test_a_shard_cut_by_the_limit_is_made_whole_and_nothing_is_left_of_it(faulty: FaultyRun):
    shard = faulty.folder / "shard.parquet"
    expected = faulty.folder / "expected.parquet"
    command = [sys.executable, "-m", "scripts.generate", "--model", "data/whole", "--device", "cpu"]
    command += ["--decoding", '{"kind": "ancestral"}', "--name", "whole/ancestral", "--seed", "1"]
    command += ["--count", "100", "--maximum-length", "40", "--output", str(expected)]
    environment = python_environment(PYTHONPATH=str(ROOT))
    subprocess.run(command, cwd=faulty.folder, env=environment, check=True, capture_output=True)
    assert pq.read_table(shard).num_rows == SHARD_DOCUMENTS
    assert pq.read_table(shard).slice(0, 100).equals(pq.read_table(expected))
    assert not list(faulty.folder.rglob("*.partial*"))


def test_only_the_lost_job_of_this_cluster_is_killed(tmp_path: Path) -> None:
    ours, beside = Cluster(tmp_path / "ours"), Cluster(tmp_path / "beside")
    jobs = ((ours, "1"), (ours, "12"), (beside, "1"))
    started = [
        subprocess.Popen(
            ["sleep", "60"],
            env={"SLURM_CONF": f"{cluster.folder}/slurm.conf", "SLURM_JOB_ID": job},
        )
        for cluster, job in jobs
    ]
    try:
        assert processes_of_job(ours, "1") == [started[0].pid]
    finally:
        for process in started:
            process.kill()
            process.wait()


def test_a_job_over_its_memory_is_killed_and_submitted_with_twice_as_much(faulty: FaultyRun):
    first, second = jobs_of(faulty, "rule_hungry")
    assert first["JobState"] != "COMPLETED"
    assert second["JobState"] == "COMPLETED"
    memory = [int(job["MinMemoryNode"].removesuffix("M")) for job in (first, second)]
    assert memory[1] == 2 * memory[0]
