"""The evaluators of a configuration: what stands in for which, and what their jobs need."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from beyond_perplexity.errors import InputError
from beyond_perplexity.planning.corpora import Corpora
from beyond_perplexity.planning.latent_checks import require
from beyond_perplexity.planning.models import Models
from beyond_perplexity.planning.parameters import Config, as_json, documents_are_sentences
from beyond_perplexity.semantics.evaluators.families import (
    EVALUATORS,
    EXTRA,
    PACKAGES,
    EvaluatorFamily,
    evaluator_locations,
    evaluator_modules,
    fit_modules,
    is_installed,
)

LEAVE_OUT, FAIL = "leave-out", "error"


class EvaluatorPlan:
    """The evaluators of a run."""

    def __init__(self, config: Config, models: Models, corpora: Corpora) -> None:
        self.config = config
        self._models, self._corpora = models, corpora

    def resolve(self, name: str) -> str | None:
        """Return the evaluator that stands for a name: itself, its stand-in; None: left out."""
        return _resolve(self.config, name)

    def _listed(self) -> list[str]:
        return list(self.config.get("semantics", {}).get("evaluators", ()))

    def used(self) -> list[str]:
        """List the evaluators that score, each once: of section ``semantics``, as they resolve."""
        found = map(self.resolve, self._listed())
        return list(dict.fromkeys(name for name in found if name is not None))

    def notes(self) -> list[str]:
        """Say which of the listed evaluators are missing and what stands in for them."""
        lines = []
        for name in self._listed():
            found = self.resolve(name)
            if found != name:
                package = PACKAGES[self.config["evaluators"][name]["package"]].distribution
                instead = f"{found} stands in for it" if found else "it is left out"
                lines.append(f"{name}: {package} is not installed; {instead}")
        return lines

    def row(self, name: str) -> EvaluatorFamily:
        """Return what is known of the family of an evaluator."""
        return EVALUATORS[self.config["evaluators"][name]["family"]]

    def is_trained(self, name: str) -> bool:
        """Return whether a job trains an evaluator: not where all of its weights are brought."""
        given = self.config["evaluators"][name]
        brought = any(given.get(key) is not None for key in ("path", "uni", "bi"))
        # A head is trained on an encoder that is brought.
        return self.row(name).fit is not None and not (brought and not given.get("pairs"))

    def options(self, name: str) -> str:
        """Return the options of `load_evaluator`, all paths local, as JSON."""
        return as_json(self._options(name))

    def _options(self, name: str) -> dict[str, Any]:
        given = self.config["evaluators"][name]
        found: dict[str, Any] = {"family": given["family"]}
        if self.is_trained(name):
            found["path"] = f"{self._corpora.results}/evaluators/{name}"
        else:
            left = ("when_missing", "training", "architecture")
            local = {key: self._local(value) for key, value in given.items() if key not in left}
            found |= {key: value for key, value in local.items() if value is not None}
        if given.get("model"):
            found["model"] = f"{self._corpora.results}/models/{given['model']}"
        if given.get("vectors"):
            found["vectors"] = self._options(self.table(name))
        return found

    def _local(self, value: Any) -> Any:
        is_address = isinstance(value, dict) and "url" in value
        return self._corpora.local_path(value) if is_address else value

    def table(self, name: str) -> str:
        """Return the evaluator whose word vectors one reads, or what stands in for it."""
        return _table(self.config, name)

    def files(self, name: str) -> list[str]:
        """List what must be there before an evaluator is loaded."""
        given = self.config["evaluators"][name]
        found = self._given_files(given)
        if self.is_trained(name):
            found = [f"<results>/evaluators/{name}/evaluator.json"]
        if given.get("model"):
            found.append(f"<results>/models/{given['model']}/model.json")
        if given.get("vectors"):
            found += self.files(self.table(name))
        return found

    def _given_files(self, given: Mapping[str, Any]) -> list[str]:
        return [self._corpora.local_path(place) for place in evaluator_locations(given)]

    def code(self, name: str) -> list[str]:
        """List the source files that loading and running an evaluator depends on."""
        given = self.config["evaluators"][name]
        found = {*evaluator_modules(given["family"])}
        if given.get("vectors"):
            found.update(self.code(self.table(name)))
        if given.get("model"):
            found.update(self._models.code(given["model"]))
        return sorted(found)

    def trained(self) -> list[str]:
        """List the evaluators that the run trains: those that score, and their word vectors."""
        found: list[str] = []
        for name in self.used():
            if self.config["evaluators"][name].get("vectors"):
                found += [self.table(name)]
            found.append(name)
        return [name for name in dict.fromkeys(found) if self.is_trained(name)]

    # ---- training ----

    def training_options(self, name: str) -> str:
        """Return the options of `scripts.train_evaluator` as JSON: paths local, names resolved."""
        given = dict(self.config["evaluators"][name])
        corpus = given.get("corpus")
        found = {key: self._local(value) for key, value in given.items() if value is not None}
        for key in ("corpus", "vocabulary", *["version"] * (not given.get("path"))):
            found.pop(key, None)
        if given.get("vectors"):
            found["vectors"] = self._options(self.table(name))
        by_sentence = corpus and documents_are_sentences(self.config, "semantics", corpus)
        if by_sentence and "training" in found:
            found["training"] = {"sentences": "documents", **found["training"]}
        return as_json(found)

    def training_documents(self, name: str) -> list[str]:
        """List the documents that an evaluator is trained on; none where pairs are brought."""
        corpus = self.config["evaluators"][name].get("corpus")
        return [f"<results>/corpora/{corpus}/documents.parquet"] if corpus else []

    def training_vocabulary(self, name: str) -> list[str]:
        """List the vocabulary that an evaluator is trained with."""
        given = self.config["evaluators"][name]
        if not given.get("vocabulary"):
            return []
        return [f"<results>/vocabularies/{given['corpus']}/{given['vocabulary']}.json"]

    def training_files(self, name: str) -> list[str]:
        """List what else a training reads: word vectors, files of pairs."""
        given = self.config["evaluators"][name]
        found = self._given_files(given)
        return found + (self.files(self.table(name)) if given.get("vectors") else [])

    def training_code(self, name: str) -> list[str]:
        """List the source files that the training of an evaluator depends on."""
        given = self.config["evaluators"][name]
        others = self.code(self.table(name)) if given.get("vectors") else ()
        return sorted({*fit_modules(given["family"]), *others})

    def preprocessing(self, name: str) -> str:
        """Return how the texts of a training are cleaned, as JSON; of pairs, as corpora are."""
        corpus = self.config["evaluators"][name].get("corpus")
        return as_json(self.config["corpora"][corpus]["preprocessing"] if corpus else {})

    def gpus(self, name: str) -> int:
        """Return how many GPUs a job of an evaluator asks for."""
        return int(self.row(name).network)

    def title(self, name: str) -> str:
        """Return how tables call an evaluator, so that nobody takes it for what it is not."""
        given = self.config["evaluators"][name]
        title = PACKAGES[given["package"]].title if given.get("package") else self.row(name).title
        said = [words for key, words in self.row(name).subtitles.items() if given.get(key)]
        title += "".join(f" ({words})" for words in said)
        if given.get("path"):
            title = f"{title} {name}"
        return title


def _resolve(config: Config, name: str) -> str | None:
    given = config["evaluators"][name]
    package = given.get("package")
    if not package or is_installed(package):
        return name
    missing = given["when_missing"]
    if missing == FAIL:
        raise InputError(
            f"evaluators.{name}: the package {PACKAGES[package].distribution} is not installed "
            f"and when_missing is error; install it with: {EXTRA}"
        )
    return None if missing == LEAVE_OUT else _resolve(config, missing)


def _table(config: Config, name: str) -> str:
    given: str = config["evaluators"][name]["vectors"]
    found = _resolve(config, given)
    if found is None:
        raise InputError(
            f"evaluators.{name}.vectors: the package of '{given}' is not installed; install "
            "it, or name another evaluator in its when_missing"
        )
    return found


def check_evaluators(config: Config) -> None:
    """Check section ``evaluators`` against the others."""
    known = config["evaluators"]
    for name, given in known.items():
        key = f"evaluators.{name}"
        if name == "words":
            raise InputError(f"{key}: this name is kept for what needs no evaluator; rename it")
        _check_source(key, given)
        _check_names(key, given, config)
        _check_stand_in(name, known)
    for name in config["semantics"]["evaluators"]:
        found = _resolve(config, name) if name in known else None
        if found is not None and known[found].get("vectors"):
            _table(config, found)


def _check_names(key: str, given: Mapping[str, Any], config: Config) -> None:
    """Check that what an evaluator names is there, and of a kind that it can use."""
    sections = {
        "corpus": ("corpora", "corpus"),
        "vocabulary": ("vocabularies", "vocabulary"),
        "model": ("models", "model"),
        "vectors": ("evaluators", "evaluator"),
    }
    for part, (section, kind) in sections.items():
        if given.get(part):
            require(f"{key}.{part}", given[part], config[section], kind)
    vocabulary, vectors = given.get("vocabulary"), given.get("vectors")
    if vocabulary and config["vocabularies"][vocabulary]["kind"] != "closed":
        raise InputError(f"{key}.vocabulary: has parts of words; name a closed one")
    if vectors and not EVALUATORS[config["evaluators"][vectors]["family"]].vectors:
        raise InputError(f"{key}.vectors: '{vectors}' has no word vectors")


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
    row = EVALUATORS[given["family"]]
    wanted = list(dict.fromkeys(way for ways in row.sources for way in ways))
    there = tuple(way for way in wanted if given.get(way) is not None)
    if wanted and there not in row.sources:
        said = " and ".join(there) or "none of them"
        raise InputError(f"{key}: give one of {', '.join(wanted)}; it has {said}")
    for way in there:
        for part in row.companions.get(way, ()):
            if given[part] is None:
                raise InputError(f"{key}.{part}: is missing; {way} needs it")
