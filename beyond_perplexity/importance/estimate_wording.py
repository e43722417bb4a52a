"""Estimates in plain words, a table and a line for every number, and what they cost.

A latent is an evaluation of p where log p(x, z) is asked of it, and of q for every proposal that
log q(z | x) is asked of, drawn before or not: a particle that goes through a text is one of each.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from beyond_perplexity.errors import InputError, NothingToShowError
from beyond_perplexity.importance.estimator import (
    ALL_TEMPERATURES,
    BOUNDS,
    SAMPLES,
    STOCHASTIC,
    STRICT,
)
from beyond_perplexity.importance.ways_to_draw import DRAWS, find_estimator, load_estimators
from beyond_perplexity.inference.weight_diagnostics import FEW_EFFECTIVE

if TYPE_CHECKING:
    import pandas as pd

_Row = Mapping[str, Any]
Key = tuple[str | None, str]  # model, measure

# Columns of the error over samples, the first that is known first, and how each is found.
ERRORS = {
    "standard_error": "delta method",
    "standard_error_samples": "bootstrap",
    "standard_deviation": "pairings",
}
MEASURE_WORDS = {
    "perplexity": "Perplexity",
    "unknown_penalized_perplexity": "Unknown-penalized perplexity",
}


def number(value: float | None) -> str:
    """Format a number for reading: two decimals, or an exponent from a million on; null is –."""
    if value is None:
        return "–"
    if math.isinf(value):
        return "infinite"
    small = 0 < abs(value) < 0.01
    return f"{value:.3g}" if small or abs(value) >= 1e6 else f"{value:,.2f}"


def sampling_error(row: Mapping[Any, Any]) -> tuple[float | None, str]:
    """Choose the error over samples to be read, with its source (of `ERRORS`): by the delta method
    where it holds, else by bootstrap or over random pairings; None if unknown."""
    for name, source in ERRORS.items():
        value = row[name]
        if value is not None and not math.isnan(value):
            return value, source
    return None, ""


def interval(row: Mapping[Any, Any]) -> str:
    """Write the ends of two-sided bounds, such as ``181.20 to 185.03``."""
    return f"{number(row['low'])} to {number(row['high'])}"


def method_cell(row: Mapping[Any, Any]) -> str:
    """Name the method of an estimate and the size of its beam; null may be NaN."""
    size = row["beam_size"]
    title = find_estimator(row["method"]).title
    return title if size is None or math.isnan(size) else f"{title}, k = {size:.0f}"


def temperature_cell(row: Mapping[Any, Any]) -> str:
    """Write the temperature of an estimate, or a dash; null may be NaN."""
    degrees = row["temperature"]
    return "–" if degrees is None or math.isnan(degrees) else f"{degrees:g}"


def _value(row: _Row) -> str:
    return number(row["value"]) if row["basis"] is None else interval(row)


def _what(row: _Row) -> str:
    words = find_estimator(row["method"]).words
    if row["basis"] is not None:
        words += f" of {find_estimator(row['basis']).words}"
    pairing = {None: "", "sample_id": ", samples paired by id", "random": ", paired at random"}
    parts = [words, f"{row['aggregation']} level{pairing[row['pairing']]}"]
    if row["temperature"] is not None:
        parts.append(f"temperature {row['temperature']:g}")
    if row["beam_size"] is not None:
        parts.append(f"beam size {row['beam_size']}")
    return "; ".join(parts)


def _size(row: _Row) -> str:
    drawn = find_estimator(row["basis"] or row["method"]).drawn.format_map(row)
    samples = "" if row["n_samples"] is None else f"K = {row['n_samples']:,} {drawn}, "
    definition = row["t_definition"] or "the sum of n_tokens as given"
    instances = "instance" if row["n_instances"] == 1 else "instances"
    return f"{samples}{row['n_instances']:,} {instances}, T = {row['n_tokens']:,} ({definition})"


def _errors(row: _Row) -> Iterator[str]:
    if row["pairing"] == "random":
        yield (
            f"Mean over {row['replicates']} random pairings; "
            f"most of them from {number(row['low'])} to {number(row['high'])}, "
            f"standard deviation {number(row['standard_deviation'])}."
        )
    names = {
        "standard_error": "over samples by the delta method",
        "standard_error_samples": "over samples by bootstrap",
        "standard_error_instances": "over instances by bootstrap",
    }
    known = [f"{number(row[key])} {words}" for key, words in names.items() if row[key] is not None]
    if known:
        yield f"Standard error, of the spread and not of the bias: {', '.join(known)}."


def _units(row: _Row) -> int:
    """Count the sets of weights of an estimate: its instances, or 1 of the corpus."""
    return int(row["n_instances"]) if row["aggregation"] == "instance" else 1


def _trust(row: _Row) -> Iterator[str]:
    if row["ess_median"] is None:
        return
    units, median = _units(row), number(row["ess_median"])
    of = f" of an instance: median {median}, least {number(row['ess_min'])}"
    parts = ["Effective samples" + (of if units > 1 else f": {median}")]
    if share := row["ess_low_share"]:
        parts.append(f"{share:.0%} of the tokens in instances with fewer than {FEW_EFFECTIVE:g}")
    if row["largest_weight_max"] is not None:
        parts.append(f"largest share of one sample {row['largest_weight_max']:.0%}")
    if row["unique_share"] is not None:
        parts.append(f"distinct latents {row['unique_share']:.0%}")
    yield "; ".join(parts) + "."
    if row["k_hat_above"]:
        own = "the limit of their K" if row["k_hat_threshold"] is None else ""
        yield (
            f"Pareto k̂ above {own or number(row['k_hat_threshold'])} in {row['k_hat_above']} of "
            f"{units - row['k_hat_undefined']} where it is defined: not to be trusted there, more "
            "samples or another proposal will change it."
        )


def describe_estimate(row: _Row) -> str:
    """Say one estimate, a row of schema ``estimates``, in words, on one line."""
    note = f"Note: {row['note']}." if row["note"] else ""
    if row["measure"] == "unknown_penalized_perplexity":
        bound = "" if row["basis"] is None else f", {row['bound']}"
        return (
            f"{MEASURE_WORDS[row['measure']]} {_value(row)}{bound}: the same, penalized by ln "
            f"{row['unknown_types']:,} for each of {row['n_unknown']:,} unknown tokens."
        )
    sentences = [
        f"{MEASURE_WORDS[row['measure']]} {_value(row)} by {_what(row)}: {BOUNDS[row['bound']]}.",
        f"{_size(row)}.",
        *_errors(row),
        *_trust(row),
        note,
    ]
    return " ".join(sentence for sentence in sentences if sentence)


def k_hat_cell(above: int | None, undefined: int | None, units: int) -> str:
    """Write how many of the sets whose k̂ is defined have it above its limit, as ``26/30 (10
    undefined)``."""
    if above is None or undefined is None:
        return "–"
    shown = f"{above}/{units - undefined}" if undefined < units else "–"
    return shown + (f" ({undefined} undefined)" if undefined else "")


def _cells(row: _Row) -> list[str]:
    level = row["aggregation"] + (" (random)" if row["pairing"] == "random" else "")
    error, source = sampling_error(row)
    return [
        MEASURE_WORDS[row["measure"]].replace(" perplexity", ""),
        row["method"]
        + (f" {row['beam_size']}" if row["beam_size"] else "")
        + (f" of {row['basis']}" if row["basis"] else ""),
        level,
        temperature_cell(row),
        "–" if row["n_samples"] is None else str(row["n_samples"]),
        _value(row),
        number(error),
        source,
        row["bound"],
        number(row["ess_median"]),
        k_hat_cell(row["k_hat_above"], row["k_hat_undefined"], _units(row)),
    ]


_HEADER = ["Measure", "Method", "Level", "τ", "K", "Value"]
_HEADER += ["± s.e.", "by", "Bound", "ESS", "k̂ above limit"]


def _lines(cells: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    for row in cells:
        padded = [text.ljust(width) for text, width in zip(row, widths, strict=True)]
        yield "  ".join(padded).rstrip()


def report(estimates: pa.Table) -> str:
    """Write the estimates whose measure is known as a table and, below it, each in words."""
    needed = ("n_unknown", "unknown_types")
    rows = [
        row
        for row in estimates.to_pylist()
        if row["measure"] == "perplexity" or all(row[name] is not None for name in needed)
    ]
    table = "\n".join(_lines([_HEADER, *(_cells(row) for row in rows)]))
    strict = [
        f"{MEASURE_WORDS[measure]}: the least strict bound is {number(least.value)}, by "
        f"{least.words}."
        for (_, measure), least in least_strict(rows).items()
    ]
    return "\n\n".join([table, *(describe_estimate(row) for row in rows), *strict])


TARGET = 0.01  # standard error, nats a token


def finite_bounds(
    estimates: pd.DataFrame, kinds: Collection[str] = (STOCHASTIC, STRICT)
) -> pd.DataFrame:
    """Keep the finite bounds, of `BOUNDS`, of perplexity at instance level by known methods."""
    return estimates[
        (estimates["aggregation"] == "instance")
        & (estimates["measure"] == "perplexity")
        & estimates["bound"].isin(list(kinds))
        & estimates["method"].isin(load_estimators())
        & np.isfinite(estimates["value"].astype(float))
    ]


class LeastBound(NamedTuple):
    """The least strict bound of a measure of a model: a perplexity, and whose beam it is."""

    value: float
    proposal: str | None
    beam_size: int

    @property
    def words(self) -> str:
        """Say where it is from."""
        of = f" of {self.proposal}" if self.proposal else ""
        return f"the beam of {self.beam_size}{of}"


def least_strict(rows: Iterable[Mapping[Any, Any]]) -> dict[Key, LeastBound]:
    """Find the least strict bound of each model and measure in rows of ``estimates``; it is one
    itself, as no sample takes part in the choice."""
    found: dict[Key, LeastBound] = {}
    for row in rows:
        value, key = row["value"], (row["model"], row["measure"])
        if row["bound"] != STRICT or not isinstance(value, float) or not math.isfinite(value):
            continue
        if key not in found or value < found[key].value:
            found[key] = LeastBound(value, row["proposal"], int(row["beam_size"]))
    return found


def is_above_strict(row: Mapping[Any, Any], least: Mapping[Key, LeastBound]) -> LeastBound | None:
    """Return the strict bound that a stochastic bound of the same model and measure lies above."""
    strict = least.get((row["model"], row["measure"]))
    if strict is None or row["bound"] != STOCHASTIC or row["value"] is None:
        return None
    return strict if row["value"] > strict.value else None


def bounds_with_costs(estimates: pd.DataFrame, costs: pd.DataFrame) -> pd.DataFrame:
    """Put gap, cost and error beside the finite bounds of perplexity at instance level.

    Costs are of schema ``draw_costs``, of all jobs that the estimates are made of. Added are
    ``gap`` (nats a token above the best bound of the model), ``seconds``, ``evaluations_p`` and
    ``evaluations_q`` of an instance, ``error`` (nats a token; NaN: not known), and ``needed`` (K,
    or runs, for an error of `TARGET`: as the error of a mean falls with the root of their number).
    """
    import pandas as pd  # the command that says estimates starts without

    held = finite_bounds(estimates)
    if held.empty:
        raise NothingToShowError("the estimates hold no finite bound; draw more samples")
    tables = dict(list(costs.groupby(["model", "proposal"], sort=False)))
    best = held.groupby("model")["log_likelihood"].transform("max")
    rows = held.to_dict("records")
    added = [_costs(row, tables.get((row["model"], row["proposal"]))) for row in rows]
    found = held.assign(gap=(best - held["log_likelihood"]) / held["n_tokens"])
    return pd.concat([found.reset_index(drop=True), pd.DataFrame(added)], axis=1)


def _costs(row: dict[Any, Any], costs: pd.DataFrame | None) -> dict[str, Any]:
    if costs is None:
        raise InputError(f"{row['proposal']}: what its draws cost is missing; give --costs of it")
    p, q = evaluations(row, costs)
    error, source = sampling_error(row)
    known = error is not None and math.isfinite(error) and error > 0
    relative = error / row["value"] if known and error is not None else math.nan
    runs = row["replicates"]
    drawn = row["n_samples"] if runs is None or math.isnan(runs) else runs
    needed = math.ceil(drawn * (relative / TARGET) ** 2) if known and drawn > 0 else math.nan
    spent: dict[str, Any] = {"seconds": seconds_of_instance(row, costs)}
    spent |= {"seconds_of": " and ".join(dict.fromkeys(costs["seconds_of"]))}
    spent |= {"evaluations_p": p, "evaluations_q": q}
    return spent | {"error": relative, "error_by": source, "needed": needed}


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
    """Return the seconds of an estimate for an instance, on average; the search of the largest beam
    gives the smaller ones too: all take its time."""
    needs = find_estimator(row["method"]).needs
    draws = {need for need in needs if need in set(costs["draw"])}
    chosen = costs["draw"].isin(draws)
    if ALL_TEMPERATURES in needs:
        chosen |= costs["draw"].isin(["weights", "log_q"])
    elif SAMPLES in needs:
        chosen |= (costs["draw"] == "weights") & (costs["temperature"] == row["temperature"])
    spent = costs[chosen]
    if spent.empty:
        return math.nan
    return float(spent["seconds"].sum() / spent["instance_id"].nunique())
