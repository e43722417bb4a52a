"""How much work a job is: documents, sentences, tokens, draws, counted from the configuration."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from beyond_perplexity.planning.model_sizes import ModelSizes
from beyond_perplexity.planning.run import Run

Wildcards = Mapping[str, str]

ASSUMED_TOKENS = 100_000_000  # of a corpus of which no file is there yet
# Tokens in a byte of a source: of text, and of what bzip2 and gzip make of it, markup and all.
TOKENS_PER_BYTE, PACKED_TOKENS_PER_BYTE = 0.15, 0.4
_PACKED = {".bz2", ".gz", ".xz", ".zst"}


class Work:
    """The units of work of the jobs of a run.

    Parameters
    ----------
    run : Run
        The run.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._sizes = ModelSizes(run.models)
        self._tokens: dict[str, float] = {}
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
        """Return how many units a job has; 1 where its work is always the same.

        Parameters
        ----------
        rule : str
            Its rule.
        wildcards : mapping of str to str
            Its wildcards.
        """
        found = self._units.get(rule)
        return max(1.0, float(found(wildcards))) if found else 1.0

    def rows(self, rule: str, wildcards: Wildcards) -> float | None:
        """Return how many rows a shard will have, where that follows from the configuration."""
        if rule == "generate":
            return float(self._run.samples.shard_range(wildcards["shard"])[1])
        if rule == "draw" and wildcards["draw"] == "weights":
            return self._drawn(wildcards)
        return None

    def weights(self, wildcards: Wildcards) -> int:
        """Return the weights of the models that a job runs, as its wildcards name them."""
        known = {**self._run.config["models"], **self._run.config["proposals"]}
        held = (wildcards.get(key, "") for key in ("model", "proposal", "beside"))
        return sum(self._sizes.weights(name) for name in held if name in known)

    def counted_bytes(self, wildcards: Wildcards) -> int:
        """Return the bytes of a model of counts that a job reads; 0 before there is one."""
        name = wildcards.get("model", "")
        known = name in self._run.config["models"]
        if not known or self._run.models.row(name).kind != "counted":
            return 0
        file = Path(self._run.results) / "models" / name / "model.safetensors"
        return file.stat().st_size if file.exists() else 0

    def corpus_tokens(self, corpus: str) -> float:
        """Return the tokens of a corpus: counted, or about those that its files hold."""
        if corpus not in self._tokens:
            self._tokens[corpus] = self._count_tokens(corpus)
        return self._tokens[corpus]

    def _count_tokens(self, corpus: str) -> float:
        counted = Path(self._run.results) / "corpora" / corpus / "extraction.json"
        try:
            return float(json.loads(counted.read_text(encoding="utf-8"))["tokens"])
        except (OSError, ValueError, KeyError, TypeError):
            pass
        files = map(Path, self._run.corpora.source_files(corpus))
        sizes = [(file.suffix in _PACKED, file.stat().st_size) for file in files if file.exists()]
        rates = TOKENS_PER_BYTE, PACKED_TOKENS_PER_BYTE
        found = sum(rates[packed] * size for packed, size in sizes)
        # What pip brought is an excerpt of a megabyte.
        return found or (ASSUMED_TOKENS if self._run.corpora.source_files(corpus) else 500_000)

    def _share(self, corpus: str, split: str) -> float:
        given: Mapping[str, float] = self._run.config["corpora"][corpus].get("split", {})
        return float(given.get(split, 1.0))

    def _trained_tokens(self, name: str) -> float:
        """Return the tokens that a training reads: a counted model's once."""
        if self._run.models.raw_texts(name):
            return 1.0  # it comes trained
        corpus = self._run.models.corpus(name)
        once = self.corpus_tokens(corpus) * self._share(corpus, "train")
        if not self._run.models.learns(name):
            return once
        training = self._sizes.training(name)
        steps = training.get("maximum_steps")
        epochs = once * (training.get("maximum_epochs") or 1)
        wake = (training.get("wake_steps") or 0) * (training.get("wake_batch_tokens") or 0)
        wake *= training.get("wake_samples") or 1
        return (min(epochs, steps * training["batch_tokens"]) if steps else epochs) + wake

    def _scored_tokens(self, name: str) -> float:
        corpus, split = self._run.models.corpus(name), self._run.config["perplexity"]["split"]
        return self.corpus_tokens(corpus) * self._share(corpus, split)

    def _documents(self) -> float:
        return float(self._run.config["generation"]["documents"])

    def _written(self, wildcards: Wildcards) -> float:
        """Return the documents of a shard; of a beam, its hypotheses of them."""
        beam = self._run.config["decodings"][wildcards["decoding"]].get("size") or 1
        return float(self._run.samples.shard_range(wildcards["shard"])[1] * beam)

    def _counted_documents(self, wildcards: Wildcards) -> float:
        if not wildcards.get("block"):  # of a reference
            return self._documents()
        files = self._run.samples.block_files(
            wildcards["model"], wildcards["decoding"], wildcards["block"]
        )
        return len(files) * float(self._run.config["generation"]["documents_per_shard"])

    def _drawn(self, wildcards: Wildcards) -> float:
        """Return samples by instances; of other draws, particles by runs or beams by them."""
        plan, draw = self._run.importance, wildcards["draw"]
        instances = plan.instance_range(draw, wildcards["instances"])[1]
        options = plan.settings(draw, wildcards["proposal"]).get(wildcards["setting"], {})
        cut = plan.sample_range(draw, wildcards["setting"], wildcards["samples"])
        return float(instances * _numbers(options) * (cut[1] if cut else 1))

    def _weighed(self) -> float:
        given = self._run.importance.options
        return float(given["instances"] * given["samples"])

    def _contrasted(self, wildcards: Wildcards) -> float:
        versions = json.loads(self._run.contrastive.versions(wildcards["draws"]))
        sentences = self._run.contrastive.sentence_range(wildcards["units"])[1]
        return float(sentences * sum(number for _, number in versions.values()))

    def _predicted(self, wildcards: Wildcards) -> float:
        sentences = self._run.semantics.sentence_range(wildcards["block"])[1]
        given = self._run.semantics.options
        return float(sentences * len(given["splits"]) * (1 + given["samples"]))


def _numbers(options: Mapping[str, Any]) -> int:
    """Return how many candidates options of draws ask for: lists of sizes add up."""
    total = 1
    for key, value in options.items():
        if isinstance(value, list | tuple) and all(isinstance(x, int) for x in value):
            total *= max(1, sum(value))
        elif key in ("particles", "samples") and isinstance(value, int):
            total *= max(1, value)
    return total
