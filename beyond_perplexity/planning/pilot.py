"""`plan`: two small shards of each model and rule tell what a large run will take."""

from __future__ import annotations

import copy
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import yaml

from beyond_perplexity.errors import InputError
from beyond_perplexity.planning.configuration_file import read_configuration
from beyond_perplexity.planning.job_costs import PLAN_FILE, PlannedJob, Timing, fit_finished
from beyond_perplexity.planning.run import Run, prepare_environment
from beyond_perplexity.planning.validation import validate
from beyond_perplexity.storage.fingerprint import ROOT
from beyond_perplexity.storage.inputs import read_utf8
from beyond_perplexity.storage.outputs import write_json

PILOT_FOLDER = "plan"  # in that of the results
SHARED = (
    *("corpora", "vocabularies", "downloads", "shared_vocabulary"),
    *("models/*/model.json", "evaluators/*/evaluator.json"),
)
# By the section: what is cut, and the larger shard of a pilot by the smaller one.
_CUT = {
    "generation": ("documents", 15),
    "importance": ("instances", 3),
    "contrastive": ("sentences", 15),
    "semantics": ("sentences", 15),
}
MINUTES = 30  # of the shards that are advised
# The section that says how large the shards of a rule are.
SECTIONS = {
    "generate": "generation",
    "draw": "importance",
    "score_contrast": "contrastive",
    "predict_words": "semantics",
    "score_semantics": "semantics",
}
SUMMARY_TITLE = "This run"
JOBS_VARIABLE = "BEYOND_PERPLEXITY_JOBS"  # names the file that a dry run writes its jobs to


def run_plan(
    configfile: str,
    size: Mapping[str, int],
    options: Sequence[str],
    output: str | None = None,
    finished: str | None = None,
) -> str:
    """Run a pilot of a configuration of a `size` (`shrink`), or read a `finished` run; write the
    plan, and return the advised shards and the summary of a dry run of the whole."""
    prepare_environment(ROOT)
    config = read_configuration(configfile)
    run = _checked(config)
    folder = Path(run.results) / PILOT_FOLDER
    if finished:
        measured: dict[str, Any] = json.loads(read_utf8(Path(finished) / "configuration.json"))
        measured["pathvars"], wanted = {"results": finished}, ["--forceall"]
        folder.mkdir(parents=True, exist_ok=True)
    else:
        _snakemake(configfile, *options, "--rerun-triggers=mtime", "--", *prerequisites(run))
        link_finished(run)
        measured = shrink(config, run, size)
        wanted = ["--rerun-triggers=mtime", "--", *targets(_checked(measured))]
    file = folder / "config.yaml"
    file.write_text(yaml.safe_dump(measured, sort_keys=False))
    jobs = _planned_jobs(folder / "jobs.json", file, wanted)
    if not finished:
        _snakemake(file, *options, "--keep-going", *wanted)
    timings = fit_finished(jobs)
    rows = {kind: held._asdict() for kind, held in timings.items()}
    plan = {"machine": platform.node(), "timings": rows}
    write_json(output or Path(run.results) / PLAN_FILE, plan)
    whole = _planned_jobs(folder / "jobs.json", configfile, ["--forceall"])
    printed = _snakemake(configfile, "--dry-run", "--quiet", shown=False)
    advice = advise_shards(run, timings, whole)
    return "\n".join([*advice, printed[printed.index(SUMMARY_TITLE) :].rstrip()])


def _checked(config: Mapping[str, Any]) -> Run:
    """Return the run of a configuration, which keeps no defaults."""
    held = copy.deepcopy(dict(config))
    validate(held)
    return Run(held)


def _snakemake(config: str | Path, *options: str, shown: bool = True, jobs: str = "") -> str:
    """Run Snakemake; return what it printed if that is not shown. `jobs`: see `JOBS_VARIABLE`."""
    command = [sys.executable, "-m", "snakemake", f"--snakefile={ROOT / 'Snakefile'}"]
    command += [f"--configfile={config}", *options]
    # What the user asked for is this command's own output: the plan.
    held = sys.stderr if shown else subprocess.PIPE
    environment = {**os.environ, JOBS_VARIABLE: jobs}
    done = subprocess.run(command, env=environment, stdout=held, text=True)
    if done.returncode:
        raise InputError(f"{config}: Snakemake failed; its messages are above")
    return done.stdout or ""


def _planned_jobs(path: Path, config: str | Path, options: Sequence[str]) -> list[PlannedJob]:
    """Return the jobs of a run, which a dry run writes to a file."""
    _snakemake(config, "--dry-run", "--quiet", *options, shown=False, jobs=str(path))
    return [PlannedJob(**row) for row in json.loads(path.read_text(encoding="utf-8"))]


def shrink(config: Mapping[str, Any], run: Run, size: Mapping[str, int]) -> dict[str, Any]:
    """Return the configuration of a pilot with ``documents`` and ``instances`` of its shards,
    ``samples`` of an instance at most, and ``steps`` of untrained models, as `size` says."""
    small = copy.deepcopy(dict(config))
    moved = {"results": f"{run.results}/{PILOT_FOLDER}/run", "logs": None, "benchmarks": None}
    small["pathvars"] = {k: v for k, v in {**small.get("pathvars", {}), **moved}.items() if v}
    for section in _CUT.keys() & small.keys():
        key, times = _CUT[section]
        number = size.get(key, size["documents"])
        small[section] |= {key: (times + 1) * number, f"{key}_per_shard": times * number}
    if "importance" in small:
        held = small["importance"]
        samples = min(size["samples"], run.config["importance"]["samples"])
        held |= {"samples": samples, "samples_per_shard": samples, "choose": "none"}
        few = {"replicate_samples": max(1, samples // 2)}
        held["reduction"] = {**held.get("reduction", {}), **few}
        if held.get("bidirectional"):
            held["bidirectional"]["documents"] = held["instances"]
    models, evaluators = run.models, run.evaluators
    stepwise = [
        held
        for name, held in {**small.get("models", {}), **small.get("proposals", {})}.items()
        if models.row(name).reference and models.row(name).kind != "counted"
        if not models.row(name).bring
    ]
    stepwise += [
        held
        for name, held in small.get("evaluators", {}).items()
        if evaluators.is_trained(name) and evaluators.row(name).network
    ]
    for held in stepwise:  # what is linked is taken as it is: --rerun-triggers=mtime
        given = held.get("training") or {}
        wake = {"wake_steps": 1} if given.get("wake_steps") else {}
        held["training"] = {**given, "maximum_steps": size["steps"], "warmup_steps": 0, **wake}
    return small


def prerequisites(run: Run) -> list[str]:
    """List what a pilot cannot do in small: corpora, vocabularies, and models of counts."""
    files = []
    for name in run.config["models"]:
        files += [run.models.documents(name), *run.models.vocabulary_files(name)]
        if run.models.row(name).kind == "counted":
            files.append(f"<results>/models/{name}/model.json")
    return sorted({file.replace("<results>", run.results) for file in files})


def link_finished(run: Run) -> Path:
    """Make the folder of a pilot anew, with links to what the large run has made; return it."""
    results = Path(run.results)
    folder = results / PILOT_FOLDER / "run"
    if folder.exists():
        shutil.rmtree(folder)  # removes links, not what they stand for
    folder.mkdir(parents=True)
    for made in chain.from_iterable(map(results.glob, SHARED)):
        held = made.parent if made.suffix else made
        link = folder / held.relative_to(results)
        link.parent.mkdir(exist_ok=True)
        link.symlink_to(held.resolve(), target_is_directory=True)
    return folder


def targets(pilot: Run) -> list[str]:
    """List the shards that a pilot makes: of every rule that cuts its work, for every model."""
    semantics, files = pilot.semantics, pilot.samples.all_shards()
    for source in pilot.samples.sources():
        files += pilot.samples.counted_files(*source.split("/"))
    for proposal in pilot.importance.proposals():
        files += chain.from_iterable(pilot.importance.draws_of(proposal).values())
    for model in pilot.contrastive.models():
        files += pilot.contrastive.score_files(model)
    for model in semantics.models():
        files += [*semantics.prediction_files(model), *semantics.score_files(model)]
    return [file.replace("<results>", pilot.results) for file in files]


def round_size(number: float) -> int:
    """Round a size to two digits."""
    return max(1, round(float(f"{number:.2g}")))


def advise_shards(run: Run, timings: Mapping[str, Timing], jobs: Sequence[PlannedJob]) -> list[str]:
    """Lay out, for every kind of jobs, its rate, its minutes, and the shard of half an hour; the
    last lines are keys of a configuration."""
    largest: dict[str, float] = {}  # units of a whole shard
    for job in jobs:
        largest[job.kind] = max(job.units, largest.get(job.kind, 0.0))
    kinds = sorted(timings.keys() & largest.keys())
    width = max(map(len, kinds), default=0)
    lines = [f"  {'jobs':<{width}} {'s/unit':>10} {'MB':>6} {'min/shard':>10} {'for 30 min':>11}"]
    wanted: dict[tuple[str, int], list[int]] = defaultdict(list)
    for kind in kinds:
        held, size = timings[kind], ""
        if (section := SECTIONS.get(kind.split("/")[0])) and held.seconds:
            name = f"{_CUT[section][0]}_per_shard"
            now = run.config[section][name]
            each = held.seconds * largest[kind] / now
            number = round_size((60 * MINUTES - held.start) / each)
            wanted[f"{section}.{name}", now].append(number)
            size = f"{number:,}"
        rate, minutes = f"{held.seconds:.2g}", f"{held.total(largest[kind]) / 60:,.1f}"
        row = f"  {kind:<{width}} {rate:>10} {held.megabytes:>6,.0f} {minutes:>10} {size:>11}"
        lines.append(row)
    lines.append(f"Shard sizes for jobs of {MINUTES} minutes (the median of their kinds; slowest):")
    for (name, now), sizes in sorted(wanted.items()):
        median = round_size(statistics.median(sizes))
        lines.append(f"  {name}: {median:,}; {min(sizes):,}  (now {now:,})")
    return lines


def summarize_run(run: Run, jobs: Sequence[PlannedJob]) -> str:
    """Say what a run is about, what its jobs still to be done take, and what is missing."""
    by_rule = defaultdict(list)
    for job in jobs:
        by_rule[job.rule].append(job)
    lines = [f"  {name:<12} {words}" for name, words in run.describe().items()]
    lines.append(f"  jobs         {len(jobs):,} to do")
    width = max(map(len, by_rule), default=0)
    for rule, held in sorted(by_rule.items()):
        minutes = statistics.fmean(job.minutes for job in held)
        known = "" if all(job.measured for job in held) else "  guessed"
        lines.append(f"    {len(held):>8,}  {rule:<{width}}  {minutes:>8,.1f} min each{known}")
    total = sum(job.minutes for job in jobs)
    measured = sum(job.minutes for job in jobs if job.measured)
    share = f"{measured / total:.0%} of the time" if total else "nothing to do"
    elsewhere = sum(job.minutes for job in jobs if not job.gpus) / 60
    lines += [
        f"  GPU-hours    {sum(job.gpus * job.minutes for job in jobs) / 60:,.1f}",
        f"  CPU-hours    {elsewhere:,.1f} of jobs without a GPU",
        f"  known by     jobs that ran: {share}; `beyond-perplexity plan` measures the rest",
    ]
    if jobs:
        most = max(jobs, key=lambda job: job.megabytes)
        lines.append(f"  memory       {most.megabytes:,.0f} MB in a job at most ({most.rule})")
    if written := sum(job.output_bytes for job in jobs):
        lines.append(f"  disk         {written / 1e9:,.1f} GB of what was measured")
    return "\n".join([SUMMARY_TITLE, *lines, *run.describe_missing()])
