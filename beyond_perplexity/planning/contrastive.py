"""What the rules look up for contrastive entropy: models, shards, files; and what is checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from itertools import chain, product
from typing import Any

from beyond_perplexity.contrastive import PartitionOptions
from beyond_perplexity.corpus.distortions import DistortionOptions
from beyond_perplexity.errors import InputError
from beyond_perplexity.models.families import FAMILIES
from beyond_perplexity.options import parse_options
from beyond_perplexity.planning import configuration_file
from beyond_perplexity.planning.models import Models, SentenceSection

_FOLDER = "<results>/contrastive"
CONTRAST_FILES = ("differences",)  # among those of models


class ContrastivePlan(SentenceSection):
    """The contrastive entropy of a validated configuration."""

    def __init__(self, config: configuration_file.Config, models: Models) -> None:
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
            str(level): configuration_file.block_range(draws, number, size)
            for level, number in self._draws().items()
            if number > int(draws) * size
        }
        return configuration_file.as_json(found if int(draws) else {"0.0": [0, 1], **found})

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
        draws = configuration_file.block_names(
            max(self._draws().values(), default=1), self.options["draws_per_shard"]
        )
        folder = f"{_FOLDER}/{self._models.corpus(model)}/scores/{model}"
        return [f"{folder}/{block}-{part}.parquet" for block in self.blocks() for part in draws]

    def measured(self, corpus: str) -> dict[str, list[str]]:
        """Return the tables of a corpus: of models, of their differences, of pairs and of log Z."""
        names, estimated = self.models(corpus), self.estimated()
        compared = CONTRAST_FILES if len(names) > 1 else ()
        pairs = product(self.options["pairs"], names)
        return {
            "contrasts": [f"{_FOLDER}/{corpus}/{name}.parquet" for name in names],
            "contrast_differences": [f"{_FOLDER}/{corpus}/{name}.parquet" for name in compared],
            "pair_contrasts": [f"{_FOLDER}/pairs/{of}/{name}.parquet" for of, name in pairs],
            "partitions": [f"<results>/partitions/{n}.parquet" for n in names if n in estimated],
        }

    def files(self) -> list[str]:
        """List all that is measured."""
        held = (self.measured(corpus).values() for corpus in self.corpora())
        return [*chain.from_iterable(chain.from_iterable(held))]

    def partition_options(self) -> str:
        """Return how partition functions are estimated, as JSON."""
        names = (field.name for field in fields(PartitionOptions))
        return configuration_file.as_json({name: self.options["partition"][name] for name in names})

    def pairs_flag(self, pairs: str) -> list[str]:
        """Return the flag that says that external pairs are cleaned already, where they are."""
        return ["--tokenized"] if self.options["pairs"][pairs]["tokenized"] else []


def _share_sentences(config: configuration_file.Config) -> None:
    """Let models of sentences be trained, in place, on what is a sentence when they are scored."""
    for model in config["models"].values():
        if FAMILIES[model["family"]].kind != "unnormalized":
            continue
        if configuration_file.documents_are_sentences(config, "contrastive", model["corpus"]):
            model["training"].setdefault("sentences", "documents")


def _from_text(options: Mapping[str, Any]) -> bool:
    given, where = options["distortion"], "config: contrastive.distortion"
    return parse_options(DistortionOptions, given, where).substitutes == "text"


def _first_closed(config: configuration_file.Config, corpus: str) -> str | None:
    """Name the closed vocabulary of the first listed model of a corpus that has one."""
    models = (config["models"][name] for name in config["contrastive"]["models"])
    own = (held.get("vocabulary") for held in models if held["corpus"] == corpus)
    kinds = {name: held["kind"] for name, held in config["vocabularies"].items()}
    return next((name for name in own if kinds.get(name) == "closed"), None)


def check_contrastive(config: configuration_file.Config) -> None:
    """Check section ``contrastive``; models of sentences are told, in place, what is a sentence."""
    given = config["contrastive"]
    _share_sentences(config)
    if not _from_text(given) and given["vocabulary"] is None:
        for corpus in {config["models"][name]["corpus"] for name in given["models"]}:
            if _first_closed(config, corpus) is None:
                fault = f"no listed model of {corpus} has a closed vocabulary"
                advice = "to take substitutes from; name one, or set distortion.substitutes: text"
                raise InputError(f"contrastive.vocabulary: {fault} {advice}")
    if given["models"] and given["base_level"] not in [*given["levels"], *given["curve"]]:
        fault = f"{given['base_level']:g} is not among the levels; add it to contrastive.levels"
        raise InputError(f"contrastive.base_level: {fault}")
    if given["models"] and given["parts_level"] is not None:
        if given["parts_level"] not in [*given["levels"], *given["curve"]]:
            fault = (
                f"{given['parts_level']:g} is not among the levels; add it to contrastive.levels"
            )
            raise InputError(f"contrastive.parts_level: {fault}")
        options = DistortionOptions(**given["distortion"])
        if options.substitutes == "text" or not options.keeps_length:
            fault = "parts need substitutes of a vocabulary, and neither deletion nor insertion"
            raise InputError(
                f"contrastive.parts_level: {fault}; change the distortion, or take null"
            )
    name = given["partition"]["proposal"]
    for other in given["models"] if name else ():
        model, proposal = config["models"][other], config["models"][name]
        same = all(model.get(part) == proposal.get(part) for part in ("corpus", "vocabulary"))
        if FAMILIES[model["family"]].kind == "unnormalized" and not same:
            fault = f"'{name}' has another corpus or vocabulary than '{other}'"
            advice = "name a language model that shares both"
            raise InputError(f"contrastive.partition.proposal: {fault}; {advice}")
