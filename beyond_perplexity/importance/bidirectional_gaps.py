"""What bidirectional Monte Carlo says of each setting on documents that the model generated.

And what it, or a strict bound, says of claims: two-sided bounds that are refuted. D documents, F
runs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from beyond_perplexity.importance.draw_files import Columns, by_instance_and_run, check_pair
from beyond_perplexity.importance.estimate_notes import share_below
from beyond_perplexity.importance.estimator import TWO_SIDED, TWO_SIDED_UNSURE, Fields
from beyond_perplexity.importance.two_sided import LEAST_SAMPLES
from beyond_perplexity.importance.two_sided_bounds import CONFIDENCE, PooledTail, doubts, enclose
from beyond_perplexity.importance.ways_to_draw import find_estimator
from beyond_perplexity.importance.weight_files import WeightReader
from beyond_perplexity.inference.log_space import log_half_means, log_mean_exp
from beyond_perplexity.inference.weight_diagnostics import FEW_EFFECTIVE, Diagnostics
from beyond_perplexity.schemas.draws import BIDIRECTIONAL
from beyond_perplexity.storage.shards import check_columns, read_batches
from beyond_perplexity.storage.table_files import HeldTable, TableFile

if TYPE_CHECKING:
    import pandas as pd

# By model, proposal, method and temperature: for each refuted number of samples how it fails.
Refuted = Mapping[tuple[Any, ...], Sequence[tuple[int, str]]]
SETTING = ("method", "temperature", "n_samples")
FAILS = "fails"  # a verdict
_QUANTILE = 1.96  # of the normal distribution, for 97.5%


def _batches(given: str | Path | TableFile) -> Iterator[pa.RecordBatch]:
    if not isinstance(given, HeldTable):
        return read_batches(str(given), BIDIRECTIONAL, BIDIRECTIONAL.names)
    check_columns(given, given.table.schema, BIDIRECTIONAL)
    return given.columns({field.name: field.type for field in BIDIRECTIONAL})


class SimulatedRuns:
    """The estimates of simulated documents of the reader's model and proposal, in shards of
    `scripts.draw`, cut in any way; without estimates of instances, and so without settings."""

    settings: Sequence[dict[str, Any]] = ()

    def __init__(self, paths: Sequence[str | Path | TableFile], reader: WeightReader) -> None:
        for path in paths:
            check_pair(path, reader.labels)
        batches = [batch for path in paths for batch in _batches(path)]
        self._columns = {
            field.name: np.concatenate(
                [np.empty(0, field.type.to_pandas_dtype())]
                + [batch.column(field.name).to_numpy(zero_copy_only=False) for batch in batches]
            )
            for field in BIDIRECTIONAL
        }

    def __iter__(self) -> Iterator[tuple[Fields, Columns]]:
        """Yield the settings in their order, with columns (D, F) of schema ``bidirectional``."""
        keys = list(zip(*(self._columns[name].tolist() for name in SETTING), strict=True))
        for key in sorted(set(keys)):
            own = np.array([one == key for one in keys])
            held = {name: column[own] for name, column in self._columns.items()}
            setting = dict(zip(SETTING, key, strict=True))
            yield setting, by_instance_and_run(held, "bidirectional: a document")


def gap_rows(found: SimulatedRuns) -> Iterator[Fields]:
    """Give a row of schema ``importance_gaps`` for each setting, without model and proposal."""
    for setting, held in found:
        kept = ~np.isnan(held["log_forward"]).any(1)  # (D,)
        table = {name: column[kept] for name, column in held.items()}
        missed = np.isneginf(table["log_q"][:, 0]).sum()  # q misses the given z
        row: Fields = {**setting, "runs": table["run"].shape[1], "n_missed": int(missed)}
        row |= {"n_documents": int(kept.sum()), "n_cut": int((~kept).sum())}
        row |= {"n_tokens": int(table["n_tokens"][:, 0].sum())}
        if kept.any():
            row |= _both_sides(table) | _two_sided(table, setting["n_samples"])
        yield row


class GapRange(NamedTuple):
    """What is known of a setting beside the others of its model, nats per token.

    `least` and `most` are what its ``forward`` may lack of the true cross-entropy, which in
    expectation is between `above` and `below`, the least ``forward`` and the greatest ``reverse``
    of the model; `surely_above` and `surely_below` allow for their known errors.
    """

    least: float
    most: float
    below: float
    above: float
    surely_above: float
    surely_below: float

    def verdict(self, low: float, high: float) -> str:
        """Say whether two-sided bounds from `low` to `high` hold the true value."""
        if low > self.surely_below or high < self.surely_above:
            return FAILS
        if low <= self.below and high >= self.above:
            return "holds"
        short = low - self.below, self.above - high
        return "open" if any(map(math.isnan, short)) else f"open: at most {max(short):.3f} short"


def gap_ranges(rows: Sequence[Mapping[Any, Any]]) -> list[GapRange]:
    """Set every row of schema ``importance_gaps`` beside the others of its model and documents; the
    best of several may lie beyond the truth, as it is chosen by its own numbers."""
    keys = [(row["model"], row["n_documents"], row["n_tokens"]) for row in rows]
    known = {
        key: _known([row for row, own in zip(rows, keys, strict=True) if own == key])
        for key in dict.fromkeys(keys)
    }
    return [
        GapRange(row["forward"] - known[key][1], row["forward"] - known[key][0], *known[key])
        for row, key in zip(rows, keys, strict=True)
    ]


def _known(rows: Sequence[Mapping[Any, Any]]) -> tuple[float, float, float, float]:
    """Return what the settings of a model show of the true value: see `GapRange`."""

    def known(row: Mapping[Any, Any], name: str) -> float:
        value = row.get(name)
        return math.inf if value is None or math.isnan(value) else float(value)

    return (
        max(row["reverse"] for row in rows),
        min(row["forward"] for row in rows),
        max(row["reverse"] - _QUANTILE * known(row, "gap_error") for row in rows),
        min(known(row, "at_most") for row in rows),
    )


def gap_error(gaps: np.ndarray, n_tokens: np.ndarray) -> float:
    """Return the standard error over documents of Σ gap / Σ T, gaps in nats, (D,): that of the
    ratio estimator (Cochran 1977, section 6.4), NaN of one document or an infinite gap."""
    n, total = len(gaps), n_tokens.sum()
    if n < 2 or not np.isfinite(gaps).all():
        return math.nan
    rest = gaps - gaps.sum() / total * n_tokens  # (D,), sum 0
    return float(math.sqrt(n / (n - 1) * np.square(rest).sum()) / total)


def shown_lack(forward: np.ndarray, reverse: np.ndarray, shared: np.ndarray | float = 0.0) -> float:
    """Return what draws alone lack of log p of all documents at least, as their z show, nats.

    Given are log p̂ of draws alone, and −log of the mean of 1/p̂ with the z of each document, (D,);
    `shared` is 1 over the effective samples less 1/K, where both sides have K − 1 samples in
    common, and 0 where they are independent.

    It is −D log r, r an upper limit (97.5%) of the mean of exp(forward − reverse) + shared: of
    Student's t, and not below 1 − 0.025^(1/D), what D times nothing leaves open. 0 where that is
    negative, and of one document. 1/p̂ with a z from p(z | x) has the mean 1/p, so that given its
    draws alone the ratio of a document has the mean exp(forward − log p). By Jensen's inequality
    −log of the mean over documents is not above the mean of what `forward` lacks. Samples in common
    take from the mean of a ratio the mean share of a sample drawn in proportion to the weights,
    `shared`.
    """
    from scipy.special import stdtrit  # most of what starting the command would take

    n = len(forward)
    if n < 2 or not np.isfinite(forward).all():
        return 0.0
    ratios = np.exp(np.minimum(forward - reverse, 700.0)) + shared  # (D,), without it ≥ 0
    limit = ratios.mean() + stdtrit(n - 1, CONFIDENCE) * ratios.std(ddof=1) / math.sqrt(n)
    limit = max(limit, 1 - (1 - CONFIDENCE) ** (1 / n))
    return max(0.0, -n * math.log(limit))


def _sides(table: Columns) -> tuple[np.ndarray, np.ndarray]:
    """Return log p̂ of draws alone and with the z of the document, each (D,)."""
    return log_mean_exp(table["log_forward"], 1), -log_mean_exp(-table["log_reverse"], 1)


def _both_sides(table: Columns) -> Fields:
    n_tokens, ess = table["n_tokens"][:, 0].astype(np.int64), table["ess"].min(1)
    total, (forward, reverse) = n_tokens.sum(), _sides(table)
    with np.errstate(invalid="ignore"):
        gaps = np.where(np.isposinf(reverse) | np.isneginf(forward), np.inf, reverse - forward)
    row = {"forward": -forward.sum() / total, "reverse": -reverse.sum() / total}
    row |= {"gap": gaps.sum() / total, "gap_error": gap_error(gaps, n_tokens)}
    low_share = share_below(ess, n_tokens, FEW_EFFECTIVE)
    return row | {"ess_median": np.median(ess), "ess_low_share": low_share}


def _two_sided(table: Columns, n_samples: int) -> Fields:
    """Enclose log p as on real documents, where no z is given."""
    log_forward, n_tokens = table["log_forward"], table["n_tokens"][:, 0].astype(np.int64)
    halves = np.stack([table["log_first_half"][:, 0], table["log_second_half"][:, 0]])  # (2, D)
    runs, between, tail_end = log_forward.shape[1], np.full(len(n_tokens), np.nan), -math.inf
    if runs > 1:
        halves = np.stack([log_half_means(row) for row in log_forward], 1)  # (2, D)
        with np.errstate(invalid="ignore"):
            between = log_forward.var(1, ddof=1)  # (D,)
        if np.isfinite(halves).all():
            tail = PooledTail(log_forward.size)
            for row in log_forward:
                tail.add(row)
            tail_end = tail.upper_end()
    if n_samples < LEAST_SAMPLES or np.isnan(halves).any():
        return {}
    total, count, ess = n_tokens.sum(), np.full(len(n_tokens), n_samples), table["ess"].min(1)
    diagnostics = [
        Diagnostics(least, math.nan, math.nan, k_hat, tail)
        for least, k_hat, tail in zip(ess, table["k_hat"][:, 0], table["tail"][:, 0], strict=True)
    ]
    ends = enclose(log_mean_exp(log_forward, 1), halves, n_tokens, tail_end)
    unsure = doubts(ends, halves, diagnostics, n_tokens, count, between, runs)
    lack = shown_lack(*_sides(table), 0.0 if runs > 1 else 1 / np.maximum(ess, 1.0) - 1 / count)
    bound = TWO_SIDED_UNSURE if unsure else TWO_SIDED
    row = {"at_most": -(ends.low + lack) / total, "two_sided_low": -ends.high / total}
    return row | {"two_sided_high": -ends.low / total, "two_sided_bound": bound}


def withdraw_claims(estimates: pd.DataFrame, gaps: pd.DataFrame | None) -> pd.DataFrame:
    """Take the claim from two-sided bounds whose setting fails on simulated documents.

    Weights that all miss the same latents agree with each other, and no diagnostic of theirs can
    tell; latents that are known can, also those of other proposals. Tables are of schemas
    ``estimates`` and ``importance_gaps``, of any models and proposals.
    """
    refuted = {} if gaps is None else refuted_settings(gaps.to_dict("records"))
    rows = estimates.reset_index(drop=True)
    claimed = rows[rows["bound"].isin([TWO_SIDED, TWO_SIDED_UNSURE])]
    for place, row in zip(claimed.index, claimed.to_dict("records"), strict=True):
        for name, value in withdrawn(row, refuted).items():
            rows.loc[place, name] = value
    return rows


def withdrawn(row: Mapping[Any, Any], refuted: Refuted) -> dict[str, str]:
    """Return what changes in a row of schema ``estimates`` whose setting is refuted, if anything.

    That is where its two-sided bounds, of as many samples or more, fail on simulated documents;
    those of a mixture where all its temperatures are refuted, of as many samples together.
    """
    pair = row["model"], row["proposal"]
    if pooled := find_estimator(row["basis"]).pools:
        held = [max(found) for key, found in refuted.items() if key[:3] == (*pair, pooled)]
        failing = [(sum(size for size, _ in held), held[0][1])] if held else []
    else:
        failing = list(refuted.get((*pair, row["basis"], row["temperature"]), ()))
    for n_samples, found in failing:
        if n_samples >= row["n_samples"] and not str(row["note"]).startswith(found):
            return {"bound": TWO_SIDED_UNSURE, "note": f"{found}; {row['note']}"}
    return {}


def refuted_settings(gaps: Iterable[Mapping[Any, Any]]) -> Refuted:
    """Say of each setting, for which numbers of samples its two-sided bounds fails, and how."""

    def known(value: Any) -> bool:
        return value is not None and value == value

    rows = [row for row in gaps if known(row.get("forward"))]
    found: dict[tuple[Any, ...], list[tuple[int, str]]] = {}
    for row, beside in zip(rows, gap_ranges(rows), strict=True):
        if not known(row.get("two_sided_low")):
            continue
        low, high = row["two_sided_low"], row["two_sided_high"]
        if beside.verdict(low, high) != FAILS:
            continue
        least = f"at least {beside.surely_above:.3f}" if high < beside.surely_above else ""
        most = f"at most {beside.surely_below:.3f}" if low > beside.surely_below else ""
        setting = f"on {row['n_documents']:.0f} simulated documents the two-sided bounds of this"
        bounds = f"setting are {low:.3f} to {high:.3f} nats a token"
        said = f"{setting} {bounds} and the truth is {most or least}, so nothing is claimed"
        key = row["model"], row["proposal"], row["method"], row["temperature"]
        found.setdefault(key, []).append((int(row["n_samples"]), said))
    return found
