"""Brackets that bidirectional Monte Carlo refutes: what fails on known latents claims nothing."""

from __future__ import annotations

from typing import Any

import pandas as pd

from beyond_perplexity.importance.estimators.contract import TWO_SIDED, TWO_SIDED_UNSURE
from beyond_perplexity.importance.gaps import FAILS, gap_ranges

_SETTING = ("model", "proposal", "method", "temperature")


def withdraw_claims(estimates: pd.DataFrame, gaps: pd.DataFrame | None) -> pd.DataFrame:
    """Take the claim from brackets whose setting fails on documents that the model generated.

    Weights that all miss the same latents agree with each other, and no diagnostic of theirs can
    tell; latents that are known can.

    Parameters
    ----------
    estimates : pandas.DataFrame
        Schema ``estimates``, of any models and proposals.
    gaps : pandas.DataFrame or None
        Schema ``importance_gaps``, of the same; None where no document was simulated.

    Returns
    -------
    pandas.DataFrame
        The estimates. Where a bracket of the same setting, of as many samples or more, fails on
        simulated documents, ``bound`` is ``two-sided?`` and ``note`` begins with what was found.
    """
    refuted = {} if gaps is None else _refuted(gaps)
    rows = estimates.reset_index(drop=True)
    for place, row in rows[rows["bound"].isin([TWO_SIDED, TWO_SIDED_UNSURE])].iterrows():
        key = row["model"], row["proposal"], row["basis"], row["temperature"]
        for n_samples, found in refuted.get(key, ()):
            if n_samples >= row["n_samples"]:
                rows.loc[place, ["bound", "note"]] = TWO_SIDED_UNSURE, f"{found}; {row['note']}"
                break
    return rows


def _refuted(gaps: pd.DataFrame) -> dict[tuple[Any, ...], list[tuple[int, str]]]:
    """Say of each setting, for which numbers of samples its bracket fails, and how."""
    rows = gaps[gaps["forward"].notna()].to_dict("records")
    found: dict[tuple[Any, ...], list[tuple[int, str]]] = {}
    for row, beside in zip(rows, gap_ranges(rows), strict=True):
        low, high = row["bracket_low"], row["bracket_high"]
        if beside.verdict(low, high) != FAILS:
            continue
        least, most = sorted((beside.below, beside.above))  # by their errors they may cross
        said = (
            f"on {row['n_documents']:.0f} simulated documents the bracket of this setting is "
            f"{low:.3f} to {high:.3f} nats a token and the truth is between {least:.3f} and "
            f"{most:.3f}, so nothing is claimed"
        )
        found.setdefault(tuple(row[name] for name in _SETTING), []).append((row["n_samples"], said))
    return found
