"""What the rules look up for latent models: proposals, shards and files of importance sampling."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from beyond_perplexity.models.families import FAMILIES, Family, family_modules
from beyond_perplexity.planning.latent_checks import describe_annotation


class ImportancePlan:
    """The importance sampling of a validated configuration.

    Parameters
    ----------
    config : dict
        The configuration after `configuration.validate`.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._corpora: Mapping[str, Any] = config["corpora"]
        self._models: Mapping[str, Any] = config["models"]
        self._proposals: Mapping[str, Any] = config["proposals"]
        self.options: Mapping[str, Any] = config["importance"]

    def proposals(self) -> list[str]:
        """List the proposals that are drawn from."""
        chosen = self.options["proposals"]
        return list(self._proposals if chosen is None else chosen)

    def describe(self) -> str:
        """Say in words how much is weighed."""
        draws = [(name, len(self.temperatures(name))) for name in self.proposals()]
        if not draws:
            return "none"
        total = sum(count for _, count in draws)
        samples = total * self.options["instances"] * self.options["samples"]
        return (
            f"{samples:,} samples ({len(draws)} proposals at {total} temperatures in all, "
            f"{self.options['instances']:,} instances, {self.options['samples']:,} samples each)"
        )

    def models(self) -> list[str]:
        """List the latent models of the run, in the order of their first proposal."""
        return list(dict.fromkeys(self.model_of(name) for name in self.proposals()))

    def model_of(self, proposal: str) -> str:
        """Return the name of the model that a proposal is for."""
        name: str = self._proposals[proposal]["model"]
        return name

    def families(self) -> dict[str, str]:
        """Return the family of each latent model of the run."""
        return {name: self._models[name]["family"] for name in self.models()}

    def data(self) -> dict[str, str]:
        """Say in words what each latent model is evaluated on."""
        split = self.options["split"]
        return {
            name: f"{corpus} ({split}), "
            + describe_annotation(self._row(name).needs, self._corpora[corpus])
            for name in self.models()
            if (corpus := self.corpus(name))
        }

    def _row(self, model: str) -> Family:
        return FAMILIES[self._models[model]["family"]]

    def first_proposal_file(self, model: str) -> str:
        """Return the description of the first proposal for a model."""
        folder = self.trained_proposal(self.proposals_of(model)[0])
        return f"<results>/models/{folder}/model.json"

    def proposals_of(self, model: str) -> list[str]:
        """List the proposals for a model."""
        return [name for name in self.proposals() if self.model_of(name) == model]

    def trained_proposal(self, proposal: str) -> str:
        """Return whose model folder a proposal is in: its own, or the model's."""
        row = FAMILIES[self._proposals[proposal]["family"]]
        return self.model_of(proposal) if row.reference is None else proposal

    def options_of_proposal(self, proposal: str) -> dict[str, Any]:
        """Return a proposal as if it were a model: on the corpus and vocabulary of its model."""
        options, model = self._proposals[proposal], self._models[self.model_of(proposal)]
        return {**options, "corpus": model["corpus"], "vocabulary": model["vocabulary"]}

    def corpus(self, model: str) -> str:
        """Return the corpus of a model."""
        name: str = self._models[model]["corpus"]
        return name

    def code(self, model: str, proposal: str) -> list[str]:
        """Return the source files of the two families, for a fingerprint."""
        names = self._models[model]["family"], self._proposals[proposal]["family"]
        return sorted({file for name in names for file in family_modules(name)})

    def temperatures(self, proposal: str) -> list[float]:
        """List the temperatures that samples of a proposal are drawn at."""
        own = self._proposals[proposal]["temperatures"]
        return [float(value) for value in (own or self.options["temperatures"])]

    def grid(self, proposal: str) -> list[float]:
        """List the temperatures whose log q is kept with every sample of a proposal."""
        common = [float(value) for value in self.options["temperatures"]]
        return sorted({*common, *self.temperatures(proposal)})

    # ---- shards ----

    def _blocks(self, total: str, size: str) -> int:
        return -(-self.options[total] // self.options[size])

    def shards(self) -> list[str]:
        """List the shards of one proposal at one temperature: instances by samples."""
        instance_blocks = self._blocks("instances", "instances_per_shard")
        sample_blocks = self._blocks("samples", "samples_per_shard")
        return [f"{shard:05d}" for shard in range(instance_blocks * sample_blocks)]

    def instance_shards(self) -> list[str]:
        """List the blocks of instances: the shards of beams and of sequential Monte Carlo."""
        return [f"{s:05d}" for s in range(self._blocks("instances", "instances_per_shard"))]

    def instance_range(self, block: int) -> tuple[int, int]:
        """Return the first instance and the number of instances of a block."""
        size = self.options["instances_per_shard"]
        return block * size, min(size, self.options["instances"] - block * size)

    def cell(self, shard: str) -> tuple[tuple[int, int], tuple[int, int]]:
        """Return first and number of the instances and of the samples of a shard."""
        sample_blocks = self._blocks("samples", "samples_per_shard")
        row, column = divmod(int(shard), sample_blocks)
        size = self.options["samples_per_shard"]
        samples = (column * size, min(size, self.options["samples"] - column * size))
        return self.instance_range(row), samples

    # ---- files ----

    def weight_files(self, proposal: str) -> list[str]:
        """List the shards of log weights of a proposal at all its temperatures."""
        folder = f"<results>/log_weights/{self.model_of(proposal)}/{proposal}"
        return [
            f"{folder}/tau_{temperature}/{shard}.parquet"
            for temperature in self.temperatures(proposal)
            for shard in self.shards()
        ]

    def beam_files(self, proposal: str) -> list[str]:
        """List the shards of the beams of a proposal."""
        folder = f"<results>/beams/{self.model_of(proposal)}/{proposal}"
        sizes = self.options["beams"]
        return [f"{folder}/{shard}.parquet" for shard in self.instance_shards()] if sizes else []

    def smc_files(self, proposal: str) -> list[str]:
        """List the shards of sequential Monte Carlo with a proposal, if its model allows it."""
        model = self.model_of(proposal)
        if self.options["smc"] is None or not self._row(model).sequential:
            return []
        folder = f"<results>/smc/{model}/{proposal}"
        return [f"{folder}/{shard}.parquet" for shard in self.instance_shards()]

    def estimate_files(self, kind: str) -> list[str]:
        """List the reduced files of one kind of all proposals."""
        return [
            f"<results>/estimates/{self.model_of(name)}/{name}/{kind}.parquet"
            for name in self.proposals()
        ]
