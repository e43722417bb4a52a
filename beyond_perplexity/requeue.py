"""How a process that was asked to end waits for SLURM to queue its job again."""

from __future__ import annotations

import os
import signal
import time

JOB = "BEYOND_PERPLEXITY_JOB"  # set by the rules: the id of the SLURM job, if it is one
LONGEST_WAIT = 300.0  # seconds
# Before the command of every rule. SIGTERM, with which SLURM announces the end of a job, reaches
# all of its processes: the command shall write what it has; the shell and the log (tee) outlive it.
SHELL_PREFIX = (
    "set -euo pipefail; trap : TERM; tee() (trap '' TERM; exec tee \"$@\"); "
    f"export {JOB}=${{{{SLURM_JOB_ID-}}}}; "  # in braces for Snakemake, which formats it
)


def wait_to_be_requeued() -> None:
    """Wait for the end of the SLURM job, of which SIGTERM was the announcement.

    A job that is preempted is queued again if it still runs at the end of its time of grace. If it
    ends before, it has failed for SLURM, and one of Snakemake's retries is gone. A job that is
    cancelled or out of time ends no later for it than SLURM has it end. Elsewhere nothing happens.
    """
    if os.environ.get(JOB):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it may come more than once
        time.sleep(LONGEST_WAIT)
