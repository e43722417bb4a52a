"""The table of what jobs asked for and used. Needs nothing; the oracle is arithmetic by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from beyond_perplexity.report.layout import to_text
from beyond_perplexity.report.resources import resources_table


def write(path: Path, *jobs: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(job)}\n" for job in jobs))


def job(seconds: float, megabytes: float, minutes: int, asked: int, gpus: int = 0) -> object:
    resources = {"runtime": minutes, "mem_mb": asked, "gpu": gpus, "tmpdir": "/tmp"}
    used = {"s": seconds, "max_rss": megabytes, "cpu_time": 2 * seconds}
    return {**used, "resources": resources}


def test_a_rule_has_a_row_of_what_its_jobs_asked_for_and_used(tmp_path: Path) -> None:
    write(tmp_path / "generate/a/00000.jsonl", job(60, 500, 10, 1000, gpus=1))
    write(tmp_path / "generate/a/00001.jsonl", job(180, 900, 10, 2000, gpus=1))
    write(tmp_path / "generate/a/00002.jsonl", job(120, 600, 20, 1000, gpus=1))
    write(tmp_path / "write_overview.jsonl", {"s": 30.0, "max_rss": "NA", "cpu_time": 3.0})
    table = resources_table(tmp_path)
    first, second = table.tidy.to_dict("records")
    assert first == {
        "rule": "generate",
        "jobs": 3,
        "cpus": 2.0,
        "minutes_asked": 20,
        "minutes_median": 2,
        "minutes_most": 3,
        "minutes_share": 0.3,
        "mb_asked": 2000,
        "mb_median": 600,
        "mb_most": 900,
        "mb_share": 0.6,
        "core_hours": pytest.approx(0.2),
        "gpu_hours": pytest.approx(0.1),
    }
    assert second["rule"] == "write_overview"
    assert table.rows[1] == [
        *("write_overview", "1", "–", "0.5", "0.5", "–"),
        *("–", "–", "–", "–", "0.10", "0.0", "0.0"),
    ]
    assert "generate" in to_text(table)


def test_what_is_no_record_of_a_job_is_left_out(tmp_path: Path) -> None:
    write(tmp_path / "train/a.jsonl", [], {"s": None}, {"rule": "train"}, {"s": 60.0})
    (tmp_path / "train/b.jsonl").write_bytes(b'{"s": 1.0}\n{"s": \xff')
    assert list(resources_table(tmp_path).tidy["jobs"]) == [2]


def test_a_folder_without_benchmarks_gives_a_table_without_rows(tmp_path: Path) -> None:
    assert not resources_table(tmp_path / "none").rows
