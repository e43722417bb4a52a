"""Tables 1 and 2 of the importance sampling paper, and what stands behind their numbers."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from beyond_perplexity.errors import NothingToShowError
from beyond_perplexity.figures.importance import SETTING_KEYS, Settings
from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.importance.bidirectional_gaps import withdraw_claims
from beyond_perplexity.importance.estimate_wording import (
    interval,
    is_above_strict,
    k_hat_cell,
    least_strict,
    method_cell,
    sampling_error,
    temperature_cell,
)
from beyond_perplexity.importance.estimator import STRICT
from beyond_perplexity.importance.ways_to_draw import find_estimator, load_estimators
from beyond_perplexity.inference.weight_diagnostics import (
    FEW_EFFECTIVE,
    LARGEST_RELATIVE_VARIANCE,
    LEAST_EFFECTIVE,
)
from beyond_perplexity.report.layout import Column, Table

# Logan, Gardner & Singh (2020), Table 1: corpus level, then instance level.
TEMPERATURES = (0.5, 0.9, 1.0, 1.1, 2.0, 5.0)
NO_PEEKING = "no peeking"
PUBLISHED = {
    ("rnng", "corpus"): (94.4, 96.0, 96.7, 97.9, 121.6, 734.0, None),
    ("entitynlm", "corpus"): (122.6, 122.7, 120.8, 120.7, 120.5, 152.5, 131.7),
    ("kglm", "corpus"): (101.9, 59.3, 48.2, 41.7, 170.0, 7468.7, 86.8),
    ("rnng", "instance"): (85.3, 84.4, 84.2, 84.0, 83.8, 97.2, None),
    ("entitynlm", "instance"): (113.5, 110.6, 110.0, 109.9, 109.0, 129.6, 113.9),
    ("kglm", "instance"): (99.3, 48.1, 36.6, 29.6, 90.7, 3756.1, 71.9),
}
# Table 2, by the size of the beam.
PUBLISHED_BEAMS = {
    "rnng": {1: 96.3, 10: 87.0, 100: 84.3},
    "entitynlm": {1: 150.2, 10: 147.1, 100: 144.5},
    "kglm": {1: 153.7, 10: 152.6},
}
PRINTED_NOTE = "Columns 'paper': Logan, Gardner & Singh 2020, of larger models."
BESIDE_TITLE = "Without latent variables, exact, on the same instances and T"
LEVEL_TITLES = {
    "corpus": "Corpus level, samples paired by number (the paper's)",
    "random": "Corpus level, mean ± standard deviation over random pairings",
    "instance": "Instance level",
}


def _number(value: float | None) -> str:
    if value is None or pd.isna(value):
        return "–"
    return "∞" if value == float("inf") else f"{value:,.1f}"


def _published(family: str, level: str, label: str) -> float | None:
    values = PUBLISHED.get((family, level))
    if values is None:
        return None
    settings = [f"τ = {temperature:g}" for temperature in TEMPERATURES] + [NO_PEEKING]
    return dict(zip(settings, values, strict=True)).get(label)


def _families(estimates: pd.DataFrame, labels: Labels) -> dict[str, str]:
    """Return the family of each model, in the order of the columns."""
    models = sorted(set(estimates["model"]))
    return {name: labels.families.get(name, name) for name in models}


def _columns(families: Mapping[str, str]) -> list[Column]:
    columns = [Column("Level", text=True), Column("Proposal", text=True)]
    for name, family in families.items():
        columns.append(Column("this run", group=name))
        if (family, "instance") in PUBLISHED:
            columns.append(Column("paper", group=name, published=True))
    return columns


def _require(estimates: pd.DataFrame, what: str) -> None:
    if estimates.empty:
        raise NothingToShowError(f"the estimates hold none by {what}; give those of a whole run")


def _note(estimates: pd.DataFrame, labels: Labels) -> str:
    sizes = estimates.groupby("model")[["n_instances", "n_tokens"]].max()
    parts = []
    for name in _families(estimates, labels):
        instances, tokens = (float(value) for value in sizes.loc[name].to_numpy())
        own = estimates.loc[estimates["model"] == name, "t_definition"].dropna()
        counted = str(own.iloc[0]) if len(own) else "what the weights say"
        data = f"{labels.data[name]}, " if name in labels.data else ""
        parts.append(
            f"{name}: {data}{instances:,.0f} instances, {tokens:,.0f} tokens (T counts {counted})"
        )
    return f"{'; '.join(parts)}."


def _sizes_note(estimates: pd.DataFrame) -> str:
    """Say K of each model: bounds of different K do not compare."""
    counts = estimates.groupby("model", sort=False)["n_samples"].agg(["min", "max"])
    said = {
        str(name): f"{low:,.0f}" + (f" to {high:,.0f}" if high > low else "")
        for name, low, high in counts.itertuples(name=None)
    }
    same = len(set(said.values())) == 1
    parts = list(said.values())[:1] if same else [f"{k} ({name})" for name, k in said.items()]
    return f"K = {', '.join(parts)} samples of an instance; bounds fall as K rises."


def _rows(
    families: Mapping[str, str],
    settings: Sequence[str],
    level: str,
    cell: Callable[[str, str], str],
) -> list[list[str]]:
    rows = []
    for label in settings:
        row = [LEVEL_TITLES[level] if label == settings[0] else "", label]
        for name, family in families.items():
            row.append(cell(name, label))
            if (family, "instance") in PUBLISHED:
                row.append(_number(_published(family, level, label)))
        rows.append(row)
    return rows


def _beside_rows(
    families: Mapping[str, str], beside: pd.DataFrame | None, labels: Labels
) -> list[list[str]]:
    """Lay out the models without latent variables, on the instances of each column's model."""
    if beside is None:
        return []
    sums = beside.groupby(["model", "beside"])[["log_likelihood", "n_tokens"]].sum()
    values = {
        key: float(np.exp(-likelihood / tokens))
        for key, likelihood, tokens in sums.itertuples(name=None)
    }
    names = list(dict.fromkeys(beside["beside"]))
    found = []
    for name in names:
        row = [BESIDE_TITLE if name == names[0] else "", labels.model(name)]
        for model, family in families.items():
            row.append(_number(values.get((model, name))))
            if (family, "instance") in PUBLISHED:
                row.append("–")
        found.append(row)
    return found


def sampling_table(estimates: pd.DataFrame, beside: pd.DataFrame | None, labels: Labels) -> Table:
    """Lay out perplexity by proposal and temperature (paper 000, Table 1)."""
    paired = [method for method, one in load_estimators().items() if "corpus" in one.levels]
    chosen = estimates[estimates["method"].isin(paired) & (estimates["measure"] == "perplexity")]
    _require(chosen, "importance sampling")
    settings = Settings(chosen)
    keys = chosen[["model", "proposal", "temperature"]].itertuples(index=False, name=None)
    named = chosen.assign(
        label=[settings.label(*key) for key in keys],
        level=chosen["aggregation"].where(chosen["pairing"] != "random", "random"),
    )
    fields = ["model", "label", "level", "value", "standard_deviation"]
    rows_held = named[fields].itertuples(index=False, name=None)
    cells = {(m, label, level): numbers for m, label, level, *numbers in rows_held}

    def show(level: str) -> Callable[[str, str], str]:
        def cell(model: str, label: str) -> str:
            if (model, label, level) not in cells:
                return "–"
            value, deviation = cells[model, label, level]
            return _number(value) + (f" ± {_number(deviation)}" if level == "random" else "")

        return cell

    families = _families(chosen, labels)
    rows = [
        row for level in LEVEL_TITLES for row in _rows(families, settings.order, level, show(level))
    ]
    rows += _beside_rows(families, beside, labels)
    return Table(
        "importance-sampling",
        "Perplexity estimated by importance sampling (stochastic upper bounds)",
        f"{_sizes_note(chosen)} {_note(chosen, labels)} The lowest of a column is chosen by the "
        "numbers it stands among and is no bound in expectation.",
        _columns(families),
        rows,
        estimates,
        PRINTED_NOTE,
    )


def beam_table(estimates: pd.DataFrame, labels: Labels) -> Table:
    """Lay out the strict bounds of beam marginalization (paper 000, Table 2).

    Of several proposals of a model the one with the lowest bound is shown, the others are in the
    CSV.
    """
    strict = (estimates["bound"] == STRICT) & estimates["beam_size"].notna()
    chosen = estimates[strict & (estimates["measure"] == "perplexity")]
    _require(chosen, "beam marginalization")
    best = chosen.groupby(["model", "beam_size"])["value"].min()
    families = _families(chosen, labels)
    columns = [Column("Beam", text=True), *_columns(families)[2:]]
    rows = []
    for size in sorted(set(chosen["beam_size"])):
        row = [f"k = {int(size)}"]
        for name, family in families.items():
            row.append(_number(best.get((name, size))))
            if (family, "instance") in PUBLISHED:
                row.append(_number(PUBLISHED_BEAMS[family].get(int(size))))
        rows.append(row)
    return Table(
        "beam-marginalization",
        "Strict upper bounds of perplexity by beam marginalization",
        _note(chosen, labels) + " The likelihood summed over the k latents that a beam search "
        "under the proposal ends with; no sample is drawn, so there is no K. Of several proposals "
        "of a model the lowest bound is shown: the lowest of strict bounds is one.",
        columns,
        rows,
        chosen,
        PRINTED_NOTE,
    )


def trust_table(estimates: pd.DataFrame, gaps: pd.DataFrame | None, labels: Labels) -> Table:
    """Lay out how far each instance-level estimate can be trusted.

    Brackets that simulated documents (`gaps`) refute make no claim.
    """
    claimed = withdraw_claims(estimates, gaps)
    instance = claimed[claimed["aggregation"] != "corpus"]
    chosen = instance[instance["measure"] == "perplexity"]
    _require(chosen, "any method")
    penalized = {
        _setting(row): row
        for row in instance[instance["measure"] != "perplexity"].to_dict("records")
    }
    columns = [
        *(Column(title, text=True) for title in ("Model", "Proposal", "τ", "Method")),
        Column("K"),
        Column("Bound", text=True),
        Column("Perplexity"),
        Column("unknown penalized"),
        Column("over samples", group="Standard error"),
        Column("by", group="Standard error", text=True),
        Column("over instances", group="Standard error"),
        Column("median", group="Effective samples"),
        Column("tokens below 5", group="Effective samples"),
        Column("median", group="Largest weight (share)"),
        Column("median", group="k̂"),
        Column("limit", group="k̂"),
        Column("above limit", group="k̂"),
        Column("Unique latents"),
    ]
    rows = [_diagnosed(row, penalized) for row in chosen.to_dict("records")]
    return Table(
        "importance-diagnostics",
        "How far the instance-level estimates can be trusted",
        _trust_note(chosen, labels),
        columns,
        rows,
        chosen,
    )


def _trust_note(chosen: pd.DataFrame, labels: Labels) -> str:
    notes = [(one.size_note, one.trust_note) for one in load_estimators().values()]
    sizes, trust = ([note for note in kind if note] for kind in zip(*notes, strict=True))
    counted = ", ".join(["samples of an instance", *sizes])
    trusted = "; ".join(["(Σw)²/Σw² of an instance", *trust])
    return (
        "Bound: what the estimate is of the true perplexity; of a bracket both ends are shown, "
        "with their errors, and a question mark withholds the claim (why: the CSV), as where the "
        "bracket of the same setting fails on documents that the model generated; latents that no "
        "sample and no such document has are seen by nobody. "
        "Unknown penalized: each unknown word "
        f"charged for the types it stands for. K: {counted}; bounds fall with each of them. "
        "Standard error over samples: by the delta method where every instance has "
        f"{LEAST_EFFECTIVE:g} effective samples (or runs) and a relative variance of at most "
        f"{LARGEST_RELATIVE_VARIANCE:g}, "
        f"else by bootstrap, which may be too small. Effective samples: {trusted}; tokens below "
        f"{FEW_EFFECTIVE:g}: the share of tokens in instances with fewer than that. "
        "Largest weight: its share of the sum of the weights of an instance. k̂ above its limit, "
        "min(1 − 1/log10 K, 0.7): "
        "instances whose largest weights decide the estimate, of those where k̂ is defined; an "
        "undefined k̂ says nothing, good or bad. "
        f"Of {len(_families(chosen, labels))} models.{_warnings(chosen)}"
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


def _setting(row: Mapping[Hashable, Any]) -> tuple[str, ...]:
    return tuple(str(row[name]) for name in (*SETTING_KEYS, "method", "basis", "beam_size"))


def _interval(row: Mapping[Hashable, Any], bound: str) -> str:
    """Write the ends of a bracket, with its own bound where that is another than the row's."""
    if pd.isna(row.get("low")):
        return "–"
    return interval(row) + (f", {row['bound']}" if row["bound"] != bound else "")


def _diagnosed(
    row: Mapping[Hashable, Any], penalized: Mapping[tuple[str, ...], Mapping[Hashable, Any]]
) -> list[str]:
    def shown(name: str, form: str) -> str:
        return "–" if pd.isna(row[name]) else format(row[name], form)

    error, source = sampling_error(row)
    estimator = find_estimator(row["method"])
    counts = (row[name] for name in ("k_hat_above", "k_hat_undefined"))
    above, undefined = (None if pd.isna(count) else int(count) for count in counts)
    bracketed = not pd.isna(row["basis"])
    drawn = find_estimator(row["basis"]) if bracketed else estimator
    basis = f": {drawn.title.lower()}" if bracketed else ""
    values = [row, penalized.get(_setting(row), {})]
    bound = str(row["bound"])
    return [
        str(row["model"]),
        str(row["proposal"]),
        temperature_cell(row),
        method_cell(row) + basis,
        shown("n_samples", ",.0f") + drawn.times.format_map(row),
        bound,
        *(_interval(one, bound) if bracketed else _number(one.get("value")) for one in values),
        _number(error),
        source or "–",
        _number(row["standard_error_instances"]),
        _number(row["ess_median"]),
        shown("ess_low_share", ".0%"),
        shown("largest_weight_median", ".2f"),
        shown("k_hat_median", ".2f"),
        shown("k_hat_threshold", ".2f"),
        k_hat_cell(above, undefined, int(row["n_instances"])),
        shown("unique_share", ".0%"),
    ]
