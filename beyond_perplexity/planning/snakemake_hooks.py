"""What Snakemake notes of jobs, made complete where it was killed and its jobs went on.

A job without a note is compared by its run record; one whose outputs a later run is about stops.
The two methods that are replaced have no hooks.
"""

from __future__ import annotations

import atexit
import fcntl
import logging
import os
import shlex
import shutil
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

from snakemake_interface_logger_plugins.common import LogEvent

from beyond_perplexity.errors import InputError
from beyond_perplexity.storage.fingerprint import fingerprint
from beyond_perplexity.storage.outputs import (
    RESULTS,
    check_claim,
    claim,
    forget_files,
    is_left,
    number_run,
)
from beyond_perplexity.storage.verification import changed_inputs, find_record

# What an attempt is given of a machine, and no result depends on.
_OF_A_MACHINE = {"--device", "--memory-mb", "--threads", "--workers"}


def watch(workflow: Any, results: str) -> None:
    """Make this Snakemake note, compare and stop jobs as the module says."""
    from snakemake import persistence
    from snakemake.dag import DAG
    from snakemake.settings.types import RerunTrigger
    from snakemake_interface_executor_plugins.settings import ExecMode

    # Its name in versions before there was another than in files.
    notes = getattr(persistence, "PersistenceBase", None) or persistence.Persistence
    check_incomplete, finished = DAG.check_incomplete, notes.finished
    is_main = workflow.is_main_process
    os.environ[RESULTS] = results
    if is_main:
        number_run()

    async def check_outputs(dag: Any) -> None:
        if not is_main:
            _check_claims(dag)
        elif RerunTrigger.PARAMS in workflow.rerun_triggers:
            dag.forcefiles.update(_stale(dag))
        await check_incomplete(dag)

    async def note(persistence: Any, job: Any) -> None:
        if any(is_left(path) for path in job.output):
            return  # it has failed, and what is there is of the later run
        settings = workflow.workflow_settings
        mode, settings.exec_mode = settings.exec_mode, ExecMode.DEFAULT
        await finished(persistence, job)
        settings.exec_mode = mode

    DAG.check_incomplete = check_outputs
    if not is_main:
        notes.finished = note


def _check_claims(dag: Any) -> None:
    """Stop a job of an earlier run before Snakemake removes outputs that are of a later one."""
    from snakemake.exceptions import WorkflowError

    try:
        for path in (path for job in dag.targetjobs for path in job.output):
            check_claim(path)
    except InputError as error:
        raise WorkflowError(str(error)) from None


def take_over(dag: Any, results: str) -> None:
    """Leave all outputs to this run, and forget those that are gone and not of it."""
    outputs = [path for job in dag.jobs for path in job.output]
    claim(outputs)
    forget_files(Path(results), outputs)


def _stale(dag: Any) -> Iterator[str]:
    """List outputs that are there without a note of theirs and were made otherwise than now."""
    dag.update_jobids()  # without them a shell command cannot be asked for
    for job in dag.jobs:
        there = [path for path in job.output if os.path.exists(path)]
        unnoted = [path for path in there if not _has_note(dag.workflow.persistence, path)]
        if unnoted and made_otherwise(unnoted, job.shellcmd):
            yield from there


def _has_note(persistence: Any, path: str) -> bool:
    """Return whether Snakemake's note of an output is about the file that is there."""
    note = persistence.metadata(path)
    return bool(note) and note.get("endtime") == os.stat(path).st_mtime


def made_otherwise(outputs: Iterable[str | os.PathLike[str]], command: str) -> bool:
    """Return whether run records say that other code, inputs or another `command` made outputs."""
    for path in map(Path, outputs):
        try:
            record = find_record(path)
        except InputError:  # no result, or a damaged one
            return True
        if record and _differs(path, record, command):
            return True
    return False


def _differs(path: Path, record: dict[str, Any], command: str) -> bool:
    try:
        given = record.get("arguments")
        return (
            fingerprint(record["script"]) != record["code_fingerprint"]
            or (given is not None and _results(given) != _results(arguments_in(command)))
            or any(True for _ in changed_inputs(path, record))
        )
    except (FileNotFoundError, KeyError, TypeError, ValueError, AttributeError):
        return True


def arguments_in(command: str) -> list[str]:
    """Return the arguments of the script that a rule's shell command runs."""
    words = shlex.split(command.replace("\\\n", " "))
    words = words[words.index("-m") + 2 :]
    return list(takewhile(lambda word: word not in ("2>&1", "|"), words))


def _results(arguments: Sequence[str]) -> list[str]:
    """Leave out the arguments that no result depends on, each with its value."""
    before = ["", *arguments]
    return [
        word
        for last, word in zip(before, arguments, strict=False)
        if not {last, word} & _OF_A_MACHINE
    ]


RECORDS, LOCKS = Path(".snakemake/runs"), Path(".snakemake/locks")
_BOOT = Path("/proc/sys/kernel/random/boot_id")
PATIENCE = 3.0  # seconds
_HERE, _ELSEWHERE = "here", "elsewhere"  # where the jobs of a run are

UNLOCKED = "Unlocked what a killed run had left locked; it goes on where that was."
AT_WORK = "A run, or a job that a killed run left behind, is at work in this folder: let it end."
NOT_KNOWN = (
    "A run left this folder locked. Whether it is still at work (on another machine, or on a "
    "cluster) cannot be known here; if it is not, unlock with:\n    {}"
)


class RunRecord:
    """The file of this run, without locks of dead runs; `said` is what the user shall know of
    locks, and `prefix` of shell commands holds the file for jobs here, not `elsewhere`."""

    def __init__(self, results: str, elsewhere: bool) -> None:
        boot = _BOOT.read_text(encoding="ascii").strip()
        where = _ELSEWHERE if elsewhere else _HERE
        self.path = RECORDS / f"{boot}.{os.getpid()}.{where}"
        self.prefix = f"exec 9<{self.path} && flock -s 9 2>/dev/null || true; "
        RECORDS.mkdir(parents=True, exist_ok=True)
        one_at_a_time = os.open(RECORDS, os.O_RDONLY)
        try:
            fcntl.flock(one_at_a_time, fcntl.LOCK_EX)
            self.said = _settle_locks(boot, results)
            self._file = open(self.path, "w")  # noqa: SIM115
            fcntl.flock(self._file, fcntl.LOCK_SH)
        finally:
            os.close(one_at_a_time)
        self._process = os.getpid()
        atexit.register(self.end)

    def end(self) -> None:
        """Remove the file; a fork of this process leaves it."""
        self._file.close()
        if self._process == os.getpid():
            self.path.unlink(missing_ok=True)


def _settle_locks(boot: str, results: str) -> str:
    """Remove the locks where all who may have made them are dead; say what was found."""
    if "--unlock" in sys.argv:  # the user knows better
        for path in RECORDS.iterdir():
            path.unlink()
        return ""
    locked = any(LOCKS.glob("*.lock"))
    records = list(RECORDS.iterdir())
    ours = [path for path in records if path.name.startswith(f"{boot}.")]
    dead = [path for path in ours if _is_free(path, PATIENCE if locked else 0.0)]
    if locked:
        known = dead == records and all(path.suffix == f".{_HERE}" for path in dead)
        if len(dead) < len(ours):
            return AT_WORK
        texts = [file.read_text(encoding="utf-8") for file in LOCKS.glob("*.output.lock")]
        outputs = [Path(line) for text in texts for line in text.splitlines()]
        if not dead or not known or not all(path.is_relative_to(results) for path in outputs):
            command = [sys.executable, "-m", "snakemake", *sys.argv[1:], "--unlock"]
            return NOT_KNOWN.format(shlex.join(command))
        shutil.rmtree(LOCKS)
    for path in dead:
        path.unlink()
    return UNLOCKED if locked else ""


def _is_free(path: Path, patience: float) -> bool:
    """Return whether nobody holds a file; what was just killed gets some seconds to be gone."""
    last = time.monotonic() + patience
    with open(path, encoding="ascii") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            except BlockingIOError:
                if time.monotonic() >= last:
                    return False
                time.sleep(0.1)


_TERMINAL = "DefaultStreamHandler"  # what Snakemake calls its own
_LEFT_OUT = {
    LogEvent.WORKFLOW_STARTED,
    LogEvent.RESOURCES_INFO,
    LogEvent.JOB_STARTED,
    LogEvent.JOB_FINISHED,
    LogEvent.SHELLCMD,
    LogEvent.PROGRESS,
}
_SAID_OTHERWISE = (
    "Assuming unrestricted",
    "Building DAG",
    "Using shell",
    "Conda environments: ignored",
    "Select jobs to execute",
    "Adding ",  # each exhibit of the report
    "Report created",
)


class JobLines(logging.Formatter):
    """A line for each job as it starts; what is no news is left out."""

    def __init__(self, wordy: logging.Formatter, logs: str) -> None:
        super().__init__()
        self._wordy, self._logs = wordy, logs
        self._done = self._total = 0

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record is news, and count the jobs that are done."""
        event = getattr(record, "event", None)
        if event == LogEvent.PROGRESS:
            self._done, self._total = record.done, record.total  # type: ignore[attr-defined]
        if event is None and record.levelno == logging.INFO:
            return not record.getMessage().startswith(_SAID_OTHERWISE)
        return event not in _LEFT_OUT

    def format(self, record: logging.LogRecord) -> str:
        """Say in a line which job starts, and how many are done."""
        event = getattr(record, "event", None)
        if event == LogEvent.RUN_INFO:
            self._total = record.stats["total"]  # type: ignore[attr-defined]
            jobs = "1 job; it" if self._total == 1 else f"{self._total:,} jobs; each"
            return f"{jobs} has its log in {self._logs}"
        if event != LogEvent.JOB_INFO:
            return self._wordy.format(record)
        held = vars(record)
        name = " ".join([held["rule_name"], *map(str, held["wildcards"].values())])
        width = len(str(self._total))
        return f"{time.strftime('%H:%M:%S')}  {self._done:>{width}} of {self._total} done  {name}"


def print_job_lines(logger: logging.Logger, logs: str) -> None:
    """Let Snakemake's terminal have a line a job; other loggers stay as they are."""
    for handler in logger.handlers:
        if handler.name == _TERMINAL:
            lines = JobLines(handler.formatter or logging.Formatter(), logs)
            handler.addFilter(lines.filter)
            handler.setFormatter(lines)
