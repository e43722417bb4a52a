"""Snakemake's benchmark files: what jobs took, by rule."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from statistics import fmean
from typing import Any

_MOST = 1e15  # what no job takes, of seconds or megabytes


def read_benchmarks(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Read what the jobs of each rule took."""
    jobs: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for path in sorted(folder.rglob("*.jsonl")):
        rule = path.relative_to(folder).parts[0].removesuffix(".jsonl")
        jobs[rule].extend(_read(path))
    return jobs


def seconds_by_rule(folder: Path) -> dict[str, float]:
    """Return the mean seconds of a job of each rule of which there is one."""
    found = read_benchmarks(folder)
    return {rule: fmean(job["s"] for job in jobs) for rule, jobs in found.items() if jobs}


def read_benchmark(path: str | Path) -> tuple[float, float] | None:
    """Return the seconds and the megabytes of a job that has ended; None where it has not.

    Of several attempts the last one counts; memory that is not known is 0.
    """
    jobs = list(_read(Path(path)))
    return (float(jobs[-1]["s"]), number_of(jobs[-1], "max_rss") or 0.0) if jobs else None


def _read(path: Path) -> Iterator[dict[str, Any]]:
    """Read the jobs of a file, if it is there; a line that is no record of a job is left out."""
    with suppress(FileNotFoundError):
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            with suppress(ValueError):
                job = json.loads(line)
                if isinstance(job, dict) and number_of(job, "s") is not None:
                    yield job


def number_of(held: dict[str, Any], name: str) -> float | None:
    """Return a number of a job; None where it has none that can be (Snakemake writes NA or NaN)."""
    value = held.get(name)
    return float(value) if isinstance(value, int | float) and 0 <= value < _MOST else None
