"""What the rules look up for the meaning of predictions: models, blocks, files; what is checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from beyond_perplexity.errors import InputError
from beyond_perplexity.models.families import FAMILIES
from beyond_perplexity.planning.corpora import Corpora
from beyond_perplexity.planning.evaluators import EvaluatorPlan
from beyond_perplexity.planning.latent_checks import require
from beyond_perplexity.planning.models import Models
from beyond_perplexity.planning.parameters import Config, as_json, documents_are_sentences
from beyond_perplexity.schemas.semantics import WORDS_EVALUATOR
from beyond_perplexity.semantics.evaluators.families import evaluator_modules
from beyond_perplexity.semantics.measures import ACCURACY, BLEU_NAMES, CROSS_ENTROPY

PROBED = 500  # sentences at most that show what an evaluator notices
_FOLDER = "<results>/semantics"
# Files among those of models.
_FILES = ("differences", "correlations")


class SemanticsPlan:
    """The semantic evaluation of a validated configuration."""

    def __init__(
        self, config: Config, models: Models, evaluators: EvaluatorPlan, corpora: Corpora
    ) -> None:
        self._config = config
        self._models = models
        self._evaluators = evaluators
        self._corpora = corpora
        self.options: Mapping[str, Any] = config["semantics"]

    def models(self, corpus: str | None = None) -> list[str]:
        """List the models that are asked (of those trained on a corpus)."""
        names: list[str] = self.options["models"]
        return [name for name in names if corpus in (None, self._models.corpus(name))]

    def corpora(self) -> list[str]:
        """List the corpora whose sentences are predicted."""
        return list(dict.fromkeys(self._models.corpus(name) for name in self.models()))

    def evaluators(self) -> list[str]:
        """List what compares texts: the words themselves first."""
        return [WORDS_EVALUATOR, *self._evaluators.used()] if self.models() else []

    def describe(self) -> str:
        """Say in words how much is predicted and by what it is judged."""
        if not self.models():
            return "none"
        given = self.options
        words = (
            f"{len(self.models())} models on {given['sentences']:,} sentences of each of "
            f"{', '.join(given['splits'])} at most, by {', '.join(self.evaluators())}"
        )
        return "; ".join([words, *self._evaluators.notes()])

    # ---- what a shard is ----

    def blocks(self) -> list[str]:
        """List the blocks of sentences."""
        given = self.options
        return [f"{n:05d}" for n in range(-(-given["sentences"] // given["sentences_per_shard"]))]

    def sentence_range(self, block: str) -> list[int]:
        """Return the first sentence of a block in each split, and how many they are."""
        size = self.options["sentences_per_shard"]
        first = int(block) * size
        return [first, min(size, self.options["sentences"] - first)]

    def limit(self, block: str) -> list[int]:
        """Return the number of all sentences, for the last block, which may not go beyond it."""
        total: int = self.options["sentences"]
        return [total] if sum(self.sentence_range(block)) == total else []

    def whole_flag(self, corpus: str) -> list[str]:
        """Return the flag that says that documents are sentences, where they are."""
        whole = documents_are_sentences(self._config, "semantics", corpus)
        return ["--whole"] if whole else []

    def whole_flag_of_model(self, model: str) -> list[str]:
        """Do as `whole_flag` does, for the corpus of a model."""
        return self.whole_flag(self._models.corpus(model))

    def probed_sentences(self) -> int:
        """Return how many sentences show what an evaluator notices."""
        return min(self.options["sentences"], PROBED)

    def measures(self) -> str:
        """Return the constants of measures that are given, as JSON."""
        return as_json(self.options["measures"])

    def prediction_options(self) -> str:
        """Return what models are asked, as JSON."""
        return as_json({name: self.options[name] for name in ("samples", "continuation")})

    # ---- evaluators; that of words needs nothing ----

    def evaluator_files(self, evaluator: str) -> list[str]:
        """List what must be there before an evaluator is loaded."""
        return [] if evaluator == WORDS_EVALUATOR else self._evaluators.files(evaluator)

    def evaluator_options(self, evaluator: str) -> str:
        """Return what an evaluator is loaded from, as JSON."""
        return "{}" if evaluator == WORDS_EVALUATOR else self._evaluators.options(evaluator)

    def evaluator_code(self, evaluator: str) -> list[str]:
        """List the source files that running an evaluator depends on."""
        if evaluator == WORDS_EVALUATOR:
            return evaluator_modules(evaluator)
        return self._evaluators.code(evaluator)

    def measure_code(self) -> list[str]:
        """List the rows of the measures that the evaluators have at most."""
        given = [*BLEU_NAMES, ACCURACY, CROSS_ENTROPY]
        for name in self.evaluators():
            given += self._evaluators.row(name).measures if name != WORDS_EVALUATOR else ()
        rows = sorted(set(given)) if self.models() else []
        return [f"beyond_perplexity.semantics.measures:MEASURES[{name}]" for name in rows]

    def evaluator_gpus(self, evaluator: str) -> int:
        """Return how many GPUs a job of an evaluator asks for."""
        return 0 if evaluator == WORDS_EVALUATOR else self._evaluators.gpus(evaluator)

    def human_scores(self) -> str:
        """Return the files of pairs that people scored, and the column of each, as JSON."""
        given = self.options["human_scores"].items()
        return as_json({k: [self._corpora.local_path(v["path"]), v["gold"]] for k, v in given})

    def human_files(self) -> list[str]:
        """List these files."""
        given = self.options["human_scores"].values()
        return [self._corpora.local_path(held["path"]) for held in given]

    # ---- files ----

    def prediction_files(self, model: str) -> list[str]:
        """List the shards of predictions of a model."""
        return [f"<results>/predictions/{model}/{block}.parquet" for block in self.blocks()]

    def score_files(self, model: str) -> list[str]:
        """List the scores of a model, evaluator by evaluator."""
        folder = f"{_FOLDER}/{self._models.corpus(model)}/scores/{model}"
        return [
            f"{folder}/{evaluator}/{block}.parquet"
            for evaluator in self.evaluators()
            for block in self.blocks()
        ]

    def all_score_files(self, corpus: str) -> list[str]:
        """List the scores of all models of a corpus, model by model."""
        return [file for name in self.models(corpus) for file in self.score_files(name)]

    def probe_files(self, corpus: str) -> list[str]:
        """List what each evaluator notices in the sentences of a corpus."""
        return [f"{_FOLDER}/{corpus}/probes/{name}.parquet" for name in self.evaluators()]

    def people_files(self, corpus: str, pairs: bool = False) -> list[str]:
        """List how each evaluator agrees with people, or its scores of their pairs."""
        folder = "human_scores" if pairs else "human"
        asked = self.evaluators() if self.options["human_scores"] else []
        return [f"{_FOLDER}/{corpus}/{folder}/{name}.parquet" for name in asked]

    def measure_files(self, corpus: str) -> list[str]:
        """List the measures of the models of a corpus."""
        return [f"{_FOLDER}/{corpus}/{name}.parquet" for name in self.models(corpus)]

    def comparison_files(self, corpus: str) -> list[str]:
        """List what compares the models of a corpus."""
        several = len(self.models(corpus)) > 1
        return [f"{_FOLDER}/{corpus}/{name}.parquet" for name in _FILES if several]

    def files(self) -> list[str]:
        """List all that is measured."""
        kinds = (self.measure_files, self.comparison_files, self.probe_files)
        return [file for corpus in self.corpora() for kind in kinds for file in kind(corpus)]


def check_semantics(config: Config) -> None:
    """Check section ``semantics`` against the others."""
    given = config["semantics"]
    for name in given["evaluators"]:
        require("semantics.evaluators", name, config["evaluators"], "evaluator")
    for name in given["models"]:
        require("semantics.models", name, config["models"], "model")
        model = config["models"][name]
        if FAMILIES[model["family"]].kind in ("latent", "unnormalized"):
            raise InputError(
                f"semantics.models: '{name}' ({model['family']}) gives no next word a probability; "
                "remove it"
            )
        if name in _FILES:
            raise InputError(f"semantics.models: '{name}' is the name of a file; rename the model")
        for split in given["splits"]:
            if config["corpora"][model["corpus"]].get("split", {}).get(split) == 0:
                raise InputError(
                    f"corpora.{model['corpus']}.split.{split}: is 0, but models.{name} is asked "
                    "about it (semantics.splits)"
                )
