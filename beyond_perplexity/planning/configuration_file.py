"""Reading a configuration where Snakemake does not: `plan`, `similarity`, and before a run."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from beyond_perplexity.corpus.formats import EMBEDDED, SIDE_FILES
from beyond_perplexity.errors import InputError
from beyond_perplexity.options import LARGEST_NUMBER
from beyond_perplexity.planning.parameters import Config
from beyond_perplexity.semantics.evaluators.families import evaluator_locations
from beyond_perplexity.storage.inputs import is_address, read_utf8, without_secrets


def read_configuration(path: str | Path) -> dict[str, Any]:
    """Read a configuration as it stands, without defaults.

    What aliases repeat for ever is refused here: Snakemake would copy it, for hours.
    """
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
            raise InputError(
                f"config: {key}: with its aliases (*name) written out, the configuration has more "
                f"than {MOST_VALUES:,} values; let aliases not repeat each other"
            )
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
    if is_address(path):
        raise InputError(
            f"config: {key}: {without_secrets(path)!r:.200} is an address; give it as {{url: …, "
            "sha256: …}, so that what was fetched can be checked"
        )
    if found := _SNAKEMAKE.search(path):
        raise InputError(
            f"config: {key}: {path!r:.200} has the character {found[0]}, by which Snakemake marks "
            "what is filled in; rename the file or folder"
        )


def check_paths(config: Config) -> None:
    """Refuse paths and addresses that no rule can name; see `check_path`."""
    for key, location in _locations(config):
        if not isinstance(location, Mapping):
            check_path(key, location.removeprefix(EMBEDDED))
            continue
        if without_secrets(location["url"]) != location["url"]:
            raise InputError(
                f"config: {key}.url: has a password, a key or a token, which the log and the "
                "results would show; fetch the file by hand and give its path, or give the "
                "password in ~/.netrc"
            )
        for part in ("url", "member"):
            if found := _SNAKEMAKE.search(location.get(part, "")):
                raise InputError(
                    f"config: {key}.{part}: has the character {found[0]}, by which Snakemake marks "
                    "what is filled in; write it as its percent code, or fetch the file by hand"
                )


def _locations(config: Config) -> Iterator[tuple[str, Any]]:
    """List all paths and addresses of a configuration with their keys."""
    for name, folder in config.get("pathvars", {}).items():
        yield f"pathvars.{name}", folder
    for name, corpus in config["corpora"].items():
        key, source = f"corpora.{name}.source", corpus["source"]
        paths = source["paths"]
        given = paths.items() if isinstance(paths, Mapping) else [("", paths)]
        for split, held in given:
            place = f"{key}.paths.{split}".rstrip(".")
            yield from ((f"{place}.{number}", location) for number, location in enumerate(held))
        yield from (
            (f"{key}.{option}", source[option]) for option in SIDE_FILES if source.get(option)
        )
    for section, named in (
        ("external_samples", config["external_samples"]),
        ("contrastive.pairs", config["contrastive"]["pairs"]),
        ("semantics.human_scores", config["semantics"]["human_scores"]),
    ):
        yield from ((f"{section}.{name}.path", held["path"]) for name, held in named.items())
    for name, evaluator in config["evaluators"].items():
        for location in evaluator_locations(evaluator):
            yield f"evaluators.{name}", location
    yield "tendencies.stop_words", config["tendencies"]["stop_words"]
