"""Time and memory of jobs: as benchmark files say of jobs that ran, scaled linearly, or guessed.

What a job asks for is enough for most, and twice as much after every failure.
"""

from __future__ import annotations

import inspect
import json
import math
import platform
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from beyond_perplexity.models.families import FAMILIES
from beyond_perplexity.planning.parameters import with_defaults
from beyond_perplexity.planning.run import Run
from beyond_perplexity.storage.benchmarks import read_benchmark
from beyond_perplexity.storage.fingerprint import fingerprint, remembered
from beyond_perplexity.storage.inputs import read_json
from beyond_perplexity.storage.outputs import write_json

Wildcards = Mapping[str, str]

PLAN_FILE = "plan.json"  # in the folder of the results
# Wildcards that only say which part of the work a job is; draws of another split cost the same.
CUTS = ("shard", "block", "units", "draws", "instances", "samples", "resample", "drawn", "reduced")
_CHANCE = 0.2  # of the time of a job: other work on the machine, a slow file system
DAY = 1440  # minutes
SHORTEST = 30  # minutes: less is no help to a scheduler, and a file system may be slow
TIME_MARGIN = 3  # of what a job is expected to take
START = 20  # seconds, guessed, of a job: imports, and reading a model
UNKNOWN_MINUTES = 0.2  # of jobs of which nothing is known: most of these only tabulate or compare
_GPU_RATE = 5e12  # operations a second that small batches reach on a GPU
_ENDS = 100  # MB: requests that differ by less are of no use either
_COUNTED_BYTES = 40  # of memory for each token of a corpus whose n-grams are counted
_MOST_COUNTED = 64_000  # MB that they ask for at first
ASSUMED_TOKENS = 100_000_000  # of a corpus of which no file is there yet
EMBEDDED_TOKENS = 500_000  # of the excerpts that pip brings
ASSUMED_WORDS = 100_000  # of a closed vocabulary without a limit, which is known when it is built
ASSUMED_BYTES = 2_000_000_000  # of a model that is brought by a name, not in a folder
# Tokens in a byte of a source: of text, and of what bzip2 and gzip make of it, markup and all.
TOKENS_PER_BYTE, PACKED_TOKENS_PER_BYTE = 0.15, 0.4


class Effort(NamedTuple):
    """A first guess of what the jobs of a rule need, on one core or one GPU.

    MB; bytes for each weight of the models, and for each unit of its work; seconds of a unit under
    the smallest model; operations of a unit for each weight.
    """

    megabytes: float
    bytes_per_weight: float = 0
    bytes_per_unit: float = 0
    seconds: float = 0
    operations: float = 0


# In training weights, gradients, two moments, and a copy of these three while a checkpoint is
# written; a model is read in 32 bits and held in 16 or 32.
NEEDS = {
    "train": Effort(3000, 28, seconds=2e-5, operations=6),
    "measure_perplexity": Effort(3000, 10, seconds=5e-5, operations=2),
    "generate": Effort(2000, 10, seconds=0.02, operations=2 * 200),
    "draw": Effort(3000, 10, seconds=0.005, operations=2 * 200),
    "score_beside": Effort(2000, 10),
    "describe_latents": Effort(2000, 10),
    "score_contrast": Effort(3000, 10, seconds=0.003, operations=2 * 30),
    "score_pairs": Effort(3000, 10),
    "estimate_partition": Effort(3000, 10),
    "predict_words": Effort(3000, 10, seconds=0.01, operations=2 * 30),
    "score_semantics": Effort(3000, seconds=0.03),
    "count_samples": Effort(2000, seconds=2e-4),
    "measure_tendencies": Effort(2500, bytes_per_unit=1500, seconds=1e-3),
    "reduce_weights": Effort(1500, bytes_per_unit=100, seconds=1e-5),
    "extract_corpus": Effort(2000, seconds=1.5e-5),
}


def count_weights(family: str, architecture: Mapping[str, Any], vocabulary: int) -> int:
    """Count the weights of a family's model for `vocabulary` ids; once, as torch loads slowly."""
    code = fingerprint(FAMILIES[family].reference)
    what = f"weights {family} {code} {vocabulary} {json.dumps(architecture, sort_keys=True)}"
    return int(remembered(what, lambda: _count_without_memory(family, architecture, vocabulary)))


def _count_without_memory(family: str, architecture: Mapping[str, Any], vocabulary: int) -> int:
    import torch

    from beyond_perplexity.models import registry
    from beyond_perplexity.models.latents.kglm_instances import SIZES

    # What latent families ask for besides, before a corpus is read: the labels of a treebank, and a
    # knowledge graph, of which nothing is trained.
    given = {"labels": ["X"] * 27, "graph": dict.fromkeys(SIZES, 100)}
    made = registry.find(family)
    known = inspect.signature(made).parameters
    shapes = {name: held for name, held in given.items() if name in known}
    with torch.device("meta"):
        model = made(vocabulary, architecture, **shapes)
    return sum(weight.numel() for weight in model.parameters())


class Timing(NamedTuple):
    """What jobs of one kind take: seconds of the start and of a unit, peak MB, bytes of a unit.

    `rough` is 1 where the time of a unit was too short to be told from chance: a bound.
    """

    start: float
    seconds: float
    megabytes: float
    output_bytes: float
    rough: float = 0

    def total(self, units: float) -> float:
        """Return the seconds of a job of so many units."""
        return self.start + self.seconds * units


class PlannedJob(NamedTuple):
    """A job as a dry run sees it; `minutes` are measured or guessed, `output_bytes` measured."""

    rule: str
    kind: str = ""
    units: float = 1
    gpus: int = 0
    minutes: float = 0
    measured: bool = False
    megabytes: float = 0
    output_bytes: float = 0
    benchmark: str = ""
    outputs: Sequence[str] = ()


def kind_of(rule: str, wildcards: Mapping[str, str]) -> str:
    """Name what jobs that only differ in their part of the work have in common."""
    return "/".join([rule, *(value for name, value in wildcards.items() if name not in CUTS)])


def fit_timing(jobs: Sequence[tuple[float, float, float, float]]) -> Timing:
    """Tell the start of jobs of one kind from the time of a unit, by the smallest and the largest.

    Of a job are given units, seconds, peak MB and bytes of the outputs. Where all are of one size,
    two thirds are the start, or `START`: whatever it is, a job four times as large takes half to
    twice of what that says. A difference of less than a fifth of the time is chance: the time of a
    unit is then that of a difference of a fifth, which it hardly exceeds.
    """
    units, seconds, megabytes, written = zip(*jobs, strict=True)
    (small, fast, *_), (large, slow, *_) = min(jobs), max(jobs)
    mean, rough = statistics.fmean(seconds), 0.0
    begun = min(START, 2 / 3 * mean)
    each = (mean - begun) / large
    if large != small:
        least = _CHANCE * slow
        each = min(max(slow - fast, least) / (large - small), slow / large)
        begun, rough = slow - each * large, float(slow - fast < least)
    return Timing(begun, each, max(megabytes), sum(written) / sum(units), rough)


def fit_finished(jobs: Iterable[PlannedJob]) -> dict[str, Timing]:
    """Return what the jobs that have ended took, by their kind."""
    found = defaultdict(list)
    for job in jobs:
        held = read_benchmark(job.benchmark) if job.benchmark else None
        made = [Path(file) for file in job.outputs]
        if held and all(file.exists() for file in made):
            written = sum(file.stat().st_size for file in made)
            found[job.kind].append((job.units, *held, written))
    return {kind: fit_timing(held) for kind, held in found.items()}


def read_plan(path: Path) -> dict[str, Timing]:
    """Read what `plan` has measured, by `kind_of`; nothing where there is no plan."""
    if not path.exists():
        return {}
    held = read_json(path, "plan", "make it again with beyond-perplexity plan")["timings"]
    return {kind: Timing(**row) for kind, row in held.items()}


def write_plan(path: str | Path, timings: Mapping[str, Timing]) -> None:
    """Write what `read_plan` reads, with the name of this machine."""
    rows = {kind: held._asdict() for kind, held in timings.items()}
    write_json(path, {"machine": platform.node(), "timings": rows})


def expect(
    to_do: Sequence[PlannedJob], done: Iterable[PlannedJob], planned: Mapping[str, Timing]
) -> list[PlannedJob]:
    """Say how long jobs take and what they write, by others of their kind that ran.

    Those of this run that need not run again say it best; then `plan`; then an earlier run of the
    job itself, which may have been of another size.
    """
    known = {**fit_finished(to_do), **planned, **fit_finished(done)}
    found = []
    for job in to_do:
        if held := known.get(job.kind):
            minutes, written = held.total(job.units) / 60, held.output_bytes * job.units
            job = job._replace(minutes=minutes, measured=True, output_bytes=written)
        found.append(job)
    return found


class JobCosts:
    """What the jobs of a run take and ask for; `planned` is what `plan` has measured.

    The units of their work are documents, tokens or draws.
    """

    def __init__(self, run: Run, planned: Mapping[str, Timing] | None = None) -> None:
        self.planned = planned or {}
        self.run, self.config, self.models = run, run.config, run.models
        self.corpus_tokens, self.weights = cache(self._count_tokens), cache(self._count_weights)
        config, generation, importance = run.config, run.config["generation"], run.importance
        contrastive, split = run.contrastive, config["perplexity"]["split"]
        self._units: dict[str, Callable[[Wildcards], float]] = {
            "train": lambda w: self._trained_tokens(w["model"]),
            "measure_perplexity": lambda w: self._split_tokens(w["model"], split),
            # of a beam, its hypotheses of the documents
            "generate": lambda w: (
                run.samples.shard_range(w["shard"])[1]
                * (config["decodings"][w["decoding"]].get("size") or 1)
            ),
            "count_samples": self._counted_documents,
            "measure_tendencies": lambda _: generation["documents"],
            "draw": self._drawn,
            "reduce_weights": lambda _: (
                importance.options["instances"] * importance.options["samples"]
            ),
            "score_contrast": lambda w: (
                contrastive.sentence_range(w["units"])[1]
                * sum(number for _, number in json.loads(contrastive.versions(w["draws"])).values())
            ),
            "predict_words": self._predicted,
            "score_semantics": self._predicted,
            "extract_corpus": lambda w: self.corpus_tokens(w["corpus"]),
        }

    def units(self, rule: str, wildcards: Wildcards) -> float:
        """Return how many units a job has; 1 where its work is always the same."""
        found = self._units.get(rule)
        return max(1.0, float(found(wildcards))) if found else 1.0

    def job_weights(self, wildcards: Wildcards) -> int:
        """Return the weights of the models that a job runs, as its wildcards name them."""
        known = self.config["models"].keys() | self.config["proposals"].keys()
        held = (wildcards.get(key) for key in ("model", "proposal", "beside"))
        return sum(self.weights(name) for name in held if name in known)

    def _count_weights(self, name: str) -> int:
        """Count the weights of a model or proposal; 0 of one that only counts words.

        Of one whose file is there, or that is brought, a weight for every four of its bytes.
        """
        model, row = self.models.find(name), self.models.row(name)
        if row.kind == "counted" or row.reference is None:
            return 0
        if row.kind == "brought":
            files = [file for file in self.models.brought_files(name) if "safetensors" in file]
            return (sum(Path(file).stat().st_size for file in files) or ASSUMED_BYTES) // 4
        if trained := self._model_bytes(name):
            return trained // 4
        vocabulary = self.config["vocabularies"][model["vocabulary"]]
        ids = vocabulary.get("size") or vocabulary.get("maximum_size") or ASSUMED_WORDS
        return count_weights(model["family"], model["architecture"], int(ids))

    def _model_bytes(self, name: str) -> int:
        file = Path(self.run.results) / "models" / name / "model.safetensors"
        return file.stat().st_size if file.exists() else 0

    def counted_bytes(self, wildcards: Wildcards) -> int:
        """Return the bytes of a model of counts that a job reads; 0 before there is one."""
        name = wildcards.get("model", "")
        counted = name in self.config["models"] and self.models.row(name).kind == "counted"
        return self._model_bytes(name) if counted else 0

    def training(self, name: str) -> dict[str, Any]:
        """Return the options of a model's training with all defaults."""
        model = self.models.find(name)
        kind = FAMILIES[model["family"]].training
        return with_defaults(kind, model["training"] or {})

    def _count_tokens(self, corpus: str) -> float:
        """Return the tokens of a corpus: counted, or about those that its files hold."""
        counted = Path(self.run.results) / "corpora" / corpus / "extraction.json"
        if counted.exists():
            return float(json.loads(counted.read_text(encoding="utf-8"))["tokens"])
        files = [Path(file) for file in self.run.corpora.source_files(corpus)]
        if not files:
            return EMBEDDED_TOKENS
        rates = TOKENS_PER_BYTE, PACKED_TOKENS_PER_BYTE
        packed = (".bz2", ".gz", ".xz", ".zst")
        sizes = (rates[f.suffix in packed] * f.stat().st_size for f in files if f.exists())
        return sum(sizes) or ASSUMED_TOKENS

    def _split_tokens(self, name: str, split: str) -> float:
        corpus = self.models.corpus(name)
        given: Mapping[str, float] = self.config["corpora"][corpus].get("split", {})
        return self.corpus_tokens(corpus) * float(given.get(split, 1.0))

    def _trained_tokens(self, name: str) -> float:
        """Return the tokens that a training reads: a counted model's once."""
        if self.models.raw_texts(name):
            return 1.0  # it comes trained
        once = self._split_tokens(name, "train")
        if not self.models.learns(name):
            return once
        training = self.training(name)
        steps, wake = training.get("maximum_steps"), training.get("wake_steps") or 0
        epochs = once * (training.get("maximum_epochs") or 1)
        wake *= (training.get("wake_batch_tokens") or 0) * (training.get("wake_samples") or 1)
        return (min(epochs, steps * training["batch_tokens"]) if steps else epochs) + wake

    def _counted_documents(self, wildcards: Wildcards) -> float:
        generation = self.config["generation"]
        if not wildcards.get("block"):  # of a reference
            return float(generation["documents"])
        names = wildcards["model"], wildcards["decoding"], wildcards["block"]
        return float(len(self.run.samples.block_files(*names)) * generation["documents_per_shard"])

    def _drawn(self, wildcards: Wildcards) -> float:
        """Return samples, particles by runs, or beams, by instances; lists of sizes add up."""
        plan, draw, setting = self.run.importance, wildcards["draw"], wildcards["setting"]
        cut = plan.sample_range(draw, setting, wildcards["samples"])
        units = plan.instance_range(draw, wildcards["instances"])[1] * (cut[1] if cut else 1)
        for key, value in plan.settings(draw, wildcards["proposal"]).get(setting, {}).items():
            if isinstance(value, list | tuple) and all(isinstance(x, int) for x in value):
                units *= max(1, sum(value))
            elif key in ("particles", "samples") and isinstance(value, int):
                units *= max(1, value)
        return float(units)

    def _predicted(self, wildcards: Wildcards) -> float:
        given = self.config["semantics"]
        sentences = self.run.semantics.sentence_range(wildcards["block"])[1]
        return float(sentences * len(given["splits"]) * (1 + given["samples"]))

    def megabytes(self, rule: str, wildcards: Wildcards, attempt: int = 1) -> int:
        """Return the MB that a job of a rule in `NEEDS` asks for, doubled with every attempt."""
        need, units = NEEDS[rule], self.units(rule, wildcards)
        found = need.megabytes + need.bytes_per_unit * units / 1e6
        weights = self.job_weights(wildcards) if need.bytes_per_weight else 0
        if need.bytes_per_weight:
            found += (need.bytes_per_weight * weights + 2 * self.counted_bytes(wildcards)) / 1e6
        if rule == "train" and not weights:
            found = min(found + _COUNTED_BYTES * units / 1e6, max(found, _MOST_COUNTED))
        return math.ceil(found / _ENDS) * _ENDS * 2 ** (attempt - 1)

    def seconds(self, rule: str, wildcards: Wildcards) -> float:
        """Return how long a job takes, as was measured, or guessed by the weights of its models."""
        units = self.units(rule, wildcards)
        if measured := self.planned.get(kind_of(rule, wildcards)):
            return measured.total(units)
        need = NEEDS[rule]
        weights = self.job_weights(wildcards) if need.operations else 0
        return START + (need.seconds + need.operations * weights / _GPU_RATE) * units

    def minutes(self, rule: str, wildcards: Wildcards, attempt: int = 1) -> int:
        """Return the run time that a job asks for, doubled with every attempt."""
        expected = TIME_MARGIN * self.seconds(rule, wildcards) / 60
        longest = DAY if rule == "train" else 2 * DAY  # a training goes on where it was
        first = min(max(SHORTEST, math.ceil(expected / 10) * 10), longest)
        return first * 2 ** (attempt - 1)

    def describe_job(self, rule: str, job: Any) -> PlannedJob:
        """Describe a job of Snakemake's plan, its minutes guessed."""
        wildcards, memory = job.wildcards_dict, job.resources.get("mem_mb", 0)
        return PlannedJob(
            rule,
            kind_of(rule, wildcards),
            self.units(rule, wildcards),
            gpus=int(job.resources.get("gpu", 0)),
            minutes=self.seconds(rule, wildcards) / 60 if rule in NEEDS else UNKNOWN_MINUTES,
            megabytes=memory if isinstance(memory, int | float) else 0,  # else known later
            benchmark=str(job.benchmark or ""),
            outputs=tuple(map(str, job.output)),
        )
