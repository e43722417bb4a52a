"""What a run prints in the terminal: a line a job, warnings, and errors in full.

All that Snakemake says, with the reasons and the commands, is in ``.snakemake/log``; what a job
says is in its own log, which an error prints.
"""

from __future__ import annotations

import logging
import time

from snakemake_interface_logger_plugins.common import LogEvent

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
    """A line for each job as it starts; what is no news is left out.

    Parameters
    ----------
    wordy : logging.Formatter
        Snakemake's own, for all else.
    logs : str
        Folder of the logs.
    """

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
