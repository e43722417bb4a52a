"""The sample sets of a configuration: shards, sources, and how they are measured."""

from __future__ import annotations

from itertools import product
from typing import Any

from beyond_perplexity.corpus.formats import SENTENCES
from beyond_perplexity.decoding.options import ANCESTRAL, DECODINGS, parse_decoding
from beyond_perplexity.figures.labels import EXTERNAL
from beyond_perplexity.planning.configuration_file import (
    Config,
    as_json,
    base_corpus,
    block_names,
    block_range,
    split_unit,
)
from beyond_perplexity.planning.models import Models
from beyond_perplexity.planning.semantics import EvaluatorPlan
from beyond_perplexity.storage.fingerprint import fingerprint
from beyond_perplexity.tendencies.definitions import counted_code
from beyond_perplexity.tendencies.tokens import RAW_TEXT


class Samples:
    """What the models of a run write, and the external samples."""

    def __init__(self, config: Config, models: Models) -> None:
        self.config = config
        self._models = models

    def shards(self, model: str) -> list[str]:
        """List the shards of each decoding of a model, or of external samples: one."""
        if model == EXTERNAL:
            return ["00000"]
        generation = self.config["generation"]
        return block_names(generation["documents"], generation["documents_per_shard"])

    def shard_range(self, shard: str) -> list[int]:
        """Return the first document id and the number of documents of a shard."""
        generation = self.config["generation"]
        return block_range(shard, generation["documents"], generation["documents_per_shard"])

    def _shards_per_count(self) -> int:
        """Return how many shards one job counts."""
        documents: int = self.config["tendencies"]["documents_per_count"]
        return -(-documents // int(self.config["generation"]["documents_per_shard"]))

    def blocks(self, model: str) -> list[str]:
        """List the blocks of shards that are counted together, of each decoding of a model."""
        return block_names(len(self.shards(model)), self._shards_per_count())

    def block_files(self, model: str, decoding: str, block: str) -> list[str]:
        """List the shards of samples of a block."""
        size = self._shards_per_count()
        shards = self.shards(model)[int(block) * size :][:size]
        return [f"<results>/samples/{model}/{decoding}/{shard}.parquet" for shard in shards]

    def counted_files(self, model: str, decoding: str) -> list[str]:
        """List the statistics of the blocks of a sample set."""
        folder = f"<results>/statistics/{model}/{decoding}"
        return [f"{folder}/{block}.parquet" for block in self.blocks(model)]

    def statistics_file(self, model: str, decoding: str) -> str:
        """Return the statistics of a sample set: those of its block, where it has one alone."""
        counted = self.counted_files(model, decoding)
        merged = f"<results>/statistics/{model}/{decoding}/merged.parquet"
        return counted[0] if len(counted) == 1 else merged

    def sources(self, corpus: str | None = None) -> list[str]:
        """List the sample sets that are compared (with a corpus): ``model/decoding``."""
        generation = self.config["generation"]
        models, decodings = generation["models"], generation["decodings"]
        # A model of latents draws from itself alone.
        kinds = {name: parse_decoding(self.config["decodings"][name]) for name in decodings}
        latent = {model for model in models if self._models.row(model).kind == "latent"}
        pairs = product(models, decodings)
        generated = [(m, d) for m, d in pairs if m not in latent or kinds[d].ancestral]
        external = [(EXTERNAL, name) for name in self.config["external_samples"]]
        return [
            f"{first}/{second}"
            for first, second in generated + external
            if corpus in (None, self.corpus_of(first, second))
        ]

    def continued(self, corpus: str | None = None) -> list[str]:
        """List the models and decodings that continue prompts (of a corpus): ``model/decoding``."""
        asked = self.config["generation"]["prompts"] or {"models": (), "decodings": ()}
        own = [name for name in asked["models"] if corpus in (None, self._models.corpus(name))]
        return [f"{model}/{decoding}" for model, decoding in product(own, asked["decodings"])]

    def corpus_of(self, model: str, decoding: str) -> str:
        """Return the corpus that a sample set is compared with: of sentences, if it is some."""
        if model != EXTERNAL:
            of_sentences = self._models.row(model).unit == "sentence"
            return self._models.corpus(model) + (SENTENCES if of_sentences else "")
        corpus: str = self.config["external_samples"][decoding]["corpus"]
        return corpus

    def sentence_corpora(self) -> list[str]:
        """List the corpora of sentences that something is compared with."""
        return [c for name in self.config["corpora"] if self.sources(c := f"{name}{SENTENCES}")]

    def is_of_sentences(self, corpus: str) -> bool:
        """Return whether the documents of a corpus are the sentences of another."""
        return corpus not in self.config["corpora"]

    def vocabulary_file(self, corpus: str, vocabulary: str) -> str:
        """Return the file of a vocabulary: built from the corpus that sentences were cut of."""
        return f"<results>/vocabularies/{base_corpus(self.config, corpus)}/{vocabulary}.json"

    def vocabulary_of(self, model: str, decoding: str) -> str:
        """Return the closed vocabulary that a sample set is compared in, or ``raw``."""
        if model == EXTERNAL:
            name = self.config["external_samples"][decoding]["vocabulary"]
        else:
            name = self._models.find(model).get("vocabulary")
        closed = name is not None and self.config["vocabularies"][name]["kind"] == "closed"
        return str(name) if closed else RAW_TEXT

    def compared_vocabularies(self, corpus: str) -> list[str]:
        """List the readings that sample sets are compared with a corpus in, ``raw`` first."""
        read_in = {self.vocabulary_of(*source.split("/")) for source in self.sources(corpus)}
        return sorted(read_in, key=lambda name: (name != RAW_TEXT, name))

    @staticmethod
    def vocabulary_files(corpus: str, vocabulary: str) -> list[str]:
        """List the file of the words that texts are compared in; none for ``raw``."""
        compared = vocabulary != RAW_TEXT
        return [f"<results>/shared_vocabulary/{corpus}/{vocabulary}.txt"] if compared else []

    def body_vocabulary(self, model: str, decoding: str) -> list[str]:
        """List the file of the vocabulary that a sample set is compared in."""
        corpus = self.corpus_of(model, decoding)
        return self.vocabulary_files(corpus, self.vocabulary_of(model, decoding))

    def compared_files(self, model: str, decoding: str) -> dict[str, str | list[str]]:
        """Return what a sample set is compared by, besides its own statistics and documents."""
        corpus = self.corpus_of(model, decoding)
        folder = f"<results>/references/{corpus}"
        return {
            "reference": f"{folder}/{self.vocabulary_of(model, decoding)}/statistics.parquet",
            "raw_reference": f"{folder}/{RAW_TEXT}/statistics.parquet",
            "documents": f"<results>/corpora/{corpus}/documents.parquet",
            "vocabulary": self.body_vocabulary(model, decoding),
        }

    def sample_sets(self, corpus: str) -> int:
        """Return how many sample sets share one family of tests."""
        family = self.config["tendencies"]["measurement"].get("family")
        return len(self.sources(corpus)) if family == "corpus" else 1

    def compared_corpora(self) -> list[str]:
        """List the corpora that something is compared with, in the order of the configuration."""
        own = [corpus for corpus in self.config["corpora"] if self.sources(corpus)]
        return [*own, *self.sentence_corpora()]

    def decoding_options(self, name: str) -> str:
        """Return the options of a decoding as JSON, with all defaults, which its jobs depend on."""
        return as_json(parse_decoding(self.config["decodings"][name]).given())

    def generating_code(self, model: str, decoding: str) -> list[str]:
        """List the source files of a model's family, of how it generates, and of a decoding."""
        return self.code_of(model, self.config["decodings"][decoding]["kind"])

    def code_of(self, model: str, kind: str) -> list[str]:
        """List the same for a kind of decoding."""
        own = DECODINGS[kind].module.replace(".", "/") + ".py"
        return [*self._models.generating_code(model), own]

    def continuing_code(self, model: str, decoding: str) -> list[str]:
        """List the same for continuations of prompts, and what is counted of them."""
        return [*self.generating_code(model, decoding), *counted_code()]

    def shard_files(self, model: str, decoding: str) -> list[str]:
        """List the shards of a sample set."""
        folder = f"<results>/samples/{model}/{decoding}"
        return [f"{folder}/{shard}.parquet" for shard in self.shards(model)]

    def all_shards(self) -> list[str]:
        """List every shard of samples."""
        return [file for source in self.sources() for file in self.shard_files(*source.split("/"))]

    def measures(self, corpus: str) -> list[str]:
        """List the measures of every sample set that is compared with a corpus."""
        return [f"<results>/tendencies/{s}/measures.parquet" for s in self.sources(corpus)]

    @staticmethod
    def counting_code(script: str) -> str:
        """Return the fingerprint of a script with that of the tendencies that it counts."""
        return fingerprint(script, *counted_code())

    @property
    def symbols_flag(self) -> str:
        """The flag that says whether Unicode's category S* counts as symbol."""
        return f"--{'' if self.config['tendencies']['count_s_symbols'] else 'no-'}count-s-symbols"

    @property
    def maximum_tokens(self) -> int | list[int]:
        """How much is read of a document; nothing: all."""
        longest: int | None = self.config["tendencies"]["maximum_tokens"]
        return [] if longest is None else longest

    def group_column(self, corpus: str) -> list[str]:
        """Return the column of what the splits of a corpus keep whole, if not documents."""
        grouped = self.is_of_sentences(corpus) or split_unit(self.config, corpus) == "page"
        return ["title"] if grouped else []

    def training_split(self, model: str, decoding: str) -> list[str]:
        """Return the split that a sample set was learned from; none where it was elsewhere."""
        elsewhere = model == EXTERNAL or self._models.raw_texts(model)
        return [] if elsewhere else ["train"]

    def fit_options(self) -> str:
        """Return the options of `scripts.measure_tendencies` without any draws, as JSON."""
        without = {"permutations": 0, "bootstrap": 0, "monte_carlo": 0}
        return as_json({**self.config["tendencies"]["measurement"], **without})


class EmbeddingPlan:
    """The comparison of documents by their vectors."""

    def __init__(self, config: Config, samples: Samples, evaluators: EvaluatorPlan) -> None:
        self._config, self._samples, self._evaluators = config, samples, evaluators
        self._options: dict[str, Any] | None = config["tendencies"]["embedding"]

    @property
    def encoder(self) -> str | None:
        """The evaluator whose vectors are compared; None where nothing is embedded."""
        return None if self._options is None else self._evaluators.resolve(self._options["encoder"])

    def describe(self) -> str:
        """Say how many documents are compared by what, for the end of a dry run."""
        if self._options is None or not self._samples.sources():
            return "none"
        if self.encoder is None:
            return f"none: the package of '{self._options['encoder']}' is not installed"
        return (
            f"{self._options['documents']:,} documents of a sample set at most, by {self.encoder}"
        )

    # ---- what the run reads of a corpus ----

    def measures(self, corpus: str) -> list[str]:
        """List the measures of all sample sets, with those of embeddings where there are any."""
        plain = self._samples.measures(corpus)
        joined = [f"<results>/embeddings/{corpus}/measures.parquet"]
        return joined if plain and self.encoder else plain

    def sensitivity(self, corpus: str) -> list[str]:
        """List the table of minimum detectable effects, with those of embeddings if any."""
        folder = "embeddings" if self.encoder and self._samples.sources(corpus) else "references"
        return [f"<results>/{folder}/{corpus}/sensitivity.parquet"]

    # ---- what its jobs are made of ----

    def sample_files(self, corpus: str) -> list[str]:
        """List the shards that documents are drawn from: the first, which are as good as any."""
        read = -(-self.documents // self._config["generation"]["documents_per_shard"]) or None
        sources = (source.split("/") for source in self._samples.sources(corpus))
        return [file for name in sources for file in self._samples.shard_files(*name)[:read]]

    def vocabulary_files(self, corpus: str) -> list[str]:
        """List the files of the words that sample sets are compared in."""
        names = self._samples.compared_vocabularies(corpus)
        return [file for name in names for file in self._samples.vocabulary_files(corpus, name)]

    def readings(self, corpus: str) -> str:
        """Return the vocabulary of each sample set that is read in one, as JSON."""
        sources = self._samples.sources(corpus)
        found = {source: self._samples.vocabulary_of(*source.split("/")) for source in sources}
        return as_json({k: v for k, v in found.items() if v != RAW_TEXT})

    @property
    def documents(self) -> int:
        """How many documents of each sample set are embedded, at most."""
        return int(self._options["documents"]) if self._options else 0


class JudgePlan:
    """The comparison of documents by their bits per byte under a model."""

    def __init__(self, config: Config, samples: Samples, models: Models) -> None:
        self._config, self._samples, self._models = config, samples, models
        self._options: dict[str, Any] = config["tendencies"]["judge"] or {}

    @property
    def model(self) -> str | None:
        """The model that judges; None where there is none."""
        return self._options.get("model")

    @property
    def documents(self) -> int:
        """How many documents of each text are judged, at most."""
        return int(self._options.get("documents", 0))

    @property
    def model_file(self) -> str:
        """The description of the model."""
        return f"<results>/models/{self.model}/model.json"

    def code(self) -> str:
        """Return the fingerprint of the judging with that of the model's family."""
        if not self.model:
            return ""
        return fingerprint("scripts/judge.py", *self._samples.code_of(self.model, ANCESTRAL.kind))

    def gpus(self) -> int:
        """Return how many GPUs a job asks for."""
        return self._models.gpus(self.model) if self.model else 0

    def reference(self, model: str, decoding: str) -> str:
        """Return what the judge says of the text that a sample set is compared with."""
        corpus, read_in = self._samples.corpus_of(model, decoding), self._samples.vocabulary_of
        return f"<results>/references/{corpus}/{read_in(model, decoding)}/judged.parquet"

    def first_reference(self, corpus: str) -> list[str]:
        """List what the judge says of a corpus, as its first sample set is read, where it does."""
        sources = self._samples.sources(corpus)[:1] if self.model else []
        return [self.reference(*source.split("/")) for source in sources]

    def sample_files(self, model: str, decoding: str) -> list[str]:
        """List the shards that documents are drawn from: the first, which are as good as any."""
        read = -(-self.documents // self._config["generation"]["documents_per_shard"])
        return self._samples.shard_files(model, decoding)[: max(read, 1)]

    def measured(self, model: str, decoding: str) -> list[str]:
        """List what the judge says of the reference and of a sample set."""
        own = f"<results>/tendencies/{model}/{decoding}/judged.parquet"
        return [self.reference(model, decoding), own] if self.model else []
