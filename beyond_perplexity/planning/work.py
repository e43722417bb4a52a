"""How much work a job is (documents, sentences, tokens, draws) and how large its models are."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from beyond_perplexity.models.families import FAMILIES
from beyond_perplexity.planning.parameters import with_defaults
from beyond_perplexity.planning.run import Run

Wildcards = Mapping[str, str]

ASSUMED_TOKENS = 100_000_000  # of a corpus of which no file is there yet
EMBEDDED_TOKENS = 500_000  # of the excerpts that pip brings
ASSUMED_WORDS = 100_000  # of a closed vocabulary without a limit, which is known when it is built
ASSUMED_BYTES = 2_000_000_000  # of a model that is brought by a name, not in a folder
# Tokens in a byte of a source: of text, and of what bzip2 and gzip make of it, markup and all.
TOKENS_PER_BYTE, PACKED_TOKENS_PER_BYTE = 0.15, 0.4
_PACKED = {".bz2", ".gz", ".xz", ".zst"}


def count_weights(family: str, architecture: Mapping[str, Any], vocabulary: int) -> int:
    """Count the weights of a family's model for `vocabulary` ids, built without memory."""
    import torch

    from beyond_perplexity.models import registry
    from beyond_perplexity.models.latents.kglm_instances import SIZES

    # What latent families ask for besides, before a corpus is read: the labels of a treebank, and a
    # knowledge graph, of which nothing is trained.
    given = {"labels": ["X"] * 27, "graph": dict.fromkeys(SIZES, 100)}
    made = registry.find(family)
    known = inspect.signature(made).parameters
    shapes = {name: held for name, held in given.items() if name in known}
    with torch.device("meta"):
        model = made(vocabulary, architecture, **shapes)
    return sum(weight.numel() for weight in model.parameters())


class Work:
    """The units of work of the jobs of a run, and the weights of the models that they need."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self._tokens: dict[str, float] = {}
        self._weights: dict[str, int] = {}
        self._units: dict[str, Callable[[Wildcards], float]] = {
            "train": lambda w: self._trained_tokens(w["model"]),
            "measure_perplexity": lambda w: self._scored_tokens(w["model"]),
            "generate": self._written,
            "count_samples": self._counted_documents,
            "measure_tendencies": lambda _: self._documents(),
            "draw": self._drawn,
            "reduce_weights": lambda _: self._weighed(),
            "score_contrast": self._contrasted,
            "predict_words": self._predicted,
            "score_semantics": self._predicted,
            "extract_corpus": lambda w: self.corpus_tokens(w["corpus"]),
        }

    def units(self, rule: str, wildcards: Wildcards) -> float:
        """Return how many units a job has; 1 where its work is always the same."""
        found = self._units.get(rule)
        return max(1.0, float(found(wildcards))) if found else 1.0

    # ---- models ----

    def job_weights(self, wildcards: Wildcards) -> int:
        """Return the weights of the models that a job runs, as its wildcards name them."""
        known = {**self.run.config["models"], **self.run.config["proposals"]}
        held = (wildcards.get(key, "") for key in ("model", "proposal", "beside"))
        return sum(self.weights(name) for name in held if name in known)

    def weights(self, name: str) -> int:
        """Return the weights of a model or proposal; 0 of one that only counts words.

        Of one whose file is there, or that is brought, a weight for every four of its bytes.
        """
        if name not in self._weights:
            self._weights[name] = self._count_weights(name)
        return self._weights[name]

    def _count_weights(self, name: str) -> int:
        models = self.run.models
        model, row = models.find(name), models.row(name)
        if row.kind == "counted" or row.reference is None:
            return 0
        if row.kind == "brought":
            files = [file for file in models.brought_files(name) if "safetensors" in file]
            return (sum(Path(file).stat().st_size for file in files) or ASSUMED_BYTES) // 4
        if trained := self._model_bytes(name):
            return trained // 4
        vocabulary = self.run.config["vocabularies"][model["vocabulary"]]
        ids = vocabulary.get("size") or vocabulary.get("maximum_size") or ASSUMED_WORDS
        return count_weights(model["family"], model["architecture"], int(ids))

    def _model_bytes(self, name: str) -> int:
        file = Path(self.run.results) / "models" / name / "model.safetensors"
        return file.stat().st_size if file.exists() else 0

    def counted_bytes(self, wildcards: Wildcards) -> int:
        """Return the bytes of a model of counts that a job reads; 0 before there is one."""
        name = wildcards.get("model", "")
        known = name in self.run.config["models"]
        counted = known and self.run.models.row(name).kind == "counted"
        return self._model_bytes(name) if counted else 0

    def training(self, name: str) -> dict[str, Any]:
        """Return the options of a model's training with all defaults."""
        model = self.run.models.find(name)
        kind = FAMILIES[model["family"]].training
        return with_defaults(kind, model["training"] or {})

    # ---- text ----

    def corpus_tokens(self, corpus: str) -> float:
        """Return the tokens of a corpus: counted, or about those that its files hold."""
        if corpus not in self._tokens:
            self._tokens[corpus] = self._count_tokens(corpus)
        return self._tokens[corpus]

    def _count_tokens(self, corpus: str) -> float:
        counted = Path(self.run.results) / "corpora" / corpus / "extraction.json"
        try:
            return float(json.loads(counted.read_text(encoding="utf-8"))["tokens"])
        except (OSError, ValueError, KeyError):
            pass
        files = [Path(file) for file in self.run.corpora.source_files(corpus)]
        if not files:
            return EMBEDDED_TOKENS
        rates = TOKENS_PER_BYTE, PACKED_TOKENS_PER_BYTE
        sizes = (rates[f.suffix in _PACKED] * f.stat().st_size for f in files if f.exists())
        return sum(sizes) or ASSUMED_TOKENS

    def _share(self, corpus: str, split: str) -> float:
        given: Mapping[str, float] = self.run.config["corpora"][corpus].get("split", {})
        return float(given.get(split, 1.0))

    def _trained_tokens(self, name: str) -> float:
        """Return the tokens that a training reads: a counted model's once."""
        if self.run.models.raw_texts(name):
            return 1.0  # it comes trained
        corpus = self.run.models.corpus(name)
        once = self.corpus_tokens(corpus) * self._share(corpus, "train")
        if not self.run.models.learns(name):
            return once
        training = self.training(name)
        steps = training.get("maximum_steps")
        epochs = once * (training.get("maximum_epochs") or 1)
        wake = (training.get("wake_steps") or 0) * (training.get("wake_batch_tokens") or 0)
        wake *= training.get("wake_samples") or 1
        return (min(epochs, steps * training["batch_tokens"]) if steps else epochs) + wake

    def _scored_tokens(self, name: str) -> float:
        corpus, split = self.run.models.corpus(name), self.run.config["perplexity"]["split"]
        return self.corpus_tokens(corpus) * self._share(corpus, split)

    # ---- shards ----

    def _documents(self) -> float:
        return float(self.run.config["generation"]["documents"])

    def _written(self, wildcards: Wildcards) -> float:
        """Return the documents of a shard; of a beam, its hypotheses of them."""
        beam = self.run.config["decodings"][wildcards["decoding"]].get("size") or 1
        return float(self.run.samples.shard_range(wildcards["shard"])[1] * beam)

    def _counted_documents(self, wildcards: Wildcards) -> float:
        if not wildcards.get("block"):  # of a reference
            return self._documents()
        names = wildcards["model"], wildcards["decoding"], wildcards["block"]
        files = self.run.samples.block_files(*names)
        return len(files) * float(self.run.config["generation"]["documents_per_shard"])

    def _drawn(self, wildcards: Wildcards) -> float:
        """Return samples by instances; of other draws, particles by runs or beams by them."""
        plan, draw = self.run.importance, wildcards["draw"]
        instances = plan.instance_range(draw, wildcards["instances"])[1]
        options = plan.settings(draw, wildcards["proposal"]).get(wildcards["setting"], {})
        cut = plan.sample_range(draw, wildcards["setting"], wildcards["samples"])
        return float(instances * _candidates(options) * (cut[1] if cut else 1))

    def _weighed(self) -> float:
        given = self.run.importance.options
        return float(given["instances"] * given["samples"])

    def _contrasted(self, wildcards: Wildcards) -> float:
        versions = json.loads(self.run.contrastive.versions(wildcards["draws"]))
        sentences = self.run.contrastive.sentence_range(wildcards["units"])[1]
        return float(sentences * sum(number for _, number in versions.values()))

    def _predicted(self, wildcards: Wildcards) -> float:
        sentences = self.run.semantics.sentence_range(wildcards["block"])[1]
        given = self.run.semantics.options
        return float(sentences * len(given["splits"]) * (1 + given["samples"]))


def _candidates(options: Mapping[str, Any]) -> int:
    """Return how many candidates options of draws ask for: lists of sizes add up."""
    total = 1
    for key, value in options.items():
        if isinstance(value, list | tuple) and all(isinstance(x, int) for x in value):
            total *= max(1, sum(value))
        elif key in ("particles", "samples") and isinstance(value, int):
            total *= max(1, value)
    return total
