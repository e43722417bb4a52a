"""How long jobs took: of earlier runs, by Snakemake's benchmark files, and of `commands.plan`."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from beyond_perplexity.storage.benchmarks import read_benchmark

# Wildcards that only say which part of the work a job is; draws of another split cost the same.
_PARTS = ("shard", "block", "units", "draws", "instances", "samples", "resample")
CUTS = frozenset({*_PARTS, "drawn", "reduced"})
_CHANCE = 0.2  # of the time of a job: other work on the machine, a slow file system
PLAN_FILE = "plan.json"  # in the folder of the results


class Timing(NamedTuple):
    """What jobs of one kind take.

    Attributes
    ----------
    start : float
        Seconds before the first unit.
    seconds : float
        Of a unit of `work.Work`.
    megabytes : float
        The most memory that one of them used (its resident set).
    output_bytes : float
        What a unit adds to the outputs.
    rough : float
        1 where the time of a unit was too short to be told from chance: it is a bound then.
    """

    start: float
    seconds: float
    megabytes: float
    output_bytes: float
    rough: float = 0

    def total(self, units: float) -> float:
        """Return the seconds of a job of so many units."""
        return self.start + self.seconds * units


class Finished(NamedTuple):
    """A job that ran.

    Attributes
    ----------
    units : float
        Of its work.
    seconds : float
        From its start to its end.
    megabytes : float
        Of memory, at most.
    output_bytes : float
        Of its outputs.
    """

    units: float
    seconds: float
    megabytes: float
    output_bytes: float


def kind_of(rule: str, wildcards: Mapping[str, str]) -> str:
    """Name what jobs that only differ in their part of the work have in common."""
    return "/".join([rule, *(value for name, value in wildcards.items() if name not in CUTS)])


def fit_timing(jobs: Sequence[Finished], start: float = 5.0) -> Timing:
    """Tell the start of jobs of one kind from the time of a unit.

    Parameters
    ----------
    jobs : sequence of Finished
        At least one. Of several sizes the smallest and the largest say what a unit takes.
    start : float
        Seconds of the start, where all are of one size, at most.

    Returns
    -------
    Timing
        A difference of less than a fifth of the time is chance: the time of a unit is then that of
        a difference of a fifth, which it hardly exceeds.
    """
    small, large = min(jobs), max(jobs)
    written = sum(job.output_bytes for job in jobs) / sum(job.units for job in jobs)
    megabytes = max(job.megabytes for job in jobs)
    if large.units == small.units:
        begun = min(start, large.seconds)
        each = (large.seconds - begun) / large.units
        return Timing(begun, each, megabytes, written)
    least = _CHANCE * large.seconds
    grown = large.seconds - small.seconds
    each = max(grown, least) / (large.units - small.units)
    each = min(each, large.seconds / large.units)
    begun = large.seconds - each * large.units
    return Timing(begun, each, megabytes, written, rough=float(grown < least))


def _is_sensible(number: float) -> bool:
    return math.isfinite(number) and number >= 0


def read_plan(path: str | Path) -> dict[str, Timing]:
    """Read what `commands.plan` has measured, by `kind_of`; nothing where it did not run.

    A file that is none is left aside: it only makes guesses better.
    """
    try:
        held = json.loads(Path(path).read_text(encoding="utf-8"))["timings"]
        rows = {kind: {k: float(v) for k, v in row.items()} for kind, row in held.items()}
        return {k: Timing(**row) for k, row in rows.items() if all(map(_is_sensible, row.values()))}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def plan_content(timings: Mapping[str, Timing], machine: str) -> dict[str, object]:
    """Return what is to be written for `read_plan`."""
    rows = {kind: timing._asdict() for kind, timing in timings.items()}
    return {"machine": machine, "timings": rows}


class Timings:
    """What is known of the time of jobs, from earlier runs or from `commands.plan`.

    Parameters
    ----------
    planned : mapping of str to Timing
        What `commands.plan` has measured, by the kind of the jobs.
    """

    def __init__(self, planned: Mapping[str, Timing]) -> None:
        self.planned = planned
        self._known: dict[str, float | None] = {}

    def seconds(
        self,
        kind: str,
        units: float,
        rows: float | None,
        benchmark: str | None,
        output: str,
    ) -> float | None:
        """Return how long a job takes; None where nothing is known.

        Earlier shards of the same kind say it best where their sizes are known, by the rows that
        they hold; then `commands.plan`; then the job itself, when it ran before.

        Parameters
        ----------
        kind : str
            See `kind_of`.
        units : float
            Of the job.
        rows : float or None
            That its output will have, where that is known.
        benchmark : str or None
            Its benchmark file, beside which those of its other parts are.
        output : str
            Its first output, likewise.
        """
        if rows is not None and benchmark:
            rate = self._once(kind, lambda: _seconds_per_row(benchmark, output))
            if rate is not None:
                return rate * rows
        if kind in self.planned:
            return self.planned[kind].total(units)
        if benchmark is None:
            return None
        own = read_benchmark(benchmark)
        return own[0] if own else None

    def _once(self, kind: str, find: Callable[[], float | None]) -> float | None:
        if kind not in self._known:
            self._known[kind] = find()
        return self._known[kind]


def _siblings(benchmark: str) -> Iterable[Path]:
    return sorted(Path(benchmark).parent.glob("*.jsonl"))[:200]


def _seconds_per_row(benchmark: str, output: str) -> float | None:
    total, rows = 0.0, 0
    for path in _siblings(benchmark):
        held = read_benchmark(path)
        made = Path(output).with_name(f"{path.stem}{Path(output).suffix}")
        try:
            n = pq.read_metadata(made).num_rows
        except (OSError, pa.ArrowInvalid):
            continue
        if held and n:
            total, rows = total + held[0], rows + n
    return total / rows if rows else None
