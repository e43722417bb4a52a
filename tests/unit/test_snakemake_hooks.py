"""Who is at work in a folder, a line for each job, and when the report is made.

Oracles: processes that hold a record, killed or alive, with Snakemake's locks as files made by
hand; Snakemake's own formatter, filter and parser.
"""

import atexit
import io
import logging
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from snakemake.logging import ColorizingTextHandler, DefaultFilter, DefaultFormatter
from snakemake_interface_logger_plugins.common import LogEvent

from beyond_perplexity.commands.run import snakemake_command
from beyond_perplexity.planning import snakemake_hooks
from beyond_perplexity.planning import snakemake_hooks as run_record

# ---- run record ----


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
def arrive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[], snakemake_hooks.RunRecord]]:
    """Begin a run in this process; it ends with the test, or before."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(run_record, "PATIENCE", 0.3)
    held = []

    def begin() -> snakemake_hooks.RunRecord:
        held.append(snakemake_hooks.RunRecord("results", elsewhere=False))
        return held[-1]

    yield begin
    for record in held:
        record.end()
        atexit.unregister(record.end)


@pytest.fixture
def start() -> Iterator[Callable[..., tuple[subprocess.Popen[str], str]]]:
    held: list[subprocess.Popen[str]] = []

    def run(kind: str = "run") -> tuple[subprocess.Popen[str], str]:
        command = [sys.executable, "-c", HOLD, kind]
        held.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        return held[-1], held[-1].stdout.readline().strip()

    yield run
    for process in held:
        kill(process)
        process.stdout.close()


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()


def lock(output: str = "results/a.parquet") -> Path:
    snakemake_hooks.LOCKS.mkdir(parents=True, exist_ok=True)
    (snakemake_hooks.LOCKS / "0.input.lock").write_text("corpus.txt\n")
    (snakemake_hooks.LOCKS / "0.output.lock").write_text(f"{output}\n")
    return snakemake_hooks.LOCKS / "0.output.lock"


def test_what_a_killed_run_locked_is_unlocked_and_what_is_at_work_stays_locked(
    arrive, start
) -> None:
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
    process, job = start("job")
    kill(process)
    asked = arrive()
    assert asked.said == snakemake_hooks.AT_WORK
    assert locked.exists()
    subprocess.run(["kill", f"-{signal.SIGKILL}", job], check=True)
    asked.end()
    assert arrive().said == snakemake_hooks.UNLOCKED


@pytest.mark.parametrize("who", ["nobody known", "another boot", "a cluster", "other outputs"])
def test_on_doubt_the_command_is_said_and_nothing_unlocked(arrive, start, who: str) -> None:
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


def test_a_user_who_unlocks_is_believed_and_a_run_that_ends_leaves_no_record(
    arrive, start, monkeypatch: pytest.MonkeyPatch
) -> None:
    kill(start("elsewhere")[0])
    lock()
    monkeypatch.setattr(sys, "argv", ["snakemake", "--unlock"])
    held = arrive()
    assert held.said == ""
    assert list(snakemake_hooks.RECORDS.iterdir()) == [held.path]
    held.end()
    assert list(snakemake_hooks.RECORDS.iterdir()) == []


JOB = {
    "event": LogEvent.JOB_INFO,
    "rule_name": "generate",
    "rule_msg": None,
    "indent": False,
    "wildcards": {"model": "lstm", "shard": "00001"},
    "reason": "Missing output files: results/samples/lstm/00001.parquet",
}
ERROR = {
    "event": LogEvent.JOB_ERROR,
    "levelno": logging.ERROR,
    "levelname": "ERROR",
    "aux": {},
    "rule_name": "generate",
    "rule_msg": None,
    "jobid": 7,
    "conda_env": None,
    "input": ["results/models/lstm/model.json"],
    "output": ["results/samples/lstm/00001.parquet"],
    "shellcmd": "python -m scripts.generate",
}


def printed(*records: dict) -> str:
    stream = io.StringIO()
    handler = ColorizingTextHandler(
        nocolor=True, stream=stream, formatter=DefaultFormatter(set(), show_failed_logs=True)
    )
    handler.addFilter(DefaultFilter(set(), False, False, False, True).filter)
    handler.name = "DefaultStreamHandler"
    logger = logging.Logger("a run")
    logger.addHandler(handler)
    snakemake_hooks.print_job_lines(logger, "results/logs")
    for record in records:
        plain = {"levelno": logging.INFO, "levelname": "INFO", "msg": "said"}
        logger.handle(logging.makeLogRecord({**plain, **record}))
    return stream.getvalue()


def test_a_job_is_a_line_and_reasons_and_commands_are_none() -> None:
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
    assert [line[10:] for line in lines[1:]] == [
        "0 of 3 done  generate lstm 00001",
        "1 of 3 done  all",
    ]


def test_errors_warnings_and_what_is_news_are_as_snakemake_says_them(tmp_path) -> None:
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
        (["--directory", "inner"], "inner-results"),
        (["-n"], None),
        (["--touch"], None),
        (["--until", "train"], None),
        (["--quiet", "--", "results/models/lstm/model.json"], None),
        (["perplexity"], None),
        (["--report", "results/report.zip"], None),
    ],
)
def test_the_report_is_made_after_a_run_of_everything(
    options: list[str], folder: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
