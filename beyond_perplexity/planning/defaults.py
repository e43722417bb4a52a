"""The defaults of options, out of the schema: the modules that read them are not imported."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import yaml

from beyond_perplexity.storage.fingerprint import ROOT


@cache
def _definitions() -> Mapping[str, Any]:
    text = (ROOT / "rules" / "config.schema.yaml").read_text(encoding="utf-8")
    found: Mapping[str, Any] = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))[
        "$defs"
    ]
    return found


def with_defaults(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return options with the defaults of their definition in the schema of configurations.

    Parameters
    ----------
    name : str
        The definition, as ``TrainingOptions`` or that of a family's architecture; where there is no
        such, nothing is added.
    given : mapping
        The options that are given.
    """
    return {**_defaults(name), **given}


def without_defaults(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return options without those that have the default of their definition anyway."""
    defaults = _defaults(name)
    return {key: v for key, v in given.items() if key not in defaults or v != defaults[key]}


def _defaults(name: str) -> dict[str, Any]:
    properties = _definitions().get(name, {}).get("properties", {})
    return {
        key: held.get("x-default", held.get("default"))
        for key, held in properties.items()
        if "x-default" in held or "default" in held
    }
