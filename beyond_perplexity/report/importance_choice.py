"""Which estimate speaks for a latent model, one that the numbers it stands among did not choose,
and what estimators are worth at equal cost."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from beyond_perplexity.errors import NothingToShowError
from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.importance.bidirectional_gaps import GapRange, gap_ranges
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
from beyond_perplexity.report import layout

# What an estimate is of: equal in a row of the test split and in one of the validation split.
ESTIMATE_KEYS = ("model", "proposal", "method", "temperature", "beam_size")
_FREE_KEYS = list(ESTIMATE_KEYS[:3])  # without what may be chosen
BY_VALIDATION = "the validation split"
BY_NOTHING = "nothing: it is the only one"
_SPEAKING = "Speaks for the model"
_PARTS = {"no choice": "Needs no choice", "speaks": _SPEAKING, "strict": "Least strict bound"}
_TEXTS = layout.texts_beside(
    "importance_choice.toml", speaking=_SPEAKING, by_validation=BY_VALIDATION, target=TARGET
)
_CHOICE_NOTE = _TEXTS["choice_note"]
MODEL_COLUMN, PROPOSAL_COLUMN = layout.text_columns("Model", "Proposal")
TEMPERATURE_COLUMN = layout.Column("τ", text=True, of=temperature_cell)
METHOD_COLUMN = layout.Column("Method", text=True, of=method_cell)


def shown_size(row: Mapping[Any, Any]) -> str:
    """Write K of an estimate, and what else its estimator has it times."""
    if pd.isna(row["n_samples"]):
        return layout.EN_DASH
    return f"{row['n_samples']:,.0f}" + find_estimator(row["method"]).times.format_map(row)


def estimate_key(row: Mapping[Any, Any]) -> tuple[str, ...]:
    """Return what an estimate is of, `ESTIMATE_KEYS`; null and NaN are alike."""
    return tuple("" if pd.isna(row[name]) else str(row[name]) for name in ESTIMATE_KEYS)


def by_estimate(rows: pd.DataFrame) -> dict[tuple[str, ...], dict[Any, Any]]:
    """Return the rows of a table by `estimate_key`."""
    return {estimate_key(row): row for row in rows.to_dict("records")}


def without_choice(bounds: pd.DataFrame) -> pd.DataFrame:
    """Keep the estimates of one setting alone: no temperature, no size was chosen for them."""
    return bounds[bounds.groupby(_FREE_KEYS, dropna=False)["value"].transform("size") == 1]


def _trusted(estimates: pd.DataFrame) -> pd.DataFrame:
    """Keep the bounds that say how far to trust them: that have effective samples."""
    bounds = finite_bounds(estimates, [STOCHASTIC])
    return bounds[bounds["ess_median"].notna()]


def choose_estimates(estimates: pd.DataFrame, choices: pd.DataFrame | None) -> pd.DataFrame:
    """Choose each model's estimate: the lowest on the validation split (`choices`), which keeps the
    bound, else of those that need no choice (``chosen_by``); none without a finite bound."""
    bounds, found = _trusted(estimates), []
    known = None if choices is None else by_estimate(_trusted(choices))
    for model in dict.fromkeys(estimates["model"]):
        own, chosen_by = bounds[bounds["model"] == model], BY_VALIDATION
        if known is None:
            own = without_choice(own)
            values = own["value"]
            chosen_by = BY_NOTHING if len(own) == 1 else f"itself, the lowest of {len(own)}"
        else:
            keys = zip(own.index, map(estimate_key, own.to_dict("records")), strict=True)
            values = pd.Series({i: known[key]["value"] for i, key in keys if key in known})
        if len(values):
            found.append(estimates.loc[[values.idxmin()]].assign(chosen_by=chosen_by))
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


def choice_table(
    estimates: pd.DataFrame, choices: pd.DataFrame | None, labels: Labels
) -> layout.Table:
    """Lay out first what needs no choice, then what the validation split chooses, then strict."""
    by_value = ["model", "value"]
    bounds = finite_bounds(estimates, [STOCHASTIC])
    free = without_choice(bounds).sort_values(by_value, kind="stable")
    chosen = choose_estimates(estimates, choices)
    strict = finite_bounds(estimates, [STRICT]).sort_values(by_value, kind="stable")
    by_itself = "itself: the least strict bound is one"
    least = strict.drop_duplicates("model").assign(chosen_by=by_itself)
    whole = pd.concat([free, chosen, least], keys=_PARTS, names=["part"]).reset_index("part")
    known = {} if choices is None else by_estimate(finite_bounds(choices, [STOCHASTIC]))
    rows = [
        {
            **row,
            "title": _PARTS[row["part"]],
            "valid": known.get(estimate_key(row), {}).get("value"),
            "chosen_by": layout.EN_DASH if row["part"] == "no choice" else row["chosen_by"],
        }
        for row in whole.to_dict("records")
    ]
    columns = [
        layout.Column("", text=True, of="title"),
        *(MODEL_COLUMN, PROPOSAL_COLUMN, METHOD_COLUMN, TEMPERATURE_COLUMN),
        *layout.under(
            "Perplexity",
            layout.Column("on validation", of="valid", form=",.1f"),
            layout.Column("on this split", of="value", form=",.1f"),
            layout.Column("± over samples", of=lambda row: sampling_error(row)[0], form=",.1f"),
            layout.Column("by", text=True, of=lambda row: sampling_error(row)[1] or layout.EN_DASH),
        ),
        layout.Column("Chosen by", text=True, of="chosen_by"),
    ]
    note, title = _CHOICE_NOTE + models_left_out(estimates, chosen), "Which number to report"
    shown_rows = layout.without_repeats(rows, "title")
    return layout.lay_out("importance-choice", title, note, columns, shown_rows, whole)


COST_WORDS = _TEXTS["cost_words"]
NEEDED = _TEXTS["needed"]
_GAP_COLUMN = layout.Column("Gap, nats a token", of="gap", form=".3f")
_ERROR_COLUMN = layout.Column("Standard error, nats a token", of="error", form=".4f")


def _needed(row: Mapping[Any, Any]) -> str:
    if math.isnan(row["needed"]):
        return layout.EN_DASH
    least = "≥ " if row["error_by"] == "bootstrap" else ""
    return f"{least}{row['needed']:,.0f}"


def costs_table(estimates: pd.DataFrame, costs: pd.DataFrame, labels: Labels) -> layout.Table:
    """Lay out what every bound is worth and what it cost."""
    found = bounds_with_costs(estimates, costs)
    columns = [
        *(MODEL_COLUMN, PROPOSAL_COLUMN, TEMPERATURE_COLUMN, METHOD_COLUMN),
        layout.Column("K", of=shown_size),
        *layout.text_columns("Bound"),
        _GAP_COLUMN,
        layout.Column("seconds", "Cost of an instance", form=".3g"),
        layout.Column("of p", "Cost of an instance", of="evaluations_p", form=","),
        layout.Column("of q", "Cost of an instance", of="evaluations_q", form=","),
        _ERROR_COLUMN,
        layout.Column(f"K for ± {TARGET:g}", of=_needed),
    ]
    note = (
        "Gap: to the best of all bounds of the model, which is chosen by these numbers, so that "
        f"its own gap of 0 is a little too good. {COST_WORDS} {NEEDED} A mixture has the cost of "
        "all temperatures; of beams that of the largest is counted for all: one search gives them."
    )
    title = "What bounds are worth and what they cost"
    ordered = found.sort_values(["model", "gap"], kind="stable")
    return layout.lay_out("importance-costs", title, note, columns, ordered)


def _advice(row: Mapping[Any, Any]) -> str:
    """Say in a line which estimator to use for a model."""
    title = find_estimator(row["method"]).title
    degrees = "" if pd.isna(row["temperature"]) else f" at τ = {row['temperature']:g}"
    needed = "more than can be told from these samples"
    if not math.isnan(row["needed"]):
        unit = "sample" if pd.isna(row["replicates"]) else "run"
        needed = f"{_needed(row)} {unit}{'' if row['needed'] == 1 else 's'}"
    return (
        f"{title} with {row['proposal']}{degrees}, K = {shown_size(row)}; "
        f"± {TARGET:g} nats a token takes {needed}"
    )


def advice_table(
    estimates: pd.DataFrame, costs: pd.DataFrame, choices: pd.DataFrame | None, labels: Labels
) -> layout.Table:
    """Say in a line for each model which estimator, temperature and K to use."""
    known = by_estimate(bounds_with_costs(estimates, costs))
    chosen = choose_estimates(estimates, choices)
    records = chosen.to_dict("records")
    rows = [{**known[estimate_key(row)], "chosen_by": row["chosen_by"]} for row in records]
    rows = [{**row, "advice": _advice(row)} for row in rows]
    columns = [
        MODEL_COLUMN,
        layout.Column("Use", wraps=True, text=True, of="advice"),
        *(_GAP_COLUMN, _ERROR_COLUMN),
        layout.Column("Seconds of an instance", of="seconds", form=".3g"),
        layout.Column("Chosen by", text=True, of="chosen_by"),
    ]
    note = (
        "The estimator that speaks for the model (see the table that chooses it); among those that "
        f"are as good the cheapest stands in the table of costs. {COST_WORDS} {NEEDED}"
        f"{models_left_out(estimates, chosen)}"
    )
    return layout.lay_out("importance-advice", "Which estimator to use", note, columns, rows)


# ---- gaps on simulated documents ----


def gaps_report(gaps: pd.DataFrame, labels: Labels) -> layout.Table:
    """Lay out log p of simulated documents from both sides, for every setting."""
    held = gaps[gaps["forward"].notna()]
    if held.empty:
        raise NothingToShowError(
            "there are no gaps: every simulated document was cut at "
            "importance.bidirectional.maximum_words; raise it"
        )
    rows = held.to_dict("records")
    ranges = gap_ranges(rows)
    missed = int(held["n_missed"].sum())
    support = (
        f"Proposals gave q = 0 to the latents of {missed} documents, which no sample can find. "
        if missed
        else "No proposal gave q = 0 to the latents of a document. "
    )
    lacking = gaps.loc[~gaps["model"].isin(held["model"]), "model"]
    without = ", ".join(map(str, dict.fromkeys(lacking)))
    return layout.lay_out(
        "importance-gaps",
        "Gaps on documents that the models generated (bidirectional Monte Carlo)",
        "Nats per token. Cross-entropy at most: from log p̂ of draws; at least: from draws among "
        "which are the latents that the document was generated with, a draw from the posterior; in "
        "expectation the true value is between both. Gap: their difference ± its standard error "
        "over documents. It lacks: by how much the first may be off, against the best estimates of "
        "the model from above and from below, chosen by their own numbers. Two-sided: made of the "
        "draws alone, as on real documents; the last column says what the others show of it. "
        f"{support}Behind /: documents that were empty, or cut at "
        "importance.bidirectional.maximum_words, and do not count."
        + (f" Every document of {without} was cut or empty." if without else ""),
        _GAP_COLUMNS,
        [_gap_record(row, beside) for row, beside in zip(rows, ranges, strict=True)],
        held.assign(
            lacks_least=[one.least for one in ranges], lacks_most=[one.most for one in ranges]
        ),
    )


def _shown(value: float) -> str:
    if pd.isna(value) or value == -float("inf"):
        return layout.EN_DASH
    return "∞" if value == float("inf") else f"{value:.3f}"


def _gap_record(row: Mapping[Any, Any], beside: GapRange) -> dict[Any, Any]:
    """Write a setting: sizes, gap, and two-sided bounds with their claim, else dashes."""
    runs = f" × {row['runs']:.0f}" if row["runs"] > 1 else ""
    cut = f"/{row['n_cut']:.0f}" if row["n_cut"] else ""
    error = "" if pd.isna(row["gap_error"]) else f" ± {row['gap_error']:.3f}"
    ends = [row["two_sided_low"], row["two_sided_high"]]
    two_sided = [layout.EN_DASH] * 3
    if not (pd.isna(ends[0]) or pd.isna(row["two_sided_bound"])):
        verdict = beside.verdict(*map(float, ends))
        two_sided = [" to ".join(map(_shown, ends)), str(row["two_sided_bound"]), verdict]
    return {
        **row,
        "title": find_estimator(row["method"]).title,
        "k": f"{row['n_samples']:,.0f}{runs}",
        "documents": f"{row['n_documents']:.0f}{cut}",
        "gap": _shown(row["gap"]) + error,
        "least": max(beside.least, 0.0),
        "most": beside.most,
        **dict(zip(("two_sided", "label", "said"), two_sided, strict=True)),
    }


_GAP_COLUMNS = [
    *(MODEL_COLUMN, PROPOSAL_COLUMN, TEMPERATURE_COLUMN),
    *layout.text_columns("Method", of="title"),
    layout.Column("K"),
    layout.Column("Documents"),
    layout.Column("at least", "Cross-entropy", of="reverse", form=_shown),
    layout.Column("at most", "Cross-entropy", of="forward", form=_shown),
    layout.Column("gap", "Cross-entropy"),
    layout.Column("at least", "It lacks", of="least", form=_shown),
    layout.Column("at most", "It lacks", of="most", form=_shown),
    layout.Column("Effective samples", of="ess_median", form=".1f"),
    *layout.text_columns("Two-sided bounds", of="two_sided"),
    *layout.text_columns("Label"),
    *layout.text_columns("Claim", of="said"),
]
