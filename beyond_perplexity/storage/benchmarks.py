"""Snakemake's benchmark files: what jobs took, by rule."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from beyond_perplexity.storage.inputs import JSONTextError, parse_json

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
    found = {
        rule: [number_of(job, "s") or 0.0 for job in jobs]
        for rule, jobs in read_benchmarks(folder).items()
    }
    return {rule: sum(seconds) / len(seconds) for rule, seconds in found.items() if seconds}


def read_benchmark(path: str | Path) -> tuple[float, float] | None:
    """Return the seconds and the megabytes of a job that has ended; None where it has not.

    Of several attempts the last one counts; memory that is not known is 0.
    """
    try:
        jobs = list(_read(Path(path)))
    except OSError:
        return None
    if not jobs:
        return None
    seconds, memory = number_of(jobs[-1], "s"), number_of(jobs[-1], "max_rss")
    return (seconds, memory or 0.0) if seconds is not None else None


def _read(path: Path) -> Iterator[dict[str, Any]]:
    """Read the jobs of a file; a line that is no whole record of a job is left out."""
    with open(path, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            try:
                job = parse_json(line)
            except JSONTextError:
                continue
            if isinstance(job, dict) and number_of(job, "s") is not None:
                yield job


def number_of(held: dict[str, Any], name: str) -> float | None:
    """Return a number of a job; None where it has none that can be (Snakemake writes NA or NaN)."""
    value = held.get(name)
    return float(value) if isinstance(value, int | float) and 0 <= value < _MOST else None
