"""What latent variables are found, which words they help with, and what they bring in all."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from beyond_perplexity.corpus.latent_instances import document_of
from beyond_perplexity.errors import InputError
from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.inference.intervals import ratio_interval, sum_groups
from beyond_perplexity.inference.permuted_units import EFFECTIVE_GROUPS
from beyond_perplexity.models.families import FAMILIES
from beyond_perplexity.report import importance_choice
from beyond_perplexity.report.layout import (
    EN_DASH,
    Column,
    Table,
    lay_out,
    text_columns,
    texts_beside,
    under,
)
from beyond_perplexity.schemas.draws import EXACT

_COUNTS = ["annotated", "found", "matched", "same_entity"]
_SOURCES = {"posterior": "under the posterior", "proposal": "of the proposal itself"}
_PARTICLES = "smc"  # how the posterior was drawn from, in column `method`
_METHODS = {
    _PARTICLES: "particles",
    "importance_sampling": "weighted samples",
    "samples": "samples",
}

_TEXTS = texts_beside("importance_latents.toml", effective_groups=EFFECTIVE_GROUPS)
_LATENTS_NOTE = _TEXTS["latents_note"]
_WORDS_NOTE = _TEXTS["words_note"]
_BESIDE_NOTE = _TEXTS["beside_note"]


def _share(part: float, whole: float) -> float:
    return part / whole if whole else math.nan


def _agreement(rows: pd.DataFrame, unit: str) -> dict[str, Any]:
    """Compute what the spans of some instances have in common with the annotation."""
    held = rows.dropna(subset=_COUNTS)
    documents = np.array([document_of(number, unit) for number in held["instance_id"]])
    annotated, found, matched, same = held[_COUNTS].sum().astype(float)
    structure = rows["structure"].iloc[0]
    double, both = 2 * held["matched"], held["found"] + held["annotated"]
    f1 = [math.nan] * 3
    if both.sum():
        top, bottom = sum_groups(documents, double.to_numpy(float), both.to_numpy(float))
        f1 = [*ratio_interval(top, bottom)[:3]]
    return {
        "structure": structure,
        "n_instances": len(held),
        "annotated": annotated,
        "found": found,
        "precision": _share(matched, found),
        "recall": _share(matched, annotated),
        **dict(zip(("f1", "f1_low", "f1_high"), f1, strict=True)),
        "entity_accuracy": _share(same, matched) if structure == "mentions" else math.nan,
        "effective_median": float(rows["effective"].median()),
    }


def _unit(model: str, labels: Labels) -> str:
    """Return what an instance of a model is, a document where its family is not known."""
    family = labels.families.get(model, model)
    return FAMILIES[family].unit if family in FAMILIES else "document"


def _percent(value: float) -> str:
    return EN_DASH if math.isnan(value) else f"{100 * value:.1f}"


def _percents(low: float, high: float) -> str:
    return EN_DASH if math.isnan(low) else f"{_percent(low)} to {_percent(high)}"


def latents_table(posteriors: pd.DataFrame, labels: Labels) -> Table:
    """Lay out how far latents agree with the annotation."""
    keys = ["model", "proposal", "source"]
    records = [
        {
            **dict(zip(keys, key, strict=True)),
            "method": _METHODS[group["method"].iloc[0]],
            "n_samples": int(group["n_samples"].max()),
            **_agreement(group, _unit(str(key[0]), labels)),
        }
        for key, group in posteriors.groupby(keys, sort=False)
    ]
    agreement = "Agreement, %"
    columns = [
        importance_choice.MODEL_COLUMN,
        *text_columns(
            "Latents", of=("proposal", "source"), form=lambda n, of: f"{n}, {_SOURCES[of]}"
        ),
        *text_columns("From", of=("n_samples", "method"), form="{:,} {}".format),
        Column("Effective, median", of="effective_median", form=",.1f"),
        *text_columns("of", group="Spans", of="structure"),
        Column("annotated", "Spans", form=",.0f"),
        Column("found", "Spans", form=",.1f"),
        *(Column(name, agreement, form=_percent) for name in ("precision", "recall", "F1")),
        Column("95% interval", agreement, of=("f1_low", "f1_high"), form=_percents),
        Column("Right entity, %", of="entity_accuracy", form=_percent),
    ]
    title = "Latents under the posterior and of the proposals, against the annotation"
    return lay_out("importance-latents", title, _LATENTS_NOTE, columns, records)


# ---- words ----


def _classes(rows: pd.DataFrame) -> dict[str, tuple[float, int]]:
    """Sum log-likelihoods and counts of words inside mentions, of other words, and of ends."""
    inside = rows["n_inside"].notna()
    held = rows[inside]
    end = rows["log_likelihood_end"].astype(float)
    counted = (rows["n_tokens"] > rows["n_words"]).to_numpy()
    words = rows["log_likelihood"].astype(float) - np.where(counted, end, 0.0)
    within = held["log_likelihood_inside"].astype(float).sum()
    n_inside = int(held["n_inside"].sum())
    return {
        "inside": (float(within), n_inside),
        "outside": (float(words[inside].sum() - within), int(held["n_words"].sum()) - n_inside),
        "words": (float(words.sum()), int(rows["n_words"].sum())),
        "end": (float(end.sum()), len(rows)),
    }


def _word_record(model: str, by: str, rows: pd.DataFrame) -> dict[str, Any]:
    found: dict[str, Any] = {"model": model, "by": by, "n_instances": len(rows)}
    for name, (total, count) in _classes(rows).items():
        found[f"n_{name}"] = count
        found[f"log_likelihood_{name}"] = total
        found[f"perplexity_{name}"] = math.exp(-total / count) if count else math.nan
    return found


def _word_records(
    posteriors: pd.DataFrame, beside: pd.DataFrame | None, labels: Labels
) -> Iterator[dict[str, Any]]:
    """Decompose log p̂ of every model by its runs of particles, then log p of those beside it."""
    runs = posteriors[(posteriors["source"] == "posterior") & (posteriors["method"] == _PARTICLES)]
    for model, own in runs.groupby("model", sort=False):
        for proposal, rows in own.groupby("proposal", sort=False):
            finite = rows[rows["log_likelihood"].notna()]
            if len(finite) == len(rows):
                yield _word_record(str(model), f"{proposal}, particles", finite)
        if beside is None:
            continue
        for name, rows in beside[beside["model"] == model].groupby("beside", sort=False):
            same = rows["instance_id"].isin(set(own["instance_id"]))
            yield _word_record(str(model), f"{labels.model(str(name))}, beside", rows[same])


def words_table(posteriors: pd.DataFrame, beside: pd.DataFrame | None, labels: Labels) -> Table:
    """Lay out perplexity of words inside annotated mentions and of the others."""
    columns = [
        *text_columns("Instances of", of="model"),
        *text_columns("Scored by", of="by"),
        *(
            column
            for name, title in {"inside": "Words inside mentions", "outside": "Other words"}.items()
            for column in (
                Column("words", title, of=f"n_{name}", form=","),
                Column("perplexity", title, of=f"perplexity_{name}", form=",.1f"),
            )
        ),
        Column("perplexity", "All words", of="perplexity_words", form=",.1f"),
        Column("nats each", "Ends", of=lambda r: -r["log_likelihood_end"] / r["n_end"], form=".2f"),
    ]
    title = "Words inside annotated mentions and other words"
    records = list(_word_records(posteriors, beside, labels))
    return lay_out("importance-words", title, _WORDS_NOTE, columns, records)


# ---- beside models without latent variables ----


def paired_instances(
    row: dict[Any, Any], instances: pd.DataFrame, scores: pd.DataFrame
) -> pd.DataFrame:
    """Put log p̂ of a latent model (``estimated``, of a row of ``estimates``) beside log p of
    another, instance by instance."""
    same = np.ones(len(instances), bool)
    for name in ("model", "proposal", "method", "temperature"):
        held = instances[name]
        same &= (held.isna() if pd.isna(row[name]) else held == row[name]).to_numpy()
    own = instances.loc[same, ["instance_id", "n_tokens", "log_likelihood"]]
    own = own.rename(columns={"log_likelihood": "estimated", "n_tokens": "t"})
    if str(scores["beside"].iloc[0]).endswith(EXACT):  # of short texts alone
        own = own[own["instance_id"].isin(scores["instance_id"])]
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
    row: dict[Any, Any], instances: pd.DataFrame, scores: pd.DataFrame, estimates: pd.DataFrame
) -> dict[str, Any]:
    """Compare a latent model with another by `paired_instances`: cross-entropy, nats a token;
    penalized, ln U for each unknown word that is generated (NaN: not known)."""
    joined = paired_instances(row, instances, scores)
    less = joined["log_likelihood"] - joined["estimated"]
    groups, lengths = joined["group"].to_numpy(), joined["n_tokens"].to_numpy()
    gap, tokens = sum_groups(groups, less.to_numpy(), lengths)
    held = ratio_interval(gap, tokens)
    total, types = joined["n_tokens"].sum(), row["unknown_types"]
    own, other = (-joined[name].sum() / total for name in ("estimated", "log_likelihood"))
    penalty = math.nan if pd.isna(types) else math.log(max(1, types))
    more = penalty * joined["n_unknown"].sum() / total
    part = str(scores["beside"].iloc[0]).endswith(EXACT)
    names = ("model", "proposal", "method", "temperature", "bound")
    return {
        **{name: row[name] for name in names},
        "n_tokens": int(total),
        "n_instances": len(joined),
        "chosen_by": row["chosen_by"],
        "perplexity": math.exp(own),
        "beside": str(scores["beside"].iloc[0]),
        "perplexity_beside": math.exp(other),
        "penalized": math.exp(own + more) if part else _penalized(row, estimates),
        "penalized_beside": math.exp(other + more),
        "difference": held.value,
        **{name: getattr(held, name) for name in ("low", "high", "standard_error", "groups")},
        "groups_effective": held.effective,
    }


def _penalized(row: dict[Any, Any], estimates: pd.DataFrame) -> float:
    """Return the unknown-penalized perplexity of an estimate; NaN where it is not known."""
    penalized = estimates["measure"] == "unknown_penalized_perplexity"
    chosen = penalized & (estimates["aggregation"] == "instance")
    others = importance_choice.by_estimate(estimates[chosen])
    value = others.get(importance_choice.estimate_key(row), {}).get("value")
    return math.nan if value is None else float(value)


def _estimated_by(row: Mapping[Any, Any]) -> str:
    degrees = "" if pd.isna(row["temperature"]) else f", τ = {row['temperature']:g}"
    return f"{row['proposal']}, {row['method'].replace('_', ' ')}{degrees}"


def label_beside(labels: Labels) -> Callable[[str, str], str]:
    """Return what prints the name of a model beside a latent one, which may be that one itself."""

    def label(model: str, beside: str) -> str:
        named = labels.model(beside.removesuffix(EXACT))
        if beside.endswith(EXACT):
            return f"{named}, sum over all latents, of short texts"
        return f"{named}, the most confident position first" if model == beside else named

    return label


def _limits(low: float, high: float) -> str:
    return EN_DASH if math.isnan(low) else f"{low:+.3f} to {high:+.3f}"


def beside_table(
    estimates: pd.DataFrame,
    instances: pd.DataFrame,
    beside: pd.DataFrame,
    choices: pd.DataFrame | None,
    labels: Labels,
) -> Table:
    """Lay out what the latent variables of each model bring."""
    with_rows = estimates[estimates["method"].isin(set(instances["method"]))]
    speaking = importance_choice.choose_estimates(with_rows, choices)
    chosen = {row["model"]: row for row in speaking.to_dict("records")}
    found = [
        compare_beside(row, instances[instances["model"] == model], scores, estimates)
        for (model, _), scores in beside.groupby(["model", "beside"], sort=False)
        if (row := chosen.get(str(model)))
    ]
    gap = "Difference of cross-entropies"
    columns = [
        *under(
            "With latent variables",
            Column("model", text=True),
            Column("by", text=True, of=_estimated_by),
            Column("perplexity", form=",.1f"),
            Column("unknown penalized", of="penalized", form=",.1f"),
        ),
        *under(
            "Without",
            Column("model", text=True, of=("model", "beside"), form=label_beside(labels)),
            Column("perplexity", of="perplexity_beside", form=",.1f"),
            Column("unknown penalized", of="penalized_beside", form=",.1f"),
        ),
        Column("nats a token", gap, of="difference", form="+.3f"),
        Column("95% interval", gap, of=("low", "high"), form=_limits),
        Column("Instances", of="n_instances"),
        Column("all", "Groups", of="groups"),
        Column("effective", "Groups", of="groups_effective", form=".1f"),
        *text_columns("Chosen by", of="chosen_by"),
    ]
    note = _BESIDE_NOTE + importance_choice.models_left_out(estimates, speaking)
    return lay_out("importance-beside", "What the latent variables bring", note, columns, found)
