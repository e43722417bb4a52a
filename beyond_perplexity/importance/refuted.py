"""Brackets that bidirectional Monte Carlo refutes: what fails on known latents claims nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from beyond_perplexity.importance.estimators.contract import TWO_SIDED, TWO_SIDED_UNSURE
from beyond_perplexity.importance.estimators.registry import find_estimator
from beyond_perplexity.importance.gaps import FAILS, gap_ranges

if TYPE_CHECKING:
    import pandas as pd

# By model, proposal, method and temperature: for each refuted number of samples how it fails.
Refuted = Mapping[tuple[Any, ...], Sequence[tuple[int, str]]]


def withdraw_claims(estimates: pd.DataFrame, gaps: pd.DataFrame | None) -> pd.DataFrame:
    """Take the claim from brackets whose setting fails on documents that the model generated.

    Weights that all miss the same latents agree with each other, and no diagnostic of theirs can
    tell; latents that are known can. The estimates of a proposal know of its own gaps already
    (`tables.estimates_table`); here those of other proposals refute it too.

    Parameters
    ----------
    estimates : pandas.DataFrame
        Schema ``estimates``, of any models and proposals.
    gaps : pandas.DataFrame or None
        Schema ``importance_gaps``, of the same; None where no document was simulated.

    Returns
    -------
    pandas.DataFrame
        The estimates, with what `withdrawn` changes.
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

    Returns
    -------
    dict
        Where brackets of the same setting, of as many samples or more, fail on simulated documents,
        ``bound`` is ``two-sided?`` and ``note`` begins with what was found. A mixture is refuted
        where all temperatures are that it is made of: their samples together must be as many.
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
    """Say of each setting, for which numbers of samples its bracket fails, and how.

    Parameters
    ----------
    gaps : iterable of mapping
        Rows of schema ``importance_gaps``.
    """
    rows = [row for row in gaps if _is_known(row.get("forward"))]
    found: dict[tuple[Any, ...], list[tuple[int, str]]] = {}
    for row, beside in zip(rows, gap_ranges(rows), strict=True):
        if not _is_known(row.get("bracket_low")):
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


def _is_known(value: Any) -> bool:
    return value is not None and value == value
