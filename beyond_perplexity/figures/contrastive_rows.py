"""What tables and figures of contrastive entropy pick from its rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from beyond_perplexity.errors import InputError, NothingToShowError
from beyond_perplexity.models.families import FAMILIES
from beyond_perplexity.schemas.contrastive import SENTENCE_CROSS_ENTROPY
from beyond_perplexity.training.options import ContrastiveTrainingOptions

CONTRAST_UNITS = {"word": "per word", "sentence": "per sentence"}
# What a number of nats is divided by to be of another logarithm.
LOGARITHMS = {"bits": math.log(2), "log10": math.log(10)}

PAPER_LEVELS = (0.1, 0.3, 0.5)
_FEW = 4  # levels that a table has room for


def pick_contrasts(contrasts: pd.DataFrame, measure: str) -> pd.DataFrame:
    """Take the rows of a measure; of a level that has two, those with the most draws."""
    chosen = contrasts[contrasts["measure"] == measure]
    if chosen.empty:
        held = ", ".join(sorted(set(contrasts["measure"]))) or "none"
        raise NothingToShowError(f"the contrasts have no '{measure}' (they have: {held})")
    ordered = chosen.sort_values("draws", ascending=False, kind="stable")
    return ordered.drop_duplicates(["model", "unit", "level", "base_level"]).sort_index()


def normalized_models(contrasts: pd.DataFrame) -> set[str]:
    """Name the models that have a likelihood: those alone have a cross-entropy."""
    return set(contrasts.loc[contrasts["measure"] == SENTENCE_CROSS_ENTROPY, "model"])


def table_levels(levels: Sequence[float], paper: Sequence[float] = PAPER_LEVELS) -> list[float]:
    """Choose the levels that a table shows, without that of the text itself, 0.

    All where they are few; of a curve those of the paper, or as many from end to end.
    """
    found = sorted({float(level) for level in levels if level > 0})
    if len(found) <= _FEW:
        return found
    printed = [level for level in found if any(math.isclose(level, one) for one in paper)]
    places = np.linspace(0, len(found) - 1, len(paper)).round().astype(int)
    return printed or [found[place] for place in places]


class TrainedOn(NamedTuple):
    """How a model that is trained against distorted sentences was made: its row in the paper."""

    size: int
    margin: float


def training_margins(models: Mapping[str, Mapping[str, Any]]) -> dict[str, TrainedOn]:
    """Return latent size and training distortion of the models that are trained against distortion.

    Of other families (by ``model.json``) nothing is returned.
    """
    found = {}
    for name, model in models.items():
        row = FAMILIES.get(str(model.get("family")))
        if row is None or row.kind != "unnormalized":
            continue
        try:
            default = ContrastiveTrainingOptions.distortion
            margin = float(model["training"].get("distortion", default))
            found[name] = TrainedOn(int(model["config"]["architecture"]["size"]), margin)
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"the description of model '{name}' lacks {error}") from error
    return found


def shown_level(level: float) -> str:
    """Write a level of distortion in percent."""
    return f"{100 * level:.4g}%"
