"""What estimates cost, in seconds and evaluations, beside what they are worth.

A latent counts once for p where log p(x, z) is asked of it, and once for q for every proposal that
log q(z | x) is asked of, whether or not the same latent was drawn before: a particle that goes
through a text is one of each.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from beyond_perplexity.errors import InputError, NothingToShowError
from beyond_perplexity.importance.bound_claims import finite_bounds
from beyond_perplexity.importance.estimate_wording import sampling_error
from beyond_perplexity.importance.estimator import ALL_TEMPERATURES, SAMPLES
from beyond_perplexity.importance.estimator_registry import find_estimator
from beyond_perplexity.importance.ways_to_draw import DRAWS

TARGET = 0.01  # standard error, nats a token


def bounds_with_costs(estimates: pd.DataFrame, costs: pd.DataFrame) -> pd.DataFrame:
    """Put gap, cost and error beside the finite bounds of perplexity at instance level.

    Costs are of schema ``draw_costs``, of all jobs that the estimates are made of. Added are
    ``gap`` (nats a token above the best bound of the model), ``seconds`` (of an instance),
    ``seconds_of``, ``evaluations_p`` and ``evaluations_q`` (of an instance), ``error`` (nats a
    token; NaN: not known), ``error_by``, and ``needed`` (K, or runs of sequential Monte Carlo, for
    an error of `TARGET`: as the error of a mean falls with the root of their number).
    """
    held = finite_bounds(estimates)
    if held.empty:
        raise NothingToShowError("the estimates hold no finite bound; draw more samples")
    tables = dict(list(costs.groupby(["model", "proposal"], sort=False)))
    best = held.groupby("model")["log_likelihood"].transform("max")
    added = [
        _costs(row, tables.get((row["model"], row["proposal"]))) for row in held.to_dict("records")
    ]
    found = held.assign(gap=(best - held["log_likelihood"]) / held["n_tokens"])
    return pd.concat([found.reset_index(drop=True), pd.DataFrame(added)], axis=1)


def _costs(row: dict[Any, Any], costs: pd.DataFrame | None) -> dict[str, Any]:
    if costs is None:
        raise InputError(f"{row['proposal']}: what its draws cost is missing; give --costs of it")
    p, q = evaluations(row, costs)
    error, source = sampling_error(row)
    known = error is not None and math.isfinite(error) and error > 0
    relative = error / row["value"] if known and error is not None else math.nan
    drawn = row["n_samples"] if pd.isna(row["replicates"]) else row["replicates"]
    needed = math.ceil(drawn * (relative / TARGET) ** 2) if known and drawn > 0 else math.nan
    return {
        "seconds": seconds_of_instance(row, costs),
        "seconds_of": " and ".join(dict.fromkeys(costs["seconds_of"])),
        "evaluations_p": p,
        "evaluations_q": q,
        "error": relative,
        "error_by": source,
        "needed": needed,
    }


def evaluations(row: Mapping[Any, Any], costs: pd.DataFrame) -> tuple[int, int]:
    """Count how often p and q are asked for an instance; its proposal's costs say how."""
    needs = find_estimator(row["method"]).needs
    p = q = 0
    if any(DRAWS[need].sequential for need in needs if need in DRAWS):
        p = q = int(row["n_samples"] * row["replicates"])
    elif ALL_TEMPERATURES in needs:
        degrees = costs.loc[costs["draw"] == "weights", "temperature"].nunique()
        p, q = int(row["n_samples"]), int(row["n_samples"] * degrees)
    elif SAMPLES in needs:
        p = q = int(row["n_samples"])
    if "beams" in needs:
        p, q = p + int(row["beam_size"]), q + int(row["beam_size"])
    return p, q


def seconds_of_instance(row: Mapping[Any, Any], costs: pd.DataFrame) -> float:
    """Return the seconds that an estimate took for an instance, on average.

    The search of the largest beam gives the smaller ones too: all are charged with it.
    """
    needs = find_estimator(row["method"]).needs
    draws = {need for need in needs if need in set(costs["draw"])}
    chosen = costs["draw"].isin(draws)
    if ALL_TEMPERATURES in needs:
        chosen |= costs["draw"].isin(["weights", "log_q"])
    elif SAMPLES in needs:
        chosen |= (costs["draw"] == "weights") & (costs["temperature"] == row["temperature"])
    spent = costs[chosen]
    return (
        float(spent["seconds"].sum() / spent["instance_id"].nunique()) if len(spent) else math.nan
    )
