"""Estimators at equal cost, and a line of advice for every model."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.importance.equal_cost import TARGET, bounds_with_costs
from beyond_perplexity.importance.estimate_wording import method_cell, temperature_cell
from beyond_perplexity.importance.estimator_registry import find_estimator
from beyond_perplexity.report.importance_choice import (
    choose_estimates,
    estimate_key,
    models_left_out,
)
from beyond_perplexity.report.layout import Column, Table

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


def _setting(row: dict[Any, Any]) -> list[str]:
    setting = [str(row["model"]), str(row["proposal"]), temperature_cell(row), method_cell(row)]
    return [*setting, _size(row)]


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
            *_setting(row),
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
