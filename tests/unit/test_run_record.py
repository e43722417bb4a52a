"""Who is at work in a folder, and whether what a killed run left locked may be unlocked.

Oracle: processes that hold a record, killed or alive; Snakemake's locks are files made by hand.
"""

from __future__ import annotations

import atexit
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from beyond_perplexity.planning import snakemake_hooks as run_record
from beyond_perplexity.planning.snakemake_hooks import AT_WORK, LOCKS, RECORDS, UNLOCKED, RunRecord

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
def arrive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], RunRecord]]:
    """Begin a run in this process; it ends with the test, or before."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(run_record, "PATIENCE", 0.3)
    held = []

    def begin() -> RunRecord:
        held.append(RunRecord("results", elsewhere=False))
        return held[-1]

    yield begin
    for record in held:
        record.end()
        atexit.unregister(record.end)


@pytest.fixture
def start() -> Iterator[object]:
    held = []

    def run(kind: str = "run") -> tuple[subprocess.Popen[str], str]:
        command = [sys.executable, "-c", HOLD, kind]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        held.append(process)
        assert process.stdout
        return process, process.stdout.readline().strip()

    yield run
    for process in held:
        process.kill()
        process.wait()
        assert process.stdout
        process.stdout.close()


def lock(output: str = "results/a.parquet") -> Path:
    LOCKS.mkdir(parents=True, exist_ok=True)
    (LOCKS / "0.input.lock").write_text("corpus.txt\n")
    (LOCKS / "0.output.lock").write_text(f"{output}\n")
    return LOCKS / "0.output.lock"


def test_what_a_killed_run_left_locked_is_unlocked(arrive, start) -> None:
    process, _ = start()
    locked = lock()
    process.kill()
    process.wait()
    held = arrive()
    assert held.said == UNLOCKED
    assert not locked.exists()
    assert list(RECORDS.iterdir()) == [held.path]


def test_a_run_that_is_at_work_stays_locked(arrive, start) -> None:
    start()
    locked = lock()
    assert arrive().said == AT_WORK
    assert locked.exists()


def test_a_job_that_outlives_its_run_is_at_work(arrive, start) -> None:
    process, job = start("job")
    locked = lock()
    process.kill()
    process.wait()
    asked = arrive()
    assert asked.said == AT_WORK
    assert locked.exists()
    subprocess.run(["kill", f"-{signal.SIGKILL}", job], check=True)
    asked.end()
    assert arrive().said == UNLOCKED


@pytest.mark.parametrize("who", ["nobody known", "another boot", "a cluster", "other outputs"])
def test_on_doubt_the_command_is_said_and_nothing_unlocked(arrive, start, who: str) -> None:
    locked = lock("elsewhere/a.parquet" if who == "other outputs" else "results/a.parquet")
    if who != "nobody known":
        process, _ = start("elsewhere" if who == "a cluster" else "run")
        process.kill()
        process.wait()
        [record] = RECORDS.iterdir()
    if who == "another boot":
        record.rename(RECORDS / f"0b1c-22.{process.pid}.here")
    for _ in range(2):  # who has asked once knows no more
        asked = arrive()
        assert asked.said.endswith("--unlock")
        assert locked.exists()
        asked.end()


def test_a_user_who_unlocks_is_believed(arrive, start, monkeypatch: pytest.MonkeyPatch) -> None:
    process, _ = start("elsewhere")
    process.kill()
    process.wait()
    lock()
    monkeypatch.setattr(sys, "argv", ["snakemake", "--unlock"])
    held = arrive()
    assert held.said == ""
    assert list(RECORDS.iterdir()) == [held.path]


def test_a_run_that_ends_leaves_no_record(arrive) -> None:
    arrive().end()
    assert list(RECORDS.iterdir()) == []
