"""Classes and functions of the families, loaded by the names in their rows."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from pkgutil import resolve_name
from types import ModuleType
from typing import Any, cast

from beyond_perplexity.errors import InputError
from beyond_perplexity.models.contract import LanguageModel, TrainedModel
from beyond_perplexity.models.families import FAMILIES, find_row, is_worked_out


def find(family: object) -> type[TrainedModel]:
    """Return the class of a family, if it has one."""
    row = find_row(family)
    if row.reference is None:
        how = "worked out from" if is_worked_out(family) else "trained within"
        raise InputError(f"family: {family!r} is {how} its model, not by itself")
    return cast(type[TrainedModel], resolve_name(row.reference))


def find_language_model(family: object) -> type[LanguageModel]:
    """Return the class of a family whose likelihood is tractable."""
    found = find(family)
    if not issubclass(found, LanguageModel):
        lack = "has latent variables" if found.normalized else "scores sentences, unnormalized"
        raise InputError(f"family: {family!r} {lack}; its likelihood is estimated")
    return found


def find_training(family: object) -> type[Any]:
    """Return the dataclass of the options of a family's training."""
    return cast(type[Any], resolve_name(find_row(family).training))


def find_optimal(family: object) -> type[Any] | None:
    """Return the class of a latent family's optimal proposal; None where it has none."""
    reference = find_row(family).optimal
    return cast(type[Any], resolve_name(reference)) if reference else None


def find_bring(family: object) -> Callable[..., Any] | None:
    """Return the function that brings a model of a family; None where none is brought."""
    reference = find_row(family).bring
    return cast(Callable[..., Any], resolve_name(reference)) if reference else None


def find_engines(family: str) -> ModuleType | None:
    """Return the module with a family's own decoding engines; None: the common ones are taken."""
    row = FAMILIES.get(family)
    return importlib.import_module(row.engines) if row and row.engines else None


def build(
    config: Mapping[str, Any], vocabulary_size: int, open_vocabulary: bool = False
) -> LanguageModel:
    """Make an untrained model.

    Where the vocabulary is open (BPE), ``<unk>`` gets no probability.
    """
    kind: Callable[..., LanguageModel] = find_language_model(config.get("family"))
    return kind(vocabulary_size, config.get("architecture", {}), open_vocabulary)
