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

Groups that both texts have, prompts that both answer, are halved alike, and the error is that of
the difference by prompt: r_g = (y_g - e_h t_g) / sum t - (n_g - e_m m_g) / sum m, v = G / (G - 1)
sum r_g^2, with the effective number of t + m less 1 as degrees of freedom.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np

from beyond_perplexity.inference import permuted_units
from beyond_perplexity.inference.p_values import student_quantile, student_tail
from beyond_perplexity.inference.permuted_units import (
    HALVINGS,
    CommonGroups,
    Groups,
    effective_groups,
)
from beyond_perplexity.random_streams import stream

PARTITION_TYPES = 200  # most frequent types that are cells of their own
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


def combine_pairs(
    y: np.ndarray, t: np.ndarray, n: np.ndarray, m: np.ndarray
) -> tuple[float, float, float]:
    """Compute the same of groups that both texts have, (G,)."""
    groups = int(((both := t + m) > 0).sum())
    if groups < 2 or not (t.sum() and m.sum()):
        return (np.nan,) * 3
    e_h, e_m = y.sum() / t.sum(), n.sum() / m.sum()
    residuals = (y - e_h * t) / t.sum() - (n - e_m * m) / m.sum()
    error = np.sqrt(groups / (groups - 1) * np.sum(residuals**2))
    return float(e_h - e_m), float(error), effective_groups(both) - 1


def halvings(n: int, rngs: Iterable[np.random.Generator]) -> np.ndarray:
    """Draw which units are in the first half, by a generator a halving: bool, shape (n, H)."""
    chosen = np.zeros((n, HALVINGS), bool)
    for h, rng in enumerate(rngs):
        chosen[rng.permutation(n)[: n // 2], h] = True
    return chosen


class PartitionLimits(NamedTuple):
    """The total variation over a partition of the types: an estimate and a limit on either side."""

    value: float  # held out: on average at most the distance
    low: float
    high: float


class Halved(NamedTuple):
    """Units of both texts, cut into halves H times; documents that are left out have unit U."""

    documents: _TypeCounts
    codes: tuple[np.ndarray, np.ndarray]  # the unit of each document: (D,)
    first: tuple[np.ndarray, np.ndarray]  # units of the first half: bool, (U + 1, H)
    tokens: tuple[np.ndarray, np.ndarray]  # of each unit: (U + 1,)
    # Counts of types in both halves of the reference, and in those of the samples: (V, H) each
    halves: tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
    grouped: bool  # whether the samples have groups
    paired: bool  # whether groups are in both texts

    @classmethod
    def of(
        cls, documents: _TypeCounts, groups: Groups, seed: int, kept: Kept = (None, None)
    ) -> Halved:
        """Halve two texts, of units or of those that are kept, (D,)."""
        codes, first, tokens, halves = [], [], [], []
        paired = isinstance(groups, CommonGroups)
        for sample_set, name in enumerate(("reference", "samples")):
            n, held = documents.n_documents(sample_set), groups[sample_set]
            own = np.arange(n) if held is None else held
            chosen = np.ones(n, bool) if kept[sample_set] is None else kept[sample_set]
            numbers, inverse = np.unique(own[chosen], return_inverse=True)
            n_units = len(numbers)
            if paired:  # units of both texts have the same numbers, whatever is left out
                inverse = own[chosen]
                n_units = 1 + max(int(x.max(initial=-1)) for x in groups if x is not None)
            unit = np.full(n, n_units)
            unit[chosen] = inverse
            purpose = f"held_out/{'prompts' if paired else name}"
            rngs = (stream(seed, purpose, h) for h in range(HALVINGS))
            drawn = np.vstack([halvings(n_units, rngs), np.zeros((1, HALVINGS), bool)])
            codes.append(unit)
            first.append(drawn)
            lengths = documents.values(sample_set)["length"] * chosen
            tokens.append(np.bincount(unit, lengths, n_units + 1))
            half = documents.sums_of(sample_set, drawn, unit)
            halves.append((half, documents.totals(sample_set, kept[sample_set])[:, None] - half))
        both = (codes[0], codes[1]), (first[0], first[1]), (tokens[0], tokens[1])
        grouped = groups[1] is not None
        return cls(documents, *both, (halves[0], halves[1]), grouped, paired)

    def inside(self, sample_set: int, marks: list[np.ndarray]) -> np.ndarray:
        """Count the tokens of each unit of marked types, of two marks (V, H): (U + 1, 2, H)."""
        n = len(self.first[sample_set])
        both = np.hstack(marks).astype(np.float32)
        sums = sums_of_units(self.documents, sample_set, self.codes[sample_set], both, n)
        return sums.reshape(n, 2, HALVINGS)

    def of_half(self, sample_set: int, inside: np.ndarray) -> np.ndarray:
        """Take what units have by the second mark where they are of the first half, else first."""
        return np.where(self.first[sample_set], inside[:, 1], inside[:, 0])

    def combined(self, inside: np.ndarray, inside_samples: np.ndarray) -> HeldOut:
        """Combine what units have inside, (U + 1, H) of either text, for each halving."""
        combined = combine_pairs if self.paired else partial(combine, sample_groups=self.grouped)
        found = [
            combined(y, self.tokens[0], n, self.tokens[1])
            for y, n in zip(inside.T, inside_samples.T, strict=True)
        ]
        return HeldOut(*(np.array(column) for column in zip(*found, strict=True)))

    def held_out(self, marks: list[np.ndarray]) -> HeldOut:
        """Hold the units of either half against the marks (V, H) of the other one."""
        return self.combined(*(self.of_half(b, self.inside(b, marks)) for b in (0, 1)))

    def distance(self) -> HeldOut:
        """Compute the held-out distance."""
        return self.held_out([_more_frequent(*half) for half in zip(*self.halves, strict=True)])

    def partitioned(self, confidence: float) -> PartitionLimits:
        """Estimate the total variation over the most frequent types of the reference's other half.

        Of every halving the `PARTITION_TYPES` most frequent types of one half of the reference are
        a cell each and all others one; the distance is measured in the other half. The lower limit
        and the value are those of the held-out distance; the upper limit, value + t * standard
        error, of the plug-in distance of the other half and all samples, which is too large on
        average. Both limits are of this confidence.
        """
        reference, samples = self.halves
        n, all_samples = min(PARTITION_TYPES, len(reference[0])), samples[0] + samples[1]
        marks, plug_in = [], []
        for half in (0, 1):
            order = np.argsort(-reference[half], axis=0, kind="stable")[:n]
            marks.append(_more_frequent(reference[half], samples[half], order))
            plug_in.append(_more_frequent(reference[1 - half], all_samples, order))
        held, of_samples = self.held_out(marks), self.inside(1, plug_in).mean(axis=1)
        above = self.combined(self.of_half(0, self.inside(0, plug_in)), of_samples)
        high = above.estimate + student_quantile(confidence, above.df) * above.error
        value = max(0.0, float(np.median(held.estimate)))
        limits = held.lower_limit(confidence), min(1.0, float(np.median(high)))
        return PartitionLimits(value, *limits)


def held_out_distance(
    documents: _TypeCounts, groups: Groups, seed: int, kept: Kept = (None, None)
) -> HeldOut:
    """Compute the held-out distance of two texts, of units or of those that are kept, (D,)."""
    return Halved.of(documents, groups, seed, kept).distance()


def _more_frequent(
    first: np.ndarray, second: np.ndarray, order: np.ndarray | None = None
) -> np.ndarray:
    """Mark types (V, H) that are more frequent in the first text; of the rest all alike.

    `order` (n, H) are the types that are cells of their own; None: all.
    """
    with np.errstate(invalid="ignore"):
        shares = [counts / counts.sum(axis=0, dtype=float) for counts in (first, second)]
    if order is None:
        return np.asarray(shares[0] > shares[1])
    tops = [np.take_along_axis(own, order, axis=0) for own in shares]
    rest = tops[0].sum(axis=0) < tops[1].sum(axis=0)
    marks = np.repeat(rest[None], len(first), axis=0)
    np.put_along_axis(marks, order, tops[0] > tops[1], axis=0)
    return marks


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
        The group of each document; None where each is one of its own. Or the `prompts.Prompts` that
        both texts answer.
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
