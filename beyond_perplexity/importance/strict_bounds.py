"""Strict bounds beside the others: the least of a model, and what is worse than it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from beyond_perplexity.importance.estimators.contract import STOCHASTIC, STRICT

Key = tuple[str | None, str]


class LeastBound(NamedTuple):
    """The least strict bound of a measure of a model.

    Attributes
    ----------
    value : float
        The perplexity.
    proposal : str or None
        Whose beam it is.
    beam_size : int
    """

    value: float
    proposal: str | None
    beam_size: int

    @property
    def words(self) -> str:
        """Say where it is from."""
        of = f" of {self.proposal}" if self.proposal else ""
        return f"the beam of {self.beam_size}{of}"


def least_strict(rows: Iterable[Mapping[Any, Any]]) -> dict[Key, LeastBound]:
    """Find the least strict bound of each model and measure.

    Parameters
    ----------
    rows : iterable of mapping
        Rows of schema ``estimates``, of any models and proposals.

    Returns
    -------
    dict of (str or None, str) to LeastBound
        By model and measure. The least of strict bounds is one: no sample takes part in the choice.
    """
    found: dict[Key, LeastBound] = {}
    for row in rows:
        if row["bound"] != STRICT or not _is_number(row["value"]):
            continue
        key = row["model"], row["measure"]
        if key not in found or row["value"] < found[key].value:
            found[key] = LeastBound(row["value"], row["proposal"], int(row["beam_size"]))
    return found


def is_above_strict(row: Mapping[Any, Any], least: Mapping[Key, LeastBound]) -> LeastBound | None:
    """Return the strict bound that a stochastic bound of the same model and measure lies above.

    Parameters
    ----------
    row : mapping
        A row of schema ``estimates``.
    least : mapping
        From `least_strict`.

    Returns
    -------
    LeastBound or None
        None where there is none, or the row is no stochastic bound.
    """
    strict = least.get((row["model"], row["measure"]))
    if strict is None or row["bound"] != STOCHASTIC or row["value"] is None:
        return None
    return strict if row["value"] > strict.value else None


def _is_number(value: object) -> bool:
    return isinstance(value, float) and math.isfinite(value)
