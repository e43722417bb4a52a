"""How far a run is. Needs nothing; the oracle is a log written by hand, and arithmetic."""

from __future__ import annotations

import json
import os
import sys
from datetime import datetime
from pathlib import Path

import pytest

from beyond_perplexity.commands import progress
from beyond_perplexity.errors import InputError
from beyond_perplexity.planning.progress import describe_progress, read_progress

LOG = """\
Job stats:
job         count
--------  -------
train           1
generate        4
all             1
total           6

Select jobs to execute...
[Sun Nov 22 10:00:00 2026]
rule train:
    jobid: 3
[Sun Nov 22 10:10:00 2026]
Finished jobid: 3 (Rule: train)
1 of 6 steps (17%) done
[Sun Nov 22 10:10:00 2026]
rule generate:
    jobid: 1
[Sun Nov 22 10:10:00 2026]
rule generate:
    jobid: 2
[Sun Nov 22 10:15:00 2026]
Error in rule generate:
    jobid: 1
Trying to restart job 1.
[Sun Nov 22 10:15:00 2026]
rule generate:
    jobid: 1
[Sun Nov 22 10:20:00 2026]
Finished jobid: 2 (Rule: generate)
Finished jobid: 2 (Rule: generate)
"""


def test_jobs_are_counted_by_rule() -> None:
    found = read_progress(LOG.splitlines())
    assert found.planned == {"train": 1, "generate": 4, "all": 1}
    assert found.finished == {"train": 1, "generate": 1}
    assert found.failed == {"generate": 1}
    assert found.under_way("generate") == 1
    assert found.under_way("all") == 0


def test_the_end_is_estimated_from_what_jobs_take() -> None:
    """Of 600 + 4 × 300 + 450 seconds of work 900 took 20 minutes; 1350 are left."""
    found = read_progress(LOG.splitlines())
    assert found.end({"train": 600, "generate": 300}) == datetime(2026, 11, 22, 10, 50)
    assert found.end({}) == datetime(2026, 11, 22, 11, 0)  # 2 of 6 jobs in 20 minutes
    assert read_progress(LOG.splitlines()[:10]).end({}) is None


def test_the_command_reads_the_newest_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["progress"])
    with pytest.raises(InputError, match="no log of a run"):
        progress.main()
    folder = tmp_path / ".snakemake/log"
    folder.mkdir(parents=True)
    (folder / "a.snakemake.log").write_text(LOG)
    for rule, seconds in (("train", 600), ("generate", 300)):
        path = tmp_path / f"results/benchmarks/{rule}/a.jsonl"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps({"s": seconds}))
    progress.main()
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].split() == ["generate", "4", "1", "1", "1"]
    assert lines[-2] == "2 of 6 jobs done (33%)"
    assert lines[-1].startswith("ends about Sun 22 Nov 10:50")
    report = folder / "b.snakemake.log"
    report.write_text("Building DAG of jobs...\nReport created.\n")
    os.utime(report, (2**33, 2**33))
    progress.main([])
    assert capsys.readouterr().out.splitlines() == lines
    for name, said in ((report, "no log of a run with jobs"), ("none", "no such file")):
        with pytest.raises(InputError, match=said):
            progress.main([f"--log={name}"])


def test_a_run_that_is_done_has_no_end_to_come() -> None:
    done = LOG + "".join(f"Finished jobid: {k} (Rule: generate)\n" for k in (1, 4, 5))
    done += "Finished jobid: 0 (Rule: all)\n"
    assert describe_progress(read_progress(done.splitlines()), {}).endswith(
        "6 of 6 jobs done (100%)"
    )
