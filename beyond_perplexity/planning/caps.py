"""The options of models that leave out or cut what is longer, or more: they shape every number."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from beyond_perplexity.models.families import FAMILIES
from beyond_perplexity.planning.defaults import with_defaults

_CAP = "maximum_"  # begins the name of an option of an architecture that is a cap
_PIECE = "maximum_length"  # of training, in which ``maximum_steps`` and the like are no caps


def caps(options: Mapping[str, Any]) -> list[str]:
    """Name the caps of a model with their values, also those that have their default.

    Parameters
    ----------
    options : mapping
        Of the model, in section ``models``.

    Returns
    -------
    list of str
        Such as ``maximum_entities 50`` and ``training.maximum_length 512``, in the order of the
        options. Latent models are trained on whole instances and counted ones are not trained in
        pieces: they have none of the latter, nor has a model that is taken as it is.
    """
    family, given = options["family"], options.get("training", {})
    row = FAMILIES[family]
    held = with_defaults(f"architecture-{family}", options.get("architecture", {}))
    found = {key: value for key, value in held.items() if key.startswith(_CAP)}
    if row.kind in ("trained", "unnormalized") or (row.kind == "brought" and given):
        training = with_defaults(row.training.partition(":")[2], given)
        if _PIECE in training:
            found[f"training.{_PIECE}"] = training[_PIECE]
    return [f"{key} {value}" for key, value in found.items()]
