"""Time and memory of jobs: as benchmark files say of jobs that ran, scaled linearly, or guessed.

What a job asks for is enough for most, and twice as much after every failure.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from beyond_perplexity.planning.work import Wildcards, Work
from beyond_perplexity.storage.benchmarks import read_benchmark

PLAN_FILE = "plan.json"  # in the folder of the results
# Wildcards that only say which part of the work a job is; draws of another split cost the same.
_PARTS = ("shard", "block", "units", "draws", "instances", "samples", "resample")
CUTS = frozenset({*_PARTS, "drawn", "reduced"})
_CHANCE = 0.2  # of the time of a job: other work on the machine, a slow file system
DAY = 1440  # minutes
SHORTEST = 30  # minutes: less is no help to a scheduler, and a file system may be slow
TIME_MARGIN = 3  # of what a job is expected to take
START = 20  # seconds, guessed
UNKNOWN_MINUTES = 0.2  # of jobs of which nothing is known: most of these only tabulate or compare
_GPU_RATE = 5e12  # operations a second that small batches reach on a GPU
_ENDS = 100  # MB: requests that differ by less are of no use either
_COUNTED_BYTES = 40  # of memory for each token of a corpus whose n-grams are counted
_MOST_COUNTED = 64_000  # MB that they ask for at first


class Effort(NamedTuple):
    """A first guess of what the jobs of a rule need, on one core or one GPU.

    MB; bytes for each weight of the models, and for each unit of `Work`; seconds of a unit under
    the smallest model; operations of a unit for each weight.
    """

    megabytes: float
    bytes_per_weight: float = 0
    bytes_per_unit: float = 0
    seconds: float = 0
    operations: float = 0


# In training weights, gradients, two moments, and a copy of these three while a checkpoint is
# written; a model is read in 32 bits and held in 16 or 32.
NEEDS = {
    "train": Effort(3000, 28, seconds=2e-5, operations=6),
    "measure_perplexity": Effort(3000, 10, seconds=5e-5, operations=2),
    "generate": Effort(2000, 10, seconds=0.02, operations=2 * 200),
    "draw": Effort(3000, 10, seconds=0.005, operations=2 * 200),
    "score_beside": Effort(2000, 10),
    "describe_latents": Effort(2000, 10),
    "score_contrast": Effort(3000, 10, seconds=0.003, operations=2 * 30),
    "score_pairs": Effort(3000, 10),
    "estimate_partition": Effort(3000, 10),
    "predict_words": Effort(3000, 10, seconds=0.01, operations=2 * 30),
    "score_semantics": Effort(3000, seconds=0.03),
    "count_samples": Effort(2000, seconds=2e-4),
    "measure_tendencies": Effort(2500, bytes_per_unit=1500, seconds=1e-3),
    "reduce_weights": Effort(1500, bytes_per_unit=100, seconds=1e-5),
    "extract_corpus": Effort(2000, seconds=1.5e-5),
}


class Timing(NamedTuple):
    """What jobs of one kind take: seconds of the start and of a unit, peak MB, bytes of a unit.

    `rough` is 1 where the time of a unit was too short to be told from chance: a bound.
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
    """A job that ran: the units of its work, seconds, peak MB, bytes of its outputs."""

    units: float
    seconds: float
    megabytes: float
    output_bytes: float


class PlannedJob(NamedTuple):
    """A job as a dry run sees it; `minutes` are measured or guessed, `output_bytes` measured."""

    rule: str
    kind: str = ""
    units: float = 1
    gpus: int = 0
    minutes: float = 0
    measured: bool = False
    megabytes: float = 0
    output_bytes: float = 0
    benchmark: str = ""
    outputs: Sequence[str] = ()


def kind_of(rule: str, wildcards: Mapping[str, str]) -> str:
    """Name what jobs that only differ in their part of the work have in common."""
    return "/".join([rule, *(value for name, value in wildcards.items() if name not in CUTS)])


def fit_timing(jobs: Sequence[Finished], start: float = 5.0) -> Timing:
    """Tell the start of jobs of one kind from the time of a unit, by the smallest and the largest.

    Where all are of one size, `start` seconds are the start at most. A difference of less than a
    fifth of the time is chance: the time of a unit is then that of a difference of a fifth, which
    it hardly exceeds.
    """
    small, large = min(jobs), max(jobs)
    written = sum(job.output_bytes for job in jobs) / sum(job.units for job in jobs)
    megabytes = max(job.megabytes for job in jobs)
    if large.units == small.units:
        begun = min(start, large.seconds)
        return Timing(begun, (large.seconds - begun) / large.units, megabytes, written)
    least, grown = _CHANCE * large.seconds, large.seconds - small.seconds
    each = max(grown, least) / (large.units - small.units)
    each = min(each, large.seconds / large.units)
    begun = large.seconds - each * large.units
    return Timing(begun, each, megabytes, written, rough=float(grown < least))


def fit_finished(jobs: Iterable[PlannedJob]) -> dict[str, Timing]:
    """Return what the jobs that have ended took, by their kind; the shortest is hardly a start."""
    found: dict[str, list[Finished]] = {}
    for job in jobs:
        held = read_benchmark(job.benchmark) if job.benchmark else None
        made = [Path(file) for file in job.outputs]
        if held and all(file.exists() for file in made):
            written = sum(file.stat().st_size for file in made)
            found.setdefault(job.kind, []).append(Finished(job.units, *held, written))
    start = min((job.seconds for held in found.values() for job in held), default=0.0)
    return {kind: fit_timing(held, start) for kind, held in found.items()}


def read_plan(path: str | Path) -> dict[str, Timing]:
    """Read what `plan` has measured, by `kind_of`; a file that is no plan is left aside."""
    try:
        held = json.loads(Path(path).read_text(encoding="utf-8"))["timings"]
        rows = {kind: Timing(**{k: float(v) for k, v in row.items()}) for kind, row in held.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}
    return {k: row for k, row in rows.items() if all(math.isfinite(v) and v >= 0 for v in row)}


def plan_content(timings: Mapping[str, Timing], machine: str) -> dict[str, object]:
    """Return what is to be written for `read_plan`."""
    return {"machine": machine, "timings": {k: held._asdict() for k, held in timings.items()}}


class JobCosts:
    """What the jobs of a run take and ask for; `planned` is what `plan` has measured."""

    def __init__(self, work: Work, planned: Mapping[str, Timing] | None = None) -> None:
        self.work = work
        self.planned = planned or {}

    def megabytes(self, rule: str, wildcards: Wildcards, attempt: int = 1) -> int:
        """Return the MB that a job of a rule in `NEEDS` asks for, doubled with every attempt."""
        need, work = NEEDS[rule], self.work
        found, weights = need.megabytes, 0
        if need.bytes_per_weight:
            weights = work.job_weights(wildcards)
            found += (need.bytes_per_weight * weights + 2 * work.counted_bytes(wildcards)) / 1e6
        if need.bytes_per_unit:
            found += need.bytes_per_unit * work.units(rule, wildcards) / 1e6
        if rule == "train" and not weights:
            counts = _COUNTED_BYTES * work.units(rule, wildcards) / 1e6
            found = min(found + counts, max(found, _MOST_COUNTED))
        return math.ceil(found / _ENDS) * _ENDS * 2 ** (attempt - 1)

    def seconds(self, rule: str, wildcards: Wildcards) -> float:
        """Return how long a job takes, as was measured, or guessed by the weights of its models."""
        units = self.work.units(rule, wildcards)
        if measured := self.planned.get(kind_of(rule, wildcards)):
            return measured.total(units)
        need = NEEDS[rule]
        weights = self.work.job_weights(wildcards) if need.operations else 0
        return START + (need.seconds + need.operations * weights / _GPU_RATE) * units

    def minutes(self, rule: str, wildcards: Wildcards, attempt: int = 1) -> int:
        """Return the run time that a job asks for, doubled with every attempt."""
        expected = TIME_MARGIN * self.seconds(rule, wildcards) / 60
        longest = DAY if rule == "train" else 2 * DAY  # a training goes on where it was
        first = min(max(SHORTEST, math.ceil(expected / 10) * 10), longest)
        return first * 2 ** (attempt - 1)

    def describe_job(
        self,
        rule: str,
        wildcards: Wildcards,
        resources: Mapping[str, Any],
        benchmark: object,
        outputs: Iterable[object],
    ) -> PlannedJob:
        """Describe a job of Snakemake's plan, its minutes guessed."""
        memory = resources.get("mem_mb", 0)
        return PlannedJob(
            rule,
            kind_of(rule, wildcards),
            self.work.units(rule, wildcards),
            gpus=int(resources.get("gpu", 0)),
            minutes=self.seconds(rule, wildcards) / 60 if rule in NEEDS else UNKNOWN_MINUTES,
            megabytes=memory if isinstance(memory, int | float) else 0,  # else known later
            benchmark=str(benchmark or ""),
            outputs=tuple(map(str, outputs)),
        )


def expect(
    to_do: Sequence[PlannedJob], done: Iterable[PlannedJob], planned: Mapping[str, Timing]
) -> list[PlannedJob]:
    """Say how long jobs take and what they write, by others of their kind that ran.

    Those of this run that need not run again say it best; then `plan`; then an earlier run of the
    job itself, which may have been of another size.
    """
    known = {**fit_finished(to_do), **planned, **fit_finished(done)}
    found = []
    for job in to_do:
        if held := known.get(job.kind):
            minutes, written = held.total(job.units) / 60, held.output_bytes * job.units
            job = job._replace(minutes=minutes, measured=True, output_bytes=written)
        found.append(job)
    return found
