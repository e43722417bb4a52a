"""The models of a configuration: what each is made of, and what its jobs need."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from beyond_perplexity.models import families
from beyond_perplexity.planning.configuration_file import (
    Config,
    as_json,
    block_names,
    block_range,
    documents_are_sentences,
    with_defaults,
    without_defaults,
)
from beyond_perplexity.storage.fingerprint import fingerprint, remembered

WAKE_CODE = "beyond_perplexity/training/wake.py"
# Of a closed vocabulary without a limit, which is known when it is built; of a model that is taken
# by a name, not from a folder.
ASSUMED_WORDS, ASSUMED_WEIGHTS = 100_000, 500_000_000


def count_weights(family: str, architecture: Mapping[str, Any], vocabulary: int) -> int:
    """Count the weights of a family's model for `vocabulary` ids; once, as torch loads slowly."""

    def count() -> int:
        import torch

        from beyond_perplexity.models import registry
        from beyond_perplexity.models.latents.kglm_instances import SIZES

        # What latent families ask for besides, before a corpus is read: the labels of a treebank,
        # and a knowledge graph, of which nothing is trained.
        given = {"labels": ["X"] * 27, "graph": dict.fromkeys(SIZES, 100)}
        made = registry.find(family)
        known = getattr(made, "shapes", ())
        with torch.device("meta"):
            shapes = {name: held for name, held in given.items() if name in known}
            model = made(vocabulary, architecture, **shapes)
        return sum(weight.numel() for weight in model.parameters())

    code = fingerprint(families.FAMILIES[family].reference)
    what = f"weights {family} {code} {vocabulary} {json.dumps(architecture, sort_keys=True)}"
    return int(remembered(what, count))


class Models:
    """The models and proposals of a run."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.weights = cache(self._count_weights)

    def find(self, name: str) -> Mapping[str, Any]:
        """Return the configuration of a model, or of a proposal as if it were one."""
        models, proposals = self.config["models"], self.config["proposals"]
        if name not in proposals:
            return dict(models[name])
        model = models[proposals[name]["model"]]
        shared = {key: model[key] for key in ("corpus", "vocabulary") if key in model}
        return {**proposals[name], **shared}

    def options(self, name: str) -> str:
        """Return the options of `scripts.train` as JSON, less defaults: new ones train nothing."""
        model, row = self.find(name), self.row(name)
        given, kind = model["training"], row.training
        training = without_defaults(kind, given)
        if given and not training and row.kind == "external":  # none: it would not be trained
            training = dict([min(with_defaults(kind, {}).items())])
        return as_json(
            {"family": model["family"], "architecture": model["architecture"], "training": training}
        )

    def row(self, name: str) -> families.Family:
        """Return what is known of the family of a model."""
        return families.FAMILIES[self.find(name)["family"]]

    # ---- the source files that its jobs depend on ----

    def code(self, name: str) -> list[str]:
        """List those of a model's family."""
        return families.family_modules(self.find(name)["family"])

    def generating_code(self, name: str) -> list[str]:
        """List those of a model's family and of how it generates."""
        return [*self.code(name), *families.generating_modules(self.find(name)["family"])]

    def training_code(self, name: str) -> list[str]:
        """List those of a model's family and training; of wake training, of its model as well."""
        own = families.training_modules(self.find(name)["family"])
        if not self.wake_files(name):
            return own
        return sorted({*own, *self.code(self.find(name)["model"]), WAKE_CODE})

    # ---- what it is made of ----

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

    def raw_texts(self, name: str) -> list[str]:
        """List the documents before cleaning, where a model is made for plain text."""
        model = self.find(name)
        plain = families.is_taken_as_it_is(model["family"], model["training"])
        return [f"<results>/corpora/{model['corpus']}/raw.parquet"] if plain else []

    def preprocessing(self, name: str) -> str:
        """Return how the corpus of a model is cleaned, as JSON."""
        return as_json(self.config["corpora"][self.corpus(name)]["preprocessing"])

    def tables(self, name: str) -> list[str]:
        """List the tables of a corpus that a model is trained on besides its documents."""
        row = self.row(name)
        if row.kind not in ("latent", "proposal"):
            return []
        names = ["mentions.parquet", "knowledge_graph.parquet", "aliases.parquet", "trees.parquet"]
        names += ["graph.safetensors"] * ("graph" in row.needs) + ["raw.parquet"] * bool(row.bring)
        return [f"<results>/corpora/{self.corpus(name)}/{table}" for table in names]

    def vocabulary_files(self, name: str) -> list[str]:
        """List the vocabulary that a model is trained with: none where it brings its own."""
        if self.row(name).bring:
            return []
        model = self.find(name)
        return [f"<results>/vocabularies/{model['corpus']}/{model['vocabulary']}.json"]

    def spelling_model_files(self, name: str) -> list[str]:
        """List the spelling model of what a model's vocabulary lacks: none where that is open."""
        closed = self._vocabulary(name).get("kind") == "closed"
        files = self.vocabulary_files(name) if closed else []
        return [str(Path(file).with_suffix(".spelling_model.json")) for file in files]

    def _vocabulary(self, name: str) -> Mapping[str, Any]:
        held: Mapping[str, Any] = self.config["vocabularies"]
        return held.get(self.find(name).get("vocabulary", ""), {})

    def external_files(self, name: str) -> list[str]:
        """List the files of an external model in a folder: a new one is taken anew."""
        row = self.row(name)
        if not row.bring:
            return []
        folder = Path(self.find(name)["architecture"]["path"])
        return sorted(str(file) for pattern in row.files for file in folder.glob(pattern))

    def template_files(self, name: str) -> list[str]:
        """List the chat templates of an external model in a folder, by which it is asked."""
        held = self.find(name)["architecture"].get("path", "") if self.external_files(name) else ""
        return sorted(map(str, Path(held).glob("*.jinja"))) if held else []

    # ---- what its jobs need ----

    def learns(self, name: str) -> bool:
        """Return whether a model has a training curve: neither counted nor taken as it is."""
        row = self.row(name)
        return bool(self.find(name)["training"]) if row.bring else row.kind != "counted"

    def gpus(self, name: str) -> int:
        """Return how many GPUs a job of a model asks for."""
        return 0 if self.row(name).kind == "counted" else 1

    def _count_weights(self, name: str) -> int:
        """Count the weights of a model: one for every four bytes of its files, or built on none."""
        results = self.config.get("pathvars", {}).get("results", "results")
        own, external = f"{results}/models/{name}/model.safetensors", self.external_files(name)
        files = map(Path, [own, *(file for file in external if "safetensors" in file)])
        if found := sum(file.stat().st_size for file in files if file.exists()):
            return found // 4
        if self.row(name).kind == "counted" or self.row(name).reference is None:
            return 0
        if self.row(name).bring:
            return ASSUMED_WEIGHTS
        model, held = self.find(name), self._vocabulary(name)
        words = held.get("size") or held.get("maximum_size") or ASSUMED_WORDS
        return count_weights(model["family"], model["architecture"], int(words))

    def scored(self, corpus: str | None = None) -> list[str]:
        """List those that are scored, not estimated, and generate (of one corpus)."""
        names: list[str] = self.config["generation"]["models"]
        exact = [name for name in names if self.row(name).kind != "latent"]
        return [name for name in exact if corpus in (None, self.corpus(name))]

    def token_files(self, corpus: str) -> list[str]:
        """List the scores of tokens of the models of a corpus whose difference is split."""
        names: list[str] = self.config["perplexity"]["parts_of"]
        own = [name for name in names if self.corpus(name) == corpus]
        return [f"<results>/perplexity_tokens/{name}.parquet" for name in own if len(own) > 1]


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

    def score_files(self, model: str) -> list[str]:
        """List the scores of a model."""
        raise NotImplementedError

    def all_score_files(self, corpus: str) -> list[str]:
        """List the scores of all models of a corpus, model by model."""
        return [file for name in self.models(corpus) for file in self.score_files(name)]
