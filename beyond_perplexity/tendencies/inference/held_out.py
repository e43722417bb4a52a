"""The held-out total variation: a lower limit of the distance, and its test for groups.

Both texts are halved. A is the set of types that are more frequent in the first half of the
reference than in the first half of the samples. In the second halves each unit of the reference (a
group, or a document) has y of its t tokens in A, each of the samples n of m: the difference of the
shares is at most the true distance, on average, whatever A is. Then the halves change places, and
all units are pooled:

e = sum y / sum t - sum n / sum m,
v_h = (G - 1) / G * sum_g (e_h without g - e_h)^2, v_m = sum_d (n_d - e_m m_d)^2 / (sum m_d)^2,
df = (v_h + v_m)^2 / (v_h^2 / (G_eff - 1) + v_m^2 / (D - 1)), G_eff = (sum t)^2 / sum t^2,
and in place of D likewise the effective number where the samples have groups.

e / sqrt(v_h + v_m) is compared with Student's t. The median over several halvings is taken.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from beyond_perplexity.random_streams import stream
from beyond_perplexity.tendencies.inference.thresholds import HALVINGS
from beyond_perplexity.tendencies.inference.units import effective_groups, group_sums
from beyond_perplexity.tendencies.resampling import student_quantile, student_tail
from beyond_perplexity.tendencies.unigrams import DocumentCounts, Kept


class HeldOut(NamedTuple):
    """Estimates of several halvings.

    Attributes
    ----------
    estimate, error, df : numpy.ndarray of float64, shape (H,)
        e, its standard error and degrees of freedom.
    """

    estimate: np.ndarray
    error: np.ndarray
    df: np.ndarray

    @property
    def p_value(self) -> float:
        """The median upper tail; NaN where it is not defined."""
        with np.errstate(invalid="ignore", divide="ignore"):
            tails = student_tail(self.estimate / self.error, self.df)
        return float(np.median(np.where((self.estimate == 0) & (self.error == 0), 1.0, tails)))

    def lower_limit(self, confidence: float) -> float:
        """Return the median of e - t * error, at least 0: a lower limit of the true distance."""
        limits = self.estimate - student_quantile(confidence, self.df) * self.error
        return float(np.maximum(np.median(limits), 0))


def combine(
    inside: np.ndarray,
    tokens: np.ndarray,
    inside_samples: np.ndarray,
    sample_tokens: np.ndarray,
    *,
    sample_groups: bool,
) -> tuple[float, float, float]:
    """Compute e, its standard error and degrees of freedom.

    Parameters
    ----------
    inside, tokens : numpy.ndarray, shape (G,)
        y and t of the units of the reference.
    inside_samples, sample_tokens : numpy.ndarray, shape (D,)
        n and m of the units of the samples.
    sample_groups : bool
        Whether these are groups, of which the effective number counts.

    Returns
    -------
    e, error, df : float
        NaNs with fewer than two units with tokens on a side.
    """
    kept = tokens > 0
    y, t = inside[kept].astype(float), tokens[kept].astype(float)
    kept = sample_tokens > 0
    n, m = inside_samples[kept].astype(float), sample_tokens[kept].astype(float)
    if min(len(t), len(m)) < 2:
        return (np.nan,) * 3
    e_h, e_m = y.sum() / t.sum(), n.sum() / m.sum()
    without = (y.sum() - y) / (t.sum() - t)
    v_h = (len(t) - 1) / len(t) * np.sum((without - e_h) ** 2)
    v_m = np.sum((n - e_m * m) ** 2) / m.sum() ** 2
    n_m = effective_groups(m) if sample_groups else len(m)
    parts = v_h**2 / (effective_groups(t) - 1) + v_m**2 / (n_m - 1)
    df = (v_h + v_m) ** 2 / parts if parts else np.inf
    return float(e_h - e_m), float(np.sqrt(v_h + v_m)), float(df)


def _halves(n: int, seed: int, name: str) -> np.ndarray:
    """Draw for each halving which units are in the first half: bool, shape (n, H)."""
    chosen = np.zeros((n, HALVINGS), bool)
    for h in range(HALVINGS):
        order = stream(seed, f"held_out/{name}", h).permutation(n)
        chosen[order[: n // 2], h] = True
    return chosen


def held_out_distance(
    documents: DocumentCounts,
    groups: tuple[np.ndarray | None, np.ndarray | None],
    seed: int,
    kept: Kept = (None, None),
) -> HeldOut:
    """Compute the held-out distance of two texts; see the module.

    Parameters
    ----------
    documents : DocumentCounts
        Counts of every document.
    groups : tuple of two numpy.ndarray of int, shape (D,), or None
        The unit of each document; None where each is one of its own.
    seed : int
        Seed of the halvings.
    kept : tuple of two numpy.ndarray of bool, shape (D,), or None
        Which documents are taken; None for all.
    """
    codes, first, tokens = [], [], []
    for body, name in enumerate(("reference", "samples")):
        n = documents.n_documents(body)
        held = groups[body]
        chosen, own = kept[body], np.arange(n) if held is None else held
        chosen = np.ones(n, bool) if chosen is None else chosen
        numbers, inverse = np.unique(own[chosen], return_inverse=True)
        n_units = len(numbers)
        unit = np.full(n, n_units)  # that of documents that are left out
        unit[chosen] = inverse
        halves = np.vstack([_halves(n_units, seed, name), np.zeros((1, HALVINGS), bool)])
        codes.append(unit)
        first.append(halves)
        tokens.append(group_sums(unit, documents.values(body)["length"])[:n_units])
    inside = _tokens_inside(documents, codes, first, kept)
    found = [
        combine(
            inside[0][: len(tokens[0]), h],
            tokens[0],
            inside[1][: len(tokens[1]), h],
            tokens[1],
            sample_groups=groups[1] is not None,
        )
        for h in range(HALVINGS)
    ]
    return HeldOut(*(np.array(column) for column in zip(*found, strict=True)))


def _tokens_inside(
    documents: DocumentCounts, codes: list[np.ndarray], first: list[np.ndarray], kept: Kept
) -> list[np.ndarray]:
    """Count the tokens of each unit in the A of the other half: float64, shape (U + 1, H)."""
    halves = [documents.sums_of(body, first[body], codes[body]) for body in (0, 1)]  # (V, H)
    totals = [documents.totals(body, kept[body])[:, None] for body in (0, 1)]
    marks = []  # A of either half: (V, H) each
    for side in (halves, [all_of - half for all_of, half in zip(totals, halves, strict=True)]):
        with np.errstate(invalid="ignore"):
            shares = [counts / counts.sum(axis=0, dtype=float) for counts in side]
        marks.append((shares[0] > shares[1]).astype(np.float32))
    both = np.hstack(marks)
    found = []
    for body in (0, 1):
        sums = np.zeros(first[body].shape)
        start = 0
        for counts in documents.per_document(body, both):  # (D, 2 H)
            unit = codes[body][start : start + len(counts)]
            start += len(counts)
            # A unit of the first half is held against the A of the second, and the reverse.
            own = np.where(first[body][unit], counts[:, HALVINGS:], counts[:, :HALVINGS])
            for h in range(HALVINGS):
                sums[:, h] += np.bincount(unit, own[:, h], minlength=len(sums))
        found.append(sums)
    return found
