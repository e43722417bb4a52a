"""What bidirectional Monte Carlo says of each setting on documents that the model generated.

What the columns of schema ``importance_gaps`` mean stands beside it. And what it, or a strict
bound, says of claims: bounds side by side, brackets that are refuted. D documents, F runs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from beyond_perplexity.errors import InputError
from beyond_perplexity.importance.bracket import LEAST_SAMPLES
from beyond_perplexity.importance.draw_files import check_pair
from beyond_perplexity.importance.estimate_notes import share_below
from beyond_perplexity.importance.estimator import TWO_SIDED, TWO_SIDED_UNSURE, Fields
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


class SimulatedEstimates(NamedTuple):
    """The estimates of D documents with one setting, F runs each.

    `n_cut` documents have none: they were cut, or have no word. `n_tokens`, (D,), is T. Log p̂ is
    of draws alone and of draws with the z of the document, (D, F), and of both halves of plain
    samples, (2, D), NaN of runs, nats. `log_q`, (D,), of that z is −∞ where q misses it.
    Diagnostics are of the draws alone.
    """

    setting: dict[str, Any]
    n_cut: int
    n_tokens: np.ndarray
    log_forward: np.ndarray
    log_reverse: np.ndarray
    log_halves: np.ndarray
    log_q: np.ndarray
    diagnostics: list[Diagnostics]


def _batches(given: str | Path | TableFile) -> Iterator[pa.RecordBatch]:
    if not isinstance(given, HeldTable):
        return read_batches(str(given), BIDIRECTIONAL, BIDIRECTIONAL.names)
    check_columns(given, given.table.schema, BIDIRECTIONAL)
    return given.columns({field.name: field.type for field in BIDIRECTIONAL})


class SimulatedRuns:
    """The estimates of simulated documents of one model and proposal, in shards of `scripts.draw`.

    Files are cut in any way, and of the model and proposal that the samples of the reader are of.
    No estimate of the instances is made of them, so that there are no settings.
    """

    settings: Sequence[dict[str, Any]] = ()

    def __init__(self, paths: Sequence[str | Path | TableFile], reader: WeightReader) -> None:
        for path in paths:
            check_pair(path, reader.labels)
        names = BIDIRECTIONAL.names
        batches = [batch for path in paths for batch in _batches(path)]
        self._columns = {
            name: np.concatenate(
                [np.empty(0, BIDIRECTIONAL.field(name).type.to_pandas_dtype())]
                + [batch.column(name).to_numpy(zero_copy_only=False) for batch in batches]
            )
            for name in names
        }

    def __iter__(self) -> Iterator[SimulatedEstimates]:
        """Yield the settings in their order: plain samples by temperature and number, then runs."""
        keys = list(zip(*(self._columns[name].tolist() for name in SETTING), strict=True))
        places = {key: place for place, key in enumerate(sorted(set(keys)))}
        of_row = np.array([places[key] for key in keys])
        for key, place in places.items():
            held = {name: column[of_row == place] for name, column in self._columns.items()}
            yield _of_one_setting(dict(zip(SETTING, key, strict=True)), held)


def _of_one_setting(setting: dict[str, Any], held: dict[str, np.ndarray]) -> SimulatedEstimates:
    order = np.lexsort((held["run"], held["instance_id"]))
    held = {name: column[order] for name, column in held.items()}
    documents, runs = np.unique(held["instance_id"]), np.unique(held["run"])
    whole = np.repeat(documents, len(runs)), np.tile(runs, len(documents))
    if not np.array_equal([held["instance_id"], held["run"]], whole):
        raise InputError(
            "bidirectional: a document has a run twice or lacks one that others have; give every "
            "file once, and all of them"
        )
    shape = (len(documents), len(runs))
    kept = ~np.isnan(held["log_forward"].reshape(shape)).any(1)  # (D',)
    table = {name: column.reshape(shape)[kept] for name, column in held.items()}  # (D, F)
    diagnostics = [
        Diagnostics(float(ess), float("nan"), float("nan"), float(k_hat), str(tail))
        for ess, k_hat, tail in zip(
            table["ess"].min(1), table["k_hat"][:, 0], table["tail"][:, 0], strict=True
        )
    ]
    return SimulatedEstimates(
        setting,
        int((~kept).sum()),
        table["n_tokens"][:, 0].astype(np.int64),
        table["log_forward"],
        table["log_reverse"],
        np.stack([table["log_first_half"][:, 0], table["log_second_half"][:, 0]]),
        table["log_q"][:, 0],
        diagnostics,
    )


def gap_rows(found: SimulatedRuns) -> Iterator[Fields]:
    """Give a row of schema ``importance_gaps`` for each setting, without model and proposal."""
    for one in found:
        row: Fields = {
            **one.setting,
            "runs": one.log_forward.shape[1],
            "n_documents": len(one.n_tokens),
            "n_cut": one.n_cut,
            "n_missed": int(np.isneginf(one.log_q).sum()),
            "n_tokens": int(one.n_tokens.sum()),
        }
        if len(one.n_tokens):
            row |= _both_sides(one) | _bracket(one)
        yield row


class GapRange(NamedTuple):
    """What is known of a setting beside the others of its model, nats per token.

    `least` and `most` are what its ``forward`` may lack of the true cross-entropy, as seen from the
    least ``forward`` and the greatest ``reverse`` of the model, `above` and `below`: in expectation
    the true value is between these. `surely_above` and `surely_below` allow for what is known of
    errors.
    """

    least: float
    most: float
    below: float
    above: float
    surely_above: float
    surely_below: float

    def verdict(self, low: float, high: float) -> str:
        """Say whether a bracket from `low` to `high` holds the true value."""
        if low > self.surely_below or high < self.surely_above:
            return FAILS
        if low <= self.below and high >= self.above:
            return "holds"
        short = low - self.below, self.above - high
        return "open" if any(map(math.isnan, short)) else f"open: at most {max(short):.3f} short"


def gap_ranges(rows: Sequence[Mapping[Any, Any]]) -> list[GapRange]:
    """Set every setting, a row of schema ``importance_gaps``, beside the others of its model.

    These are of the same documents. The best of several is chosen by its own numbers: by their
    errors it may lie beyond the truth.
    """
    groups: dict[tuple[Any, ...], list[Mapping[Any, Any]]] = {}
    for row in rows:
        groups.setdefault(_documents_of(row), []).append(row)
    known = {key: _known(held) for key, held in groups.items()}
    return [
        GapRange(row["forward"] - found[1], row["forward"] - found[0], *found)
        for row in rows
        for found in [known[_documents_of(row)]]
    ]


def _documents_of(row: Mapping[Any, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("model", "n_documents", "n_tokens"))


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
    """Return the standard error over documents of Σ gap / Σ T, for gaps, nats, and T, (D,).

    That of the ratio estimator (Cochran 1977, section 6.4); NaN of one document or an infinite gap.
    """
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


def _sides(one: SimulatedEstimates) -> tuple[np.ndarray, np.ndarray]:
    """Return log p̂ of draws alone and with the z of the document, each (D,)."""
    return log_mean_exp(one.log_forward, 1), -log_mean_exp(-one.log_reverse, 1)


def _both_sides(one: SimulatedEstimates) -> Fields:
    total, (forward, reverse) = one.n_tokens.sum(), _sides(one)
    with np.errstate(invalid="ignore"):
        gaps = np.where(np.isposinf(reverse) | np.isneginf(forward), np.inf, reverse - forward)
    ess = np.array([found.ess for found in one.diagnostics])
    return {
        "forward": -forward.sum() / total,
        "reverse": -reverse.sum() / total,
        "gap": gaps.sum() / total,
        "gap_error": gap_error(gaps, one.n_tokens),
        "ess_median": np.median(ess),
        "ess_low_share": share_below(ess, one.n_tokens, FEW_EFFECTIVE),
    }


def _bracket(one: SimulatedEstimates) -> Fields:
    """Enclose log p as on real documents, where no z is given."""
    runs, halves = one.log_forward.shape[1], one.log_halves  # (2, D)
    between, tail_end = np.full(len(one.n_tokens), np.nan), -math.inf
    if runs > 1:
        halves = np.stack([log_half_means(row) for row in one.log_forward], 1)  # (2, D)
        with np.errstate(invalid="ignore"):
            between = one.log_forward.var(1, ddof=1)  # (D,)
        if np.isfinite(halves).all():
            tail = PooledTail(one.log_forward.size)
            for row in one.log_forward:
                tail.add(row)
            tail_end = tail.upper_end()
    if one.setting["n_samples"] < LEAST_SAMPLES or np.isnan(halves).any():
        return {}
    total, count = one.n_tokens.sum(), np.full(len(one.n_tokens), one.setting["n_samples"])
    ends = enclose(log_mean_exp(one.log_forward, 1), halves, one.n_tokens, tail_end)
    unsure = doubts(ends, halves, one.diagnostics, one.n_tokens, count, between, runs)
    ess = np.array([found.ess for found in one.diagnostics])
    lack = shown_lack(*_sides(one), 0.0 if runs > 1 else 1 / np.maximum(ess, 1.0) - 1 / count)
    return {
        "at_most": -(ends.low + lack) / total,
        "bracket_low": -ends.high / total,
        "bracket_high": -ends.low / total,
        "bracket_bound": TWO_SIDED_UNSURE if unsure else TWO_SIDED,
    }


def withdraw_claims(estimates: pd.DataFrame, gaps: pd.DataFrame | None) -> pd.DataFrame:
    """Take the claim from brackets whose setting fails on documents that the model generated.

    Weights that all miss the same latents agree with each other, and no diagnostic of theirs can
    tell; latents that are known can. The estimates of a proposal know of its own gaps already
    (`reduction.estimates_table`); here those of other proposals refute it too. Tables are of
    schemas ``estimates`` and ``importance_gaps``, of any models and proposals.
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

    Where brackets of the same setting, of as many samples or more, fail on simulated documents,
    ``bound`` is ``two-sided?`` and ``note`` begins with what was found. A mixture is refuted where
    all temperatures are that it is made of: their samples together must be as many.
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
    """Say of each setting, for which numbers of samples its bracket fails, and how."""

    def known(value: Any) -> bool:
        return value is not None and value == value

    rows = [row for row in gaps if known(row.get("forward"))]
    found: dict[tuple[Any, ...], list[tuple[int, str]]] = {}
    for row, beside in zip(rows, gap_ranges(rows), strict=True):
        if not known(row.get("bracket_low")):
            continue
        low, high = row["bracket_low"], row["bracket_high"]
        if beside.verdict(low, high) != FAILS:
            continue
        least = f"at least {beside.surely_above:.3f}" if high < beside.surely_above else ""
        most = f"at most {beside.surely_below:.3f}" if low > beside.surely_below else ""
        said = (
            f"on {row['n_documents']:.0f} simulated documents the bracket of this setting is "
            f"{low:.3f} to {high:.3f} nats a token and the truth is {most or least}, so nothing is "
            "claimed"
        )
        key = row["model"], row["proposal"], row["method"], row["temperature"]
        found.setdefault(key, []).append((int(row["n_samples"]), said))
    return found
