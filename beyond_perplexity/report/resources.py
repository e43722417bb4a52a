"""What jobs asked for and what they used: a row a rule, from the benchmark files of a run."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import Any

import pandas as pd

from beyond_perplexity.report.layout import Column, Table
from beyond_perplexity.storage.benchmarks import number_of, read_benchmarks

RESOURCES_NOTE = (
    "Asked is the most that a job of the rule asked for, used the median and the most of all that "
    "ended well; the share is that of the job that came closest to its limit. Where it is small "
    "the jobs wait longer for their turn than they need to, near 1 the next larger one is cut. "
    "Memory is that of the processes of the command (MB, sampled every 30 s and at the beginning: "
    "of short jobs it may be too small). CPUs is processor time by seconds."
)
_COLUMNS = [
    *("rule", "jobs", "minutes_asked", "minutes_median", "minutes_most", "minutes_share"),
    *("mb_asked", "mb_median", "mb_most", "mb_share", "cpus", "core_hours", "gpu_hours"),
]


def resources_table(folder: Path) -> Table:
    """Lay out what the jobs of a run asked for and used, from its folder of benchmark files.

    A row a rule, those with the most core hours first; numbers are missing where no file has them,
    as what was asked for is only in those of ``--benchmark-extended``.
    """
    jobs = read_benchmarks(folder)
    rows = [_row(rule, held) for rule, held in jobs.items() if held]
    tidy = pd.DataFrame(rows, columns=_COLUMNS)
    tidy = tidy.sort_values(["core_hours", "rule"], ascending=[False, True], ignore_index=True)
    columns = [
        Column("rule", text=True),
        Column("jobs"),
        *(Column(name, "minutes") for name in ("asked", "median", "most", "share")),
        *(Column(name, "memory, MB") for name in ("asked", "median", "most", "share")),
        *map(Column, ("CPUs", "core hours", "GPU hours")),
    ]
    shown = [[_cell(name, row[name]) for name in _COLUMNS] for row in tidy.to_dict("records")]
    return Table("resources", "Time and memory of jobs", RESOURCES_NOTE, columns, shown, tidy)


def _row(rule: str, jobs: list[dict[str, Any]]) -> dict[str, Any]:
    seconds = [number_of(job, "s") or 0.0 for job in jobs]
    busy = [number_of(job, "cpu_time") or 0.0 for job in jobs]
    asked = [job["resources"] if isinstance(job.get("resources"), dict) else {} for job in jobs]
    gpus = [number_of(held, "gpu") or 0.0 for held in asked]
    return {
        "rule": rule,
        "jobs": len(jobs),
        **_compared("minutes", [s / 60 for s in seconds], [number_of(a, "runtime") for a in asked]),
        **_compared(
            "mb", [number_of(j, "max_rss") for j in jobs], [number_of(a, "mem_mb") for a in asked]
        ),
        "cpus": sum(busy) / sum(seconds) if sum(seconds) else None,
        "core_hours": sum(busy) / 3600,
        "gpu_hours": sum(g * s for g, s in zip(gpus, seconds, strict=True)) / 3600,
    }


def _compared(
    name: str, used: list[float | None] | list[float], asked: list[float | None]
) -> dict[str, float | None]:
    known = [value for value in used if value is not None]
    limits = [value for value in asked if value is not None]
    shares = [u / a for u, a in zip(used, asked, strict=True) if u is not None and a]
    return {
        f"{name}_asked": max(limits, default=None),
        f"{name}_median": median(known) if known else None,
        f"{name}_most": max(known, default=None),
        f"{name}_share": max(shares, default=None),
    }


def _cell(name: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    if pd.isna(value):
        return "–"
    if name.endswith("_share") or name == "cpus":
        return f"{value:.2f}"
    if name.startswith("minutes") or name.endswith("hours"):
        return f"{value:,.1f}"
    return f"{value:,.0f}"
