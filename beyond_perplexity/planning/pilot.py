"""A small run of everything that is cut into shards, so that a large one can be planned.

Every model writes, draws, scores and predicts two shards of different sizes; what is already there
of the large run (corpora, vocabularies, trained models) is taken from it, and what is not is
trained for some steps only: how long a token takes does not depend on how good it is.
"""

from __future__ import annotations

import copy
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from beyond_perplexity.models.families import FAMILIES
from beyond_perplexity.planning.pilot_size import PilotSize
from beyond_perplexity.planning.run import Run

PILOT_FOLDER = "plan"  # in that of the results
_TEXTS = 15  # times as many documents or sentences are in the larger shards as in the smaller ones
_INSTANCES = 3
SHARED = ("corpora", "vocabularies", "downloads", "compared_words")


def shrink(config: Mapping[str, Any], run: Run, size: PilotSize) -> dict[str, Any]:
    """Return the configuration of a pilot.

    Parameters
    ----------
    config : dict
        As it was read from YAML, without defaults.
    run : Run
        The run of the same configuration.
    size : PilotSize
        How small it is.
    """
    small = copy.deepcopy(dict(config))
    small["pathvars"] = {
        **small.get("pathvars", {}),
        "results": f"{run.results}/{PILOT_FOLDER}/run",
    }
    small["pathvars"].pop("logs", None)
    small["pathvars"].pop("benchmarks", None)
    cuts = {
        "generation": ("documents", size.documents, _TEXTS),
        "importance": ("instances", size.instances, _INSTANCES),
        "contrastive": ("sentences", size.documents, _TEXTS),
        "semantics": ("sentences", size.documents, _TEXTS),
    }
    for section, (key, number, times) in cuts.items():
        if section in small:
            held = {key: (times + 1) * number, f"{key}_per_shard": times * number}
            small[section] = {**small[section], **held}
    if "importance" in small:
        samples = min(size.samples, run.config["importance"]["samples"])
        small["importance"] |= {"samples": samples, "samples_per_shard": samples}
        small["importance"]["choose"] = "none"
        reduction = small["importance"].get("reduction", {})
        few = {"replicate_samples": max(1, samples // 2)}
        small["importance"]["reduction"] = {**reduction, **few}
        if simulated := small["importance"].get("bidirectional"):
            held = {"documents": (_INSTANCES + 1) * size.instances}
            small["importance"]["bidirectional"] = {**simulated, **held}
    _shorten(small, run, size.steps)
    return small


def _shorten(small: Mapping[str, Any], run: Run, steps: int) -> None:
    """Train what is not there yet for some steps, in place; what only counts has none."""
    for section in ("models", "proposals"):
        for name, model in small.get(section, {}).items():
            row = FAMILIES[model["family"]]
            trained = row.reference and row.kind not in ("counted", "brought")
            if trained and not is_finished(run, name):
                model["training"] = _short(model.get("training") or {}, steps)
    for name, evaluator in small.get("evaluators", {}).items():
        made = Path(run.results) / "evaluators" / name / "evaluator.json"
        learns = run.evaluators.is_trained(name) and run.evaluators.row(name).network
        if learns and not made.exists():
            evaluator["training"] = _short(evaluator.get("training") or {}, steps)


def _short(given: Mapping[str, Any], steps: int) -> dict[str, Any]:
    """Return the options of a training of some steps."""
    short = {**given, "maximum_steps": steps, "warmup_steps": 0}
    return {**short, "wake_steps": 1} if given.get("wake_steps") else short


def is_finished(run: Run, name: str) -> bool:
    """Return whether a model of the large run is there."""
    return (Path(run.results) / "models" / name / "model.json").exists()


def prerequisites(run: Run) -> list[str]:
    """List what the large run needs in any case and a pilot cannot do in small.

    Corpora, vocabularies, and models of counts, which have no steps.
    """
    names = [*run.config["models"]]
    corpora = {run.models.corpus(name) for name in names}
    files = [f"<results>/corpora/{corpus}/documents.parquet" for corpus in sorted(corpora)]
    for name in names:
        files += run.models.vocabulary_files(name)
        if run.models.row(name).kind == "counted":
            files.append(f"<results>/models/{name}/model.json")
    return sorted({file.replace("<results>", run.results) for file in files})


def link_finished(run: Run) -> Path:
    """Make the folder of a pilot anew, with links to what the large run has made.

    Returns
    -------
    pathlib.Path
        The folder.
    """
    folder, results = Path(run.results) / PILOT_FOLDER / "run", Path(run.results)
    if folder.exists():
        shutil.rmtree(folder)  # removes links, not what they stand for
    folder.mkdir(parents=True)
    for name in SHARED:
        if (results / name).is_dir():
            (folder / name).symlink_to((results / name).resolve(), target_is_directory=True)
    for kind in ("models", "evaluators"):
        (folder / kind).mkdir()
        for held in sorted((results / kind).glob("*/")):
            if (held / "model.json").exists() or (held / "evaluator.json").exists():
                link = folder / kind / held.name
                link.symlink_to(held.resolve(), target_is_directory=True)
    return folder


def targets(pilot: Run) -> list[str]:
    """List the shards that a pilot makes: of every rule that cuts its work, for every model."""
    return [file.replace("<results>", pilot.results) for file in _shards(pilot)]


def _shards(pilot: Run) -> Iterator[str]:
    yield from (
        shard
        for source in pilot.samples.sources()
        if not source.startswith("external/")
        for shard in (
            f"<results>/samples/{source}/{n}.parquet"
            for n in pilot.samples.shards(source.split("/")[0])
        )
    )
    for source in pilot.samples.sources():
        yield from pilot.samples.counted_files(*source.split("/"))
    for proposal in pilot.importance.proposals():
        for files in pilot.importance.draws_of(proposal).values():
            yield from files
    for model in pilot.contrastive.models():
        yield from pilot.contrastive.score_files(model)
    for model in pilot.semantics.models():
        yield from pilot.semantics.prediction_files(model)
        yield from pilot.semantics.score_files(model)
