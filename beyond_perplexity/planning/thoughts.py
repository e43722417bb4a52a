"""What the rules look up for thoughts: of which prompts, models and proposals, in which shards."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

from beyond_perplexity.importance.ways_to_draw import estimator_code
from beyond_perplexity.planning.configuration_file import Config, as_json, block_names, block_range
from beyond_perplexity.planning.corpora import Corpora

# Of the shards of a model and proposal, one table each, by the kind of `report.INPUTS` that it is.
THOUGHT_FILES = {
    "estimates": "estimates",
    "importance_curves": "curves",
    "thought_sums": "sums",
}
_CHOSEN = ("samples", "most_tokens", "end_of_thought", "between")
# Keys of proposals that show an answer.
_SHOWING = {"own": (), "answer": ("shown",), "mixture": ("shown", "own_share")}


class ThoughtPlan:
    """The thoughts of a validated configuration."""

    def __init__(self, config: Config, corpora: Corpora) -> None:
        self._given: Mapping[str, Any] = config["thoughts"]
        self._corpora = corpora

    def prompts(self) -> list[str]:
        """List the names of the sets of prompts."""
        return list(self._given)

    def models(self) -> list[str]:
        """List the models that think."""
        return list(dict.fromkeys(name for held in self._given.values() for name in held["models"]))

    def describe(self) -> str:
        """Say in words how much is drawn."""
        thoughts = sum(
            len(held["models"]) * len(held["proposals"]) * held["instances"] * held["samples"]
            for held in self._given.values()
        )
        return f"{thoughts:,} thoughts at most ({', '.join(self._given)})" if thoughts else "none"

    # ---- a shard ----

    def file(self, prompts: str) -> str:
        """Return where the prompts are on this machine."""
        return self._corpora.local_path(self._given[prompts]["path"])

    def fields(self, prompts: str) -> list[str]:
        """Return the fields of prompt and answer."""
        return [self._given[prompts][key] for key in ("prompt", "answer")]

    def options(self, prompts: str, way: str) -> str:
        """Return how thoughts are drawn, as JSON: what this proposal does not use is left out."""
        held = self._given[prompts]
        used = {key: held[key] for key in (*_CHOSEN, *_SHOWING[way])}
        return as_json({"proposal": way, **used})

    def instance_range(self, prompts: str, block: str) -> list[int]:
        """Return the first prompt of a block and how many they are."""
        held = self._given[prompts]
        return block_range(block, held["instances"], held["instances_per_shard"])

    def thoughts(self, prompts: str, block: str) -> int:
        """Count the thoughts of a block."""
        return self.instance_range(prompts, block)[1] * int(self._given[prompts]["samples"])

    def reduction_code(self) -> list[str]:
        """List the code of the estimators that thoughts allow."""
        return estimator_code([])

    # ---- files ----

    def shards(self, prompts: str, model: str, way: str) -> list[str]:
        """List the shards of a model and a proposal."""
        held = self._given[prompts]
        folder = f"<results>/thoughts/{prompts}/{model}/{way}/draws"
        blocks = block_names(held["instances"], held["instances_per_shard"])
        return [f"{folder}/{block}.parquet" for block in blocks]

    def measured(self, prompts: str) -> dict[str, list[str]]:
        """Return the tables that the shards are reduced to, of every model and proposal."""
        held = self._given.get(prompts, {"models": (), "proposals": ()})
        pairs = list(product(held["models"], held["proposals"]))
        folder = f"<results>/thoughts/{prompts}"
        return {
            kind: [f"{folder}/{model}/{way}/{name}.parquet" for model, way in pairs]
            for kind, name in THOUGHT_FILES.items()
        }
