"""Run a pilot: measure small shards of every rule and model, and say what the whole run takes."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from beyond_perplexity.errors import InputError
from beyond_perplexity.planning import pilot
from beyond_perplexity.planning.pilot_size import PilotSize
from beyond_perplexity.planning.planned import (
    JOBS_VARIABLE,
    ListedJob,
    finished_jobs,
    largest_units,
    read_jobs,
)
from beyond_perplexity.planning.reading import read_configuration
from beyond_perplexity.planning.run import Run, prepare_environment
from beyond_perplexity.planning.shard_sizes import describe_shards, whole_shards
from beyond_perplexity.planning.summary import SUMMARY_TITLE
from beyond_perplexity.planning.timings import PLAN_FILE, fit_timing, plan_content
from beyond_perplexity.planning.validation import validate
from beyond_perplexity.storage.fingerprint import ROOT
from beyond_perplexity.storage.outputs import write_json


def run_pilot(
    configfile: str, size: PilotSize, options: Sequence[str], output: str | None = None
) -> str:
    """Run a pilot of a configuration through Snakemake, and write the plan.

    Parameters
    ----------
    configfile : str
        The run that is planned.
    size : PilotSize
        How small its pilot is.
    options : sequence of str
        Snakemake's, of every run with jobs.
    output : str, optional
        The plan; `PLAN_FILE` of the results when it is not given.

    Returns
    -------
    str
        Shard sizes, and the summary of a dry run of the whole.

    Raises
    ------
    InputError
        When the configuration cannot be used, or Snakemake fails.
    """
    prepare_environment(ROOT)
    config, run = _load(configfile)
    _run(configfile, *options, "--rerun-triggers=mtime", "--", *pilot.prerequisites(run))
    folder = pilot.link_finished(run)
    file = folder.parent / "config.yaml"
    file.write_text(yaml.safe_dump(pilot.shrink(config, run, size), sort_keys=False))
    _, small = _load(file)
    wanted = ["--rerun-triggers=mtime", "--", *pilot.targets(small)]
    jobs = _jobs(folder.parent / "jobs.json", file, *wanted)
    _run(file, *options, "--keep-going", *wanted)
    timings = {kind: fit_timing(held) for kind, held in finished_jobs(jobs).items()}
    content = plan_content(timings, platform.node())
    write_json(output or Path(run.results) / PLAN_FILE, content)
    planned = _jobs(folder.parent / "jobs.json", configfile, "--forceall")
    shards = describe_shards(run, whole_shards(timings, largest_units(planned)))
    printed = _run(configfile, "--dry-run", "--quiet", shown=False)
    return "\n".join([*shards, printed[printed.index(SUMMARY_TITLE) :].rstrip()])


def _load(path: str | Path) -> tuple[dict[str, Any], Run]:
    """Read a configuration, as it stands and with all defaults."""
    config, checked = read_configuration(path), read_configuration(path)
    validate(checked, ROOT / "rules" / "config.schema.yaml")
    return config, Run(checked)


def _run(config: str | Path, *options: str, shown: bool = True, **others: str) -> str:
    command = [sys.executable, "-m", "snakemake", f"--snakefile={ROOT / 'Snakefile'}"]
    command += [f"--configfile={config}", *options]
    # What the user asked for is this command's own output: the plan.
    held = sys.stderr if shown else subprocess.PIPE
    done = subprocess.run(command, env={**os.environ, **others}, stdout=held, text=True)
    if done.returncode:
        raise InputError(f"{config}: Snakemake failed; its messages are above")
    return done.stdout or ""


def _jobs(path: Path, config: str | Path, *options: str) -> list[ListedJob]:
    """Return the jobs of a run, which a dry run writes to a file."""
    first, *rest = options
    _run(config, "--dry-run", "--quiet", first, *rest, shown=False, **{JOBS_VARIABLE: str(path)})
    return read_jobs(json.loads(path.read_text(encoding="utf-8")))
