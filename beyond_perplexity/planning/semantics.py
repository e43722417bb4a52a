"""What the rules look up for the meaning of predictions: models, blocks, files; what is checked."""

from __future__ import annotations

from beyond_perplexity.errors import InputError
from beyond_perplexity.models.families import FAMILIES
from beyond_perplexity.planning.corpora import Corpora
from beyond_perplexity.planning.evaluators import EvaluatorPlan
from beyond_perplexity.planning.latent_checks import require
from beyond_perplexity.planning.models import Models, SentenceSection, check_scored
from beyond_perplexity.planning.parameters import Config, as_json
from beyond_perplexity.schemas.semantics import WORDS_EVALUATOR
from beyond_perplexity.semantics.evaluators.families import evaluator_modules
from beyond_perplexity.semantics.measures import ACCURACY, BLEU_NAMES, CROSS_ENTROPY

PROBED = 500  # sentences at most that show what an evaluator notices
_FOLDER = "<results>/semantics"
# Files among those of models.
_FILES = ("differences", "correlations")


class SemanticsPlan(SentenceSection):
    """The semantic evaluation of a validated configuration."""

    def __init__(
        self, config: Config, models: Models, evaluators: EvaluatorPlan, corpora: Corpora
    ) -> None:
        super().__init__(config, models, "semantics")
        self._evaluators, self._corpora = evaluators, corpora

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

    def files(self) -> list[str]:
        """List all that is measured: of models, of their differences, and of evaluators."""
        found = []
        for corpus in self.corpora():
            models = self.models(corpus)
            names = [*models, *(_FILES if len(models) > 1 else ())]
            names += [f"probes/{evaluator}" for evaluator in self.evaluators()]
            found += [f"{_FOLDER}/{corpus}/{name}.parquet" for name in names]
        return found


def check_semantics(config: Config) -> None:
    """Check section ``semantics`` against the others."""
    given = config["semantics"]
    for name in given["evaluators"]:
        require("semantics.evaluators", name, config["evaluators"], "evaluator")
    check_scored(config, "semantics", _FILES, given["splits"])
    for name in given["models"]:
        family = config["models"][name]["family"]
        if FAMILIES[family].kind in ("latent", "unnormalized"):
            raise InputError(
                f"semantics.models: '{name}' ({family}) gives no next word a probability; remove it"
            )
