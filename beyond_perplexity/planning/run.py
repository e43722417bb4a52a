"""What the rules look up in a configuration: the files of a run and what each job needs."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from beyond_perplexity.corpus.rows import FORMATS, PARSERS, SIDE_FILES
from beyond_perplexity.decoding.options import parse_decoding
from beyond_perplexity.decoding.rows import DECODINGS
from beyond_perplexity.figures import FIGURES, FLAGS
from beyond_perplexity.models.families import BROUGHT_PATTERNS, family_module
from beyond_perplexity.planning.importance import ImportancePlan
from beyond_perplexity.planning.validation import BROUGHT_FAMILIES
from beyond_perplexity.report import TABLES

Config = Mapping[str, Any]

COUNTED_FAMILIES = frozenset({"trigram"})
EMBEDDED = "embedded:"
EXTERNAL = "external"
STOP_WORD_LISTS = frozenset({"gensim", "nltk"})


class Run:
    """A validated configuration, seen as the jobs and files it stands for.

    Parameters
    ----------
    config : dict
        The configuration after `configuration.validate`.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self.results: str = config.get("pathvars", {}).get("results", "results")
        self.downloads = dict(self._remote_locations())
        self.importance = ImportancePlan(config)

    # ---- locations ----

    def _all_locations(self) -> Iterable[str | dict[str, str]]:
        for corpus in self.config["corpora"].values():
            yield from _source_locations(corpus["source"])
        yield from (external["path"] for external in self.config["external_samples"].values())
        yield self.config["tendencies"]["stop_words"]

    def _remote_locations(self) -> Iterable[tuple[str, dict[str, str]]]:
        for location in self._all_locations():
            if isinstance(location, dict):
                yield location["sha256"], location

    def local_path(self, location: str | Mapping[str, str]) -> str:
        """Return where a location is on this machine: itself, or its place among the downloads."""
        if isinstance(location, str):
            return location
        name = (
            PurePosixPath(location.get("member", location["url"].split("?")[0])).name or "download"
        )
        return f"{self.results}/downloads/{location['sha256']}/{name}"

    def member_flag(self, sha256: str) -> str:
        """Return the flag of `scripts.verify_download` for a file inside a zip archive."""
        member = self.downloads[sha256].get("member")
        return f"--member {shlex.quote(member)}" if member else ""

    def stop_words(self) -> str:
        """Return the name or the local path of the list of stop words."""
        return self.local_path(self.config["tendencies"]["stop_words"])

    def stop_word_files(self) -> list[str]:
        """List the file that the stop words come from, where it is not a list that pip brought."""
        local = self.stop_words()
        return [] if local in STOP_WORD_LISTS else [local]

    def source_files(self, corpus: str, *, planning: bool = False) -> list[str]:
        """List the files that a corpus is read from; what pip brought is not among them.

        Parameters
        ----------
        corpus : str
            Its name.
        planning : bool
            In a dry run, leave out what is not there yet, so that a run can be planned before its
            data is fetched.
        """
        locations = _source_locations(self.config["corpora"][corpus]["source"])
        local = [self.local_path(location) for location in locations]
        files = [path for path in local if not path.startswith(EMBEDDED)]
        if planning:
            downloads = f"{self.results}/downloads/"
            files = [path for path in files if path.startswith(downloads) or Path(path).exists()]
        return files

    def corpus_options(self, corpus: str) -> str:
        """Return the options of `scripts.extract_corpus` as JSON: nothing is left to look up."""
        options = json.loads(json.dumps(self.config["corpora"][corpus]))
        paths = options["source"]["paths"]
        if isinstance(paths, dict):
            local: Any = {
                split: [self.local_path(path) for path in files] for split, files in paths.items()
            }
        else:
            local = [self.local_path(path) for path in paths]
        options["source"]["paths"] = local
        for name in SIDE_FILES:
            if name in options["source"]:
                options["source"][name] = self.local_path(options["source"][name])
        for name, option in FORMATS[options["source"]["format"]].options.items():
            if option.default is not None:
                options["source"].setdefault(name, option.default)
        return as_json(options)

    def corpus_code(self, corpus: str) -> list[str]:
        """List the modules that a row names to read a corpus, which its jobs depend on."""
        options = self.config["corpora"][corpus]
        modules = [FORMATS[options["source"]["format"]].module]
        trees = options.get("trees", {}).get("kind")
        if trees in PARSERS:
            modules.append(PARSERS[trees].module)
        return [f"{module.replace('.', '/')}.py" for module in modules]

    # ---- models ----

    def model(self, name: str) -> Mapping[str, Any]:
        """Return the configuration of a model, or of a proposal as if it were one."""
        found: Mapping[str, Any] = (
            self.importance.options_of_proposal(name)
            if name in self.config["proposals"]
            else self.config["models"][name]
        )
        return found

    def model_options(self, name: str) -> str:
        """Return the options of `scripts.train` as JSON."""
        model = self.model(name)
        return as_json({key: model[key] for key in ("family", "architecture", "training")})

    def preprocessing(self, name: str) -> str:
        """Return how the corpus of a model is cleaned, as JSON."""
        return self.cleaning(self.model(name)["corpus"])

    def cleaning(self, corpus: str) -> str:
        """Return how a corpus is cleaned, as JSON."""
        return as_json(self.config["corpora"][corpus]["preprocessing"])

    def model_code(self, name: str) -> str:
        """Return the source file of a model's family, which its jobs depend on."""
        return family_module(self.model(name)["family"])

    def decoding_options(self, name: str) -> str:
        """Return the options of a decoding as JSON, with all defaults, which its jobs depend on."""
        return as_json(parse_decoding(self.config["decodings"][name]).given())

    def decoding_code(self, name: str) -> str:
        """Return the source file of a decoding, which its jobs depend on."""
        kind = self.config["decodings"][name]["kind"]
        return DECODINGS[kind].module.replace(".", "/") + ".py"

    def model_tables(self, name: str) -> list[str]:
        """List the tables of a corpus that a model is trained on besides its documents."""
        model = self.model(name)
        if not self.importance.is_latent(model["family"]):
            return []
        tables = ["mentions", "knowledge_graph", "aliases", "trees"]
        files = [f"<results>/corpora/{model['corpus']}/{table}.parquet" for table in tables]
        if self.importance.needs_graph(model["family"]):
            files.append(f"<results>/corpora/{model['corpus']}/graph.safetensors")
        return files

    def vocabulary_files(self, name: str) -> list[str]:
        """List the vocabulary that a model is trained with: none where it brings its own."""
        model = self.model(name)
        if model["family"] in BROUGHT_FAMILIES:
            return []
        return [f"<results>/vocabularies/{model['corpus']}/{model['vocabulary']}.json"]

    def brought_files(self, name: str) -> list[str]:
        """List the files of a model that was brought in a folder: a new one is taken anew."""
        model = self.model(name)
        if model["family"] not in BROUGHT_FAMILIES:
            return []
        folder = Path(model["architecture"]["path"])
        files = [file for pattern in BROUGHT_PATTERNS for file in folder.glob(pattern)]
        return sorted(map(str, files))

    def learns(self, name: str) -> bool:
        """Return whether a model has a training curve: neither counted nor taken as it is."""
        model = self.model(name)
        if model["family"] in BROUGHT_FAMILIES:
            return bool(model["training"])
        return model["family"] not in COUNTED_FAMILIES

    def gpus(self, name: str) -> int:
        """Return how many GPUs a job of a model asks for."""
        return 0 if self.model(name)["family"] in COUNTED_FAMILIES else 1

    def scored_models(self) -> list[str]:
        """List the models of the run."""
        return list(self.config["generation"]["models"])

    def symbols_flag(self) -> str:
        """Return the flag of `scripts.count_statistics` for Unicode S* tokens."""
        return (
            "--"
            + ("" if self.config["tendencies"]["count_s_symbols"] else "no-")
            + "count-s-symbols"
        )

    def fit_options(self) -> str:
        """Return the options of `scripts.measure_tendencies` without any draws, as JSON."""
        without = {"permutations": 0, "bootstrap": 0, "monte_carlo": 0}
        return as_json({**self.config["tendencies"]["measurement"], **without})

    # ---- samples ----

    def shards(self, model: str) -> list[str]:
        """List the shards of each decoding of a model, or of external samples: one."""
        if model == EXTERNAL:
            return ["00000"]
        generation = self.config["generation"]
        count = -(-generation["documents"] // generation["documents_per_shard"])
        return [f"{shard:05d}" for shard in range(count)]

    def shard_range(self, shard: str) -> tuple[int, int]:
        """Return the first document id and the number of documents of a shard."""
        generation = self.config["generation"]
        first = int(shard) * generation["documents_per_shard"]
        return first, min(generation["documents_per_shard"], generation["documents"] - first)

    def sources(self, corpus: str | None = None) -> list[str]:
        """List the bodies of text that are compared (with a corpus): ``model/decoding``."""
        generation = self.config["generation"]
        generated = [(m, d) for m in generation["models"] for d in generation["decodings"]]
        brought = [(EXTERNAL, name) for name in self.config["external_samples"]]
        return [
            f"{first}/{second}"
            for first, second in generated + brought
            if corpus in (None, self.corpus_of(first, second))
        ]

    def corpus_of(self, model: str, decoding: str) -> str:
        """Return the corpus that a body of text is compared with."""
        external = self.config["external_samples"]
        corpus: str = (
            external[decoding]["corpus"] if model == EXTERNAL else self.model(model)["corpus"]
        )
        return corpus

    def compared_corpora(self) -> list[str]:
        """List the corpora that something is compared with, in the order of the configuration."""
        return [corpus for corpus in self.config["corpora"] if self.sources(corpus)]

    def models_of(self, corpus: str) -> list[str]:
        """List the models of the run that are trained on a corpus."""
        return [name for name in self.scored_models() if self.model(name)["corpus"] == corpus]

    def measures(self, corpus: str) -> list[str]:
        """List the measures of every body of text that is compared with a corpus."""
        return [f"<results>/tendencies/{s}/measures.parquet" for s in self.sources(corpus)]

    def resample_measures(self, corpus: str) -> list[str]:
        """List the measures of the random subsets of a corpus' training split."""
        count = self.config["tendencies"]["resamples"]
        folder = f"<results>/references/{corpus}/resamples"
        return [f"{folder}/{resample:03d}/measures.parquet" for resample in range(count)]

    def model_files(self, corpus: str) -> list[str]:
        """List the descriptions of the models that are trained on a corpus."""
        return [f"<results>/models/{name}/model.json" for name in self.models_of(corpus)]

    def perplexity_files(self, corpus: str) -> list[str]:
        """List the perplexities of the models that are trained on a corpus."""
        return [f"<results>/perplexity/{name}.json" for name in self.models_of(corpus)]

    def figure_inputs(self, corpus: str, figure: str) -> list[str]:
        """List the tidy tables that a figure draws."""
        folder, sources = f"<results>/references/{corpus}", self.sources(corpus)
        curves = [f"<results>/tendencies/{source}/curves.parquet" for source in sources]
        return {
            "training": self.training_files(corpus),
            "tendencies": self.measures(corpus),
            "curves": [f"{folder}/curves.parquet", *curves],
            "sample_size": [f"<results>/tendencies/{s}/sample_size.parquet" for s in sources],
            "sensitivity": self.sensitivity_files(corpus),
        }[FIGURES[figure].kind]

    def sensitivity_files(self, corpus: str) -> list[str]:
        """List the file with the smallest detectable shifts of a corpus."""
        return [f"<results>/references/{corpus}/sensitivity.parquet"]

    def tables(self) -> list[str]:
        """List the tables of a corpus."""
        return list(TABLES)

    def table_inputs(self, corpus: str, table: str, name: str) -> list[str]:
        """List the files of one kind that a table is made of; none of a kind that it does not need.

        Parameters
        ----------
        corpus, table : str
            Their names.
        name : str
            One of the inputs that `report.TABLES` names.
        """
        if name not in TABLES[table].inputs:
            return []
        return {
            "measures": self.measures,
            "resamples": self.resample_measures,
            "models": self.model_files,
            "perplexities": self.perplexity_files,
            "sensitivity": self.sensitivity_files,
        }[name](corpus)

    def figure_code(self, figure: str) -> str:
        """Return the source file of a figure, which only its jobs depend on."""
        return f"beyond_perplexity/figures/{FIGURES[figure].module}.py"

    def table_code(self, table: str) -> str:
        """Return the source file of a table, which only its jobs depend on."""
        return TABLES[table].path

    def figure_flag(self, figure: str) -> str:
        """Return the flag of `scripts.plot_tendencies` that a figure's tables are given with."""
        return FLAGS[FIGURES[figure].kind]

    def training_files(self, corpus: str) -> list[str]:
        """List the training curves of the neural models that are trained on a corpus."""
        return [
            f"<results>/models/{name}/training.parquet"
            for name in self.models_of(corpus)
            if self.learns(name)
        ]

    def figures(self, corpus: str) -> list[str]:
        """List the figures of a corpus: all that have something to show."""
        return [name for name in FIGURES if self.figure_inputs(corpus, name)]

    def labels(self) -> str:
        """Return names, order, kinds of models and decodings, as JSON, for tables and figures."""
        generation = self.config["generation"]
        decodings = generation["decodings"]
        return as_json(
            {
                "models": generation["models"],
                "decodings": decodings,
                "names": {name: DECODINGS[name].title for name in decodings if name in DECODINGS},
                "families": {name: self.model(name)["family"] for name in generation["models"]},
                "kinds": {name: self.config["decodings"][name]["kind"] for name in decodings},
            }
        )

    def all_shards(self) -> list[str]:
        """List every shard of samples."""
        return [
            f"<results>/samples/{source}/{shard}.parquet"
            for source in self.sources()
            for shard in self.shards(source.split("/")[0])
        ]


def _source_locations(source: Mapping[str, Any]) -> list[Any]:
    """List every file of a corpus: its texts and what lies beside them."""
    return [*_flat(source["paths"]), *(source[name] for name in SIDE_FILES if name in source)]


def _flat(paths: Any) -> list[Any]:
    """List locations that may be given by split."""
    return list(chain.from_iterable(paths.values())) if isinstance(paths, dict) else list(paths)


def optional_flag(flag: str, files: Sequence[str]) -> str:
    """Write a flag with its file, or nothing where there is none."""
    return " ".join(map(shlex.quote, [flag, *files])) if files else ""


def prepare_environment(folder: str | Path) -> None:
    """Let jobs find this Python first, and the scripts from whatever folder they run in.

    Parameters
    ----------
    folder : path
        The folder of the Snakefile.
    """
    for name, entry in (("PATH", str(Path(sys.executable).parent)), ("PYTHONPATH", str(folder))):
        entries = [part for part in os.environ.get(name, "").split(os.pathsep) if part]
        os.environ[name] = os.pathsep.join([entry, *(part for part in entries if part != entry)])


def as_json(value: object) -> str:
    """Write an option as canonical JSON, so that an equal value is an equal command."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


class PlannedJob(NamedTuple):
    """A job that a run would start, as the dry run sees it.

    Attributes
    ----------
    rule : str
        Name of its rule.
    gpus : int
        GPUs it asks for.
    minutes : float
        The run time it asks for.
    """

    rule: str
    gpus: int
    minutes: float


def summarize(run: Run, jobs: Iterable[PlannedJob]) -> str:
    """Say what a run is about, for the end of a dry run.

    Parameters
    ----------
    run : Run
        The run.
    jobs : iterable of PlannedJob
        The jobs that are still to be done.

    Returns
    -------
    str
        Lines of text: corpora, models, decodings, documents, jobs per rule, GPU-hours at most.
    """
    jobs = list(jobs)
    generation = run.config["generation"]
    generated = len(generation["models"]) * len(generation["decodings"])
    per_rule = Counter(job.rule for job in jobs)
    gpu_hours = sum(job.gpus * job.minutes for job in jobs) / 60
    documents = generated * generation["documents"]
    lines = [
        "This run",
        f"  corpora      {', '.join(run.config['corpora'])}",
        f"  models       {', '.join(generation['models']) or 'none'}",
        f"  decodings    {', '.join(generation['decodings']) or 'none'}",
        f"  documents    {documents:,} ({generated} bodies of {generation['documents']:,})",
        f"  brought      {', '.join(run.config['external_samples']) or 'none'}",
        f"  weighed      {run.importance.describe()}",
        f"  jobs         {len(jobs):,} to do"
        + "".join(f"\n    {count:>8,}  {rule}" for rule, count in sorted(per_rule.items())),
        f"  GPU-hours    {gpu_hours:,.1f} at most (the run time that each GPU job may take)",
    ]
    return "\n".join(lines)
