"""What bidirectional Monte Carlo says of each setting on documents that the model generated.

Of a row (schema ``importance_gaps``), all in nats per token of cross-entropy, −log p / T:

``forward``, ``reverse``
    From log p̂ of draws alone (of several runs, of their mean), and from log p̂ of draws with the z
    of the document (of several runs, −log of the mean of 1/p̂): in expectation the true value is
    between them, ``reverse`` below.
``gap``, ``gap_error``
    Their difference, which is not below what the first lacks, and its standard error over
    documents; infinite where q misses the z of a document.
``bracket_low``, ``bracket_high``, ``bracket_bound``
    The bracket of the same draws, without that z, and its label (`estimators.bracket`). What lies
    between ``reverse`` and ``bracket_low`` may be missed by it. Null where there is none. Plain
    samples are not kept, so that theirs does not allow for the tail.
``at_most``
    ``bracket_high`` less what the given z show the draws to lack (`shown_lack`): the true value is
    not above it, with 97.5% confidence. A bracket above it is refuted.
``n_documents``, ``n_cut``, ``n_missed``
    Documents that count; that do not, as they were cut at the largest number of words, or empty;
    whose z has q = 0.
``ess_median``, ``ess_low_share``
    As in schema ``estimates``, of draws alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from beyond_perplexity.importance.enclosing import CONFIDENCE, doubts, enclose
from beyond_perplexity.importance.estimators.bracket import LEAST_SAMPLES
from beyond_perplexity.importance.estimators.contract import TWO_SIDED, TWO_SIDED_UNSURE, Fields
from beyond_perplexity.importance.pooled_tail import PooledTail
from beyond_perplexity.importance.reading.bidirectional import SimulatedEstimates, SimulatedRuns
from beyond_perplexity.importance.summary import share_below
from beyond_perplexity.inference.log_space import log_half_means, log_mean_exp
from beyond_perplexity.inference.weight_diagnostics import FEW_EFFECTIVE

FAILS = "fails"  # a verdict
_QUANTILE = 1.96  # of the normal distribution, for 97.5%


def gap_rows(found: SimulatedRuns) -> Iterator[Fields]:
    """Give a row of schema ``importance_gaps`` for each setting, without model and proposal.

    Parameters
    ----------
    found : SimulatedRuns

    Yields
    ------
    dict
    """
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

    Attributes
    ----------
    least, most : float
        What its ``forward`` may lack of the true cross-entropy: as seen from the least ``forward``
        and from the greatest ``reverse`` of the model.
    below, above : float
        That ``reverse`` and that ``forward``: in expectation the true value is between them.
    surely_above, surely_below : float
        What the true value is above and below, with what is known of their errors.
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
    """Set every setting beside the others of its model on the same documents.

    Parameters
    ----------
    rows : sequence of mapping
        Rows of schema ``importance_gaps`` with estimates, of any models and proposals.

    Returns
    -------
    list of GapRange
        In their order. The best of several is chosen by its own numbers: by their errors it may
        lie beyond the truth.
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
    """Return the standard error over documents of Σ gap / Σ T.

    Parameters
    ----------
    gaps : ndarray, shape (D,), float64
        Nats of each document.
    n_tokens : ndarray, shape (D,), int64
        T of each.

    Returns
    -------
    float
        Of the ratio estimator (Cochran 1977, section 6.4); NaN of one document or an infinite gap.
    """
    n, total = len(gaps), n_tokens.sum()
    if n < 2 or not np.isfinite(gaps).all():
        return math.nan
    rest = gaps - gaps.sum() / total * n_tokens  # (D,), sum 0
    return float(math.sqrt(n / (n - 1) * np.square(rest).sum()) / total)


def shown_lack(forward: np.ndarray, reverse: np.ndarray, shared: np.ndarray | float = 0.0) -> float:
    """Return what draws alone lack of log p of all documents at least, as their z show.

    Parameters
    ----------
    forward, reverse : ndarray, shape (D,), float64
        log p̂ of draws alone, and −log of the mean of 1/p̂ with the z of each document, nats.
    shared : ndarray, shape (D,), or float
        1 over the effective samples less 1/K, where both sides have K − 1 samples in common; 0
        where they are independent.

    Returns
    -------
    float
        Nats: −D log r, r an upper limit (97.5%) of the mean of exp(forward − reverse) + shared: of
        Student's t, and not below 1 − 0.025^(1/D), what D times nothing leaves open. 0 where that
        is negative, and of one document.

    Notes
    -----
    1/p̂ with a z from p(z | x) has the mean 1/p, so that given its draws alone the ratio of a
    document has the mean exp(forward − log p). By Jensen's inequality −log of the mean over
    documents is not above the mean of what `forward` lacks. Samples in common take from the mean
    of a ratio the mean share of a sample drawn in proportion to the weights, `shared`.
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
            tail_end = _tail_end(one.log_forward)
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


def _tail_end(log_runs: np.ndarray) -> float:
    tail = PooledTail(log_runs.size)
    for row in log_runs:
        tail.add(row)
    return tail.upper_end()
