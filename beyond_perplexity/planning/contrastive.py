"""What the rules look up for contrastive entropy: models, shards, files; and what is checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from beyond_perplexity.contrastive import PartitionOptions
from beyond_perplexity.corpus.distortions import DistortionOptions
from beyond_perplexity.errors import InputError
from beyond_perplexity.models.families import FAMILIES
from beyond_perplexity.options import parse_options
from beyond_perplexity.planning.latent_checks import require
from beyond_perplexity.planning.models import Models, SentenceSection, check_scored
from beyond_perplexity.planning.parameters import (
    Config,
    as_json,
    block_names,
    block_range,
    documents_are_sentences,
)
from beyond_perplexity.storage.fingerprint import fingerprint

_FOLDER = "<results>/contrastive"
DIFFERENCES = "differences"  # the name of a file among those of models


class ContrastivePlan(SentenceSection):
    """The contrastive entropy of a validated configuration."""

    def __init__(self, config: Config, models: Models) -> None:
        super().__init__(config, models, "contrastive")

    def normalized(self) -> list[str]:
        """List those that have a likelihood, and so a perplexity."""
        return [name for name in self.models() if self._models.row(name).kind != "unnormalized"]

    def estimated(self) -> list[str]:
        """List those that have none, where it is estimated."""
        known = self.normalized() if self.options["partition"]["proposal"] else self.models()
        return [name for name in self.models() if name not in known]

    def describe(self) -> str:
        """Say in words how much is scored."""
        if not self.models():
            return "none"
        versions = sum(self._draws().values())
        return (
            f"{len(self.models())} models on {self.options['sentences']:,} sentences at most, each "
            f"as it is and {versions:,} times distorted"
        )

    # ---- what a shard is ----

    def _draws(self) -> dict[float, int]:
        """Return how often each level is drawn; the text itself, level 0, is none."""
        given = self.options
        found = {float(level): int(given["curve_draws"]) for level in given["curve"]}
        for level in given["levels"]:
            found[float(level)] = max(given["draws"], found.get(float(level), 0))
        return {level: number for level, number in found.items() if level > 0}

    def versions(self, draws: str) -> str:
        """Return the first draw and their number of every level in a block of draws, as JSON."""
        size = self.options["draws_per_shard"]
        found = {
            str(level): block_range(draws, number, size)
            for level, number in self._draws().items()
            if number > int(draws) * size
        }
        return as_json(found if int(draws) else {"0.0": [0, 1], **found})

    def substitutes(self, model: str) -> list[str]:
        """List the vocabulary that substitutes come from; none where they are those of the text."""
        if _from_text(self.options):
            return []
        corpus = self._models.corpus(model)
        name = self.options["vocabulary"] or _first_closed(self._config, corpus)
        return [f"<results>/vocabularies/{corpus}/{name}.json"]

    # ---- files ----

    def score_files(self, model: str) -> list[str]:
        """List the shards of a model, blocks of sentences by blocks of draws."""
        number = max(self._draws().values(), default=1)
        draws = block_names(number, self.options["draws_per_shard"])
        folder = f"{_FOLDER}/{self._models.corpus(model)}/scores/{model}"
        return [f"{folder}/{block}-{part}.parquet" for block in self.blocks() for part in draws]

    def files(self) -> list[str]:
        """List all that is measured: of models, of their differences, and of pairs."""
        found = [f"{_FOLDER}/{self._models.corpus(m)}/{m}.parquet" for m in self.models()]
        found += [f"<results>/partitions/{model}.parquet" for model in self.estimated()]
        for corpus in self.corpora():
            if len(self.models(corpus)) > 1:
                found.append(f"{_FOLDER}/{corpus}/{DIFFERENCES}.parquet")
        for name in self.options["pairs"]:
            found += [f"{_FOLDER}/pairs/{name}/{model}.parquet" for model in self.models()]
        return found

    def partition_code(self, model: str) -> str:
        """Return the fingerprint of the code that estimates a model's partition function."""
        families = {*self._models.code(model)}
        families |= {*self._models.code(self.options["partition"]["proposal"])}
        return fingerprint("scripts/estimate_partition.py", *sorted(families))

    def partition_options(self) -> str:
        """Return how partition functions are estimated, as JSON."""
        names = (field.name for field in fields(PartitionOptions))
        return as_json({name: self.options["partition"][name] for name in names})

    def pairs_flag(self, pairs: str) -> list[str]:
        """Return the flag that says that brought pairs are cleaned already, where they are."""
        return ["--tokenized"] if self.options["pairs"][pairs]["tokenized"] else []


def _share_sentences(config: Config) -> None:
    """Let models of sentences be trained, in place, on what is a sentence when they are scored."""
    for model in config["models"].values():
        if FAMILIES[model["family"]].kind != "unnormalized":
            continue
        if documents_are_sentences(config, "contrastive", model["corpus"]):
            model["training"].setdefault("sentences", "documents")


def _from_text(options: Mapping[str, Any]) -> bool:
    found = parse_options(
        DistortionOptions, options["distortion"], "config: contrastive.distortion"
    )
    return found.substitutes == "text"


def _first_closed(config: Config, corpus: str) -> str | None:
    """Name the closed vocabulary of the first listed model of a corpus that has one."""
    for name in config["contrastive"]["models"]:
        model = config["models"][name]
        vocabulary: str | None = model.get("vocabulary")
        if model["corpus"] != corpus or not vocabulary:
            continue
        if config["vocabularies"][vocabulary]["kind"] == "closed":
            return vocabulary
    return None


def check_contrastive(config: Config) -> None:
    """Check section ``contrastive``; models of sentences are told, in place, what is a sentence."""
    given = config["contrastive"]
    _share_sentences(config)
    from_text = _from_text(given)
    check_scored(config, "contrastive", [DIFFERENCES], [given["split"]])
    for name in given["models"]:
        family = config["models"][name]["family"]
        if FAMILIES[family].kind == "latent":
            raise InputError(
                f"contrastive.models: '{name}' ({family}) has latent variables, its scores are "
                "estimates; remove it"
            )
    if given["vocabulary"] is not None:
        key, name = "contrastive.vocabulary", given["vocabulary"]
        require(key, name, config["vocabularies"], "vocabulary")
        if config["vocabularies"][name]["kind"] != "closed":
            raise InputError(
                f"{key}: '{name}' has parts of words; substitutes are words: name a closed one"
            )
    elif not from_text:
        for corpus in {config["models"][name]["corpus"] for name in given["models"]}:
            if _first_closed(config, corpus) is None:
                raise InputError(
                    f"contrastive.vocabulary: no listed model of {corpus} has a closed vocabulary "
                    "to take substitutes from; name one, or set distortion.substitutes: text"
                )
    levels = [*given["levels"], *given["curve"]]
    if given["models"] and given["base_level"] not in levels:
        raise InputError(
            f"contrastive.base_level: {given['base_level']:g} is not among the levels; add it to "
            "contrastive.levels"
        )
    _check_proposal(config)


def _check_proposal(config: Config) -> None:
    """Check that the proposal has a likelihood and the vocabulary of the models it is for."""
    given, key = config["contrastive"], "contrastive.partition.proposal"
    name = given["partition"]["proposal"]
    if name is None:
        return
    require(key, name, config["models"], "model")
    proposal = config["models"][name]
    if FAMILIES[proposal["family"]].kind not in ("counted", "trained"):
        raise InputError(f"{key}: '{name}' ({proposal['family']}) is no language model of the run")
    for other in given["models"]:
        model = config["models"][other]
        same = all(model.get(part) == proposal.get(part) for part in ("corpus", "vocabulary"))
        if FAMILIES[model["family"]].kind == "unnormalized" and not same:
            raise InputError(
                f"{key}: '{name}' has another corpus or vocabulary than '{other}'; name a language "
                "model that shares both"
            )
