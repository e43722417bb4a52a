"""What jobs asked for and what they used: a row a rule, from the benchmark files of a run."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import Any

import pandas as pd

from beyond_perplexity.report.layout import Column, Table, lay_out, under
from beyond_perplexity.storage.benchmarks import number_of, read_benchmarks

RESOURCES_NOTE = (
    "Asked is the most that a job of the rule asked for, used the median and the most of all that "
    "ended well; the share is that of the job that came closest to its limit. Where it is small "
    "the jobs wait longer for their turn than they need to, near 1 the next larger one is cut. "
    "Memory is that of the processes of the command (MB, sampled every 30 s and at the beginning: "
    "of short jobs it may be too small). CPUs is processor time by seconds."
)


def resources_table(folder: Path) -> Table:
    """Lay out what the jobs of a run asked for and used, from its folder of benchmark files.

    A row a rule, those with the most core hours first; numbers are missing where no file has them,
    as what was asked for is only in those of ``--benchmark-extended``.
    """
    parts = ("asked", "median", "most")
    columns = [
        Column("rule", text=True, of="rule"),
        Column("jobs", of="jobs", form=",.0f"),
        *under(
            "minutes",
            *(Column(name, of=f"minutes_{name}", form=",.1f") for name in parts),
            Column("share", of="minutes_share", form=".2f"),
        ),
        *under(
            "memory, MB",
            *(Column(name, of=f"mb_{name}", form=",.0f") for name in parts),
            Column("share", of="mb_share", form=".2f"),
        ),
        Column("CPUs", of="cpus", form=".2f"),
        Column("core hours", of="core_hours", form=",.1f"),
        Column("GPU hours", of="gpu_hours", form=",.1f"),
    ]
    rows = [_row(rule, held) for rule, held in read_benchmarks(folder).items() if held]
    tidy = pd.DataFrame(rows, columns=[str(column.of) for column in columns])
    tidy = tidy.sort_values(["core_hours", "rule"], ascending=[False, True], ignore_index=True)
    return lay_out("resources", "Time and memory of jobs", RESOURCES_NOTE, columns, tidy)


def _row(rule: str, jobs: list[dict[str, Any]]) -> dict[str, Any]:
    asked = [job["resources"] if isinstance(job.get("resources"), dict) else {} for job in jobs]
    seconds, busy = ([number_of(job, name) or 0.0 for job in jobs] for name in ("s", "cpu_time"))
    gpus = [number_of(held, "gpu") or 0.0 for held in asked]
    memory = [number_of(job, "max_rss") for job in jobs]
    return {
        "rule": rule,
        "jobs": len(jobs),
        **_compared("minutes", [s / 60 for s in seconds], [number_of(a, "runtime") for a in asked]),
        **_compared("mb", memory, [number_of(a, "mem_mb") for a in asked]),
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
