"""What the rules look up for the relations of all measures: whose, and from which files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from beyond_perplexity.planning.contrastive import ContrastivePlan
from beyond_perplexity.planning.embeddings import EmbeddingPlan
from beyond_perplexity.planning.models import Models
from beyond_perplexity.planning.parameters import Config
from beyond_perplexity.planning.semantics import SemanticsPlan
from beyond_perplexity.tendencies.options import MeasurementOptions

_FOLDER = "<results>/relations"
RELATIONS = ("measures", "correlations", "orders")
_LEAST_MODELS = 2


class RelationPlan:
    """Which measures of a validated configuration are related.

    Parameters
    ----------
    config : dict
        The configuration after `validation.validate`.
    models : Models
    embeddings : EmbeddingPlan
        Knows where the measures of generated text are.
    contrastive : ContrastivePlan
    semantics : SemanticsPlan
    """

    def __init__(
        self,
        config: Config,
        models: Models,
        embeddings: EmbeddingPlan,
        contrastive: ContrastivePlan,
        semantics: SemanticsPlan,
    ) -> None:
        self._config, self._models, self._embeddings = config, models, embeddings
        self._contrastive, self._semantics = contrastive, semantics

    def models(self, corpus: str) -> list[str]:
        """List the models of a corpus that have a perplexity and another measure."""
        found = [
            *self._models.scored(corpus),
            *(m for m in self._contrastive.normalized() if self._models.corpus(m) == corpus),
            *self._semantics.models(corpus),
        ]
        return list(dict.fromkeys(found))

    def names(self, corpus: str) -> list[str]:
        """List all models that have a measure, also those without a perplexity."""
        return list(dict.fromkeys([*self.models(corpus), *self._contrastive.models(corpus)]))

    def corpora(self) -> list[str]:
        """List the corpora on which several models have measures besides perplexity."""
        return [
            corpus
            for corpus in self._config["corpora"]
            if len(self.models(corpus)) >= _LEAST_MODELS and self._others(corpus)
        ]

    def _others(self, corpus: str) -> list[str]:
        found = self.inputs(corpus)
        return [file for kind, files in found.items() if kind != "perplexities" for file in files]

    def inputs(self, corpus: str) -> dict[str, list[str]]:
        """Return the files of every kind of measure of a corpus."""
        return {
            "perplexities": [
                f"<results>/perplexity/{name}.parquet" for name in self.models(corpus)
            ],
            "tendencies": self._embeddings.measures(corpus),
            "contrasts": self._contrastive.all_score_files(corpus),
            "semantics": self._semantics.all_score_files(corpus),
        }

    def options(self) -> list[str]:
        """Return the flags that say which split, which levels and which limits."""
        given: Mapping[str, Any] = self._config["contrastive"]
        levels = sorted(float(level) for level in given["levels"] if level > 0)
        splits = self._config["semantics"]["splits"]
        measurement = self._config["tendencies"]["measurement"]
        confidence = measurement.get("confidence", MeasurementOptions.confidence)
        flags = ["--split", "test" if "test" in splits else splits[-1]]
        flags += ["--base-level", f"{given['base_level']:g}", "--confidence", f"{confidence:g}"]
        return [*flags, "--level", f"{levels[len(levels) // 2]:g}"] if levels else flags

    def file(self, corpus: str, kind: str) -> str:
        """Return a file of a corpus, of a kind of `RELATIONS`."""
        return f"{_FOLDER}/{corpus}/{kind}.parquet"

    def files(self) -> list[str]:
        """List all files."""
        return [self.file(corpus, kind) for corpus in self.corpora() for kind in RELATIONS]
