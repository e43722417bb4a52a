"""`plan`: a small run of everything that is cut into shards tells what a large one will take.

Every model writes, draws, scores and predicts two shards of different sizes; what is already there
of the large run is taken from it, and what is not is trained for some steps only: how long a token
takes does not depend on how good it is. Instead of a pilot a finished run can be read.
"""

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
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from beyond_perplexity.errors import InputError
from beyond_perplexity.figures.labels import EXTERNAL
from beyond_perplexity.planning.configuration_file import read_configuration
from beyond_perplexity.planning.job_costs import (
    PLAN_FILE,
    PlannedJob,
    Timing,
    fit_finished,
    plan_content,
)
from beyond_perplexity.planning.run import Run, prepare_environment
from beyond_perplexity.planning.run_summary import JOBS_VARIABLE, SUMMARY_TITLE
from beyond_perplexity.planning.validation import validate
from beyond_perplexity.storage.fingerprint import ROOT
from beyond_perplexity.storage.inputs import read_utf8
from beyond_perplexity.storage.outputs import write_json

PILOT_FOLDER = "plan"  # in that of the results
SHARED = ("corpora", "vocabularies", "downloads", "compared_words")
_LARGER = {"documents": 15, "sentences": 15, "instances": 3}  # the larger shard by the smaller
MINUTES = 30  # of the shards that are advised
# The key that says how large the shards of a rule are.
KEYS = {
    "generate": ("generation", "documents_per_shard"),
    "draw": ("importance", "instances_per_shard"),
    "score_contrast": ("contrastive", "sentences_per_shard"),
    "predict_words": ("semantics", "sentences_per_shard"),
    "score_semantics": ("semantics", "sentences_per_shard"),
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
    write_json(output or Path(run.results) / PLAN_FILE, plan_content(timings, platform.node()))
    whole = _planned_jobs(folder / "jobs.json", configfile, ["--forceall"])
    printed = _snakemake(configfile, "--dry-run", "--quiet", shown=False)
    advice = advise_shards(run, timings, whole)
    return "\n".join([*advice, printed[printed.index(SUMMARY_TITLE) :].rstrip()])


def _checked(config: Mapping[str, Any]) -> Run:
    """Return the run of a configuration, which keeps no defaults."""
    held = copy.deepcopy(dict(config))
    validate(held, ROOT / "rules" / "config.schema.yaml")
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
    results = {"results": f"{run.results}/{PILOT_FOLDER}/run"}
    kept = {k: v for k, v in small.get("pathvars", {}).items() if k not in ("logs", "benchmarks")}
    small["pathvars"] = {**kept, **results}
    cuts = {"generation": "documents", "importance": "instances"}
    cuts |= {"contrastive": "sentences", "semantics": "sentences"}
    for section, key in cuts.items():
        if section in small:
            number, times = size.get(key, size["documents"]), _LARGER[key]
            small[section] |= {key: (times + 1) * number, f"{key}_per_shard": times * number}
    if "importance" in small:
        held, samples = (
            small["importance"],
            min(size["samples"], run.config["importance"]["samples"]),
        )
        held |= {"samples": samples, "samples_per_shard": samples, "choose": "none"}
        few = {"replicate_samples": max(1, samples // 2)}
        held["reduction"] = {**held.get("reduction", {}), **few}
        if held.get("bidirectional"):
            held["bidirectional"]["documents"] = held["instances"]
    _shorten(small, run, size["steps"])
    return small


def _shorten(small: Mapping[str, Any], run: Run, steps: int) -> None:
    """Train what is not there yet for some steps, in place; what only counts has none."""
    for name, model in {**small.get("models", {}), **small.get("proposals", {})}.items():
        row = run.models.row(name)
        if row.reference and row.kind not in ("counted", "brought"):
            _shorten_training(model, Path(run.results, "models", name, "model.json"), steps)
    for name, evaluator in small.get("evaluators", {}).items():
        if run.evaluators.is_trained(name) and run.evaluators.row(name).network:
            made = Path(run.results, "evaluators", name, "evaluator.json")
            _shorten_training(evaluator, made, steps)


def _shorten_training(held: dict[str, Any], made: Path, steps: int) -> None:
    if not made.exists():
        given = held.get("training") or {}
        held["training"] = {**given, "maximum_steps": steps, "warmup_steps": 0}
        if given.get("wake_steps"):
            held["training"]["wake_steps"] = 1


def prerequisites(run: Run) -> list[str]:
    """List what a pilot cannot do in small: corpora, vocabularies, and models of counts."""
    names = [*run.config["models"]]
    files = [f"<results>/corpora/{run.models.corpus(m)}/documents.parquet" for m in names]
    for name in names:
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
    return [file.replace("<results>", pilot.results) for file in _shards(pilot)]


def _shards(pilot: Run) -> Iterator[str]:
    for source in pilot.samples.sources():
        model, decoding = source.split("/")
        if model != EXTERNAL:
            for shard in pilot.samples.shards(model):
                yield f"<results>/samples/{source}/{shard}.parquet"
        yield from pilot.samples.counted_files(model, decoding)
    for proposal in pilot.importance.proposals():
        for files in pilot.importance.draws_of(proposal).values():
            yield from files
    for model in pilot.contrastive.models():
        yield from pilot.contrastive.score_files(model)
    for model in pilot.semantics.models():
        yield from pilot.semantics.prediction_files(model)
        yield from pilot.semantics.score_files(model)


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
    wanted: dict[tuple[str, str], list[float]] = defaultdict(list)
    for kind in kinds:
        held, size = timings[kind], ""
        if (key := KEYS.get(kind.split("/")[0])) and held.seconds:
            each = held.seconds * largest[kind] / run.config[key[0]][key[1]]
            wanted[key].append(max(1.0, (60 * MINUTES - held.start) / each))
            size = f"{round_size(wanted[key][-1]):,}"
        rate = f"{'<' if held.rough else ''}{held.seconds:.2g}"
        minutes = held.total(largest[kind]) / 60
        lines.append(
            f"  {kind:<{width}} {rate:>10} {held.megabytes:>6,.0f} {minutes:>10,.1f} {size:>11}"
        )
    if any(timings[kind].rough for kind in kinds):
        lines.append("  <: too short to be measured, a bound; more --documents say more")
    lines.append(f"Shard sizes for jobs of {MINUTES} minutes (the median of their kinds; slowest):")
    for (section, name), sizes in sorted(wanted.items()):
        median, slowest = round_size(statistics.median(sizes)), round_size(min(sizes))
        now = run.config[section][name]
        lines.append(f"  {section}.{name}: {median:,}; {slowest:,}  (now {now:,})")
    return lines
