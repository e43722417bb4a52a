"""Time and memory of jobs: as benchmark files say of jobs that ran, scaled linearly, or guessed."""

from __future__ import annotations

import json
import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from beyond_perplexity.planning.configuration_file import with_defaults
from beyond_perplexity.planning.run import Run
from beyond_perplexity.storage.benchmarks import read_benchmark
from beyond_perplexity.storage.inputs import read_json

Wildcards = Mapping[str, str]

PLAN_FILE = "plan.json"  # in the folder of the results
# Wildcards that only say which part of the work a job is; draws of another split cost the same.
CUTS = ("shard", "block", "units", "draws", "instances", "samples", "resample", "drawn", "reduced")
_CHANCE = 0.2  # of the time of a job: other work on the machine, a slow file system
DAY = 1440  # minutes
SHORTEST = 30  # minutes: less is no help to a scheduler, and a file system may be slow
TIME_MARGIN, MEMORY_MARGIN = 3, 1.5  # of what a job is expected to take
START = 20  # seconds, guessed, of a job: imports, and reading a model
UNKNOWN_MINUTES = 0.2  # of jobs of which nothing is known: most of these only tabulate or compare
_ENDS = 100  # MB: requests that differ by less are of no use either
_COUNTED_BYTES = 40  # of memory for each token of a corpus whose n-grams are counted
_MOST_COUNTED = 64_000  # MB that they ask for at first

# A guess of what a job needs: MB, bytes of a weight of its models, seconds of a unit of its work
# (a token, document or draw). In training weights, gradients, two moments, and a copy of these
# three while a checkpoint is written; a model is read in 32 bits and held in 16 or 32.
NEEDS: Mapping[str, tuple[float, float, float]] = {
    "train": (3000, 28, 1e-4),
    "measure_perplexity": (3000, 10, 5e-5),
    "generate": (2000, 10, 0.03),
    "draw": (3000, 10, 0.01),
    "draw_thoughts": (3000, 10, 0.05),
    "score_beside": (2000, 10, 0),
    "describe_latents": (2000, 10, 0),
    "score_contrast": (3000, 10, 0.003),
    "score_pairs": (3000, 10, 0),
    "estimate_partition": (3000, 10, 0),
    "predict_words": (3000, 10, 0.05),
    "score_semantics": (3000, 0, 0.1),
    "count_samples": (2000, 0, 2e-4),
    "measure_tendencies": (4000, 0, 1e-3),
    "measure_words": (3000, 0, 1e-3),
    "reduce_weights": (3500, 0, 1e-5),
    "extract_corpus": (2000, 0, 1.5e-5),
}


class Timing(NamedTuple):
    """What jobs of one kind take: seconds of the start and of a unit, peak MB, bytes of a unit."""

    start: float
    seconds: float
    megabytes: float
    output_bytes: float

    def total(self, units: float) -> float:
        """Return the seconds of a job of so many units."""
        return self.start + self.seconds * units


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


def kind_of(rule: str, wildcards: Wildcards) -> str:
    """Name what jobs that only differ in their part of the work have in common."""
    return "/".join([rule, *(value for name, value in wildcards.items() if name not in CUTS)])


def fit_timing(jobs: Sequence[tuple[float, float, float, float]]) -> Timing:
    """Tell the start of jobs (units, seconds, peak MB, bytes) from the time of a unit, by extremes.

    Where all are of one size, two thirds are the start, or `START`: whatever it is, a job four
    times as large takes half to twice of what that says. A difference of less than a fifth of the
    time is chance, and counts as a fifth, which it hardly exceeds.
    """
    units, seconds, megabytes, written = zip(*jobs, strict=True)
    (small, fast, *_), (large, slow, *_) = min(jobs), max(jobs)
    mean = statistics.fmean(seconds)
    begun = min(START, 2 / 3 * mean)
    each = (mean - begun) / large
    if large != small:
        each = min(max(slow - fast, _CHANCE * slow) / (large - small), slow / large)
        begun = slow - each * large
    return Timing(begun, each, max(megabytes), sum(written) / sum(units))


def fit_finished(jobs: Iterable[PlannedJob]) -> dict[str, Timing]:
    """Return what the jobs that have ended took, by their kind."""
    found = defaultdict(list)
    for job in (job for job in jobs if job.benchmark):
        held, made = read_benchmark(job.benchmark), [Path(file) for file in job.outputs]
        if held and all(file.exists() for file in made):
            found[job.kind].append((job.units, *held, sum(file.stat().st_size for file in made)))
    return {kind: fit_timing(held) for kind, held in found.items()}


def read_plan(path: Path) -> dict[str, Timing]:
    """Read what `plan` has measured, by `kind_of`; nothing where there is no plan."""
    if not path.exists():
        return {}
    held = read_json(path, "plan", "make it again with beyond-perplexity plan")["timings"]
    return {kind: Timing(*map(row.get, Timing._fields)) for kind, row in held.items()}


def expect(
    to_do: Sequence[PlannedJob], done: Iterable[PlannedJob], planned: Mapping[str, Timing]
) -> Iterator[PlannedJob]:
    """Say how long jobs take and what they write, by others of their kind in this run, then in
    `plan`, then in an earlier run of the job, which may have been of another size."""
    known = {**fit_finished(to_do), **planned, **fit_finished(done)}
    for job in to_do:
        if held := known.get(job.kind):
            minutes, written = held.total(job.units) / 60, held.output_bytes * job.units
            job = job._replace(minutes=minutes, measured=True, output_bytes=written)
        yield job


class JobCosts:
    """What the jobs of a run take and ask for; `planned` is what `plan` has measured."""

    def __init__(self, run: Run, planned: Mapping[str, Timing] | None = None) -> None:
        self.planned = planned or {}
        self.run, self.config, self.models = run, run.config, run.models
        config, plan, contrastive = run.config, run.importance, run.contrastive
        documents = config["generation"]["documents"]
        self._units: dict[str, Callable[[Wildcards], float]] = {
            "train": lambda w: self._trained_tokens(w["model"]),
            "measure_perplexity": lambda w: self._tokens(w["model"], config["perplexity"]["split"]),
            "extract_corpus": lambda w: run.corpora.tokens(w["corpus"]),
            # of a beam, its hypotheses of the documents
            "generate": lambda w: (
                run.samples.shard_range(w["shard"])[1]
                * (config["decodings"][w["decoding"]].get("size") or 1)
            ),
            "count_samples": lambda _: min(documents, config["tendencies"]["documents_per_count"]),
            "measure_tendencies": lambda _: documents,
            "measure_words": lambda _: documents,
            "draw": lambda w: (
                plan.instance_range(w["draw"], w["instances"])[1]
                * (plan.sample_range(w["draw"], w["setting"], w["samples"]) or [0, 1])[1]
            ),
            "draw_thoughts": lambda w: run.thoughts.thoughts(w["prompts"], w["instances"]),
            "reduce_weights": lambda _: plan.options["instances"] * plan.options["samples"],
            "score_contrast": lambda w: (
                contrastive.sentence_range(w["units"])[1]
                * sum(number for _, number in json.loads(contrastive.versions(w["draws"])).values())
            ),
            "predict_words": lambda w: run.semantics.sentence_range(w["block"])[1],
            "score_semantics": lambda w: run.semantics.sentence_range(w["block"])[1],
        }

    def units(self, rule: str, wildcards: Wildcards) -> float:
        """Return how many tokens, documents or draws a job has; 1 where its work is the same."""
        found = self._units.get(rule)
        return max(1.0, float(found(wildcards))) if found else 1.0

    def _tokens(self, name: str, split: str) -> float:
        """Return the tokens of a split of the corpus of a model."""
        corpus = self.models.corpus(name)
        share = self.config["corpora"][corpus].get("split", {}).get(split, 1.0)
        return self.run.corpora.tokens(corpus) * float(share)

    def _trained_tokens(self, name: str) -> float:
        """Return the tokens that a training reads: a counted model's once, no external one's."""
        row, once = self.models.row(name), self._tokens(name, "train")
        if not self.models.learns(name):
            return once if row.kind == "counted" else 0.0
        held = with_defaults(row.training, self.models.find(name)["training"])
        read = held["batch_tokens"] * (held.get("maximum_steps") or math.inf)
        wake = (held.get(f"wake_{part}") or 0 for part in ("steps", "batch_tokens", "samples"))
        return min(once * (held.get("maximum_epochs") or 1), read) + math.prod(wake)

    def megabytes(self, rule: str, wildcards: Wildcards, attempt: int = 1) -> int:
        """Return the MB that a job asks for, guessed or measured, doubled with every attempt."""
        known = self.config["models"].keys() | self.config["proposals"].keys()
        names = {wildcards.get(key) for key in ("model", "proposal", "beside")} & known
        found, bytes_per_weight, _ = NEEDS[rule]
        if rule == "train" and self.models.row(wildcards["model"]).kind == "counted":
            found = min(found + _COUNTED_BYTES * self.units(rule, wildcards) / 1e6, _MOST_COUNTED)
        elif bytes_per_weight:
            found += bytes_per_weight * sum(map(self.models.weights, names)) / 1e6
        if measured := self.planned.get(kind_of(rule, wildcards)):
            found = max(found, MEMORY_MARGIN * measured.megabytes)
        return math.ceil(found / _ENDS) * _ENDS * 2 ** (attempt - 1)

    def seconds(self, rule: str, wildcards: Wildcards) -> float:
        """Return how long a job takes, as was measured, or guessed."""
        known = self.planned.get(kind_of(rule, wildcards), Timing(START, NEEDS[rule][2], 0, 0))
        return known.total(self.units(rule, wildcards))

    def minutes(self, rule: str, wildcards: Wildcards, attempt: int = 1) -> int:
        """Return the run time that a job asks for, doubled with every attempt."""
        expected = TIME_MARGIN * self.seconds(rule, wildcards) / 60
        longest = DAY if rule == "train" else 2 * DAY  # a training goes on where it was
        first = min(max(SHORTEST, math.ceil(expected / 10) * 10), longest)
        return first * 2 ** (attempt - 1)

    def describe_job(self, rule: str, job: Any) -> PlannedJob:
        """Describe a job of Snakemake's plan, its minutes guessed."""
        wildcards, memory = job.wildcards_dict, job.resources.get("mem_mb", 0)
        return PlannedJob(
            rule,
            kind_of(rule, wildcards),
            self.units(rule, wildcards),
            gpus=int(job.resources.get("gpu", 0)),
            minutes=self.seconds(rule, wildcards) / 60 if rule in NEEDS else UNKNOWN_MINUTES,
            megabytes=memory if isinstance(memory, int | float) else 0,  # else known later
            benchmark=str(job.benchmark or ""),
            outputs=tuple(map(str, job.output)),
        )
