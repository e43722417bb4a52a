"""Snakemake's benchmark files: what jobs took, by rule."""

from __future__ import annotations

import json
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from typing import Any

_MOST = 1e15  # what no job takes, of seconds or megabytes


def read_benchmarks(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Read what the jobs of each rule took."""
    jobs: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for path in sorted(folder.rglob("*.jsonl")):
        jobs[path.relative_to(folder).parts[0].removesuffix(".jsonl")] += _read(path)
    return jobs


def read_benchmark(path: str | Path) -> tuple[float, float] | None:
    """Return seconds and MB (0: unknown) of a job's last attempt; None where it has not ended."""
    jobs = _read(Path(path))
    return (float(jobs[-1]["s"]), number_of(jobs[-1], "max_rss") or 0.0) if jobs else None


def _read(path: Path) -> list[dict[str, Any]]:
    """Read the jobs of a file, if it is there; a line that is no record of a job is left out."""
    jobs = []
    with suppress(FileNotFoundError):
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            with suppress(ValueError):
                jobs.append(json.loads(line))
    return [job for job in jobs if isinstance(job, dict) and number_of(job, "s") is not None]


def number_of(held: dict[str, Any], name: str) -> float | None:
    """Return a number of a job; None where it has none that can be (Snakemake writes NA or NaN)."""
    value = held.get(name)
    return float(value) if isinstance(value, int | float) and 0 <= value < _MOST else None
