"""A copy of the checkout in which tests run Snakemake, and one finished tiny run."""

import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import pytest

ROOT = Path(__file__).parents[2]
SMOKE = ["--configfile=configs/smoke.yaml"]


@dataclass(frozen=True)
class Checkout:
    """A checkout and how to run Snakemake in it."""

    path: Path

    def command(self, *arguments: str) -> list[str]:
        # Snakemake ends no sooner than this after the last job has started.
        soon = "--max-jobs-per-timespan=1000/1s"
        return [sys.executable, "-m", "snakemake", "--cores", "2", soon, *arguments]

    def snakemake(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run Snakemake to its end and return what it printed."""
        done = subprocess.run(
            self.command(*arguments),
            cwd=self.path,
            env={**os.environ, "PYTHONPATH": ""},
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        if check and done.returncode:
            raise AssertionError(f"snakemake {' '.join(arguments)} failed:\n{done.stdout[-6000:]}")
        return done

    def planned(self, *arguments: str) -> dict[str, int]:
        """Return the jobs per rule that a dry run of the tiny run lists."""
        return planned_jobs(self.snakemake("--dry-run", *SMOKE, *arguments).stdout)

    def results(self) -> dict[str, str]:
        """Return a digest of every result: bytes of tables and figures, rows of Parquet files."""
        folder = self.path / "results"
        found = {}
        for path in sorted(folder.rglob("*")):
            relative = path.relative_to(folder)
            if path.is_dir() or relative.parts[0] in {"logs", "benchmarks", "checkpoints"}:
                continue
            if path.suffix == ".parquet":
                content = repr(pq.read_table(path, columns=_columns(path)).to_pylist()).encode()
            elif path.suffix in {".csv", ".tex", ".svg", ".pdf", ".safetensors"}:
                content = path.read_bytes()
            else:
                continue
            found[str(relative)] = hashlib.sha256(content).hexdigest()
        return found


def planned_jobs(printed: str) -> dict[str, int]:
    """Read the jobs per rule in the summary of a dry run."""
    lines = map(str.split, printed.partition("\nThis run\n")[2].splitlines())
    return {words[1]: int(words[0].replace(",", "")) for words in lines if _is_count(words)}


def _is_count(words: list[str]) -> bool:
    return len(words) >= 2 and words[0].replace(",", "").isdigit()


def _columns(path: Path) -> list[str]:
    """Name the columns whose values a repetition must reproduce: all but measured seconds."""
    return [name for name in pq.read_schema(path).names if name != "seconds"]


def copy_checkout(target: Path) -> Checkout:
    """Copy what git tracks or would track, without results and environments."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
    for name in filter(None, listed.decode().split("\0")):
        source = ROOT / name
        if source.is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / name)
    return Checkout(target)


def copy_results(source: Checkout, target: Checkout, folder: str) -> None:
    (target.path / "results").mkdir(exist_ok=True)
    command = ["cp", "-a", f"{source.path}/results/{folder}", f"{target.path}/results/"]
    subprocess.run(command, check=True)


def kill_when(checkout: Checkout, arguments: list[str], happened: Callable[[], bool]) -> None:
    """Start a run and kill its whole process group as soon as something has happened."""
    process = subprocess.Popen(
        checkout.command(*arguments),
        cwd=checkout.path,
        env={**os.environ, "PYTHONPATH": ""},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        while not happened():
            assert process.poll() is None, "the run ended before it could be killed"
            time.sleep(0.1)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.fixture(scope="session", autouse=True)
def shared_cache(tmp_path_factory):
    """Let all runs of a session remember in one place what they found in the code."""
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    os.environ["XDG_CACHE_HOME"] = str(shared / "cache")


@pytest.fixture
def checkout(tmp_path):
    return copy_checkout(tmp_path / "checkout")


def copy_of_run(factory: pytest.TempPathFactory, name: str, *arguments: str) -> Checkout:
    """Make a run once for all processes of pytest, and give each a copy of its own."""
    shared = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    made = shared / f"run-{name}"
    with open(f"{made}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            begun = copy_checkout(shared / f"run-{name}-begun")
            begun.snakemake(*arguments)
            begun.path.rename(made)
    copy = factory.mktemp(name) / "checkout"
    subprocess.run(["cp", "-a", str(made), str(copy)], check=True)
    return Checkout(copy)


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """Give a copy with a finished tiny run; tests that change it put it back."""
    return copy_of_run(tmp_path_factory, "finished", *SMOKE)
