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

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, Protocol

import numpy as np

from beyond_perplexity.inference import permuted_units
from beyond_perplexity.inference.p_values import student_quantile, student_tail
from beyond_perplexity.inference.permuted_units import HALVINGS, Groups, effective_groups
from beyond_perplexity.random_streams import stream

# Which documents (bool, (D,)) of the reference and of the samples are taken; None: all.
Kept = tuple[np.ndarray | None, np.ndarray | None]


class _TypeCounts(Protocol):
    """Counts of V types in the documents of two texts: 0 is the reference, 1 the samples."""

    def n_documents(self, sample_set: int) -> int: ...
    # What is kept of every document, ``length`` (tokens) among it: (D,)
    def values(self, sample_set: int) -> Mapping[str, np.ndarray]: ...
    # Sums of counts of all documents, or of those that are kept (D,): int64, (V,)
    def totals(self, sample_set: int, kept: np.ndarray | None = None) -> np.ndarray: ...
    # Sums over documents whose unit (codes, (D,)) has a label (U, w): (V, w)
    def sums_of(self, sample_set: int, labels: np.ndarray, codes: np.ndarray) -> np.ndarray: ...
    # Sums of counts times numbers of types (V, w): (D, w), some documents at a time
    def per_document(self, sample_set: int, marks: np.ndarray) -> Iterator[np.ndarray]: ...


class _Matrices(NamedTuple):
    """`_TypeCounts` of two arrays in memory, (D, V) each."""

    sample_sets: tuple[np.ndarray, np.ndarray]

    def n_documents(self, sample_set: int) -> int:
        return len(self.sample_sets[sample_set])

    def values(self, sample_set: int) -> Mapping[str, np.ndarray]:
        return {"length": self.sample_sets[sample_set].sum(axis=1)}

    def totals(self, sample_set: int, kept: np.ndarray | None = None) -> np.ndarray:
        counts = self.sample_sets[sample_set]
        return (counts if kept is None else counts[kept]).sum(axis=0)

    def sums_of(self, sample_set: int, labels: np.ndarray, codes: np.ndarray) -> np.ndarray:
        return self.sample_sets[sample_set].T @ labels[codes].astype(float)

    def per_document(self, sample_set: int, marks: np.ndarray) -> Iterator[np.ndarray]:
        yield self.sample_sets[sample_set] @ marks


class HeldOut(NamedTuple):
    """The estimates of several random halvings.

    Attributes
    ----------
    estimate, error, df : numpy.ndarray of float64, shape (H,)
        Of each halving the estimate, its standard error and its degrees of freedom.
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


def halvings(n: int, rngs: Iterable[np.random.Generator]) -> np.ndarray:
    """Draw which units are in the first half, by a generator a halving: bool, shape (n, H)."""
    chosen = np.zeros((n, HALVINGS), bool)
    for h, rng in enumerate(rngs):
        chosen[rng.permutation(n)[: n // 2], h] = True
    return chosen


def held_out_distance(
    documents: _TypeCounts, groups: Groups, seed: int, kept: Kept = (None, None)
) -> HeldOut:
    """Compute the held-out distance of two texts, of units or of those that are kept, (D,)."""
    codes, first, tokens = [], [], []
    for sample_set, name in enumerate(("reference", "samples")):
        n, held, chosen = documents.n_documents(sample_set), groups[sample_set], kept[sample_set]
        own = np.arange(n) if held is None else held
        chosen = np.ones(n, bool) if chosen is None else chosen
        numbers, inverse = np.unique(own[chosen], return_inverse=True)
        n_units = len(numbers)
        unit = np.full(n, n_units)  # that of documents that are left out
        unit[chosen] = inverse
        rngs = (stream(seed, f"held_out/{name}", h) for h in range(HALVINGS))
        halves = np.vstack([halvings(n_units, rngs), np.zeros((1, HALVINGS), bool)])
        codes.append(unit)
        first.append(halves)
        lengths = documents.values(sample_set)["length"] * chosen
        tokens.append(np.bincount(unit, lengths, n_units + 1))
    inside, grouped = _tokens_inside(documents, codes, first, kept), groups[1] is not None
    found = [
        combine(inside[0][:, h], tokens[0], inside[1][:, h], tokens[1], sample_groups=grouped)
        for h in range(HALVINGS)
    ]
    return HeldOut(*(np.array(column) for column in zip(*found, strict=True)))


def _tokens_inside(
    documents: _TypeCounts, codes: list[np.ndarray], first: list[np.ndarray], kept: Kept
) -> list[np.ndarray]:
    """Count the tokens of each unit in the A of the other half: float64, shape (U + 1, H)."""
    halves = [
        documents.sums_of(sample_set, first[sample_set], codes[sample_set]) for sample_set in (0, 1)
    ]  # (V, H)
    totals = [documents.totals(sample_set, kept[sample_set])[:, None] for sample_set in (0, 1)]
    marks = []  # A of either half: (V, H) each
    for side in (halves, [all_of - half for all_of, half in zip(totals, halves, strict=True)]):
        with np.errstate(invalid="ignore"):
            shares = [counts / counts.sum(axis=0, dtype=float) for counts in side]
        marks.append((shares[0] > shares[1]).astype(np.float32))
    both = np.hstack(marks)
    found = []
    for sample_set in (0, 1):
        # (U + 1, 2 H)
        sums = sums_of_units(documents, sample_set, codes[sample_set], both, len(first[sample_set]))
        # A unit of the first half is held against the A of the second, and the reverse.
        found.append(np.where(first[sample_set], sums[:, HALVINGS:], sums[:, :HALVINGS]))
    return found


def sums_of_units(
    documents: _TypeCounts, sample_set: int, codes: np.ndarray, marks: np.ndarray, n: int
) -> np.ndarray:
    """Sum counts times numbers of types (V, w) over the documents of n units, (D,): (n, w)."""
    sums, start = np.zeros((n, marks.shape[1])), 0
    for found in documents.per_document(sample_set, marks):  # (D, w)
        units = codes[start : start + len(found)]
        start += len(found)
        for column, values in enumerate(found.T):
            sums[:, column] += np.bincount(units, values, minlength=n)
    return sums


def held_out_total_variation(
    reference: np.ndarray, samples: np.ndarray, *, groups: Groups = (None, None), seed: int = 0
) -> HeldOut:
    """Bound the total variation between two texts from below, and test whether it is 0.

    The plug-in distance of two samples is above 0 even for equal distributions; this one is at
    most the true distance on average, and its standard error is that of whole groups. The
    docstring of the module has the formula.

    Parameters
    ----------
    reference, samples : numpy.ndarray of int, shape (D, V)
        Counts of the same V types in the documents of either text.
    groups : tuple of two numpy.ndarray of int, shape (D,), or None
        The group of each document; None where each is one of its own.
    seed : int
        Seed of the random halvings.

    Returns
    -------
    HeldOut
        With `p_value` (upper tail) and `lower_limit(confidence)`.

    Raises
    ------
    ValueError
        When the texts have not the same number of types, or a group is missing.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> human = rng.multinomial(50, [0.5, 0.3, 0.2], size=60)
    >>> model = rng.multinomial(50, [0.4, 0.3, 0.3], size=60)
    >>> found = held_out_total_variation(human, model)
    >>> round(found.lower_limit(0.95), 3), bool(found.p_value < 0.01)  # the true distance is 0.1
    (0.041, True)
    """
    if reference.ndim != 2 or samples.ndim != 2 or reference.shape[1] != samples.shape[1]:
        raise ValueError(
            f"counts of {reference.shape} and {samples.shape}; give documents by the same types"
        )
    permuted_units.check_group_codes(groups, (len(reference), len(samples)))
    return held_out_distance(_Matrices((reference, samples)), groups, seed)
