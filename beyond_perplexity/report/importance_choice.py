"""Which estimate speaks for a latent model, and what estimators are worth at equal cost.

It is one that the numbers it stands among did not choose.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from typing import Any

import pandas as pd

from beyond_perplexity.errors import NothingToShowError
from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.importance.estimate_wording import (
    TARGET,
    bounds_with_costs,
    finite_bounds,
    method_cell,
    sampling_error,
    temperature_cell,
)
from beyond_perplexity.importance.estimator import STOCHASTIC, STRICT
from beyond_perplexity.importance.ways_to_draw import find_estimator
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
        names = [str(row["model"]), str(row["proposal"]), method_cell(row), temperature_cell(row)]
        found.append([first, *names, *numbers, row.get("chosen_by", "–")])
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


COST_WORDS = (
    "An evaluation of p is a latent that log p(x, z) is asked of, one of q a latent and a proposal "
    "that log q(z | x) is asked of; a particle that goes through a text is one of each. Seconds "
    "are those of one core (processor time of all threads) or of one GPU, without reading models "
    "and corpus; they are measured and differ from run to run, on an idle machine by less than a "
    "tenth."
)
NEEDED = (
    f"K for ± {TARGET:g}: how many samples (of sequential Monte Carlo: runs of as many particles) "
    f"bring the standard error over samples to {TARGET:g} nats a token, as it falls with the root "
    "of their number; where the error is by bootstrap it may be too small, and that number is a "
    "least one (≥)."
)


def _size(row: dict[Any, Any]) -> str:
    if pd.isna(row["n_samples"]):
        return "–"
    return f"{row['n_samples']:,.0f}" + find_estimator(row["method"]).times.format_map(row)


def _needed(row: dict[Any, Any]) -> str:
    if math.isnan(row["needed"]):
        return "–"
    least = "≥ " if row["error_by"] == "bootstrap" else ""
    return f"{least}{row['needed']:,.0f}"


def _shown(value: float, form: str) -> str:
    return "–" if pd.isna(value) else format(value, form)


def costs_table(estimates: pd.DataFrame, costs: pd.DataFrame, labels: Labels) -> Table:
    """Lay out what every bound is worth and what it cost."""
    found = bounds_with_costs(estimates, costs)
    ordered = found.sort_values(["model", "gap"], kind="stable")
    rows = [
        [
            str(row["model"]),
            str(row["proposal"]),
            temperature_cell(row),
            method_cell(row),
            _size(row),
            str(row["bound"]),
            _shown(row["gap"], ".3f"),
            _shown(row["seconds"], ".3g"),
            f"{row['evaluations_p']:,}",
            f"{row['evaluations_q']:,}",
            _shown(row["error"], ".4f"),
            _needed(row),
        ]
        for row in ordered.to_dict("records")
    ]
    columns = [
        *(Column(title, text=True) for title in ("Model", "Proposal", "τ", "Method")),
        Column("K"),
        Column("Bound", text=True),
        Column("Gap, nats a token"),
        Column("seconds", group="Cost of an instance"),
        Column("of p", group="Cost of an instance"),
        Column("of q", group="Cost of an instance"),
        Column("Standard error, nats a token"),
        Column(f"K for ± {TARGET:g}"),
    ]
    note = (
        "Gap: to the best of all bounds of the model, which is chosen by these numbers, so that "
        f"its own gap of 0 is a little too good. {COST_WORDS} {NEEDED} A mixture has the cost of "
        "all temperatures; of beams that of the largest is charged to all: one search gives them."
    )
    title = "What bounds are worth and what they cost"
    return Table("importance-costs", title, note, columns, rows, ordered)


def _advice(row: dict[Any, Any]) -> str:
    """Say in a line which estimator to use for a model."""
    title = find_estimator(row["method"]).title
    degrees = "" if pd.isna(row["temperature"]) else f" at τ = {row['temperature']:g}"
    runs = not pd.isna(row["replicates"])
    needed = "more than can be told from these samples"
    if not math.isnan(row["needed"]):
        one = row["needed"] == 1
        needed = f"{_needed(row)} {'run' if runs else 'sample'}{'' if one else 's'}"
    return (
        f"{title} with {row['proposal']}{degrees}, K = {_size(row)}; "
        f"± {TARGET:g} nats a token takes {needed}"
    )


def advice_table(
    estimates: pd.DataFrame, costs: pd.DataFrame, choices: pd.DataFrame | None, labels: Labels
) -> Table:
    """Say in a line for each model which estimator, temperature and K to use."""
    found = bounds_with_costs(estimates, costs)
    known = {estimate_key(row): row for row in found.to_dict("records")}
    chosen = choose_estimates(estimates, choices)
    advised = [
        {**known[estimate_key(row)], "chosen_by": row["chosen_by"]}
        for row in chosen.to_dict("records")
    ]
    rows = [
        [
            str(row["model"]),
            _advice(row),
            _shown(row["gap"], ".3f"),
            _shown(row["error"], ".4f"),
            _shown(row["seconds"], ".3g"),
            str(row["chosen_by"]),
        ]
        for row in advised
    ]
    columns = [
        Column("Model", text=True),
        Column("Use", wraps=True, text=True),
        Column("Gap, nats a token"),
        Column("Standard error, nats a token"),
        Column("Seconds of an instance"),
        Column("Chosen by", text=True),
    ]
    note = (
        "The estimator that speaks for the model (see the table that chooses it); among those that "
        f"are as good the cheapest stands in the table of costs. {COST_WORDS} {NEEDED}"
        f"{models_left_out(estimates, chosen)}"
    )
    whole = pd.DataFrame([{**row, "advice": _advice(row)} for row in advised])
    return Table("importance-advice", "Which estimator to use", note, columns, rows, whole)
