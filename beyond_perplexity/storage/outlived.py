"""Jobs that outlive the Snakemake that started them, and the outputs that they may still write.

A Snakemake that is killed on a cluster leaves its jobs running. A later run claims the outputs it
is about: a job of an earlier run writes them no more.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from beyond_perplexity.errors import InputError

RUN = "BEYOND_PERPLEXITY_RUN"  # set by the rules: the number of the run that a job is of
CLAIMS = Path(".snakemake/claims.json")  # the number of the newest run that is about an output


def number_run() -> None:
    """Give this run, for its jobs, a number after those of all that claimed anything: the time."""
    os.environ[RUN] = str(max(time.time_ns(), 1 + max(_claims().values(), default=0)))


def claim(outputs: Iterable[str]) -> None:
    """Leave outputs to this run: jobs of earlier ones that still run write them no more."""
    from beyond_perplexity.storage.outputs import write_json

    ours = dict.fromkeys(map(os.path.relpath, outputs), int(os.environ[RUN]))
    write_json(CLAIMS, {**_claims(), **ours})


def check_claim(path: str | os.PathLike[str]) -> None:
    """Check that an output is left to the run that this job is of.

    Raises
    ------
    InputError
        When a later run is about it.
    """
    if is_left(path):
        raise InputError(
            f"{path}: is left to a later run; what this job of an earlier one makes is not kept"
        )


def is_left(path: str | os.PathLike[str]) -> bool:
    """Return whether a later run than that of this job is about an output."""
    run = os.environ.get(RUN)
    return run is not None and _claims().get(os.path.relpath(path), 0) > int(run)


def _claims() -> dict[str, int]:
    with suppress(OSError, ValueError):
        return {str(path): int(run) for path, run in json.loads(CLAIMS.read_bytes()).items()}
    return {}
