"""What the rules look up in a configuration: one object a stage."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from beyond_perplexity.planning.contrastive import ContrastivePlan
from beyond_perplexity.planning.corpora import Corpora
from beyond_perplexity.planning.embeddings import EmbeddingPlan
from beyond_perplexity.planning.evaluators import EvaluatorPlan
from beyond_perplexity.planning.importance import ImportancePlan
from beyond_perplexity.planning.models import Models
from beyond_perplexity.planning.parameters import Config
from beyond_perplexity.planning.relations import RelationPlan
from beyond_perplexity.planning.report import Report
from beyond_perplexity.planning.samples import Samples
from beyond_perplexity.planning.semantics import SemanticsPlan


class Run:
    """A validated configuration, seen as the jobs and files it stands for.

    One attribute a stage.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self.results: str = config.get("pathvars", {}).get("results", "results")
        self.corpora = Corpora(config, self.results)
        self.importance = ImportancePlan(config)
        self.models = Models(config, self.importance)
        self.contrastive = ContrastivePlan(config, self.models)
        self.evaluators = EvaluatorPlan(config, self.models, self.corpora)
        self.semantics = SemanticsPlan(config, self.models, self.evaluators, self.corpora)
        self.samples = Samples(config, self.models)
        self.embeddings = EmbeddingPlan(config, self.samples, self.evaluators)
        measured = (self.models, self.embeddings, self.contrastive, self.semantics)
        self.relations = RelationPlan(config, *measured)
        self.report = Report(self)


def prepare_environment(folder: str | Path) -> None:
    """Let jobs find this Python first, and the scripts from whatever folder they run in.

    A folder ``scripts`` there is not taken for ours.
    """
    for name, entry in (("PATH", str(Path(sys.executable).parent)), ("PYTHONPATH", str(folder))):
        entries = [part for part in os.environ.get(name, "").split(os.pathsep) if part]
        os.environ[name] = os.pathsep.join([entry, *(part for part in entries if part != entry)])
    os.environ["PYTHONSAFEPATH"] = "1"
