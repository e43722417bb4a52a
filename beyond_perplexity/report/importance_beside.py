"""What latent variables bring: a latent model against models without, on the same instances."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from beyond_perplexity.errors import InputError
from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.perplexity.intervals import RatioInterval, ratio_interval, sum_groups
from beyond_perplexity.report.importance_choice import choose_estimates
from beyond_perplexity.report.layout import Column, Table
from beyond_perplexity.tendencies.inference.thresholds import EFFECTIVE_GROUPS


class Beside(NamedTuple):
    """A latent model against a model without latent variables.

    Attributes
    ----------
    latent : dict
        The row of ``estimates`` that speaks for the latent model.
    beside : str
        The other.
    difference : RatioInterval
        Cross-entropy of the latent model less that of the other, nats a token, over groups.
    latent_value, value : float
        The perplexities of both.
    """

    latent: dict[Any, Any]
    beside: str
    difference: RatioInterval
    latent_value: float
    value: float


def paired_instances(
    row: dict[Any, Any], instances: pd.DataFrame, scores: pd.DataFrame
) -> pd.DataFrame:
    """Put log p̂ of a latent model beside log p of another, instance by instance.

    Parameters
    ----------
    row : dict
        Of schema ``estimates``: the estimate.
    instances : pandas.DataFrame
        Schema ``importance_diagnostics``.
    scores : pandas.DataFrame
        Schema ``instance_scores``, of one model.

    Returns
    -------
    pandas.DataFrame
        That of the scores, with the column ``estimated``.

    Raises
    ------
    InputError
        When the instances are not the same or T differs.
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


def compare_beside(row: dict[Any, Any], instances: pd.DataFrame, scores: pd.DataFrame) -> Beside:
    """Compare a latent model with another by pairs of instances; parameters as above."""
    joined = paired_instances(row, instances, scores)
    less = joined["log_likelihood"] - joined["estimated"]
    gap, tokens = sum_groups(
        joined["group"].to_numpy(), less.to_numpy(), joined["n_tokens"].to_numpy()
    )
    total = joined["n_tokens"].sum()
    own, other = (math.exp(-joined[name].sum() / total) for name in ("estimated", "log_likelihood"))
    return Beside(row, str(scores["beside"].iloc[0]), ratio_interval(gap, tokens), own, other)


def _cells(found: Beside, labels: Labels) -> list[str]:
    held, row = found.difference, found.latent
    interval = "–" if math.isnan(held.low) else f"{held.low:+.3f} to {held.high:+.3f}"
    return [
        str(row["model"]),
        f"{row['proposal']}, {row['method'].replace('_', ' ')}"
        + ("" if pd.isna(row["temperature"]) else f", τ = {row['temperature']:g}"),
        f"{found.latent_value:,.1f}",
        labels.model(found.beside),
        f"{found.value:,.1f}",
        f"{held.value:+.3f}",
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
    """Lay out what the latent variables of each model bring.

    Parameters
    ----------
    estimates : pandas.DataFrame
        Schema ``estimates``.
    instances : pandas.DataFrame
        Schema ``importance_diagnostics``, of the same estimates.
    beside : pandas.DataFrame
        Schema ``instance_scores``, of all models.
    choices : pandas.DataFrame or None
        Schema ``estimates``, of the validation split.
    labels : Labels
        What models are called.

    Returns
    -------
    Table

    Raises
    ------
    InputError
        As `paired_instances` and `choose_estimates`.
    """
    with_rows = estimates[estimates["method"].isin(set(instances["method"]))]
    chosen = {row["model"]: row for row in choose_estimates(with_rows, choices).to_dict("records")}
    found = [
        compare_beside(chosen[str(model)], instances[instances["model"] == model], scores)
        for (model, _), scores in beside.groupby(["model", "beside"], sort=False)
        if model in chosen
    ]
    columns = [
        *(Column(title, group="With latent variables", text=True) for title in ("model", "by")),
        Column("perplexity", group="With latent variables"),
        Column("model", group="Without", text=True),
        Column("perplexity", group="Without"),
        Column("nats a token", group="Difference of cross-entropies"),
        Column("95% interval", group="Difference of cross-entropies"),
        Column("all", group="Groups"),
        Column("effective", group="Groups"),
        Column("Chosen by", text=True),
    ]
    note = (
        "On the same instances, in the same vocabulary, with the same T. Difference: cross-entropy "
        "with latent variables less that without; below 0 they help. The perplexity with latent "
        "variables is a stochastic upper bound: the true difference is, in expectation, not above "
        "the one that is shown. The interval is over groups (pages where whole pages were split, "
        "else documents) by the jackknife with Student's quantiles; there is none with fewer than "
        f"{EFFECTIVE_GROUPS} effective groups. It is about these trained models, and knows of the "
        "instances only, not of the samples. An instance that is a sentence is scored alone by "
        "both, though models without latent variables were trained on documents, whose end is "
        "seldom the end of their first sentence."
    )
    return Table(
        "importance-beside",
        "What the latent variables bring",
        note,
        columns,
        [_cells(one, labels) for one in found],
        pd.DataFrame([_record(one) for one in found]),
    )
