"""How a process that was asked to end waits for SLURM to queue its job again."""

from __future__ import annotations

import os
import time

JOB = "BEYOND_PERPLEXITY_JOB"  # set by the rules: the id of the SLURM job, if it is one
LONGEST_WAIT = 300.0  # seconds


def wait_to_be_requeued() -> None:
    """Wait for the end of the SLURM job, of which SIGTERM was the announcement.

    A job that is preempted is queued again if it still runs at the end of its time of grace. If it
    ends before, it has failed for SLURM, and one of Snakemake's retries is gone. A job that is
    cancelled or out of time ends no later for it than SLURM has it end. Elsewhere nothing happens.
    """
    if os.environ.get(JOB):
        time.sleep(LONGEST_WAIT)
