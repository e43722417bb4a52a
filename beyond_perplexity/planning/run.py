"""A configuration as the jobs and files it stands for; here the relations of all measures, too."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from beyond_perplexity.planning.configuration_file import Config, as_json
from beyond_perplexity.planning.contrastive import ContrastivePlan
from beyond_perplexity.planning.corpora import Corpora
from beyond_perplexity.planning.importance import ImportancePlan
from beyond_perplexity.planning.models import Models
from beyond_perplexity.planning.report import RELATION_FILES, Report
from beyond_perplexity.planning.samples import EmbeddingPlan, JudgePlan, Samples
from beyond_perplexity.planning.semantics import EvaluatorPlan, SemanticsPlan
from beyond_perplexity.planning.thoughts import ThoughtPlan
from beyond_perplexity.tendencies.measurement_options import MeasurementOptions

_LEAST_MODELS = 2
_LEVEL = 0.3  # where nothing is contrasted


class RelationPlan:
    """Which measures of a validated configuration are related."""

    def __init__(self, run: Run) -> None:
        self._run, self._config = run, run.config

    def models(self, corpus: str) -> list[str]:
        """List the models of a corpus that have a perplexity and another measure."""
        normalized = self._run.contrastive.normalized()
        contrasted = [name for name in self._run.contrastive.models(corpus) if name in normalized]
        scored, predicting = self._run.models.scored(corpus), self._run.semantics.models(corpus)
        return list(dict.fromkeys([*scored, *contrasted, *predicting]))

    def names(self, corpus: str) -> list[str]:
        """List all models that have a measure, also those without a perplexity."""
        return list(dict.fromkeys([*self.models(corpus), *self._run.contrastive.models(corpus)]))

    def families(self, corpus: str) -> str:
        """Return the family of each model as JSON: those of one family are siblings, but models
        that come trained, which share no training, are each by themselves."""
        models, generating = self._run.models, self._config["generation"]["models"]
        writing = {source.partition("/")[0] for source in self._run.samples.sources(corpus)}
        names = [*self.names(corpus), *(name for name in generating if name in writing)]
        trained = [name for name in names if not models.row(name).bring]
        return as_json({name: models.find(name)["family"] for name in trained})

    def corpora(self) -> list[str]:
        """List the corpora on which several models have measures besides perplexity."""
        found = {corpus: self.inputs(corpus) for corpus in self._config["corpora"]}
        return [
            corpus
            for corpus, files in found.items()
            if len(files.pop("perplexities")) >= _LEAST_MODELS and any(files.values())
        ]

    def perplexity_files(self, corpus: str) -> list[str]:
        """List the scores of documents of all models of a corpus that have a perplexity."""
        return [f"<results>/perplexity/{name}.parquet" for name in self.models(corpus)]

    def inputs(self, corpus: str) -> dict[str, list[str]]:
        """Return the files of every kind of measure of a corpus."""
        return {
            "perplexities": self.perplexity_files(corpus),
            "tendencies": self._run.embeddings.measures(corpus),
            "contrasts": self._run.contrastive.all_score_files(corpus),
            "semantics": self._run.semantics.all_score_files(corpus),
        }

    @property
    def split(self) -> str:
        """The split of the semantic scores that are related."""
        splits: list[str] = self._config["semantics"]["splits"]
        return "test" if "test" in splits else splits[-1]

    @property
    def level(self) -> float:
        """The level of contrastive entropy that is related: the middle one."""
        levels = sorted(float(x) for x in self._config["contrastive"]["levels"] if x > 0)
        return levels[len(levels) // 2] if levels else _LEVEL

    @property
    def confidence(self) -> float:
        """That of the upper limits of tendencies."""
        measurement = self._config["tendencies"]["measurement"]
        return float(measurement.get("confidence", MeasurementOptions.confidence))

    def file(self, corpus: str, kind: str) -> str:
        """Return a file of a corpus, of a kind of `RELATION_FILES`."""
        return f"<results>/relations/{corpus}/{kind}.parquet"

    def files(self) -> list[str]:
        """List all files."""
        return [self.file(corpus, kind) for corpus in self.corpora() for kind in RELATION_FILES]


class Run:
    """A validated configuration, seen as the jobs and files it stands for, a stage an attribute."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.results: str = config.get("pathvars", {}).get("results", "results")
        self.corpora = Corpora(config, self.results)
        self.importance = ImportancePlan(config)
        self.thoughts = ThoughtPlan(config, self.corpora)
        self.models = Models(config)
        self.contrastive = ContrastivePlan(config, self.models)
        self.evaluators = EvaluatorPlan(config, self.models, self.corpora)
        self.semantics = SemanticsPlan(config, self.models, self.evaluators, self.corpora)
        self.samples = Samples(config, self.models)
        self.embeddings = EmbeddingPlan(config, self.samples, self.evaluators)
        self.judge = JudgePlan(config, self.samples, self.models)
        self.relations = RelationPlan(self)
        self.report = Report(self)

    def describe(self) -> dict[str, str]:
        """Say in words what the run is about, by the subject."""
        generation, external = self.config["generation"], self.config["external_samples"]
        sample_sets = len(self.samples.sources()) - len(external)
        documents = generation["documents"]
        latent = self.importance.models()
        others = [*generation["models"], *self.contrastive.models(), *self.semantics.models()]
        models = list(dict.fromkeys([*others, *latent, *self.thoughts.models()]))
        words = f" ({len(latent)} of them with latent variables)" if latent else ""
        return {
            "corpora": ", ".join(self.config["corpora"]),
            "models": f"{len(models)}{words}: {', '.join(models) or 'none'}",
            "decodings": ", ".join(generation["decodings"]) or "none",
            "documents": f"{sample_sets * documents:,} ({sample_sets} sets of {documents:,})",
            "external": ", ".join(external) or "none",
            "embedded": self.embeddings.describe(),
            "weighed": self.importance.describe(),
            "thoughts": self.thoughts.describe(),
            "contrasted": self.contrastive.describe(),
            "understood": self.semantics.describe(),
        }

    def describe_missing(self) -> list[str]:
        """Name, in lines, the local files that the run reads and that are not there."""
        missing = self.corpora.missing_files()
        lines = [f"  missing      {len(missing)} of the files that it reads"] if missing else []
        lines += [f"    {file}" for file in missing[:20]]
        return lines + ([f"    and {len(missing) - 20:,} more"] if len(missing) > 20 else [])


def prepare_environment(folder: str | Path) -> None:
    """Let jobs find this Python first, and our scripts from whatever folder they run in."""
    for name, entry in (("PATH", str(Path(sys.executable).parent)), ("PYTHONPATH", str(folder))):
        entries = [part for part in os.environ.get(name, "").split(os.pathsep) if part]
        os.environ[name] = os.pathsep.join([entry, *(part for part in entries if part != entry)])
    os.environ["PYTHONSAFEPATH"] = "1"
    # The C library gives memory back to the system with each large tensor that goes, and asks for
    # it again, page by page, with the next: a tenth of a training's time.
    kept = {"trim_threshold": 256 << 20, "mmap_threshold": 256 << 20, "hugetlb": 1}
    tuned = ":".join(f"glibc.malloc.{name}={value}" for name, value in kept.items())
    os.environ.setdefault("GLIBC_TUNABLES", tuned)
