"""The meaning of predictions: models, blocks, files; evaluators, and what stands in for which."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Any

from beyond_perplexity.errors import InputError
from beyond_perplexity.planning.configuration_file import (
    Config,
    as_json,
    documents_are_sentences,
    require,
)
from beyond_perplexity.planning.corpora import Corpora
from beyond_perplexity.planning.models import Models, SentenceSection
from beyond_perplexity.schemas.semantics import WORDS_EVALUATOR
from beyond_perplexity.semantics.evaluators import families
from beyond_perplexity.semantics.measures import ACCURACY, BLEU_NAMES, CROSS_ENTROPY

LEAVE_OUT, FAIL = "leave-out", "error"
PROBED = 500  # sentences at most that show what an evaluator notices
_FOLDER = "<results>/semantics"
SEMANTIC_FILES = ("differences", "correlations")  # among those of models


class EvaluatorPlan:
    """The evaluators of a run; that of words, and None, where there is none, need nothing."""

    def __init__(self, config: Config, models: Models, corpora: Corpora) -> None:
        self.config = config
        self._models, self._corpora = models, corpora

    def _given(self, name: str | None) -> Mapping[str, Any]:
        held: Mapping[str, Any] = self.config["evaluators"]
        return held[name] if name not in (None, WORDS_EVALUATOR) else {}

    def resolve(self, name: str) -> str | None:
        """Return the evaluator that stands for a name: itself, its stand-in; None: left out."""
        return _resolve(self.config, name)

    def used(self) -> list[str]:
        """List the evaluators that score, each once: of section ``semantics``, as they resolve."""
        found = map(self.resolve, self.config["semantics"]["evaluators"])
        return list(dict.fromkeys(name for name in found if name is not None))

    def notes(self) -> list[str]:
        """Say which of the listed evaluators are missing and what stands in for them."""
        lines = []
        for name in self.config["semantics"]["evaluators"]:
            found = self.resolve(name)
            if found != name:
                package = families.PACKAGES[self._given(name)["package"]].distribution
                instead = f"{found} stands in for it" if found else "it is left out"
                lines.append(f"{name}: {package} is not installed; {instead}")
        return lines

    def row(self, name: str) -> families.EvaluatorFamily:
        """Return what is known of the family of an evaluator."""
        return families.EVALUATORS[self._given(name)["family"]]

    def is_trained(self, name: str) -> bool:
        """Return whether a job trains an evaluator: not where all of its weights are given."""
        given = self._given(name)
        external = any(given.get(key) is not None for key in ("path", "uni", "bi"))
        # A head is trained on an external encoder.
        return self.row(name).fit is not None and not (external and not given.get("pairs"))

    def trained(self) -> list[str]:
        """List the evaluators that the run trains: those that score, and their word vectors."""
        found = [one for name in self.used() for one in (*self._vectors(name), name)]
        return [name for name in dict.fromkeys(found) if self.is_trained(name)]

    def gpus(self, name: str | None) -> int:
        """Return how many GPUs a job of an evaluator asks for."""
        return int(bool(self._given(name)) and self.row(str(name)).network)

    def title(self, name: str) -> str:
        """Return how tables call an evaluator, so that nobody takes it for what it is not."""
        given, row = self._given(name), self.row(name)
        title = families.PACKAGES[given["package"]].title if given.get("package") else row.title
        title += "".join(f" ({words})" for key, words in row.subtitles.items() if given.get(key))
        return f"{title} {name}" if given.get("path") else title

    # ---- loading one ----

    def options(self, name: str | None) -> str:
        """Return the options of `load_evaluator`, all paths local, as JSON."""
        return as_json(self._options(name) if self._given(name) else {})

    def _options(self, name: str | None) -> dict[str, Any]:
        given = self._given(name)
        found: dict[str, Any] = {"family": given["family"]}
        if self.is_trained(str(name)):
            found["path"] = f"{self._corpora.results}/evaluators/{name}"
        else:
            left = ("when_missing", "training", "architecture")
            found |= {key: v for key, v in self._local(given).items() if key not in left}
        if given.get("model"):
            found["model"] = f"{self._corpora.results}/models/{given['model']}"
        for table in self._vectors(name):
            found["vectors"] = self._options(table)
        return found

    def _local(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return what is given of an evaluator, with local paths for URLs."""
        held = {key: value for key, value in given.items() if value is not None}
        fetched = {k: v for k, v in held.items() if isinstance(v, dict) and "url" in v}
        return held | {k: self._corpora.local_path(v) for k, v in fetched.items()}

    def _vectors(self, name: str | None) -> list[str]:
        """List the evaluator whose word vectors one reads, or what stands in for it, if any."""
        return [_table(self.config, str(name))] if self._given(name).get("vectors") else []

    def files(self, name: str | None) -> list[str]:
        """List what must be there before an evaluator is loaded."""
        given = self._given(name)
        found = self._given_files(given)
        if given and self.is_trained(str(name)):
            found = [f"<results>/evaluators/{name}/evaluator.json"]
        if given.get("model"):
            found.append(f"<results>/models/{given['model']}/model.json")
        return found + [file for table in self._vectors(name) for file in self.files(table)]

    def _given_files(self, given: Mapping[str, Any]) -> list[str]:
        return [self._corpora.local_path(place) for place in families.evaluator_locations(given)]

    def code(self, name: str | None) -> list[str]:
        """List the source files that loading and running an evaluator depends on."""
        given = self._given(name)
        family = given.get("family", name)
        found = {*(families.evaluator_modules(family) if family else ())}
        found.update(file for table in self._vectors(name) for file in self.code(table))
        if given.get("model"):
            found.update(self._models.code(given["model"]))
        return sorted(found)

    # ---- training one ----

    def training_options(self, name: str) -> str:
        """Return the options of `scripts.train_evaluator` as JSON: paths local, names resolved."""
        given = self._given(name)
        corpus = given.get("corpus")
        found = self._local(given)
        for key in ("corpus", "vocabulary", *["version"] * (not given.get("path"))):
            found.pop(key, None)
        for table in self._vectors(name):
            found["vectors"] = self._options(table)
        by_sentence = corpus and documents_are_sentences(self.config, "semantics", corpus)
        if by_sentence and "training" in found:
            found["training"] = {"sentences": "documents", **found["training"]}
        return as_json(found)

    def training_documents(self, name: str) -> list[str]:
        """List the documents that an evaluator is trained on; none where pairs are given."""
        corpus = self._given(name).get("corpus")
        return [f"<results>/corpora/{corpus}/documents.parquet"] if corpus else []

    def training_vocabulary(self, name: str) -> list[str]:
        """List the vocabulary that an evaluator is trained with."""
        given = self._given(name)
        held = given.get("vocabulary")
        return [f"<results>/vocabularies/{given['corpus']}/{held}.json"] if held else []

    def training_files(self, name: str) -> list[str]:
        """List what else a training reads: word vectors, files of pairs."""
        found = self._given_files(self._given(name))
        return found + [file for table in self._vectors(name) for file in self.files(table)]

    def training_code(self, name: str) -> list[str]:
        """List the source files that the training of an evaluator depends on."""
        others = (file for table in self._vectors(name) for file in self.code(table))
        return sorted({*families.fit_modules(self._given(name)["family"]), *others})

    def preprocessing(self, name: str) -> str:
        """Return how the texts of a training are cleaned, as JSON; of pairs, as corpora are."""
        corpus = self._given(name).get("corpus")
        return as_json(self.config["corpora"][corpus]["preprocessing"] if corpus else {})


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

    def measure_code(self) -> list[str]:
        """List the rows of the measures that the evaluators have at most."""
        given = {*BLEU_NAMES, ACCURACY, CROSS_ENTROPY}.union(
            *(self._evaluators.row(name).measures for name in self.evaluators()[1:])
        )
        rows = sorted(given) if self.models() else []
        return [f"beyond_perplexity.semantics.measures:MEASURES[{name}]" for name in rows]

    def human_scores(self) -> str:
        """Return the files of pairs that people scored, and the column of each, as JSON."""
        names, files = self.options["human_scores"], self.human_files()
        return as_json({k: [f, names[k]["gold"]] for k, f in zip(names, files, strict=True)})

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

    def measured(self, corpus: str) -> dict[str, list[str]]:
        """Return the tables of a corpus: of models, of their differences, and of evaluators."""
        models, folder = self.models(corpus), f"{_FOLDER}/{corpus}"
        compared = SEMANTIC_FILES if len(models) > 1 else ()
        return {
            "semantics": [f"{folder}/{name}.parquet" for name in models],
            **{f"semantic_{kind}": [] for kind in SEMANTIC_FILES},
            **{f"semantic_{kind}": [f"{folder}/{kind}.parquet"] for kind in compared},
            "probes": [f"{folder}/probes/{name}.parquet" for name in self.evaluators()],
        }

    def files(self) -> list[str]:
        """List all that is measured."""
        held = (self.measured(corpus).values() for corpus in self.corpora())
        return [*chain.from_iterable(chain.from_iterable(held))]


# ---- checks ----


def _resolve(config: Config, name: str) -> str | None:
    given = config["evaluators"][name]
    package = given.get("package")
    if not package or families.is_installed(package):
        return name
    missing = given["when_missing"]
    if missing == FAIL:
        fault = f"the package {families.PACKAGES[package].distribution} is not installed"
        advice = f"when_missing is error; install it with: {families.EXTRA}"
        raise InputError(f"evaluators.{name}: {fault} and {advice}")
    return None if missing == LEAVE_OUT else _resolve(config, missing)


def _table(config: Config, name: str) -> str:
    given: str = config["evaluators"][name]["vectors"]
    found = _resolve(config, given)
    if found is None:
        fault = f"the package of '{given}' is not installed"
        advice = "install it, or name another evaluator in its when_missing"
        raise InputError(f"evaluators.{name}.vectors: {fault}; {advice}")
    return found


def check_evaluators(config: Config) -> None:
    """Check section ``evaluators`` against the others."""
    known = config["evaluators"]
    for name, given in known.items():
        key = f"evaluators.{name}"
        _check_source(key, given)
        vectors = given.get("vectors")
        if vectors and not families.EVALUATORS[known[vectors]["family"]].vectors:
            raise InputError(f"{key}.vectors: '{vectors}' has no word vectors")
        _check_stand_in(name, known)
    for name in config["semantics"]["evaluators"]:
        found = _resolve(config, name)
        if found is not None and known[found].get("vectors"):
            _table(config, found)


def _check_stand_in(name: str, known: Mapping[str, Any]) -> None:
    seen, at = [name], known[name].get("when_missing", LEAVE_OUT)
    while at not in (LEAVE_OUT, FAIL):
        key = f"evaluators.{seen[-1]}.when_missing"
        require(key, at, [*known, LEAVE_OUT, FAIL], "evaluator")
        if at in seen:
            raise InputError(f"{key}: '{at}' stands in for itself; name another")
        seen.append(at)
        at = known[at].get("when_missing", LEAVE_OUT)


def _check_source(key: str, given: Mapping[str, Any]) -> None:
    """Check that it is said, once, where an evaluator comes from, with what goes with that."""
    row = families.EVALUATORS[given["family"]]
    wanted = list(dict.fromkeys(way for ways in row.sources for way in ways))
    there = tuple(way for way in wanted if given.get(way) is not None)
    if wanted and there not in row.sources:
        said = " and ".join(there) or "none of them"
        raise InputError(f"{key}: give one of {', '.join(wanted)}; it has {said}")
    for way in there:
        for part in row.companions.get(way, ()):
            if given[part] is None:
                raise InputError(f"{key}.{part}: is missing; {way} needs it")
