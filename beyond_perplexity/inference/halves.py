"""Random halves of a human text: how far two human texts of the same size are apart.

Every distance between two samples is above 0, the more the smaller they are. In every split all
groups of the reference are dealt at random to two halves of as many groups each, and documents are
left out at random inside of groups where a half has more of them than the other one, or than there
are samples; samples are cut likewise. Of documents without groups as many are drawn. Of samples
with groups beside single documents of the reference one random document of each group is taken, as
in their tests. Every split draws new parts, so that neither the order of a file nor the fortune of
one draw matters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from beyond_perplexity.inference import permuted_units
from beyond_perplexity.inference.intervals import INTERVAL_LEVEL
from beyond_perplexity.inference.p_values import holm, student_quantile, student_tail
from beyond_perplexity.inference.permuted_units import EFFECTIVE_GROUPS, Groups
from beyond_perplexity.random_streams import stream

HUMAN_SPLITS = 199  # random splits of human text that a baseline is the mean of
PAIRED_SPLITS = 30  # whose halves tell how distances of several texts vary together
EXCESS_SPLITS = 20  # of them, whose halves are compared with the samples
_BAND = (0.025, 0.975)
SAMPLE_SETS = (0, 0, 1)  # what the two halves and the cut samples are parts of


class Baseline(NamedTuple):
    """A distance between two human texts as large as those that are compared.

    Attributes
    ----------
    mean, low, high : float
        Mean, 2.5% and 97.5% quantile over random splits of *this* human text: the band does not
        know how such texts vary, and other pairs of human texts lie outside of it more often.
    excess : float or None
        What a distance has above the baseline; None for the value minus the mean.
    """

    mean: float
    low: float
    high: float
    excess: float | None = None


def baseline_of(drawn: np.ndarray) -> Baseline:
    """Summarize the distances (B,) of random splits of human text; those not defined count not."""
    low, high = np.nanquantile(drawn, _BAND)
    return Baseline(float(np.nanmean(drawn)), float(low), float(high))


def _narrowed(codes: np.ndarray | None) -> np.ndarray | None:
    """Hold group numbers in 16 bits where they fit: these are sorted ten times as fast."""
    if codes is None or codes.max(initial=0) >= 2**16:
        return codes
    return codes.astype(np.uint16)


@dataclass(frozen=True)
class Halving:
    """How the reference of two texts is halved and the samples are cut."""

    groups: Groups  # of each document of both texts, from 0 on: int, (D,)
    n_documents: tuple[int, int]
    seed: int  # split b draws from the stream (`seed`, ``"floor/parts"``, b)
    lengths: np.ndarray | None = None  # what each document of the reference counts; None: one each

    @cached_property
    def _codes(self) -> tuple[np.ndarray | None, np.ndarray | None]:
        return _narrowed(self.groups[0]), _narrowed(self.groups[1])

    @cached_property
    def _draws(self) -> bool:
        """Whether a random document of each group of the samples is taken."""
        return permuted_units.scheme_of(self.groups) == "draws"

    @cached_property
    def groups_of_a_part(self) -> int:
        """Groups of either half, and of samples that have groups; 0 for documents alone."""
        reference, samples = (None if x is None else len(np.unique(x)) for x in self.groups)
        if reference is None:
            return samples or 0
        return reference // 2 if samples is None else min(reference // 2, samples)

    @cached_property
    def is_possible(self) -> bool:
        """Whether each part has two documents, and enough effective groups on average."""
        codes = self.groups[0]
        if codes is not None:
            lengths = np.ones(len(codes)) if self.lengths is None else self.lengths
            share = self.groups_of_a_part / max(len(np.unique(codes)), 1)
            tokens = permuted_units.group_sums(codes, lengths)
            if permuted_units.effective_groups(tokens) * share < EFFECTIVE_GROUPS:
                return False
        return min(map(len, self.parts(0)[0])) >= 2

    def parts(self, number: int) -> tuple[list[np.ndarray], np.random.Generator]:
        """Draw a split: documents of the halves and of the cut samples, int64, (m,) each.

        Returns also the generator for what else is drawn of this split.
        """
        rng = stream(self.seed, "floor/parts", number)
        dealt = [*self._dealt(0, 2, rng), *self._dealt(1, 1, rng)]
        m = min(map(len, dealt))
        both = zip(SAMPLE_SETS, dealt, strict=True)
        return [self._thinned(sample_set, held, m, rng) for sample_set, held in both], rng

    def _dealt(self, sample_set: int, n: int, rng: np.random.Generator) -> list[np.ndarray]:
        """Deal a sample set to n parts, in random order; of documents all parts have as many."""
        order = rng.permutation(self.n_documents[sample_set])
        codes = self._codes[sample_set]
        if codes is None:
            size = len(order) // n
            return [order[part * size : (part + 1) * size] for part in range(n)]
        if self._draws:
            return [order[np.sort(np.unique(codes[order], return_index=True)[1])]]
        n_groups, size = int(codes.max(initial=0)) + 1, self.groups_of_a_part
        part_of = np.full(n_groups, n)
        part_of[rng.permutation(n_groups)[: n * size]] = np.repeat(np.arange(n), size)
        part_numbers = part_of[codes[order]]
        return [order[part_numbers == part] for part in range(n)]

    def _thinned(
        self, sample_set: int, documents: np.ndarray, m: int, rng: np.random.Generator
    ) -> np.ndarray:
        """Keep m documents of a part in random order; of groups the same share of each."""
        codes = self._codes[sample_set]
        if codes is None or self._draws or len(documents) == m:
            return documents[:m]
        by_group = documents[np.argsort(codes[documents], kind="stable")]
        indices = ((np.arange(m) + rng.random()) * (len(documents) / m)).astype(np.int64)
        return rng.permutation(by_group[np.minimum(indices, len(documents) - 1)])


class HalfSamples(Halving):
    """Halves of the reference, and beside them a half of the samples.

    The half of a text, drawn without replacement, varies as a whole one does (the half-samples of
    McCarthy 1969); halves of the reference are the same for all samples.
    """

    def parts(self, number: int) -> tuple[list[np.ndarray], np.random.Generator]:
        """Draw a split: documents of the halves of the reference, and of the samples."""
        rng = stream(self.seed, "halves/parts", number)
        return [*self._dealt(0, 2, rng), self._dealt(1, 2, rng)[0]], rng


def paired_differences(
    values: np.ndarray, halves: np.ndarray, df: float, families: int = 1
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Compare distances to one reference with one another.

    Parameters
    ----------
    values : numpy.ndarray, shape (M,)
        The distance of each text, or its excess.
    halves : numpy.ndarray, shape (M, R)
        Its distances between halves (`HalfSamples`), of the same halves of the reference.
    df : float
        Degrees of freedom of Student's t, R − 1 at most.
    families : int
        How many such comparisons are adjusted for together.

    Returns
    -------
    tuple of numpy.ndarray
        Of every text less every other one, (M, M): the difference, half the width of its interval
        (all of them hold at once in 95%), and the two-sided p-value, adjusted by Holm's method.
    """
    one, other = np.triu_indices(len(values), 1)
    differences = values[:, None] - values
    errors = np.std(halves[one] - halves[other], axis=1, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.abs(differences[one, other]) / errors
    p_values = np.where(np.isnan(t), 1.0, 2 * student_tail(np.nan_to_num(t), np.array(df)))
    widths, adjusted = np.zeros(differences.shape), np.ones(differences.shape)
    level = 1 - (1 - INTERVAL_LEVEL) / (2 * families * max(1, len(one)))
    widths[one, other] = widths[other, one] = student_quantile(level, df) * errors
    adjusted[one, other] = adjusted[other, one] = holm(p_values.tolist(), families)
    return differences, widths, adjusted


def half_baseline(
    reference: np.ndarray,
    samples: np.ndarray,
    distance: Callable[[np.ndarray, np.ndarray], float],
    *,
    groups: Groups = (None, None),
    splits: int = HUMAN_SPLITS,
    excess_splits: int = EXCESS_SPLITS,
    seed: int = 0,
) -> Baseline | None:
    """Compute the human baseline of a distance, and the excess of the samples over it.

    The baseline is the mean distance between random halves of the reference, cut to as many
    documents as there are samples; the excess is the mean distance between such halves and samples
    cut to their size, minus the baseline. Both are taken at the same sizes, so that the bias of a
    distance by the size of its samples is in both.

    Parameters
    ----------
    reference, samples : numpy.ndarray, shape (D, ...)
        What the distance reads of each document of either text.
    distance : callable
        Takes two arrays of some documents, (m, ...) each, and returns a number.
    groups : tuple of two numpy.ndarray of int, shape (D,), or None
        The group of each document, from 0 on without gaps; whole groups are dealt.
    splits, excess_splits : int
        Random splits of the reference, and those whose halves are compared with the samples.
    seed : int
        Split b draws from the stream (`seed`, ``"floor/parts"``, b).

    Returns
    -------
    Baseline or None
        None where a half would have fewer than two documents, or fewer effective groups than a
        verdict needs (`EFFECTIVE_GROUPS`).

    Raises
    ------
    ValueError
        When a text has groups and not one for each document.

    Examples
    --------
    >>> from beyond_perplexity.inference import ks_of_samples
    >>> rng = np.random.default_rng(0)
    >>> human, model = rng.normal(size=400), rng.normal(0.5, size=150)
    >>> found = half_baseline(human, model, ks_of_samples)
    >>> round(found.mean, 3), round(found.excess, 3)
    (0.097, 0.181)
    """
    texts, sizes = (reference, samples), (len(reference), len(samples))
    permuted_units.check_group_codes(groups, sizes)
    halving = Halving(groups, sizes, seed)
    if not halving.is_possible:
        return None
    human, against = [], []
    for number in range(splits):
        parts, _ = halving.parts(number)
        first, second, cut = (texts[b][part] for b, part in zip(SAMPLE_SETS, parts, strict=True))
        human.append(distance(first, second))
        if number < excess_splits:
            against += [distance(first, cut), distance(second, cut)]
    baseline = baseline_of(np.array(human, float))
    if not against:
        return baseline
    return baseline._replace(excess=float(np.nanmean(against)) - baseline.mean)
