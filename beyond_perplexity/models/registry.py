"""Classes of models and proposals by the name of their family."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from beyond_perplexity.errors import InputError
from beyond_perplexity.models.contract import LanguageModel, TrainedModel
from beyond_perplexity.models.families import reference


def find(family: object) -> type[TrainedModel]:
    """Return the class of a family.

    Raises
    ------
    InputError
        When there is no such family.
    """
    module, name = reference(family)
    found: type[TrainedModel] = getattr(importlib.import_module(module), name)
    return found


def find_language_model(family: object) -> type[LanguageModel]:
    """Return the class of a family whose likelihood is tractable.

    Raises
    ------
    InputError
        When there is no such family, or it has latent variables.
    """
    found = find(family)
    if not issubclass(found, LanguageModel):
        raise InputError(f"family: {family!r} has latent variables; its likelihood is estimated")
    return found


def build(
    config: Mapping[str, Any], vocabulary_size: int, open_vocabulary: bool = False
) -> LanguageModel:
    """Make an untrained model.

    Parameters
    ----------
    config : dict
        ``family`` (a key of `FAMILIES`) and ``architecture`` (options of that family); other keys,
        such as ``training``, are of no concern here.
    vocabulary_size : int
        V, all ids included.
    open_vocabulary : bool
        The vocabulary has no unknown words (BPE): ``<unk>`` gets no probability.

    Raises
    ------
    InputError
        When the family or an option is unknown or wrong.
    """
    made: LanguageModel = find_language_model(config.get("family"))(
        vocabulary_size=vocabulary_size,
        architecture=config.get("architecture", {}),
        open_vocabulary=open_vocabulary,
    )
    return made
