"""Bounds side by side: those that are finite, the least strict one, brackets that are refuted."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from beyond_perplexity.importance.bidirectional_gaps import FAILS, gap_ranges
from beyond_perplexity.importance.estimator import STOCHASTIC, STRICT, TWO_SIDED, TWO_SIDED_UNSURE
from beyond_perplexity.importance.estimator_registry import find_estimator, load_estimators

if TYPE_CHECKING:
    import pandas as pd

Key = tuple[str | None, str]  # model, measure
# By model, proposal, method and temperature: for each refuted number of samples how it fails.
Refuted = Mapping[tuple[Any, ...], Sequence[tuple[int, str]]]


def finite_bounds(
    estimates: pd.DataFrame, kinds: Collection[str] = (STOCHASTIC, STRICT)
) -> pd.DataFrame:
    """Keep the bounds, of `BOUNDS`, of perplexity at instance level that are finite.

    Rows of a method that is not known are left out.
    """
    return estimates[
        (estimates["aggregation"] == "instance")
        & (estimates["measure"] == "perplexity")
        & estimates["bound"].isin(list(kinds))
        & estimates["method"].isin(load_estimators())
        & np.isfinite(estimates["value"].astype(float))
    ]


class LeastBound(NamedTuple):
    """The least strict bound of a measure of a model: a perplexity, and whose beam it is."""

    value: float
    proposal: str | None
    beam_size: int

    @property
    def words(self) -> str:
        """Say where it is from."""
        of = f" of {self.proposal}" if self.proposal else ""
        return f"the beam of {self.beam_size}{of}"


def least_strict(rows: Iterable[Mapping[Any, Any]]) -> dict[Key, LeastBound]:
    """Find the least strict bound of each model and measure in rows of schema ``estimates``.

    The least of strict bounds is one: no sample takes part in the choice.
    """
    found: dict[Key, LeastBound] = {}
    for row in rows:
        value, key = row["value"], (row["model"], row["measure"])
        if row["bound"] != STRICT or not isinstance(value, float) or not math.isfinite(value):
            continue
        if key not in found or value < found[key].value:
            found[key] = LeastBound(value, row["proposal"], int(row["beam_size"]))
    return found


def is_above_strict(row: Mapping[Any, Any], least: Mapping[Key, LeastBound]) -> LeastBound | None:
    """Return the strict bound that a stochastic bound of the same model and measure lies above."""
    strict = least.get((row["model"], row["measure"]))
    if strict is None or row["bound"] != STOCHASTIC or row["value"] is None:
        return None
    return strict if row["value"] > strict.value else None


def withdraw_claims(estimates: pd.DataFrame, gaps: pd.DataFrame | None) -> pd.DataFrame:
    """Take the claim from brackets whose setting fails on documents that the model generated.

    Weights that all miss the same latents agree with each other, and no diagnostic of theirs can
    tell; latents that are known can. The estimates of a proposal know of its own gaps already
    (`reduction.estimates_table`); here those of other proposals refute it too. Tables are of
    schemas ``estimates`` and ``importance_gaps``, of any models and proposals.
    """
    refuted = {} if gaps is None else refuted_settings(gaps.to_dict("records"))
    rows = estimates.reset_index(drop=True)
    claimed = rows[rows["bound"].isin([TWO_SIDED, TWO_SIDED_UNSURE])]
    for place, row in zip(claimed.index, claimed.to_dict("records"), strict=True):
        for name, value in withdrawn(row, refuted).items():
            rows.loc[place, name] = value
    return rows


def withdrawn(row: Mapping[Any, Any], refuted: Refuted) -> dict[str, str]:
    """Return what changes in a row of schema ``estimates`` whose setting is refuted, if anything.

    Where brackets of the same setting, of as many samples or more, fail on simulated documents,
    ``bound`` is ``two-sided?`` and ``note`` begins with what was found. A mixture is refuted where
    all temperatures are that it is made of: their samples together must be as many.
    """
    pair = row["model"], row["proposal"]
    if pooled := find_estimator(row["basis"]).pools:
        held = [max(found) for key, found in refuted.items() if key[:3] == (*pair, pooled)]
        failing = [(sum(size for size, _ in held), held[0][1])] if held else []
    else:
        failing = list(refuted.get((*pair, row["basis"], row["temperature"]), ()))
    for n_samples, found in failing:
        if n_samples >= row["n_samples"] and not str(row["note"]).startswith(found):
            return {"bound": TWO_SIDED_UNSURE, "note": f"{found}; {row['note']}"}
    return {}


def refuted_settings(gaps: Iterable[Mapping[Any, Any]]) -> Refuted:
    """Say of each setting, for which numbers of samples its bracket fails, and how."""

    def known(value: Any) -> bool:
        return value is not None and value == value

    rows = [row for row in gaps if known(row.get("forward"))]
    found: dict[tuple[Any, ...], list[tuple[int, str]]] = {}
    for row, beside in zip(rows, gap_ranges(rows), strict=True):
        if not known(row.get("bracket_low")):
            continue
        low, high = row["bracket_low"], row["bracket_high"]
        if beside.verdict(low, high) != FAILS:
            continue
        least = f"at least {beside.surely_above:.3f}" if high < beside.surely_above else ""
        most = f"at most {beside.surely_below:.3f}" if low > beside.surely_below else ""
        said = (
            f"on {row['n_documents']:.0f} simulated documents the bracket of this setting is "
            f"{low:.3f} to {high:.3f} nats a token and the truth is {most or least}, so nothing is "
            "claimed"
        )
        key = row["model"], row["proposal"], row["method"], row["temperature"]
        found.setdefault(key, []).append((int(row["n_samples"]), said))
    return found
