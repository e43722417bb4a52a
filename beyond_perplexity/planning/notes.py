"""What Snakemake notes of finished jobs, made complete where it was killed and its jobs went on.

Snakemake itself notes parameters, code and inputs of a job, and plans it again when they change,
but only while the process that submitted the job lives. Here each job on a cluster notes them
itself; what is there without a note is compared by its run record; and a job whose outputs a later
run is about stops (see `storage.outlived`). The two methods that are replaced have no hooks.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from beyond_perplexity.errors import InputError
from beyond_perplexity.storage.fingerprint import fingerprint
from beyond_perplexity.storage.outputs import (
    RESULTS,
    check_claim,
    claim,
    forget_files,
    is_left,
    number_run,
)
from beyond_perplexity.storage.verification import changed_inputs, find_record

# What an attempt is given of a machine, and no result depends on.
_OF_A_MACHINE = ("--device", "--memory-mb", "--threads", "--workers")


def watch(workflow: Any, results: str) -> None:
    """Make this Snakemake note, compare and stop jobs as the module says.

    Parameters
    ----------
    workflow : snakemake.workflow.Workflow
    results : str
        The folder of the results.
    """
    from snakemake import persistence
    from snakemake.dag import DAG
    from snakemake.settings.types import RerunTrigger
    from snakemake_interface_executor_plugins.settings import ExecMode

    # Its name in versions before there was another than in files.
    notes = getattr(persistence, "PersistenceBase", None) or persistence.Persistence
    check_incomplete, finished = DAG.check_incomplete, notes.finished
    is_main = workflow.is_main_process
    os.environ[RESULTS] = results
    if is_main:
        number_run()

    async def check_outputs(dag: Any) -> None:
        if not is_main:
            _check_claims(dag)
        elif RerunTrigger.PARAMS in workflow.rerun_triggers:
            dag.forcefiles.update(_stale(dag))
        await check_incomplete(dag)

    async def note(persistence: Any, job: Any) -> None:
        if any(is_left(path) for path in job.output):
            return  # it has failed, and what is there is of the later run
        settings = workflow.workflow_settings
        mode, settings.exec_mode = settings.exec_mode, ExecMode.DEFAULT
        await finished(persistence, job)
        settings.exec_mode = mode

    DAG.check_incomplete = check_outputs
    if not is_main:
        notes.finished = note


def _check_claims(dag: Any) -> None:
    """Stop a job of an earlier run before Snakemake removes outputs that are of a later one."""
    from snakemake.exceptions import WorkflowError

    try:
        for path in (path for job in dag.targetjobs for path in job.output):
            check_claim(path)
    except InputError as error:
        raise WorkflowError(str(error)) from None


def take_over(dag: Any, results: str) -> None:
    """Leave all outputs to this run, and forget those that are gone and not of it."""
    outputs = [path for job in dag.jobs for path in job.output]
    claim(outputs)
    forget_files(Path(results), outputs)


def _stale(dag: Any) -> Iterator[str]:
    """List outputs that are there without a note of theirs and were made otherwise than now."""
    persistence = dag.workflow.persistence
    dag.update_jobids()  # without them a shell command cannot be asked for
    for job in dag.jobs:
        there = [path for path in job.output if os.path.exists(path)]
        unnoted = [path for path in there if not has_note(persistence, path)]
        if unnoted and made_otherwise(unnoted, job.shellcmd):
            yield from there


def has_note(persistence: Any, path: str) -> bool:
    """Return whether Snakemake's note of an output is about the file that is there."""
    note = persistence.metadata(path)
    return bool(note) and note.get("endtime") == os.stat(path).st_mtime


def made_otherwise(outputs: Iterable[str | os.PathLike[str]], command: str) -> bool:
    """Return whether outputs say that other code, another command or other inputs made them.

    Parameters
    ----------
    outputs : iterable of paths
        Of one job. Those without a run record say nothing.
    command : str
        The shell command that makes them now.
    """
    for path in map(Path, outputs):
        try:
            record = find_record(path)
        except InputError:  # no result, or a damaged one
            return True
        if record and _differs(path, record, command):
            return True
    return False


def _differs(path: Path, record: dict[str, Any], command: str) -> bool:
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
