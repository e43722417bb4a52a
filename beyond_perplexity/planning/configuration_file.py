"""A configuration as it is read and checked, and its values as the parameters of commands."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import yaml

from beyond_perplexity.corpus.formats import EMBEDDED, SENTENCES, SIDE_FILES
from beyond_perplexity.errors import InputError
from beyond_perplexity.models.families import FAMILIES
from beyond_perplexity.options import LARGEST_NUMBER
from beyond_perplexity.planning.sections import Nothing, defaults_of, read_late, read_section
from beyond_perplexity.semantics.evaluators.families import evaluator_locations
from beyond_perplexity.storage.inputs import is_url, read_utf8, without_secrets

Config = Mapping[str, Any]


def read_configuration(path: str | Path) -> dict[str, Any]:
    """Read a configuration as it stands; what aliases repeat for ever is refused."""
    try:
        config = yaml.safe_load(read_utf8(path))
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        said = " ".join(str(error).split())
        raise InputError(f"{path}: cannot be read as YAML ({said}); correct it") from error
    if not isinstance(config, dict):
        raise InputError(f"{path}: is no configuration; it should be a YAML mapping")
    check_values(config)
    return config


DEEPEST = 100  # mappings and lists in each other
MOST_VALUES = 100_000

_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_SNAKEMAKE = re.compile(r"[{}<>]")


def check_values(config: Config) -> None:
    """Refuse what no key can be: NaN, infinity, numbers beyond 64 bits, control characters."""
    for number, (key, value) in enumerate(_values(config, "", 0)):
        if number > MOST_VALUES:
            fault = f"the configuration has more than {MOST_VALUES:,} values"
            advice = f"with its aliases (*name) written out, {fault}"
            raise InputError(f"config: {key}: {advice}; let aliases not repeat each other")
        if isinstance(value, float) and not math.isfinite(value):
            raise InputError(f"config: {key}: is {value}, expected a finite number")
        if isinstance(value, int) and abs(value) > LARGEST_NUMBER:
            raise InputError(f"config: {key}: is beyond 64 bits; give a smaller number")
        if isinstance(value, str) and (found := _CONTROL.search(value)):
            raise InputError(
                f"config: {key}: {value[:80]!r} has the control character {found[0]!r}; remove it"
            )


def _values(value: Any, key: str, depth: int) -> Iterator[tuple[str, Any]]:
    """List nested mappings and lists, their keys and their values, each with its path."""
    if depth > DEEPEST:
        raise InputError(f"config: {key[:80]}…: is nested more than {DEEPEST} deep; flatten it")
    yield key, value
    if isinstance(value, Mapping):
        for name, item in value.items():
            path = f"{key}.{name!s:.80}".lstrip(".")
            if isinstance(name, str):
                yield ascii(path)[1:-1] if _CONTROL.search(path) else path, name
            yield from _values(item, path, depth + 1)
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value):
            yield from _values(item, f"{key}.{number}", depth + 1)


def check_path(key: str, path: str) -> None:
    """Refuse a path that no rule can name."""
    if not path.strip():
        raise InputError(f"config: {key}: is blank; give a path")
    if is_url(path):
        advice = "give it as {url: …, sha256: …}, so that what was fetched can be checked"
        raise InputError(f"config: {key}: {without_secrets(path)!r:.200} is a URL; {advice}")
    if found := _SNAKEMAKE.search(path):
        detail = "by which Snakemake marks what is filled in; rename the file or folder"
        raise InputError(f"config: {key}: {path!r:.200} has the character {found[0]}, {detail}")


def check_paths(config: Config) -> None:
    """Refuse paths and URLs that no rule can name; see `check_path`."""
    for key, location in locations(config):
        if not isinstance(location, Mapping):
            check_path(key, location.removeprefix(EMBEDDED))
            continue
        if without_secrets(location["url"]) != location["url"]:
            fault = "has a password, a key or a token, which the log and the results would show"
            advice = "fetch the file by hand and give its path, or put the password in ~/.netrc"
            raise InputError(f"config: {key}.url: {fault}; {advice}")
        for part in ("url", "member"):
            if found := _SNAKEMAKE.search(location.get(part, "")):
                fault = f"has the character {found[0]}, by which Snakemake marks what is filled in"
                advice = "write it as its percent code, or fetch the file by hand"
                raise InputError(f"config: {key}.{part}: {fault}; {advice}")


def locations(config: Config) -> Iterator[tuple[str, Any]]:
    """List all paths and URLs of a configuration with their keys."""
    yield from ((f"pathvars.{name}", folder) for name, folder in config.get("pathvars", {}).items())
    for name, corpus in config["corpora"].items():
        yield from source_locations(f"corpora.{name}.source", corpus["source"])
    for section, named in (
        ("external_samples", config["external_samples"]),
        ("contrastive.pairs", config["contrastive"]["pairs"]),
        ("semantics.human_scores", config["semantics"]["human_scores"]),
        ("thoughts", config["thoughts"]),
    ):
        yield from ((f"{section}.{name}.path", held["path"]) for name, held in named.items())
    for name, evaluator in config["evaluators"].items():
        yield from ((f"evaluators.{name}", place) for place in evaluator_locations(evaluator))
    yield "tendencies.stop_words", config["tendencies"]["stop_words"]


def source_locations(key: str, source: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """List every file of a corpus with its key: its texts and what lies beside them."""
    given = source["paths"]
    for split, held in given.items() if isinstance(given, Mapping) else [("", given)]:
        place = f"{key}.paths.{split}".rstrip(".")
        yield from ((f"{place}.{number}", location) for number, location in enumerate(held))
    yield from ((f"{key}.{option}", source[option]) for option in SIDE_FILES if option in source)


def require(key: str, name: str, known: Iterable[str], kind: str) -> None:
    """Raise `InputError` unless a name that a key gives is among those defined."""
    known = list(known)
    if name not in known:
        raise InputError(f"{key}: no {kind} is named '{name}'; defined are {', '.join(known)}")


# ---- values as the parameters of commands ----


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
    """Name the caps of a model with their values, such as ``training.maximum_length 512``."""
    family, given = options["family"], options.get("training", {})
    row = FAMILIES[family]
    held = architecture(options)
    found = {key: value for key, value in held.items() if key.startswith(_CAP)}
    if row.kind in ("trained", "unnormalized") or (row.kind == "external" and given):
        training = with_defaults(row.training, given)
        if _PIECE in training:
            found[f"training.{_PIECE}"] = training[_PIECE]
    return [f"{key} {value}" for key, value in found.items()]
