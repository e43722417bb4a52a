"""What the rules look up for the comparison of documents by their vectors."""

from __future__ import annotations

from typing import Any

from beyond_perplexity.errors import InputError
from beyond_perplexity.figures.labels import EXTERNAL
from beyond_perplexity.planning.evaluators import EvaluatorPlan
from beyond_perplexity.planning.latent_checks import require
from beyond_perplexity.planning.parameters import Config, as_json
from beyond_perplexity.planning.samples import Samples
from beyond_perplexity.semantics.evaluators.families import EVALUATORS
from beyond_perplexity.storage.fingerprint import fingerprint
from beyond_perplexity.tendencies.tokens import RAW_TEXT

KEY = "tendencies.embedding"


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
        return f"{self._options['documents']:,} documents of each body at most, by {self.encoder}"

    # ---- what the run reads of a corpus ----

    def measures(self, corpus: str) -> list[str]:
        """List the measures of all bodies of text, with those of embeddings where there are any."""
        plain = self._samples.measures(corpus)
        joined = [f"<results>/embeddings/{corpus}/measures.parquet"]
        return joined if plain and self.encoder else plain

    def sensitivity(self, corpus: str) -> list[str]:
        """List the table of smallest shifts, with those of embeddings where there are any."""
        folder = "embeddings" if self.encoder and self._samples.sources(corpus) else "references"
        return [f"<results>/{folder}/{corpus}/sensitivity.parquet"]

    # ---- what its jobs are made of ----

    def sample_files(self, corpus: str) -> list[str]:
        """List the shards that documents are drawn from: the first ones, which are as good as any.

        Documents of a model are independent, whichever their number; of brought ones all are there.
        """
        found = []
        for source in self._samples.sources(corpus):
            model = source.split("/")[0]
            shards = self._samples.shards(model)
            if model != EXTERNAL and self._options:
                per_shard = self._config["generation"]["documents_per_shard"]
                shards = shards[: -(-self._options["documents"] // per_shard)]
            found += [f"<results>/samples/{source}/{shard}.parquet" for shard in shards]
        return found

    def vocabulary_files(self, corpus: str) -> list[str]:
        """List the files of the words that bodies of text are compared in."""
        names = self._samples.compared_vocabularies(corpus)
        return [file for name in names for file in self._samples.vocabulary_files(corpus, name)]

    def evaluator_files(self) -> list[str]:
        """List what must be there before the encoder is loaded."""
        return self._evaluators.files(self.encoder) if self.encoder else []

    def code(self, script: str) -> str:
        """Return the fingerprint of the script that embeds, with that of the encoder."""
        loaded = self._evaluators.code(self.encoder) if self.encoder else []
        return fingerprint(script, *loaded)

    def gpus(self) -> int:
        """Return how many GPUs the job that embeds asks for."""
        return self._evaluators.gpus(self.encoder) if self.encoder else 0

    def encoder_options(self) -> str:
        """Return what the encoder is loaded from, as JSON."""
        return self._evaluators.options(self.encoder) if self.encoder else ""

    def readings(self, corpus: str) -> str:
        """Return the vocabulary of each body of text that is read in one, as JSON."""
        sources = self._samples.sources(corpus)
        found = {source: self._samples.vocabulary_of(*source.split("/")) for source in sources}
        return as_json({k: v for k, v in found.items() if v != RAW_TEXT})

    @property
    def documents(self) -> int:
        """How many documents of each body of text are embedded, at most."""
        return int(self._options["documents"]) if self._options else 0


def check_embedding(config: Config) -> None:
    """Check key ``tendencies.embedding`` against the evaluators."""
    given = config["tendencies"]["embedding"]
    if given is None:
        return
    require(f"{KEY}.encoder", given["encoder"], config["evaluators"], "evaluator")
    family = config["evaluators"][given["encoder"]]["family"]
    if "similarity" not in EVALUATORS[family].measures:
        able = [name for name, row in EVALUATORS.items() if "similarity" in row.measures]
        raise InputError(
            f"{KEY}.encoder: '{given['encoder']}' ({family}) has no vectors of texts; name one of "
            f"family {', '.join(able)}"
        )
