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
    between ``reverse`` and ``bracket_low`` may be missed by it. Null where there is none.
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

from beyond_perplexity.importance.diagnostics import FEW_EFFECTIVE
from beyond_perplexity.importance.enclosing import doubts, enclose
from beyond_perplexity.importance.estimators.bracket import LEAST_SAMPLES
from beyond_perplexity.importance.estimators.contract import TWO_SIDED, TWO_SIDED_UNSURE, Fields
from beyond_perplexity.importance.log_space import log_half_means, log_mean_exp
from beyond_perplexity.importance.reading.bidirectional import SimulatedEstimates, SimulatedRuns
from beyond_perplexity.importance.summary import share_below

FAILS = "fails"  # a verdict


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
    """

    least: float
    most: float
    below: float
    above: float

    def verdict(self, low: float, high: float) -> str:
        """Say whether a bracket from `low` to `high` holds the true value."""
        if low <= self.below and high >= self.above:
            return "holds"
        if low > self.above or high < self.below:
            return FAILS
        return f"open: at most {max(low - self.below, self.above - high):.3f} short"


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
    keys = [tuple(row[name] for name in ("model", "n_documents", "n_tokens")) for row in rows]
    above: dict[tuple[Any, ...], float] = {}
    below: dict[tuple[Any, ...], float] = {}
    for key, row in zip(keys, rows, strict=True):
        above[key] = min(above.get(key, math.inf), row["forward"])
        below[key] = max(below.get(key, -math.inf), row["reverse"])
    return [
        GapRange(row["forward"] - above[key], row["forward"] - below[key], below[key], above[key])
        for key, row in zip(keys, rows, strict=True)
    ]


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


def _both_sides(one: SimulatedEstimates) -> Fields:
    total = one.n_tokens.sum()
    forward = log_mean_exp(one.log_forward, 1)  # (D,)
    reverse = -log_mean_exp(-one.log_reverse, 1)  # (D,)
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
    between = np.full(len(one.n_tokens), np.nan)
    if runs > 1:
        halves = np.stack([log_half_means(row) for row in one.log_forward], 1)  # (2, D)
        with np.errstate(invalid="ignore"):
            between = one.log_forward.var(1, ddof=1)  # (D,)
    if one.setting["n_samples"] < LEAST_SAMPLES or np.isnan(halves).any():
        return {}
    ends, total = enclose(log_mean_exp(one.log_forward, 1), halves), one.n_tokens.sum()
    unsure = doubts(ends, halves, one.diagnostics, one.n_tokens, between)
    return {
        "bracket_low": -ends.high / total,
        "bracket_high": -ends.low / total,
        "bracket_bound": TWO_SIDED_UNSURE if unsure else TWO_SIDED,
    }
