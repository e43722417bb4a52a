"""Tables 1 and 2 of the importance sampling paper, and what stands behind their numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from beyond_perplexity.errors import NothingToShowError
from beyond_perplexity.figures.importance import SETTING_KEYS, Settings
from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.figures.measure_names import by_key, parts_by
from beyond_perplexity.figures.numbers import shown_range
from beyond_perplexity.importance.bidirectional_gaps import withdraw_claims
from beyond_perplexity.importance.estimate_wording import (
    interval,
    is_above_strict,
    k_hat_cell,
    least_strict,
    method_cell,
    sampling_error,
)
from beyond_perplexity.importance.estimator import STRICT
from beyond_perplexity.importance.ways_to_draw import find_estimator, load_estimators
from beyond_perplexity.inference.weight_diagnostics import (
    FEW_EFFECTIVE,
    LARGEST_RELATIVE_VARIANCE,
    LEAST_EFFECTIVE,
)
from beyond_perplexity.report import layout
from beyond_perplexity.report.importance_choice import (
    MODEL_COLUMN,
    PROPOSAL_COLUMN,
    TEMPERATURE_COLUMN,
    shown_size,
)
from beyond_perplexity.report.published import has_estimates, published_beam, published_estimate
from beyond_perplexity.schemas.draws import EXACT

PRINTED_NOTE = "Columns 'paper': Logan, Gardner & Singh 2020, of larger models."
BESIDE_TITLE = "Without latent variables, exact, on the same instances and T"
LEVEL_TITLES = {
    "corpus": "Corpus level, samples paired by number (the paper's)",
    "random": "Corpus level, mean ± standard deviation over random pairings",
    "instance": "Instance level",
}


def shown_number(value: float | None) -> str:
    """Write a perplexity with one decimal."""
    if value is None or pd.isna(value):
        return layout.EN_DASH
    return "∞" if value == float("inf") else f"{value:,.1f}"


def _families(estimates: pd.DataFrame, labels: Labels) -> dict[str, str]:
    """Return the family of each model, in the order of the columns."""
    return {name: labels.families.get(name, name) for name in sorted(set(estimates["model"]))}


def _beside_paper(
    families: Mapping[str, str],
    own: Callable[[str, Mapping[Any, Any]], str],
    paper: Callable[[str, Mapping[Any, Any]], str],
) -> list[layout.Column]:
    """Make the columns of each model: this run, and the paper where it has its family."""
    columns = []
    for name, family in families.items():
        columns.append(layout.Column("this run", name, of=partial(own, name)))
        if has_estimates(family):
            columns.append(layout.Column("paper", name, published=True, of=partial(paper, family)))
    return columns


def _require(estimates: pd.DataFrame, what: str) -> None:
    if estimates.empty:
        raise NothingToShowError(f"the estimates hold none by {what}; give those of a whole run")


def _note(estimates: pd.DataFrame, labels: Labels) -> str:
    parts = []
    for name, own in estimates.groupby("model"):
        instances, tokens = own[["n_instances", "n_tokens"]].max().astype(float)
        definition = next(iter(own["t_definition"].dropna()), "what the weights say")
        data = f"{labels.data[str(name)]}, " if name in labels.data else ""
        counts = f"{instances:,.0f} instances, {tokens:,.0f} tokens"
        parts.append(f"{name}: {data}{counts} (T counts {definition})")
    return f"{'; '.join(parts)}."


def _sizes_note(estimates: pd.DataFrame) -> str:
    """Say K of each model: bounds of different K do not compare."""
    said = {
        str(name): shown_range(held, "{:,.0f}".format, " to ")
        for name, held in estimates.groupby("model", sort=False)["n_samples"]
    }
    same = len(set(said.values())) == 1
    parts = list(said.values())[:1] if same else [f"{k} ({name})" for name, k in said.items()]
    return f"K = {', '.join(parts)} samples of an instance; bounds fall as K rises."


def _perplexities_beside(beside: pd.DataFrame | None, labels: Labels) -> list[dict[str, Any]]:
    """List the models without latent variables, with a value by latent model."""
    if beside is None:
        return []
    # What it says itself in other ways has a table alone.
    others = beside[beside["beside"].str.removesuffix(EXACT) != beside["model"]]
    sums = others.groupby(["beside", "model"], sort=False)[["log_likelihood", "n_tokens"]].sum()
    sums = sums.assign(value=np.exp(-sums["log_likelihood"] / sums["n_tokens"])).reset_index()
    rows = [
        {"level": BESIDE_TITLE, "label": labels.model(name), "values": by_key(held, "model")}
        for name, held in parts_by(sums, "beside").items()
    ]
    return layout.without_repeats(rows, "level")


def sampling_table(
    estimates: pd.DataFrame, beside: pd.DataFrame | None, labels: Labels
) -> layout.Table:
    """Lay out perplexity by proposal and temperature (Logan et al. 2020, Table 1)."""
    paired = [method for method, one in load_estimators().items() if "corpus" in one.levels]
    chosen = estimates[estimates["method"].isin(paired) & (estimates["measure"] == "perplexity")]
    _require(chosen, "importance sampling")
    settings = Settings(chosen)
    cells = {}
    for one in chosen.to_dict("records"):
        level = "random" if one["pairing"] == "random" else one["aggregation"]
        spread = f" ± {shown_number(one['standard_deviation'])}" if level == "random" else ""
        label = settings.label(*(one[name] for name in SETTING_KEYS))
        cells[one["model"], label, level] = shown_number(one["value"]) + spread

    def own(model: str, row: Mapping[Any, Any]) -> str:
        if "values" in row:
            return shown_number(row["values"].get(model, {}).get("value"))
        return cells.get((model, row["label"], row["of"]), layout.EN_DASH)

    def paper(family: str, row: Mapping[Any, Any]) -> str:
        return shown_number(published_estimate(family, row.get("of", ""), row["label"]))

    rows = [
        {"of": level, "level": title, "label": label}
        for level, title in LEVEL_TITLES.items()
        for label in settings.order
    ]
    columns = [*layout.text_columns("Level"), *layout.text_columns("Proposal", of="label")]
    return layout.lay_out(
        "importance-sampling",
        "Perplexity estimated by importance sampling (stochastic upper bounds)",
        f"{_sizes_note(chosen)} {_note(chosen, labels)} The lowest of a column is chosen by the "
        "numbers it stands among and is no bound in expectation.",
        [*columns, *_beside_paper(_families(chosen, labels), own, paper)],
        [*layout.without_repeats(rows, "level"), *_perplexities_beside(beside, labels)],
        estimates,
        published_note=PRINTED_NOTE,
    )


def beam_table(estimates: pd.DataFrame, labels: Labels) -> layout.Table:
    """Lay out the strict bounds of beam marginalization, the lowest of a model (Table 2)."""
    strict = (estimates["bound"] == STRICT) & estimates["beam_size"].notna()
    chosen = estimates[strict & (estimates["measure"] == "perplexity")]
    _require(chosen, "beam marginalization")
    best = chosen.groupby(["model", "beam_size"])["value"].min()
    models = _beside_paper(
        _families(chosen, labels),
        lambda name, row: shown_number(best.get((name, row["size"]))),
        lambda family, row: shown_number(published_beam(family, int(row["size"]))),
    )
    return layout.lay_out(
        "beam-marginalization",
        "Strict upper bounds of perplexity by beam marginalization",
        _note(chosen, labels) + " The likelihood summed over the k latents that a beam search "
        "under the proposal ends with; no sample is drawn, so there is no K. Of several proposals "
        "of a model the lowest bound is shown: the lowest of strict bounds is one.",
        [layout.Column("Beam", text=True, of="size", form="k = {:.0f}".format), *models],
        [{"size": size} for size in sorted(set(chosen["beam_size"]))],
        chosen,
        published_note=PRINTED_NOTE,
    )


# ---- how far estimates can be trusted ----


def trust_table(estimates: pd.DataFrame, gaps: pd.DataFrame | None, labels: Labels) -> layout.Table:
    """Lay out how far instance-level estimates can be trusted, without what `gaps` refute."""
    claimed = withdraw_claims(estimates, gaps)
    instance = claimed[claimed["aggregation"] != "corpus"]
    chosen = instance[instance["measure"] == "perplexity"]
    _require(chosen, "any method")
    rows = instance[instance["measure"] != "perplexity"].to_dict("records")
    penalized = {_setting(row): row for row in rows}

    def with_penalty(row: Mapping[Any, Any]) -> str:
        return _value(penalized.get(_setting(row), {}), row)

    columns = [
        *(MODEL_COLUMN, PROPOSAL_COLUMN, TEMPERATURE_COLUMN),
        layout.Column("Method", text=True, of=_drawn_method),
        layout.Column("K", of=_drawn_size),
        *layout.text_columns("Bound"),
        layout.Column("Perplexity", of=lambda row: _value(row, row)),
        layout.Column("unknown penalized", of=with_penalty),
        *layout.under(
            "Standard error",
            layout.Column("over samples", of=lambda row: shown_number(sampling_error(row)[0])),
            layout.Column("by", text=True, of=lambda row: sampling_error(row)[1] or layout.EN_DASH),
            layout.Column("over instances", of="standard_error_instances", form=shown_number),
        ),
        layout.Column("median", "Effective samples", of="ess_median", form=shown_number),
        layout.Column("tokens below 5", "Effective samples", of="ess_low_share", form=".0%"),
        layout.Column("median", "Largest weight (share)", of="largest_weight_median", form=".2f"),
        layout.Column("median", "k̂", of="k_hat_median", form=".2f"),
        layout.Column("limit", "k̂", of="k_hat_threshold", form=".2f"),
        layout.Column("above limit", "k̂", of=_above_limit),
        layout.Column("Unique latents", of="unique_share", form=".0%"),
    ]
    title = "How far the instance-level estimates can be trusted"
    return layout.lay_out("importance-diagnostics", title, _trust_note(chosen), columns, chosen)


def _trust_note(chosen: pd.DataFrame) -> str:
    notes = [(one.size_note, one.trust_note) for one in load_estimators().values()]
    sizes, trust = ([note for note in kind if note] for kind in zip(*notes, strict=True))
    counted = ", ".join(["samples of an instance", *sizes])
    trusted = "; ".join(["(Σw)²/Σw² of an instance", *trust])
    return (
        "Bound: what the estimate is of the true perplexity; of two-sided ones both ends are "
        "shown, with their errors, and a question mark withholds the claim (why: the CSV), as "
        "where the two-sided bounds of the same setting fail on simulated documents; latents that "
        "no sample and no such document has are seen by nobody. Unknown penalized: each unknown "
        f"word penalized for the types it stands for. K: {counted}; bounds fall with each of them. "
        "Standard error over samples: by the delta method where every instance has "
        f"{LEAST_EFFECTIVE:g} effective samples (or runs) and a relative variance of at most "
        f"{LARGEST_RELATIVE_VARIANCE:g}, else by bootstrap, which may be too small. Effective "
        f"samples: {trusted}; tokens below {FEW_EFFECTIVE:g}: the share of tokens in instances "
        "with fewer than that. Largest weight: its share of the sum of the weights of an "
        "instance. k̂ above its limit, min(1 − 1/log10 K, 0.7): instances whose largest weights "
        "decide the estimate, of those where k̂ is defined; an undefined k̂ says nothing, good or "
        f"bad. Of {chosen['model'].nunique()} models.{_warnings(chosen)}"
    )


def _warnings(estimates: pd.DataFrame) -> str:
    """Name the least strict bound of each model, and what lies above it."""
    rows = estimates.to_dict("records")
    found = []
    for key, least in least_strict(rows).items():
        above = sum(is_above_strict(row, {key: least}) is not None for row in rows)
        warned = f": {above} stochastic bounds lie above it and are of no use" if above else ""
        found.append(f"{key[0]} {least.value:,.1f} ({least.words}){warned}")
    return f" Least strict bounds: {'; '.join(found)}." if found else ""


def _setting(row: Mapping[Any, Any]) -> tuple[str, ...]:
    return tuple(str(row[name]) for name in (*SETTING_KEYS, "method", "basis", "beam_size"))


def _drawn_method(row: Mapping[Any, Any]) -> str:
    two_ended = not pd.isna(row["basis"])
    basis = f": {find_estimator(row['basis']).title.lower()}" if two_ended else ""
    return method_cell(row) + basis


def _drawn_size(row: Mapping[Any, Any]) -> str:
    drawn = row["method"] if pd.isna(row["basis"]) else row["basis"]
    return shown_size({**row, "method": drawn})


def _value(row: Mapping[Any, Any], shown: Mapping[Any, Any]) -> str:
    """Write an estimate, one-sided or two-sided, with its bound where the `shown` row differs."""
    if pd.isna(shown["basis"]):
        return shown_number(row.get("value"))
    if pd.isna(row.get("low")):
        return layout.EN_DASH
    return interval(row) + (f", {row['bound']}" if row["bound"] != str(shown["bound"]) else "")


def _above_limit(row: Mapping[Any, Any]) -> str:
    counts = (row[name] for name in ("k_hat_above", "k_hat_undefined"))
    above, undefined = (None if pd.isna(count) else int(count) for count in counts)
    return k_hat_cell(above, undefined, int(row["n_instances"]))
