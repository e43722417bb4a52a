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
    locations = dict.fromkeys(place for place in run.corpora.locations() if isinstance(place, str))
    brought = (f for f in locations if not f.startswith(EMBEDDED) and f not in STOP_WORD_LISTS)
    return [file for file in brought if not Path(file).exists()]


def summarize_run(run: Run, jobs: Sequence[PlannedJob]) -> str:
    """Say what a run is about, what its jobs still to be done take, and what is missing."""
    lines = [f"  {name:<12} {words}" for name, words in _subjects(run).items()]
    by_rule = defaultdict(list)
    for job in jobs:
        by_rule[job.rule].append(job)
    lines.append(f"  jobs         {len(jobs):,} to do")
    width = max(map(len, by_rule), default=0)
    for rule, held in sorted(by_rule.items()):
        minutes = sum(job.minutes for job in held) / len(held)
        known = "" if all(job.measured for job in held) else "  guessed"
        lines.append(f"    {len(held):>8,}  {rule:<{width}}  {minutes:>8,.1f} min each{known}")
    lines += [f"  {name:<12} {words}" for name, words in _costs(jobs).items()]
    if missing := missing_files(run):
        lines.append(f"  missing      {len(missing)} of the files that it reads")
        lines += [f"    {file}" for file in missing[:20]]
        lines += [f"    and {len(missing) - 20:,} more"] if len(missing) > 20 else []
    return "\n".join([SUMMARY_TITLE, *lines])


def _subjects(run: Run) -> dict[str, str]:
    generation = run.config["generation"]
    generated = len(run.samples.sources()) - len(run.config["external_samples"])
    documents = generated * generation["documents"]
    latent = run.importance.models()
    others = [*generation["models"], *run.contrastive.models(), *run.semantics.models()]
    models = list(dict.fromkeys([*others, *latent]))
    words = f" ({len(latent)} of them with latent variables)" if latent else ""
    return {
        "corpora": ", ".join(run.config["corpora"]),
        "models": f"{len(models)}{words}: {', '.join(models) or 'none'}",
        "decodings": ", ".join(generation["decodings"]) or "none",
        "documents": f"{documents:,} ({generated} bodies of {generation['documents']:,})",
        "brought": ", ".join(run.config["external_samples"]) or "none",
        "embedded": run.embeddings.describe(),
        "weighed": run.importance.describe(),
        "contrasted": run.contrastive.describe(),
        "understood": run.semantics.describe(),
    }


def _costs(jobs: Sequence[PlannedJob]) -> dict[str, str]:
    on_gpus = sum(job.gpus * job.minutes for job in jobs) / 60
    elsewhere = sum(job.minutes for job in jobs if not job.gpus) / 60
    total = sum(job.minutes for job in jobs)
    measured = sum(job.minutes for job in jobs if job.measured)
    share = f"{100 * measured / total:.0f}% of the time" if total else "nothing to do"
    words = {
        "GPU-hours": f"{on_gpus:,.1f}",
        "CPU-hours": f"{elsewhere:,.1f} of jobs without a GPU",
        "known by": f"jobs that ran: {share}; `beyond-perplexity plan` measures the rest",
    }
    if jobs:
        most = max(jobs, key=lambda job: job.megabytes)
        words["memory"] = f"{most.megabytes:,.0f} MB in a job at most ({most.rule})"
    if written := sum(job.output_bytes for job in jobs):
        words["disk"] = f"{written / 1e9:,.1f} GB of what was measured"
    return words
