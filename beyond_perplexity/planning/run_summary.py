"""What a run is about and what it takes, in words, for the end of a dry run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from beyond_perplexity.corpus.formats import EMBEDDED
from beyond_perplexity.planning.corpora import STOP_WORD_LISTS
from beyond_perplexity.planning.job_costs import PlannedJob
from beyond_perplexity.planning.run import Run

SUMMARY_TITLE = "This run"
JOBS_VARIABLE = "BEYOND_PERPLEXITY_JOBS"  # names the file that a dry run writes its jobs to


def missing_files(run: Run) -> list[str]:
    """List the local files that the configuration names and that are not there."""
    locations = dict.fromkeys(
        location for location in run.corpora.locations() if isinstance(location, str)
    )
    brought = (f for f in locations if not f.startswith(EMBEDDED) and f not in STOP_WORD_LISTS)
    return [file for file in brought if not Path(file).exists()]


def summarize_run(run: Run, jobs: Sequence[PlannedJob]) -> str:
    """Say what a run is about, what its jobs still to be done take, and what is missing."""
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
