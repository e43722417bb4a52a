"""What a run is about, in words, for the end of a dry run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from beyond_perplexity.corpus.formats import EMBEDDED
from beyond_perplexity.planning.corpora import STOP_WORD_LISTS
from beyond_perplexity.planning.resources import NEEDS, JobSizes
from beyond_perplexity.planning.run import Run
from beyond_perplexity.planning.timings import Timings, kind_of

SUMMARY_TITLE = "This run"
UNKNOWN_MINUTES = 0.2  # of jobs of which nothing is known: most of these only tabulate or compare


class PlannedJob(NamedTuple):
    """A job that a run would start, as the dry run sees it.

    Attributes
    ----------
    rule : str
        Name of its rule.
    gpus : int
        GPUs it asks for.
    minutes : float
        How long it is expected to take.
    measured : bool
        Whether that is known from jobs that ran, or guessed.
    megabytes : float
        The memory it asks for.
    output_bytes : float
        What it will write, where that was measured.
    """

    rule: str
    gpus: int
    minutes: float
    measured: bool = False
    megabytes: float = 0
    output_bytes: float = 0


class Expectations:
    """What jobs of a run are expected to take.

    Parameters
    ----------
    run : Run
        The run.
    sizes : JobSizes
        What its jobs ask for, and how much work they are.
    """

    def __init__(self, run: Run, sizes: JobSizes) -> None:
        self._sizes = sizes
        self._timings = Timings(sizes.planned)

    def plan_job(
        self,
        rule: str,
        wildcards: Mapping[str, str],
        resources: Mapping[str, Any],
        benchmark: str | None,
        output: Sequence[str],
    ) -> PlannedJob:
        """Describe a job by its rule, wildcards, resources, benchmark file and outputs."""
        kind, units = kind_of(rule, wildcards), self._sizes.work.units(rule, wildcards)
        rows = self._sizes.work.rows(rule, wildcards)
        first = output[0] if output else ""
        seconds = self._timings.seconds(kind, units, rows, benchmark, first)
        guess = self._sizes.seconds(rule, wildcards) / 60 if rule in NEEDS else UNKNOWN_MINUTES
        written = self._timings.planned.get(kind)
        return PlannedJob(
            rule,
            int(resources.get("gpu", 0)),
            guess if seconds is None else seconds / 60,
            seconds is not None,
            _number(resources.get("mem_mb", 0)),
            written.output_bytes * units if written else 0.0,
        )


def _number(value: object) -> float:
    """Return a resource; one that is only known later counts as nothing."""
    return float(value) if isinstance(value, int | float) else 0.0


def missing_files(run: Run) -> list[str]:
    """List the files that the configuration names and that are not there.

    Those that are fetched by their address, and lists of words that pip brings, are none of them.
    """
    locations = dict.fromkeys(
        location for location in run.corpora.locations() if isinstance(location, str)
    )
    brought = (f for f in locations if not f.startswith(EMBEDDED) and f not in STOP_WORD_LISTS)
    return [file for file in brought if not Path(file).exists()]


def summarize_jobs(run: Run, jobs: Iterable[PlannedJob]) -> str:
    """Say what a run is about, for the end of a dry run.

    Parameters
    ----------
    run : Run
        The run.
    jobs : iterable of PlannedJob
        The jobs that are still to be done.

    Returns
    -------
    str
        Lines of text: corpora, models, decodings, documents; jobs per rule with their expected
        minutes; hours of GPUs and of other jobs, memory, disk; files that are missing.
    """
    jobs = list(jobs)
    return "\n".join([SUMMARY_TITLE, *_subjects(run), *_jobs(jobs), *_costs(jobs), *_missing(run)])


def _subjects(run: Run) -> list[str]:
    generation = run.config["generation"]
    generated = len(run.samples.sources()) - len(run.config["external_samples"])
    documents = generated * generation["documents"]
    latent = run.importance.models()
    others = [*generation["models"], *run.contrastive.models(), *run.semantics.models()]
    models = list(dict.fromkeys([*others, *latent]))
    words = f" ({len(latent)} of them with latent variables)" if latent else ""
    return [
        f"  corpora      {', '.join(run.config['corpora'])}",
        f"  models       {len(models)}{words}: {', '.join(models) or 'none'}",
        f"  decodings    {', '.join(generation['decodings']) or 'none'}",
        f"  documents    {documents:,} ({generated} bodies of {generation['documents']:,})",
        f"  brought      {', '.join(run.config['external_samples']) or 'none'}",
        f"  embedded     {run.embeddings.describe()}",
        f"  weighed      {run.importance.describe()}",
        f"  contrasted   {run.contrastive.describe()}",
        f"  understood   {run.semantics.describe()}",
    ]


def _jobs(jobs: Sequence[PlannedJob]) -> list[str]:
    """Say how many jobs of every rule there are, and how long one takes on average."""
    by_rule = defaultdict(list)
    for job in jobs:
        by_rule[job.rule].append(job)
    width = max(map(len, by_rule), default=0)
    lines = [f"  jobs         {len(jobs):,} to do"]
    for rule, held in sorted(by_rule.items()):
        minutes = sum(job.minutes for job in held) / len(held)
        known = "" if all(job.measured for job in held) else "  guessed"
        lines.append(f"    {len(held):>8,}  {rule:<{width}}  {minutes:>8,.1f} min each{known}")
    return lines


def _costs(jobs: Sequence[PlannedJob]) -> list[str]:
    on_gpus = sum(job.gpus * job.minutes for job in jobs) / 60
    elsewhere = sum(job.minutes for job in jobs if not job.gpus) / 60
    total = sum(job.minutes for job in jobs)
    measured = sum(job.minutes for job in jobs if job.measured)
    share = f"{100 * measured / total:.0f}% of the time" if total else "nothing to do"
    lines = [
        f"  GPU-hours    {on_gpus:,.1f}",
        f"  CPU-hours    {elsewhere:,.1f} of jobs without a GPU",
        f"  known by     jobs that ran: {share}; `beyond-perplexity plan` measures the rest",
    ]
    if jobs:
        most = max(jobs, key=lambda job: job.megabytes)
        lines.append(f"  memory       {most.megabytes:,.0f} MB in a job at most ({most.rule})")
    if written := sum(job.output_bytes for job in jobs):
        lines.append(f"  disk         {written / 1e9:,.1f} GB of what was measured")
    return lines


def _missing(run: Run) -> list[str]:
    missing = missing_files(run)
    if not missing:
        return []
    listed = [f"    {file}" for file in missing[:20]]
    more = [f"    and {len(missing) - 20:,} more"] if len(missing) > 20 else []
    return [f"  missing      {len(missing)} of the files that it reads", *listed, *more]
