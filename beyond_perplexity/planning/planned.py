"""The jobs of a plan, written by a dry run for `commands.plan`, and what those that ran took."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from beyond_perplexity.planning.timings import Finished, kind_of
from beyond_perplexity.storage.benchmarks import read_benchmark

JOBS_VARIABLE = "BEYOND_PERPLEXITY_JOBS"  # names the file that a dry run writes its jobs to


class ListedJob(NamedTuple):
    """A job of a plan.

    Attributes
    ----------
    kind : str
        See `timings.kind_of`.
    units : float
        Of its work.
    benchmark : str
        Its benchmark file; empty where it has none.
    outputs : tuple of str
        Its files.
    """

    kind: str
    units: float
    benchmark: str
    outputs: tuple[str, ...]


def list_job(
    rule: str,
    wildcards: Mapping[str, str],
    units: float,
    benchmark: object,
    outputs: Iterable[object],
) -> dict[str, Any]:
    """Describe a job so that JSON holds it."""
    made = [str(file) for file in outputs]
    job = ListedJob(kind_of(rule, wildcards), units, str(benchmark or ""), tuple(made))
    return job._asdict()


def read_jobs(rows: Iterable[Mapping[str, Any]]) -> list[ListedJob]:
    """Return the jobs that `list_job` described."""
    return [ListedJob(**{**row, "outputs": tuple(row["outputs"])}) for row in rows]


def largest_units(jobs: Iterable[ListedJob]) -> dict[str, float]:
    """Return the units of the largest job of every kind: of a whole shard."""
    found: dict[str, float] = {}
    for job in jobs:
        found[job.kind] = max(job.units, found.get(job.kind, 0.0))
    return found


def finished_jobs(jobs: Iterable[ListedJob]) -> dict[str, list[Finished]]:
    """Return what the jobs took that have ended, by their kind."""
    found: dict[str, list[Finished]] = defaultdict(list)
    for job in jobs:
        held = read_benchmark(job.benchmark) if job.benchmark else None
        made = [Path(file) for file in job.outputs]
        if held and all(file.exists() for file in made):
            written = sum(file.stat().st_size for file in made)
            found[job.kind].append(Finished(job.units, *held, written))
    return dict(found)
