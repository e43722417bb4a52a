"""What a configuration must have for its models with latent variables, before the first job."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from beyond_perplexity.corpus.rows import formats_giving
from beyond_perplexity.errors import InputError
from beyond_perplexity.importance.options import ReductionOptions
from beyond_perplexity.options import parse_options
from beyond_perplexity.planning.importance import JOINT, LATENT_FAMILIES, PROPOSALS_OF

Config = dict[str, Any]

# Options of a model that decide which latents there are: its proposals have the same.
SHARED = {
    "entity-tagger": ("maximum_entities", "maximum_length"),
    "span-crf": ("minimum_words", "unknown_classes"),
    "discriminative-rnng": ("minimum_words", "unknown_classes", "maximum_open", "maximum_run"),
}
LEAST_TEMPERATURE = 0.01  # scores divided by less leave the range of floating point
ANNOTATION = {
    "rnng": ("trees", formats_giving("trees"), "; or let trees.kind: shallow make some"),
    "rnng-top-down": ("trees", formats_giving("trees"), "; or let trees.kind: shallow make some"),
    "entitynlm": ("mentions", formats_giving("mentions"), ""),
    "kglm": ("a knowledge graph", formats_giving("graph"), ""),
}


def require(key: str, name: str, known: Iterable[str], kind: str) -> None:
    """Raise `InputError` unless a name that a key gives is among those defined."""
    known = list(known)
    if name not in known:
        raise InputError(f"{key}: no {kind} is named '{name}'; defined are {', '.join(known)}")


def _check_annotation(name: str, config: Config) -> None:
    """Refuse a model whose corpus lacks what it reads."""
    model = config["models"][name]
    family, corpus = model["family"], config["corpora"][model["corpus"]]
    kind = config["vocabularies"][model["vocabulary"]]["kind"]
    if kind != "closed":
        raise InputError(
            f"models.{name}.vocabulary: '{model['vocabulary']}' is {kind}, but trees and mentions "
            "are over words; take a closed one"
        )
    what, formats, otherwise = ANNOTATION[family]
    automatic = what == "trees" and corpus.get("trees", {}).get("kind") == "shallow"
    if corpus["source"]["format"] not in formats and not automatic:
        raise InputError(
            f"models.{name}.corpus: {family} needs {what}, and '{model['corpus']}' has none: its "
            f"format is {corpus['source']['format']}; take one of {', '.join(formats)}{otherwise}"
        )


def _share_options(name: str, config: Config, definitions: Mapping[str, Any]) -> None:
    """Give a proposal, in place, the options of its model that decide which latents there are."""
    proposal = config["proposals"][name]
    model = config["models"][proposal["model"]]
    described = definitions.get(f"architecture-{model['family']}", {}).get("properties", {})
    own = proposal["architecture"]
    for option in SHARED.get(proposal["family"], ()):
        default = described.get(option, {}).get("x-default")
        wanted = model["architecture"].get(option, default)
        if own.setdefault(option, wanted) != wanted:
            raise InputError(
                f"proposals.{name}.architecture.{option}: is {own[option]}, but {wanted} in "
                f"models.{proposal['model']}; leave it out here"
            )


def _check_reduction(config: Config) -> None:
    """Refuse, before hours of work, what leaves the report nothing to show."""
    importance = config["importance"]
    chosen = importance["proposals"]
    if not (config["proposals"] if chosen is None else chosen):
        return
    reduction = parse_options(
        ReductionOptions, importance["reduction"], "config: importance.reduction"
    )
    if reduction.replicate_samples > importance["samples"]:
        raise InputError(
            f"importance.reduction.replicate_samples: is {reduction.replicate_samples}, above "
            f"importance.samples, {importance['samples']}; lower it"
        )
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


def check_latent_models(config: Config, definitions: Mapping[str, Any]) -> None:
    """Check models with latent variables, proposals and importance sampling.

    Parameters
    ----------
    config : dict
        With all defaults; proposals get, in place, the options that they share with their models.
    definitions : dict
        The definitions of the schema, which know the defaults of the architectures.

    Raises
    ------
    InputError
        Names the key, what is wrong with it and what is allowed.
    """
    for name, model in config["models"].items():
        if model["family"] in LATENT_FAMILIES:
            _check_annotation(name, config)
    importance = config["importance"]
    _check_temperatures("importance.temperatures", importance["temperatures"])
    smc = (importance["smc"] or {}).get("temperature", 1.0)
    _check_temperatures("importance.smc.temperature", [smc])
    for name, proposal in config["proposals"].items():
        if name in config["models"]:
            raise InputError(f"proposals.{name}: a model has this name too; rename one of them")
        require(f"proposals.{name}.model", proposal["model"], config["models"], "model")
        family = config["models"][proposal["model"]]["family"]
        if family not in LATENT_FAMILIES:
            raise InputError(
                f"proposals.{name}.model: '{proposal['model']}' ({family}) has no latent variables"
            )
        if proposal["family"] not in PROPOSALS_OF[family]:
            allowed = ", ".join(PROPOSALS_OF[family])
            raise InputError(f"proposals.{name}.family: of {family} it is one of {allowed}")
        how = config["models"][proposal["model"]]["architecture"].get("training")
        if proposal["family"] == JOINT and how != "unsupervised":
            raise InputError(
                f"proposals.{name}.family: joint needs architecture.training: unsupervised in "
                f"models.{proposal['model']}"
            )
        _check_temperatures(f"proposals.{name}.temperatures", proposal["temperatures"])
        _share_options(name, config, definitions)
    _check_reduction(config)
    for name in config["importance"]["proposals"] or []:
        require("importance.proposals", name, config["proposals"], "proposal")
