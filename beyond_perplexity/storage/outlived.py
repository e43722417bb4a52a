"""Jobs that outlive the Snakemake that started them, and what they leave.

A Snakemake that is killed on a cluster leaves its jobs running. A later run claims the outputs it
is about: a job of an earlier run writes them no more. What an earlier job has left without a note
of Snakemake's is known by its own run record.
"""

from __future__ import annotations

import json
import os
import shlex
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from beyond_perplexity.errors import InputError

RUN = "BEYOND_PERPLEXITY_RUN"  # set by the rules: the number of the run that a job is of
CLAIMS = Path(".snakemake/claims.json")  # the number of the newest run that is about an output
# What an attempt is given of a machine, and no result depends on.
_OF_A_MACHINE = ("--device", "--memory-mb", "--threads", "--workers")


def number_run() -> None:
    """Give this run, for its jobs, a number after those of all that claimed anything: the time."""
    os.environ[RUN] = str(max(time.time_ns(), 1 + max(_claims().values(), default=0)))


def claim(outputs: Iterable[str]) -> None:
    """Leave outputs to this run: jobs of earlier ones that still run write them no more."""
    from beyond_perplexity.storage.outputs import write_json

    write_json(CLAIMS, {**_claims(), **dict.fromkeys(map(str, outputs), int(os.environ[RUN]))})


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


def made_otherwise(outputs: Iterable[str | os.PathLike[str]], command: str) -> bool:
    """Return whether outputs say that other code, another command or other inputs made them.

    Parameters
    ----------
    outputs : iterable of paths
        Of one job. Those without a run record say nothing.
    command : str
        The shell command that makes them now.
    """
    from beyond_perplexity.storage.origins import find_record

    for path in map(Path, outputs):
        try:
            record = find_record(path)
        except InputError:  # no result, or a damaged one
            return True
        if record and _differs(path, record, command):
            return True
    return False


def _differs(path: Path, record: dict[str, Any], command: str) -> bool:
    from beyond_perplexity.storage.fingerprint import fingerprint
    from beyond_perplexity.storage.verification import changed_inputs

    try:
        now = fingerprint(record["script"])
        given = record.get("arguments")
        return (
            now != record["code_fingerprint"]
            or (given is not None and _results(given) != _results(arguments_in(command)))
            or any(True for _ in changed_inputs(path, record))
        )
    except (FileNotFoundError, KeyError, TypeError, ValueError, AttributeError):
        return True


def arguments_in(command: str) -> list[str]:
    """Return the arguments of the script that a rule's shell command runs."""
    words = shlex.split(command.replace("\\\n", " "))
    words = words[words.index("-m") + 2 :]
    ends = [place for place, word in enumerate(words) if word in ("2>&1", "|")]
    return words[: min(ends, default=len(words))]


def _results(arguments: Sequence[str]) -> list[str]:
    """Leave out the arguments that no result depends on."""
    machine = {place for place, word in enumerate(arguments) if word in _OF_A_MACHINE}
    return [
        word
        for place, word in enumerate(arguments)
        if place not in machine and place - 1 not in machine
    ]
