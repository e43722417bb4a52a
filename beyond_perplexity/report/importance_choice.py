"""Which estimate speaks for a latent model: one that the numbers it stands among did not choose."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

import pandas as pd

from beyond_perplexity.errors import NothingToShowError
from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.importance.bound_claims import finite_bounds
from beyond_perplexity.importance.estimate_wording import (
    method_cell,
    sampling_error,
    temperature_cell,
)
from beyond_perplexity.importance.estimator import STOCHASTIC, STRICT
from beyond_perplexity.report.layout import Column, Table

# What an estimate is of: equal in a row of the test split and in one of the validation split.
ESTIMATE_KEYS = ("model", "proposal", "method", "temperature", "beam_size")
_FREE_KEYS = list(ESTIMATE_KEYS[:3])  # without what may be chosen
BY_VALIDATION = "the validation split"
BY_NOTHING = "nothing: it is the only one"
_SPEAKING = "Speaks for the model"
_CHOICE_NOTE = (
    "Upper bounds at instance level. What needs no choice has no temperature and no size that "
    "the numbers of this split could have chosen: its bounds hold in expectation. "
    f"{_SPEAKING}: the setting that is lowest on {BY_VALIDATION} where that was drawn from as "
    "well (importance.choose: validation), which keeps the bound; else the lowest of those "
    "that need no choice, which is one in expectation only where there is one alone. What has no "
    "effective samples (beam plus sampled tail) cannot say how far to trust it, and is not chosen."
)


def estimate_key(row: dict[Hashable, Any]) -> tuple[str, ...]:
    """Return what an estimate is of, `ESTIMATE_KEYS`; null and NaN are alike."""
    return tuple("" if pd.isna(row[name]) else str(row[name]) for name in ESTIMATE_KEYS)


def without_choice(bounds: pd.DataFrame) -> pd.DataFrame:
    """Keep the estimates of one setting alone: no temperature, no size was chosen for them.

    These are the mixture over temperatures, sequential Monte Carlo, and plain samples of a proposal
    with one temperature.
    """
    counts = bounds.groupby(_FREE_KEYS, dropna=False)["value"].transform("size")
    return bounds[counts == 1]


def _trusted(estimates: pd.DataFrame) -> pd.DataFrame:
    """Keep the bounds that say how far to trust them: that have effective samples."""
    bounds = finite_bounds(estimates, [STOCHASTIC])
    return bounds[bounds["ess_median"].notna()]


def choose_estimates(estimates: pd.DataFrame, choices: pd.DataFrame | None) -> pd.DataFrame:
    """Choose the estimate that speaks for each model, among those that say how far to trust them.

    It is the setting that is lowest on the validation split (`choices`), which stays a bound in
    expectation. Without, it is the lowest of those that need no choice of a temperature or a size:
    of several it is chosen by its own numbers, and ``chosen_by`` says so. A model without a finite
    stochastic bound, or none that was also estimated on validation, has no row.
    """
    bounds, found = _trusted(estimates), []
    known = None if choices is None else _trusted(choices)
    for model in dict.fromkeys(estimates["model"]):
        own = bounds[bounds["model"] == model]
        if known is None:
            free = without_choice(own)
            chosen_by = BY_NOTHING if len(free) == 1 else f"itself, the lowest of {len(free)}"
            place = None if free.empty else free["value"].idxmin()
        else:
            place, chosen_by = _by_validation(own, known), BY_VALIDATION
        if place is not None:
            found.append(estimates.loc[[place]].assign(chosen_by=chosen_by))
    if not found:
        raise NothingToShowError(_unbounded(estimates["model"].unique()))
    return pd.concat(found, ignore_index=True)


def _unbounded(models: Iterable[str]) -> str:
    said = "no estimate has a finite bound; draw more samples"
    return f"{', '.join(models) or 'the models'}: {said}"


def models_left_out(estimates: pd.DataFrame, chosen: pd.DataFrame) -> str:
    """Name the models for which no estimate could be chosen, in a sentence of a note."""
    held = set(chosen["model"])
    lacking = [model for model in estimates["model"].unique() if model not in held]
    return f" Left out: {_unbounded(lacking)}." if lacking else ""


def _by_validation(own: pd.DataFrame, choices: pd.DataFrame) -> Any:
    """Return the place of the estimate that is lowest on the validation split."""
    values = {estimate_key(row): row["value"] for row in choices.to_dict("records")}
    places = zip(own.index, map(estimate_key, own.to_dict("records")), strict=True)
    known = {place: values[key] for place, key in places if key in values}
    return min(known, key=lambda place: known[place]) if known else None


def _setting(row: dict[Hashable, Any]) -> list[str]:
    return [str(row["model"]), str(row["proposal"]), method_cell(row), temperature_cell(row)]


def _numbers(row: dict[Hashable, Any], valid: float | None) -> list[str]:
    error, source = sampling_error(row)
    known = [valid, row["value"], error]
    shown = ["–" if one is None or pd.isna(one) else f"{one:,.1f}" for one in known]
    return [*shown, source or "–"]


def _part(title: str, rows: pd.DataFrame, valid: dict[tuple[str, ...], float]) -> list[list[str]]:
    """Lay out the rows of a part of the table, whose title stands in the first of them."""
    found: list[list[str]] = []
    for row in rows.to_dict("records"):
        first = title if not found else ""
        numbers = _numbers(row, valid.get(estimate_key(row)))
        found.append([first, *_setting(row), *numbers, row.get("chosen_by", "–")])
    return found


def choice_table(estimates: pd.DataFrame, choices: pd.DataFrame | None, labels: Labels) -> Table:
    """Lay out first what needs no choice, then what the validation split chooses, then strict."""
    bounds = finite_bounds(estimates, [STOCHASTIC])
    by_value = ["model", "value"]
    free = without_choice(bounds).sort_values(by_value, kind="stable")
    chosen = choose_estimates(estimates, choices)
    values = (
        {}
        if choices is None
        else {
            estimate_key(row): float(row["value"])
            for row in finite_bounds(choices, [STOCHASTIC]).to_dict("records")
        }
    )
    strict = finite_bounds(estimates, [STRICT]).sort_values(by_value, kind="stable")
    least = strict.drop_duplicates("model").assign(
        chosen_by="itself: the least strict bound is one"
    )
    rows = [
        *_part("Needs no choice", free, values),
        *_part(_SPEAKING, chosen, values),
        *_part("Least strict bound", least, values),
    ]
    columns = [
        *(Column(title, text=True) for title in ("", "Model", "Proposal", "Method", "τ")),
        Column("on validation", group="Perplexity"),
        Column("on this split", group="Perplexity"),
        Column("± over samples", group="Perplexity"),
        Column("by", group="Perplexity", text=True),
        Column("Chosen by", text=True),
    ]
    whole = pd.concat([free, chosen, least], keys=["no choice", "speaks", "strict"], names=["part"])
    return Table(
        "importance-choice",
        "Which number to report",
        _CHOICE_NOTE + models_left_out(estimates, chosen),
        columns,
        rows,
        whole.reset_index("part"),
    )
