"""What latent variables bring: a latent model against models without, on the same instances."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from beyond_perplexity.errors import InputError
from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.inference.exchanged_units import EFFECTIVE_GROUPS
from beyond_perplexity.inference.intervals import RatioInterval, ratio_interval, sum_groups
from beyond_perplexity.report.importance_choice import (
    choose_estimates,
    estimate_key,
    models_left_out,
)
from beyond_perplexity.report.layout import Column, Table

_NOTE = (
    "On the same instances, in the same vocabulary, with the same T. Difference: cross-entropy "
    "with latent variables less that without; below 0 they help. The perplexity with latent "
    "variables is a stochastic upper bound: the true difference is, in expectation, not above "
    "the one that is shown. The interval is over groups (pages where whole pages were split, "
    "else documents) by the jackknife with Student's quantiles; there is none with fewer than "
    f"{EFFECTIVE_GROUPS} effective groups. It is about these trained models, and knows of the "
    "instances only, not of the samples. Unknown penalized: each unknown word that is generated"
    " is charged for the types that it may be; a model that copies words says which one it is "
    "and is not charged for copies: where one does, this pair of numbers compares and the other"
    " does not. An instance that is a sentence is scored alone by both, though models without "
    "latent variables were trained on documents, whose end is seldom the end of their first "
    "sentence."
)


class Beside(NamedTuple):
    """A latent model (its row of ``estimates``) against a model without latent variables.

    The difference is cross-entropy of the former less that of the latter, nats a token, over
    groups; values are perplexities, the penalized ones with ln U for each unknown word that is
    generated (NaN: not known).
    """

    latent: dict[Any, Any]
    beside: str
    difference: RatioInterval
    latent_value: float
    value: float
    latent_penalized: float
    penalized: float


def paired_instances(
    row: dict[Any, Any], instances: pd.DataFrame, scores: pd.DataFrame
) -> pd.DataFrame:
    """Put log p̂ of a latent model (``estimated``) beside log p of another, instance by instance.

    Takes a row of ``estimates``, ``importance_diagnostics`` and ``instance_scores`` of one model;
    refuses other instances or another T.
    """
    same = np.ones(len(instances), bool)
    for name in ("model", "proposal", "method", "temperature"):
        held = instances[name]
        same &= (held.isna() if pd.isna(row[name]) else held == row[name]).to_numpy()
    own = instances.loc[same, ["instance_id", "n_tokens", "log_likelihood"]]
    own = own.rename(columns={"log_likelihood": "estimated", "n_tokens": "t"})
    joined = scores.merge(own, on="instance_id", how="outer", validate="one_to_one")
    if len(joined) != len(scores) or len(joined) != len(own):
        raise InputError(
            f"{row['model']} and {scores['beside'].iloc[0]} are of different instances "
            f"({len(own)} and {len(scores)}); score the latter again"
        )
    if (joined["t"] != joined["n_tokens"]).any():
        raise InputError(
            f"{row['model']} and {scores['beside'].iloc[0]} count different tokens; score the "
            "latter again"
        )
    return joined


def compare_beside(
    row: dict[Any, Any], instances: pd.DataFrame, scores: pd.DataFrame, penalized: float
) -> Beside:
    """Compare a latent model with another by pairs of instances, as `paired_instances` takes them.

    `penalized` is the unknown-penalized perplexity of the latent model.
    """
    joined = paired_instances(row, instances, scores)
    less = joined["log_likelihood"] - joined["estimated"]
    groups, lengths = joined["group"].to_numpy(), joined["n_tokens"].to_numpy()
    gap, tokens = sum_groups(groups, less.to_numpy(), lengths)
    total, types = joined["n_tokens"].sum(), row["unknown_types"]
    own, other = (-joined[name].sum() / total for name in ("estimated", "log_likelihood"))
    charge = math.nan if pd.isna(types) else math.log(max(1, types))
    charged = other + charge * joined["n_unknown"].sum() / total
    return Beside(
        row,
        str(scores["beside"].iloc[0]),
        ratio_interval(gap, tokens),
        math.exp(own),
        math.exp(other),
        penalized,
        math.exp(charged),
    )


def _penalized(row: dict[Any, Any], estimates: pd.DataFrame) -> float:
    """Return the unknown-penalized perplexity of an estimate; NaN where it is not known."""
    others = estimates[
        (estimates["measure"] == "unknown_penalized_perplexity")
        & (estimates["aggregation"] == "instance")
    ]
    key = estimate_key(row)
    values = [one["value"] for one in others.to_dict("records") if estimate_key(one) == key]
    return float(values[0]) if values and values[0] is not None else math.nan


def _shown(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:,.1f}"


def _cells(found: Beside, labels: Labels) -> list[str]:
    held, row = found.difference, found.latent
    interval = "–" if math.isnan(held.low) else f"{held.low:+.3f} to {held.high:+.3f}"
    return [
        str(row["model"]),
        f"{row['proposal']}, {row['method'].replace('_', ' ')}"
        + ("" if pd.isna(row["temperature"]) else f", τ = {row['temperature']:g}"),
        f"{found.latent_value:,.1f}",
        _shown(found.latent_penalized),
        labels.model(found.beside),
        f"{found.value:,.1f}",
        _shown(found.penalized),
        "–" if math.isnan(held.value) else f"{held.value:+.3f}",
        interval,
        f"{held.groups}",
        f"{held.effective:.1f}",
        str(row["chosen_by"]),
    ]


def _record(found: Beside) -> dict[str, Any]:
    names = ("model", "proposal", "method", "temperature", "bound", "n_tokens", "n_instances")
    held = found.difference
    return {
        **{name: found.latent[name] for name in names},
        "chosen_by": found.latent["chosen_by"],
        "perplexity": found.latent_value,
        "beside": found.beside,
        "perplexity_beside": found.value,
        "penalized": found.latent_penalized,
        "penalized_beside": found.penalized,
        "difference": held.value,
        "low": held.low,
        "high": held.high,
        "standard_error": held.standard_error,
        "groups": held.groups,
        "groups_effective": held.effective,
    }


def beside_table(
    estimates: pd.DataFrame,
    instances: pd.DataFrame,
    beside: pd.DataFrame,
    choices: pd.DataFrame | None,
    labels: Labels,
) -> Table:
    """Lay out what the latent variables of each model bring."""
    with_rows = estimates[estimates["method"].isin(set(instances["method"]))]
    speaking = choose_estimates(with_rows, choices)
    chosen = {row["model"]: row for row in speaking.to_dict("records")}
    found = [
        compare_beside(
            row, instances[instances["model"] == model], scores, _penalized(row, estimates)
        )
        for (model, _), scores in beside.groupby(["model", "beside"], sort=False)
        if (row := chosen.get(str(model)))
    ]
    columns = [
        *(Column(title, group="With latent variables", text=True) for title in ("model", "by")),
        Column("perplexity", group="With latent variables"),
        Column("unknown penalized", group="With latent variables"),
        Column("model", group="Without", text=True),
        Column("perplexity", group="Without"),
        Column("unknown penalized", group="Without"),
        Column("nats a token", group="Difference of cross-entropies"),
        Column("95% interval", group="Difference of cross-entropies"),
        Column("all", group="Groups"),
        Column("effective", group="Groups"),
        Column("Chosen by", text=True),
    ]
    return Table(
        "importance-beside",
        "What the latent variables bring",
        _NOTE + models_left_out(estimates, speaking),
        columns,
        [_cells(one, labels) for one in found],
        pd.DataFrame([_record(one) for one in found]),
    )
