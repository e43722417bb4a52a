"""What a run is about, in words, for the end of a dry run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from beyond_perplexity.planning.run import Run


class PlannedJob(NamedTuple):
    """A job that a run would start, as the dry run sees it.

    Attributes
    ----------
    rule : str
        Name of its rule.
    gpus : int
        GPUs it asks for.
    minutes : float
        The run time it asks for.
    """

    rule: str
    gpus: int
    minutes: float


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
        Lines of text: corpora, models, decodings, documents, jobs per rule, GPU-hours at most.
    """
    jobs = list(jobs)
    generation = run.config["generation"]
    generated = len(run.samples.sources()) - len(run.config["external_samples"])
    per_rule = Counter(job.rule for job in jobs)
    gpu_hours = sum(job.gpus * job.minutes for job in jobs) / 60
    documents = generated * generation["documents"]
    lines = [
        "This run",
        f"  corpora      {', '.join(run.config['corpora'])}",
        f"  models       {', '.join(generation['models']) or 'none'}",
        f"  decodings    {', '.join(generation['decodings']) or 'none'}",
        f"  documents    {documents:,} ({generated} bodies of {generation['documents']:,})",
        f"  brought      {', '.join(run.config['external_samples']) or 'none'}",
        f"  embedded     {run.embeddings.describe()}",
        f"  weighed      {run.importance.describe()}",
        f"  contrasted   {run.contrastive.describe()}",
        f"  understood   {run.semantics.describe()}",
        f"  jobs         {len(jobs):,} to do"
        + "".join(f"\n    {count:>8,}  {rule}" for rule, count in sorted(per_rule.items())),
        f"  GPU-hours    {gpu_hours:,.1f} at most (the run time that each GPU job may take)",
    ]
    return "\n".join(lines)
