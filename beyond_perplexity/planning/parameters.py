"""Values of a configuration as the parameters of a command."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pkgutil import resolve_name
from typing import Any

from beyond_perplexity.corpus.formats import SENTENCES
from beyond_perplexity.models.families import FAMILIES
from beyond_perplexity.planning.sections import Nothing, defaults_of, read_late, read_section

Config = Mapping[str, Any]


def as_json(value: object) -> str:
    """Write an option as canonical JSON, so that an equal value is an equal command."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def block_names(total: int, size: int) -> list[str]:
    """Name the blocks of so many; in a larger run those that were whole are the same."""
    return [f"{block:05d}" for block in range(-(-total // size))]


def block_range(block: str, total: int, size: int) -> list[int]:
    """Return the first of a block, and how many they are."""
    first = int(block) * size
    return [first, min(size, total - first)]


def base_corpus(config: Config, corpus: str) -> str:
    """Return the corpus that sentences are of, or a corpus itself."""
    return corpus if corpus in config["corpora"] else corpus.removesuffix(SENTENCES)


def split_unit(config: Config, corpus: str) -> str:
    """Return what the splits of a corpus keep whole: ``document`` or ``page``."""
    corpus = base_corpus(config, corpus)
    # Where the files say the splits, they keep the pages whole.
    unit: str = config["corpora"][corpus].get("split", {"unit": "page"})["unit"]
    return unit


def documents_are_sentences(config: Config, section: str, corpus: str) -> bool:
    """Return whether the documents of a corpus are sentences, as a section says."""
    given = config[section]["documents_are_sentences"]
    if isinstance(given, dict):
        given = given.get(corpus)
    source = config["corpora"][corpus]["source"]
    of_trees: bool = source["format"] == "penn" and source.get("document") == "tree"
    return of_trees if given is None else bool(given)


def with_defaults(options: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return options of a job, ``module:Dataclass``, with the defaults of those not given."""
    return {**defaults_of(resolve_name(options)), **given}


def without_defaults(options: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return options of a job without those that have their default anyway."""
    defaults = defaults_of(resolve_name(options))
    return {key: v for key, v in given.items() if key not in defaults or v != defaults[key]}


def architecture(model: Mapping[str, Any], where: str = "architecture") -> dict[str, Any]:
    """Check the architecture of a model or proposal and return it with its defaults."""
    options, given = FAMILIES[model["family"]].options, model.get("architecture", {})
    if options is None:
        read_section(Nothing, given, where)
        return {}
    return read_late(options, given, where)


_CAP = "maximum_"  # begins the name of an option of an architecture that is a cap
_PIECE = "maximum_length"  # of training, in which ``maximum_steps`` and the like are no caps


def caps(options: Mapping[str, Any]) -> list[str]:
    """Name the caps of a model of section ``models`` with their values, defaults among them.

    Such as ``training.maximum_length 512``. Latent models are trained on whole instances and
    counted ones are not trained in pieces: they have none of the latter, nor has one that is
    taken as it is.
    """
    family, given = options["family"], options.get("training", {})
    row = FAMILIES[family]
    held = architecture(options)
    found = {key: value for key, value in held.items() if key.startswith(_CAP)}
    if row.kind in ("trained", "unnormalized") or (row.kind == "brought" and given):
        training = with_defaults(row.training, given)
        if _PIECE in training:
            found[f"training.{_PIECE}"] = training[_PIECE]
    return [f"{key} {value}" for key, value in found.items()]
