"""`plan`: a small run of everything that is cut into shards tells what a large one will take.

Every model writes, draws, scores and predicts two shards of different sizes; what is already there
of the large run is taken from it, and what is not is trained for some steps only: how long a token
takes does not depend on how good it is. Instead of a pilot a finished run can be read.
"""

from __future__ import annotations

import copy
import json
import os
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

from beyond_perplexity.corpus.formats import EMBEDDED
from beyond_perplexity.errors import InputError
from beyond_perplexity.figures.labels import EXTERNAL
from beyond_perplexity.planning.configuration_file import read_configuration
from beyond_perplexity.planning.corpora import STOP_WORD_LISTS
from beyond_perplexity.planning.job_costs import (
    PLAN_FILE,
    PlannedJob,
    Timing,
    fit_finished,
    write_plan,
)
from beyond_perplexity.planning.run import Run, prepare_environment
from beyond_perplexity.planning.validation import validate
from beyond_perplexity.storage.fingerprint import ROOT
from beyond_perplexity.storage.inputs import read_utf8

PILOT_FOLDER = "plan"  # in that of the results
SHARED = ("corpora", "vocabularies", "downloads", "compared_words")
# What is cut, by the section.
_CUT = {
    "generation": "documents",
    "importance": "instances",
    "contrastive": "sentences",
    "semantics": "sentences",
}
_LARGER = {"documents": 15, "sentences": 15, "instances": 3}  # the larger shard by the smaller
MINUTES = 30  # of the shards that are advised
# The section that says how large the shards of a rule are.
SECTIONS = {
    "generate": "generation",
    "draw": "importance",
    "score_contrast": "contrastive",
    "predict_words": "semantics",
    "score_semantics": "semantics",
}


def run_plan(
    configfile: str,
    size: Mapping[str, int],
    options: Sequence[str],
    output: str | None = None,
    finished: str | None = None,
) -> str:
    """Run a pilot of a configuration, or read the results of a `finished` run; write the plan.

    `size` is that of a pilot (`shrink`), `options` are Snakemake's of every run with jobs. Returned
    are the advised sizes of shards, and the summary of a dry run of the whole.
    """
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
    write_plan(output or Path(run.results) / PLAN_FILE, timings)
    whole = _planned_jobs(folder / "jobs.json", configfile, ["--forceall"])
    printed = _snakemake(configfile, "--dry-run", "--quiet", shown=False)
    advice = advise_shards(run, timings, whole)
    return "\n".join([*advice, printed[printed.index(SUMMARY_TITLE) :].rstrip()])


def _checked(config: Mapping[str, Any]) -> Run:
    """Return the run of a configuration, which keeps no defaults."""
    held = copy.deepcopy(dict(config))
    validate(held)
    return Run(held)


def _snakemake(config: str | Path, *options: str, shown: bool = True, **others: str) -> str:
    command = [sys.executable, "-m", "snakemake", f"--snakefile={ROOT / 'Snakefile'}"]
    command += [f"--configfile={config}", *options]
    # What the user asked for is this command's own output: the plan.
    held = sys.stderr if shown else subprocess.PIPE
    done = subprocess.run(command, env={**os.environ, **others}, stdout=held, text=True)
    if done.returncode:
        raise InputError(f"{config}: Snakemake failed; its messages are above")
    return done.stdout or ""


def _planned_jobs(path: Path, config: str | Path, options: Sequence[str]) -> list[PlannedJob]:
    """Return the jobs of a run, which a dry run writes to a file."""
    _snakemake(config, "--dry-run", "--quiet", *options, shown=False, **{JOBS_VARIABLE: str(path)})
    return [PlannedJob(**row) for row in json.loads(path.read_text(encoding="utf-8"))]


def shrink(config: Mapping[str, Any], run: Run, size: Mapping[str, int]) -> dict[str, Any]:
    """Return the configuration of a pilot of a run.

    `size` has the ``documents`` (or sentences) and the ``instances`` of its smaller shards, the
    ``samples`` of an instance at most, and the ``steps`` of models that are not trained yet.
    """
    small = copy.deepcopy(dict(config))
    held = small.get("pathvars", {})
    small["pathvars"] = {k: v for k, v in held.items() if k not in ("logs", "benchmarks")}
    small["pathvars"]["results"] = f"{run.results}/{PILOT_FOLDER}/run"
    for section, key in _CUT.items():
        if section in small:
            number, times = size.get(key, size["documents"]), _LARGER[key]
            small[section] |= {key: (times + 1) * number, f"{key}_per_shard": times * number}
    if "importance" in small:
        held = small["importance"]
        samples = min(size["samples"], run.config["importance"]["samples"])
        held |= {"samples": samples, "samples_per_shard": samples, "choose": "none"}
        few = {"replicate_samples": max(1, samples // 2)}
        held["reduction"] = {**held.get("reduction", {}), **few}
        if held.get("bidirectional"):
            held["bidirectional"]["documents"] = held["instances"]
    for model in _to_be_shortened(small, run):
        given = model.get("training") or {}
        model["training"] = {**given, "maximum_steps": size["steps"], "warmup_steps": 0}
        if given.get("wake_steps"):
            model["training"]["wake_steps"] = 1
    return small


def _to_be_shortened(small: Mapping[str, Any], run: Run) -> list[dict[str, Any]]:
    """List the models and evaluators that are trained in steps and are not there yet."""
    found = {}
    for name, model in {**small.get("models", {}), **small.get("proposals", {})}.items():
        row = run.models.row(name)
        if row.reference and row.kind not in ("counted", "brought"):
            found[f"models/{name}/model.json"] = model
    for name, evaluator in small.get("evaluators", {}).items():
        if run.evaluators.is_trained(name) and run.evaluators.row(name).network:
            found[f"evaluators/{name}/evaluator.json"] = evaluator
    return [held for file, held in found.items() if not Path(run.results, file).exists()]


def prerequisites(run: Run) -> list[str]:
    """List what a pilot cannot do in small: corpora, vocabularies, and models of counts."""
    files = []
    for name in run.config["models"]:
        files.append(run.models.documents(name))
        files += run.models.vocabulary_files(name)
        if run.models.row(name).kind == "counted":
            files.append(f"<results>/models/{name}/model.json")
    return sorted({file.replace("<results>", run.results) for file in files})


def link_finished(run: Run) -> Path:
    """Make the folder of a pilot anew, with links to what the large run has made; return it."""
    results = Path(run.results)
    folder = results / PILOT_FOLDER / "run"
    if folder.exists():
        shutil.rmtree(folder)  # removes links, not what they stand for
    made = [results / name for name in SHARED if (results / name).is_dir()]
    for kind, description in (("models", "model.json"), ("evaluators", "evaluator.json")):
        (folder / kind).mkdir(parents=True)
        made += [file.parent for file in sorted(results.glob(f"{kind}/*/{description}"))]
    for held in made:
        link = folder / held.relative_to(results)
        link.symlink_to(held.resolve(), target_is_directory=True)
    return folder


def targets(pilot: Run) -> list[str]:
    """List the shards that a pilot makes: of every rule that cuts its work, for every model."""
    files = []
    for source in pilot.samples.sources():
        model, decoding = source.split("/")
        files += pilot.samples.shard_files(model, decoding) if model != EXTERNAL else []
        files += pilot.samples.counted_files(model, decoding)
    for proposal in pilot.importance.proposals():
        files += chain.from_iterable(pilot.importance.draws_of(proposal).values())
    for model in pilot.contrastive.models():
        files += pilot.contrastive.score_files(model)
    for model in pilot.semantics.models():
        files += [*pilot.semantics.prediction_files(model), *pilot.semantics.score_files(model)]
    return [file.replace("<results>", pilot.results) for file in files]


def round_size(number: float) -> int:
    """Round a size to two digits."""
    unit = 10 ** max(0, len(str(int(number))) - 2)
    return max(1, round(number / unit) * unit)


def advise_shards(run: Run, timings: Mapping[str, Timing], jobs: Sequence[PlannedJob]) -> list[str]:
    """Lay out, for every kind of jobs, its rate, its minutes, and the shard of half an hour.

    `jobs` are those of the whole run; the last lines are keys of a configuration.
    """
    largest: dict[str, float] = {}  # units of a whole shard
    for job in jobs:
        largest[job.kind] = max(job.units, largest.get(job.kind, 0.0))
    kinds = sorted(timings.keys() & largest.keys())
    width = max(map(len, kinds), default=0)
    lines = [f"  {'jobs':<{width}} {'s/unit':>10} {'MB':>6} {'min/shard':>10} {'for 30 min':>11}"]
    wanted: dict[str, list[float]] = defaultdict(list)
    for kind in kinds:
        held, size = timings[kind], ""
        if (section := SECTIONS.get(kind.split("/")[0])) and held.seconds:
            now = run.config[section][f"{_CUT[section]}_per_shard"]
            each = held.seconds * largest[kind] / now
            wanted[section].append(max(1.0, (60 * MINUTES - held.start) / each))
            size = f"{round_size(wanted[section][-1]):,}"
        rate = f"{'<' if held.rough else ''}{held.seconds:.2g}"
        minutes = held.total(largest[kind]) / 60
        lines.append(
            f"  {kind:<{width}} {rate:>10} {held.megabytes:>6,.0f} {minutes:>10,.1f} {size:>11}"
        )
    if any(timings[kind].rough for kind in kinds):
        lines.append("  <: too short to be measured, a bound; more --documents say more")
    lines.append(f"Shard sizes for jobs of {MINUTES} minutes (the median of their kinds; slowest):")
    for section, sizes in sorted(wanted.items()):
        median, slowest = round_size(statistics.median(sizes)), round_size(min(sizes))
        name = f"{_CUT[section]}_per_shard"
        now = run.config[section][name]
        lines.append(f"  {section}.{name}: {median:,}; {slowest:,}  (now {now:,})")
    return lines


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
