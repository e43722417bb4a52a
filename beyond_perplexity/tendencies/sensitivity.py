"""The minimum detectable effect of each tendency by number of documents.

Definition: two samples of n documents each are drawn, one from a population made of the reference's
documents, the other from that population with a shift of one tendency (the shifts are defined in
`shifts`). The shift is detected when the permutation test of the tendency gives a p-value below the
level. It is the effect that is detected with the given probability, the power; with
few documents a tendency may have none.

A permutation test of a distance with many permutations rejects when the distance lies beyond the
upper quantile of the level of its permutation distribution. Given the pooled documents,
permutations are the random splits of them, so that pairs of samples of one population, half of
which is shifted, have that distribution on average over pooled samples; it is taken from them, at a
shift near the one that is found. Tests compare all this with permutation tests of drawn pairs.

For differences of means the normal distribution gives the power in closed form.

Where the reference has groups, the human sample is of whole groups and the tests are those for
groups against independent documents: see `group_shifts`. Levels are of single p-values, before any
adjustment for many tests.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy.optimize import brentq
from scipy.sparse import csc_matrix, csr_matrix
from scipy.stats import norm

from beyond_perplexity.inference.p_values import joined_draws
from beyond_perplexity.inference.permuted_units import whole_groups
from beyond_perplexity.random_streams import stream
from beyond_perplexity.schemas.tendencies import SENSITIVITY
from beyond_perplexity.tendencies import document_shifts, type_token
from beyond_perplexity.tendencies.definitions import (
    LENGTH,
    SHARES,
    MeasurementOptions,
    SensitivityOptions,
)
from beyond_perplexity.tendencies.shifts import (
    LengthShift,
    MeasureDraws,
    PairDraw,
    ShareShift,
    Shift,
    TypeTokenShift,
)
from beyond_perplexity.tendencies.statistics import Statistics, histograms_of, value_counter
from beyond_perplexity.tendencies.tokens import TokenBatch, tokenize_batch
from beyond_perplexity.tendencies.word_classes import ClassOptions

NULL_PAIRS = 6  # times as many pairs as for one shift
_SMALLEST = 1e-9
_TIE = 1e-12  # measures closer than this differ by rounding alone
_GUESS = 0.03  # shift at the first number of documents
_LINEAR = 1.3  # in a bracket of this factor the measures are linear in the shift
_STEPS = 2  # steps inside a wider bracket


def count_documents_by_type(
    texts: Iterable[pa.Array],
    types: pa.Array,
    read: Callable[[pa.Array], TokenBatch] = tokenize_batch,
) -> csc_matrix:
    """Count types (V) in documents (D), read as for the statistics: float64, (V, D)."""
    columns, lengths = [], []
    for batch in map(read, texts):
        found = pc.index_in(batch.types, value_set=types).to_numpy()
        columns.append(found[batch.ids])
        lengths.append(batch.lengths)
    ends = np.concatenate([[0], np.cumsum(np.concatenate(lengths))])
    ids = np.concatenate(columns)
    matrix = csr_matrix((np.ones(len(ids)), ids, ends), shape=(len(ends) - 1, len(types)))
    matrix.sum_duplicates()
    return matrix.T


def mean_shift(
    moments: Callable[[float], tuple[float, float]],
    n: int,
    how: SensitivityOptions,
    largest: float = 1.0,
) -> float:
    """Find the minimum detectable effect of the test of a difference of means, in closed form.

    `moments` gives mean and variance of the population with a shift x. The means differ by z_level
    standard deviations under permutation plus z_power of the two samples; NaN beyond the largest.
    """
    z_level, z_power = norm.isf(how.level / 2), norm.ppf(how.power)
    mean, variance = moments(0)

    def excess(x: float) -> float:
        shifted, shifted_variance = moments(x)
        both = variance + shifted_variance
        pooled = both + (shifted - mean) ** 2 / 2
        return shifted - mean - z_level * math.sqrt(pooled / n) - z_power * math.sqrt(both / n)

    if excess(largest) <= 0:
        return math.nan
    return float(brentq(excess, 0, largest, xtol=1e-12))


class _Search:
    """The search for the minimum detectable effect in one measure of one tendency."""

    def __init__(self, shift: Shift, n: int, how: SensitivityOptions, seed: int) -> None:
        self._shift, self._n, self._how, self._seed = shift, n, how, seed
        self._pairs = max(10, round(how.pairs * shift.effort))
        self._null: MeasureDraws = {}

    def _draw(self, pairs: int, x: float, null: bool = False) -> MeasureDraws:
        purpose = f"sensitivity/{self._shift.tendency}/{self._n}"
        return self._shift.draw(PairDraw(self._n, pairs, self._seed, purpose), x, null)

    def threshold(self, measure: str) -> float:
        """Return the value beyond which the distance is significant: tests are one-sided."""
        if self._shift.is_score:
            return float(norm.isf(self._how.level))
        null = self._null[measure]
        if self._shift.is_sum:
            return float(null.mean() + norm.isf(self._how.level) * null.std(ddof=1))
        return float(np.quantile(null, 1 - self._how.level, method="higher"))

    def excess(self, measure: str, x: float) -> float:
        """Return how far the quantile of the power lies above the threshold at shift x.

        Measures of few documents have few values: one at the threshold is not beyond it.
        """
        drawn = np.sort(self._draw(self._pairs, x)[measure])
        reached = float(drawn[int((1 - self._how.power) * len(drawn))])
        return reached - self.threshold(measure) - _TIE

    def smallest(self, measure: str, guess: float, factor: float = 2.0) -> float:
        """Find the effect from a guess that is wrong by about a factor; NaN for none.

        Documents are pooled at a shift within `_LINEAR`, in a second search where the guess is not.
        """
        if not self._shift.is_score:
            pooled = min(guess, self._shift.largest) if factor <= _LINEAR else 0
            self._null = self._draw(NULL_PAIRS * self._pairs, pooled, null=True)
        found = self._bracketed(measure, guess, factor)
        if factor <= _LINEAR or math.isnan(found):
            return found
        return self.smallest(measure, found, _LINEAR)

    def _bracketed(self, measure: str, guess: float, factor: float) -> float:
        largest = self._shift.largest
        low = high = min(guess, largest)
        at_low = at_high = self.excess(measure, low)
        while at_high < 0:
            if high >= largest:
                return math.nan
            low, at_low = high, at_high
            high = min(factor * high, largest)
            at_high = self.excess(measure, high)
        while at_low >= 0:
            if low < _SMALLEST:
                return math.nan
            high, at_high = low, at_low
            low /= factor
            at_low = self.excess(measure, low)
        for _ in range(_STEPS if factor > _LINEAR else 0):
            middle = low + (high - low) * at_low / (at_low - at_high)
            at_middle = self.excess(measure, middle)
            if at_middle < 0:
                low, at_low = middle, at_middle
            else:
                high, at_high = middle, at_middle
        return low + (high - low) * at_low / (at_low - at_high)


def _shifts(
    reference: Statistics, counts: csc_matrix, options: MeasurementOptions, seed: int
) -> Iterator[Shift]:
    yield document_shifts.RankShift(counts, options.zipf_ranks)
    for tendency, name in type_token.HISTOGRAM_OF.items():
        histogram = reference.histograms[name]
        if len(type_token.restrict(histogram).keys):
            yield TypeTokenShift(tendency, histogram)
    yield document_shifts.UnigramShift(counts, options.zipf_ranks, seed)
    yield LengthShift(reference.histograms[LENGTH])
    for tendency, row in SHARES.items():
        if len(reference.histograms[row.histogram].keys):  # a class may not be counted
            yield ShareShift(tendency, reference.histograms[row.histogram])


def _group_shifts(
    documents: Sequence[TokenBatch],
    counts: csc_matrix,
    groups: np.ndarray,
    classes: ClassOptions,
    seed: int,
) -> Iterator[Shift]:
    """List the shifts whose tests are sound for groups against independent documents."""
    values = joined_draws(map(value_counter(classes), documents))
    histograms, codes = histograms_of(values), np.unique(groups, return_inverse=True)[1]
    population = document_shifts.GroupedDocuments(codes, values[LENGTH])
    words = document_shifts.UnigramShift(counts, None, seed)
    yield document_shifts.HeldOutShift(words, population)
    yield document_shifts.LargestSwapShift(words, population)
    inner: dict[str, LengthShift | ShareShift] = {LENGTH: LengthShift(histograms[LENGTH])}
    for tendency, row in SHARES.items():
        if row.histogram in values:
            inner[row.histogram] = ShareShift(tendency, histograms[row.histogram])
    for name, shift in inner.items():
        yield document_shifts.NumberSwapShift(shift, population, values[name])


def draw_groups(groups: np.ndarray, most: int, seed: int) -> np.ndarray:
    """Draw whole groups, one at least, with at most so many documents: bool, (D,)."""
    sizes = np.bincount(groups)
    order = stream(seed, "sensitivity/groups").permutation(len(sizes))
    return whole_groups(groups, order, max(most, int(sizes[order[0]])))


def detected_shifts(
    shift: Shift, how: SensitivityOptions, seed: int
) -> Iterator[tuple[str, int, float]]:
    """Yield measure, documents and the minimum detectable effect that they detect, NaN for none."""
    found: dict[str, float] = {}
    before = how.documents[0]
    for n in how.documents:
        search = _Search(shift, n, how, seed)
        for measure in shift.measures:
            # Shifts fall with the root of the number of documents, from the second one on.
            known = not math.isnan(found.get(measure, math.nan))
            guess = found[measure] * math.sqrt(before / n) if known else _GUESS
            found[measure] = search.smallest(measure, guess, _LINEAR if known else 2.0)
            yield measure, n, found[measure]
        if isinstance(shift, LengthShift | ShareShift):
            yield "mean_difference", n, mean_shift(shift.moments, n, how, shift.largest)
        before = n


def minimum_detectable_effects(
    reference: Statistics,
    texts: Iterable[pa.Array],
    options: MeasurementOptions,
    how: SensitivityOptions,
    seed: int,
    source: str,
    read: Callable[[pa.Array], TokenBatch] = tokenize_batch,
    groups: np.ndarray | None = None,
    classes: ClassOptions | None = None,
) -> pa.Table:
    """Find the minimum detectable effect of every tendency: schema ``sensitivity``.

    Null where there is none; `relative` to the reference's own value, of unigrams the share of the
    documents that are permuted. The population is the documents of the reference, or a random
    subset of them for unigrams. With groups (D,), which need `classes`, the human side is of whole
    groups, and measures without a sound test (ranks, types by length) are left out.
    """
    held = list(texts)
    counts = count_documents_by_type(held, reference.types, read)
    shifts = _shifts(reference, counts, options, seed)
    if groups is not None:
        assert classes is not None, "groups need the classes that shares are counted by"
        shifts = _group_shifts(list(map(read, held)), counts, groups, classes, seed)
    return shift_table(shifts, how, seed, source, grouped=groups is not None)


def shift_table(
    shifts: Iterable[Shift], how: SensitivityOptions, seed: int, source: str, *, grouped: bool
) -> pa.Table:
    """Tabulate `minimum_detectable_effects`; schema ``sensitivity``."""
    records: list[Mapping[str, object]] = []
    for shift in shifts:
        for measure, n, x in detected_shifts(shift, how, seed):
            size, ratio = (None, math.nan) if math.isnan(x) else shift.size(measure, x)
            relative = None if math.isnan(ratio) else ratio
            names = {"source": source, "tendency": shift.tendency, "measure": measure}
            numbers = {"n": n, "minimum_detectable_effect": size, "relative": relative}
            wanted = {"level": how.level, "power": how.power, "groups": grouped}
            records.append({**names, "unit": shift.unit, **numbers, **wanted})
    return pa.Table.from_pylist(records, SENSITIVITY)
