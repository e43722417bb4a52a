"""What a run prints: a line a job, and errors in full.

Oracle: Snakemake's own formatter and filter, for what is not ours to shorten.
"""

from __future__ import annotations

import io
import logging

from snakemake.logging import ColorizingTextHandler, DefaultFilter, DefaultFormatter
from snakemake_interface_logger_plugins.common import LogEvent

from beyond_perplexity.planning.snakemake_hooks import print_job_lines

JOB = {
    "event": LogEvent.JOB_INFO,
    "rule_name": "generate",
    "wildcards": {"model": "lstm", "shard": "00001"},
    "rule_msg": None,
    "reason": "Missing output files: results/samples/lstm/00001.parquet",
    "indent": False,
}
ERROR = {
    "event": LogEvent.JOB_ERROR,
    "levelno": logging.ERROR,
    "levelname": "ERROR",
    "rule_name": "generate",
    "rule_msg": None,
    "jobid": 7,
    "input": ["results/models/lstm/model.json"],
    "output": ["results/samples/lstm/00001.parquet"],
    "conda_env": None,
    "shellcmd": "python -m scripts.generate",
    "aux": {},
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
    print_job_lines(logger, "results/logs")
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
