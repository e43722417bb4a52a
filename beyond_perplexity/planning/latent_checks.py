"""What a configuration must have for its models with latent variables, before the first job."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from beyond_perplexity.corpus.formats import formats_giving
from beyond_perplexity.errors import InputError
from beyond_perplexity.importance.ways_to_draw import ReductionOptions
from beyond_perplexity.models.families import FAMILIES, Need
from beyond_perplexity.options import parse_options
from beyond_perplexity.planning.configuration_file import Config, architecture

LEAST_TEMPERATURE = 0.01  # scores divided by less leave the range of floating point
_AS_IT_IS = "an external model with latent variables is taken as it is"
LEAST_REPLICATES = 10  # of few samples; a density needs 8


class Requirement(NamedTuple):
    """A need of a family: its name, the `formats` that have it, section, key and value of corpora
    where a program or links made it (reports: `made`, else `held`), and advice."""

    what: str
    formats: tuple[str, ...]
    made_by: tuple[str, str, str]
    made: str
    held: str = "mentions of the corpus"
    advice: str = ""

    def is_made(self, corpus: Mapping[str, Any]) -> bool:
        """Return whether a corpus' annotation is made here."""
        section, key, value = self.made_by
        return bool(corpus.get(section, {}).get(key) == value)


_LINKS = ("source", "format", "mediawiki"), "entity chains of links, no coreference"
REQUIREMENTS: dict[Need, Requirement] = {
    "trees": Requirement(
        "trees",
        formats_giving("trees"),
        ("trees", "kind", "shallow"),
        "automatic trees (TextBlob's chunker)",
        "trees of the corpus",
        "; or let trees.kind: shallow make some",
    ),
    "mentions": Requirement("mentions", formats_giving("mentions"), *_LINKS),
    "graph": Requirement("a knowledge graph", formats_giving("graph"), *_LINKS),
}


def describe_annotation(needs: Iterable[Need], corpus: Mapping[str, Any]) -> str:
    """Say where the annotation comes from that a family needs of a corpus; each origin once."""
    held = [REQUIREMENTS[need] for need in needs]
    return ", ".join(dict.fromkeys(a.made if a.is_made(corpus) else a.held for a in held))


def _check_annotation(name: str, config: Config) -> None:
    """Refuse a model whose corpus lacks what it reads."""
    model = config["models"][name]
    family, corpus = model["family"], config["corpora"][model["corpus"]]
    form = corpus["source"]["format"]
    for annotation in (REQUIREMENTS[need] for need in FAMILIES[family].needs):
        if form not in annotation.formats and not annotation.is_made(corpus):
            raise InputError(
                f"models.{name}.corpus: {family} needs {annotation.what}, and '{model['corpus']}' "
                f"has none: its format is {form}; take one of {', '.join(annotation.formats)}"
                f"{annotation.advice}"
            )


def _check_family(name: str, proposal: Mapping[str, Any], model: Mapping[str, Any]) -> None:
    """Refuse a proposal that is none for its model."""
    own, family = proposal["family"], model["family"]
    if FAMILIES[family].kind != "latent":
        raise InputError(
            f"proposals.{name}.model: '{proposal['model']}' ({family}) has no latent variables"
        )
    allowed = FAMILIES[family].proposals
    if own not in allowed:
        raise InputError(f"proposals.{name}.family: of {family} it is one of {', '.join(allowed)}")
    for option, value in FAMILIES[own].asks.items():
        if model["architecture"].get(option) != value:
            fault = f"{own} needs architecture.{option}: {value} in models.{proposal['model']}"
            raise InputError(f"proposals.{name}.family: {fault}")


def _share_options(name: str, config: Config) -> None:
    """Give a proposal, in place, the options of its model that decide which latents there are."""
    proposal = config["proposals"][name]
    model = config["models"][proposal["model"]]
    own, held = proposal["architecture"], architecture(model)
    for option in FAMILIES[proposal["family"]].shares:
        wanted = held[option]
        if own.setdefault(option, wanted) != wanted:
            detail = f"but {wanted} in models.{proposal['model']}; leave it out here"
            raise InputError(f"proposals.{name}.architecture.{option}: is {own[option]}, {detail}")


def _check_reduction(config: Config) -> None:
    """Refuse, before hours of work, what leaves the report nothing to show; few samples get, in
    place, replicates of a tenth of them unless their size is given."""
    importance = config["importance"]
    chosen = importance["proposals"]
    if not (config["proposals"] if chosen is None else chosen):
        return
    tenth = max(1, importance["samples"] // LEAST_REPLICATES)
    if tenth < ReductionOptions.replicate_samples:
        importance["reduction"].setdefault("replicate_samples", tenth)
    where = "config: importance.reduction"
    reduction = parse_options(ReductionOptions, importance["reduction"], where)
    if reduction.replicate_samples > importance["samples"]:
        limit = f"above importance.samples, {importance['samples']}; lower it, or leave it out"
        size = f"importance.reduction.replicate_samples: is {reduction.replicate_samples}"
        raise InputError(f"{size}, {limit}")
    if reduction.subsets < 2:
        raise InputError("importance.reduction.subsets: the report needs at least 2")
    if not importance["beams"]:
        raise InputError("importance.beams: the report needs at least one size")


def _check_temperatures(where: str, temperatures: Iterable[float] | None) -> None:
    for value in temperatures or ():
        if not LEAST_TEMPERATURE <= value < math.inf:
            raise InputError(
                f"{where}: {value} is not a number from {LEAST_TEMPERATURE:g} up that is finite"
            )


def _check_training(key: str, training: Mapping[str, Any]) -> None:
    if training.get("scheduled_sampling", "none") != "none":
        fault = "is for models without latent variables; leave it out"
        raise InputError(f"{key}.training.scheduled_sampling: {fault}")


def _check_beside(name: str, config: Config) -> None:
    """Refuse a model that no latent model can be held against."""
    held, models = config["models"][name], config["models"].values()
    latent = [one for one in models if FAMILIES[one["family"]].kind == "latent"]
    keys = ("corpus", "vocabulary")
    if not any(all(one[key] == held.get(key) for key in keys) for one in latent):
        fault = f"no latent model has the corpus and the vocabulary of '{name}'; remove it"
        raise InputError(f"importance.beside: {fault}")


def check_latent_models(config: Config) -> None:
    """Check latent models and proposals, which get, in place, the options that both share."""
    for name, model in config["models"].items():
        if FAMILIES[model["family"]].kind == "latent":
            _check_annotation(name, config)
            _check_training(f"models.{name}", model["training"])
            if FAMILIES[model["family"]].bring and model["training"]:
                raise InputError(f"models.{name}.training: {_AS_IT_IS}; remove this key")
    importance = config["importance"]
    _check_temperatures("importance.temperatures", importance["temperatures"])
    smc = (importance["smc"] or {}).get("temperature", 1.0)
    _check_temperatures("importance.smc.temperature", [smc])
    for name, proposal in config["proposals"].items():
        if name in config["models"]:
            raise InputError(f"proposals.{name}: a model has this name too; rename one of them")
        _check_family(name, proposal, config["models"][proposal["model"]])
        _check_training(f"proposals.{name}", proposal["training"])
        _check_temperatures(f"proposals.{name}.temperatures", proposal["temperatures"])
        _share_options(name, config)
    _check_reduction(config)
    if importance["choose"] == "validation" and importance["split"] == "valid":
        raise InputError(
            "importance.choose: is validation, but importance.split is valid too; report another"
        )
    for name in importance["beside"] or []:
        _check_beside(name, config)
