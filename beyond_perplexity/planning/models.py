"""The models of a configuration: what each is made of, and what its jobs need."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from beyond_perplexity.errors import InputError
from beyond_perplexity.models.families import (
    FAMILIES,
    Family,
    family_modules,
    generating_modules,
    is_taken_as_it_is,
    training_modules,
)
from beyond_perplexity.planning.latent_checks import require
from beyond_perplexity.planning.parameters import (
    Config,
    as_json,
    block_names,
    block_range,
    documents_are_sentences,
    split_unit,
    with_defaults,
    without_defaults,
)

WAKE_CODE = "beyond_perplexity/training/wake.py"


class Models:
    """The models and proposals of a run."""

    def __init__(self, config: Config) -> None:
        self.config = config

    def find(self, name: str) -> Mapping[str, Any]:
        """Return the configuration of a model, or of a proposal as if it were one."""
        models, proposals = self.config["models"], self.config["proposals"]
        if name not in proposals:
            return dict(models[name])
        model = models[proposals[name]["model"]]
        return {**proposals[name], "corpus": model["corpus"], "vocabulary": model["vocabulary"]}

    def options(self, name: str) -> str:
        """Return the options of `scripts.train` as JSON; a default that is written out stays out.

        So it trains nothing anew, and neither does an option that is new.
        """
        model, row = self.find(name), self.row(name)
        given, kind = model["training"], row.training
        training = without_defaults(kind, given)
        if given and not training and row.kind == "brought":  # none: it would not be trained
            training = dict([min(with_defaults(kind, {}).items())])
        return as_json(
            {"family": model["family"], "architecture": model["architecture"], "training": training}
        )

    def row(self, name: str) -> Family:
        """Return what is known of the family of a model."""
        return FAMILIES[self.find(name)["family"]]

    def code(self, name: str) -> list[str]:
        """List the source files of a model's family, which its jobs depend on."""
        return family_modules(self.find(name)["family"])

    def generating_code(self, name: str) -> list[str]:
        """List the source files of a model's family and of how it generates."""
        return [*self.code(name), *generating_modules(self.find(name)["family"])]

    def training_code(self, name: str) -> list[str]:
        """List the source files of a model's family and of its training.

        Of a proposal with wake training, those of its model and of that training as well.
        """
        own = training_modules(self.find(name)["family"])
        if not self.wake_files(name):
            return own
        return sorted({*own, *self.code(self.find(name)["model"]), WAKE_CODE})

    def wake_files(self, name: str) -> list[str]:
        """List the description of the model that a proposal learns from after its fit, if any."""
        model = self.find(name)
        asked = model["training"].get("wake_steps", 0)
        return [f"<results>/models/{model['model']}/model.json"] if asked else []

    def corpus(self, name: str) -> str:
        """Return the corpus that a model is trained on and compared with."""
        corpus: str = self.find(name)["corpus"]
        return corpus

    def documents(self, name: str) -> str:
        """Return the documents that a model is trained on."""
        return f"<results>/corpora/{self.corpus(name)}/documents.parquet"

    def preprocessing(self, name: str) -> str:
        """Return how the corpus of a model is cleaned, as JSON."""
        return as_json(self.config["corpora"][self.corpus(name)]["preprocessing"])

    def tables(self, name: str) -> list[str]:
        """List the tables of a corpus that a model is trained on besides its documents."""
        model = self.find(name)
        row = self.row(name)
        if row.kind not in ("latent", "proposal"):
            return []
        names = ["mentions.parquet", "knowledge_graph.parquet", "aliases.parquet", "trees.parquet"]
        names += ["graph.safetensors"] if "graph" in row.needs else []
        return [f"<results>/corpora/{model['corpus']}/{name}" for name in names]

    def vocabulary_files(self, name: str) -> list[str]:
        """List the vocabulary that a model is trained with: none where it brings its own."""
        if self.row(name).kind == "brought":
            return []
        model = self.find(name)
        return [f"<results>/vocabularies/{model['corpus']}/{model['vocabulary']}.json"]

    def speller_files(self, name: str) -> list[str]:
        """List the speller of what a model's vocabulary lacks: none where that is open."""
        held = self.config["vocabularies"].get(self.find(name).get("vocabulary"), {})
        files = self.vocabulary_files(name) if held.get("kind") == "closed" else []
        return [str(Path(file).with_suffix(".speller.json")) for file in files]

    def brought_files(self, name: str) -> list[str]:
        """List the files of a model that was brought in a folder: a new one is taken anew."""
        row = self.row(name)
        if row.kind != "brought":
            return []
        folder = Path(self.find(name)["architecture"]["path"])
        return sorted(str(file) for pattern in row.files for file in folder.glob(pattern))

    def learns(self, name: str) -> bool:
        """Return whether a model has a training curve: neither counted nor taken as it is."""
        kind = self.row(name).kind
        return bool(self.find(name)["training"]) if kind == "brought" else kind != "counted"

    def raw_texts(self, name: str) -> list[str]:
        """List the documents before cleaning, where a model is made for plain text."""
        model = self.find(name)
        plain = is_taken_as_it_is(model["family"], model["training"])
        return [f"<results>/corpora/{model['corpus']}/raw.parquet"] if plain else []

    def gpus(self, name: str) -> int:
        """Return how many GPUs a job of a model asks for."""
        return 0 if self.row(name).kind == "counted" else 1

    def split_unit(self, name: str) -> str:
        """Return what the splits of a model's corpus keep whole: documents or pages."""
        return split_unit(self.config, self.corpus(name))

    def scored(self, corpus: str | None = None) -> list[str]:
        """List the models that are scored and generate (of those trained on a corpus).

        The likelihood of latent ones is estimated (`planning.importance`), not scored.
        """
        names: list[str] = self.config["generation"]["models"]
        exact = [name for name in names if self.row(name).kind != "latent"]
        return [name for name in exact if corpus in (None, self.corpus(name))]

    def perplexity_files(self, corpus: str) -> list[str]:
        """List the scores of documents of the models of a corpus."""
        return [f"<results>/perplexity/{name}.parquet" for name in self.scored(corpus)]


class SentenceSection:
    """A section of a configuration whose models are asked about sentences, in blocks."""

    def __init__(self, config: Config, models: Models, section: str) -> None:
        self._config, self._models, self._section = config, models, section
        self.options: Mapping[str, Any] = config[section]

    def models(self, corpus: str | None = None) -> list[str]:
        """List the models that are asked (of those trained on a corpus)."""
        names: list[str] = self.options["models"]
        return [name for name in names if corpus in (None, self._models.corpus(name))]

    def corpora(self) -> list[str]:
        """List the corpora whose sentences are asked about."""
        return list(dict.fromkeys(self._models.corpus(name) for name in self.models()))

    def blocks(self) -> list[str]:
        """List the blocks of sentences."""
        return block_names(self.options["sentences"], self.options["sentences_per_shard"])

    def sentence_range(self, block: str) -> list[int]:
        """Return the first sentence of a block (in each split), and how many they are."""
        return block_range(block, self.options["sentences"], self.options["sentences_per_shard"])

    def limit(self, block: str) -> list[int]:
        """Return the number of all sentences, for the last block, which may not go beyond it."""
        total: int = self.options["sentences"]
        return [total] if sum(self.sentence_range(block)) == total else []

    def whole_flag(self, corpus: str) -> list[str]:
        """Return the flag that says that documents are sentences, where they are."""
        return ["--whole"] if documents_are_sentences(self._config, self._section, corpus) else []

    def whole_flag_of_model(self, model: str) -> list[str]:
        """Do as `whole_flag` does, for the corpus of a model."""
        return self.whole_flag(self._models.corpus(model))

    def score_files(self, model: str) -> list[str]:
        """List the scores of a model."""
        raise NotImplementedError

    def all_score_files(self, corpus: str) -> list[str]:
        """List the scores of all models of a corpus, model by model."""
        return [file for name in self.models(corpus) for file in self.score_files(name)]


def check_scored(config: Config, section: str, names: Iterable[str], splits: Iterable[str]) -> None:
    """Check that the models of a section are there, and their corpora have the splits."""
    for name in config[section]["models"]:
        require(f"{section}.models", name, config["models"], "model")
        model = config["models"][name]
        if name in names:
            raise InputError(f"{section}.models: '{name}' is the name of a file; rename the model")
        for split in splits:
            if config["corpora"][model["corpus"]].get("split", {}).get(split) == 0:
                raise InputError(
                    f"corpora.{model['corpus']}.split.{split}: is 0, but models.{name} is scored "
                    f"on it (section {section})"
                )
