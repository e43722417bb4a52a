"""The minimum detectable effect of each tendency by number of documents, and the power it reaches.

Definition: two samples of n documents each are drawn, one from a population made of documents of
the reference, the other from that population with a shift of one tendency (see `shifts`), which is
detected when the test of the tendency gives a p-value below the level. The effect is the shift that
is detected with the wanted power in *one random half* of the reference's documents, or groups;
`power_reached` is the power of the same test with that shift on pairs drawn from *the other half*.
Few documents may have no effect; where a half has fewer than `HALF_UNITS` effective units, `reason`
says so.

A permutation test of a distance with many permutations rejects when the distance lies beyond the
upper quantile of the level of its permutation distribution. Pairs of samples of one population,
half of which is shifted, have that distribution on average; it is taken from them, at a shift near
the one that is found. `benchmarks.powers` holds the power that is printed against that of pairs
that are not the reference's.

For studentized differences of means the normal distribution gives the power in closed form. Where
the reference has groups, the human sample is of whole groups and the tests are those for groups
against independent documents: see `document_shifts`. Levels are of single p-values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy.optimize import brentq
from scipy.sparse import csc_matrix, csr_matrix, vstack
from scipy.stats import norm
from scipy.stats import t as student

from beyond_perplexity.inference.p_values import joined_draws
from beyond_perplexity.inference.permuted_units import effective_groups
from beyond_perplexity.random_streams import stream
from beyond_perplexity.schemas.tendencies import SENSITIVITY
from beyond_perplexity.tendencies import curve_shifts, document_shifts, type_token
from beyond_perplexity.tendencies.definitions import LENGTH, SHARES, SIGNED, TAYLOR
from beyond_perplexity.tendencies.document_curves import SLOPE
from beyond_perplexity.tendencies.document_shifts import Inner
from beyond_perplexity.tendencies.document_statistics import ABSENT, SIZED, Sized
from beyond_perplexity.tendencies.document_values import value_counter
from beyond_perplexity.tendencies.measurement_options import MeasurementOptions, SensitivityOptions
from beyond_perplexity.tendencies.shifts import (
    LengthShift,
    MeasureDraws,
    NumberShift,
    PairDraw,
    ShareShift,
    Shift,
    TypeTokenShift,
    smoothed,
    smoothed_numbers,
    step_of,
)
from beyond_perplexity.tendencies.statistics import Statistics, histograms_of
from beyond_perplexity.tendencies.tokens import TokenBatch, tokenize_batch
from beyond_perplexity.tendencies.word_classes import ClassOptions
from beyond_perplexity.verdicts import reason

NULL_PAIRS = 6  # times as many pairs as for one shift
HALF_UNITS = 30  # effective groups of either half of a reference: the power errs by about 0.1
_SMALLEST = 1e-9
_TIE = 1e-12  # measures closer than this differ by rounding alone
_GUESS = 0.03  # shift at the first number of documents
_LINEAR = 1.3  # in a bracket of this factor the measures are linear in the shift
_CLOSE = 1.1  # and the null distribution hardly depends on it
_STEPS = 2  # steps inside a wider bracket


def count_documents_by_type(
    texts: Iterable[pa.Array],
    types: pa.Array,
    read: Callable[[pa.Array], TokenBatch] = tokenize_batch,
) -> csc_matrix:
    """Count types (V) in documents (D), read as for the statistics: float64, (V, D)."""
    parts = []
    for batch in map(read, texts):
        ids = pc.index_in(batch.types, value_set=types).to_numpy()[batch.ids]
        shape = len(batch.offsets) - 1, len(types)
        parts.append(csr_matrix((np.ones(len(ids)), ids, batch.offsets), shape=shape))
    matrix = vstack(parts, "csr")
    matrix.sum_duplicates()
    return matrix.T


Moments = Callable[[float], tuple[float, float]]


def mean_power(moments: Moments, x: float, n: int, level: float) -> float:
    """Compute the power of the test of a studentized difference of means of n documents each.

    `moments` gives mean and variance of the population with a shift x.
    """
    (mean, variance), (shifted, shifted_variance) = moments(0), moments(x)
    error = math.sqrt((variance + shifted_variance) / n)
    score = (shifted - mean) / max(error, _SMALLEST)
    return float(norm.sf(student.isf(level / 2, 2 * n - 2) - score))


def mean_shift(moments: Moments, n: int, how: SensitivityOptions, largest: float = 1.0) -> float:
    """Find the minimum detectable effect of that test; NaN beyond the largest."""

    def excess(x: float) -> float:
        return mean_power(moments, x, n, how.level) - how.power

    return float(brentq(excess, 0, largest, xtol=1e-12)) if excess(largest) > 0 else math.nan


class _Search:
    """The search for the minimum detectable effect in one measure of one tendency."""

    def __init__(
        self, shift: Shift, n: int, how: SensitivityOptions, seed: int, what: str = "sensitivity"
    ) -> None:
        self._shift, self._n, self._how, self._seed = shift, n, how, seed
        self._purpose = f"{what}/{shift.tendency}/{n}"
        self._pairs = max(10, round(how.pairs * shift.effort))
        self._null: MeasureDraws = {}

    def _draw(self, pairs: int, x: float, null: bool = False) -> MeasureDraws:
        n = max(2, round(self._n * self._shift.share))
        return self._shift.draw(PairDraw(n, pairs, self._seed, self._purpose), x, null)

    def threshold(self, measure: str) -> float:
        """Return the value beyond which the distance is significant: tests are one-sided."""
        if self._shift.is_score:
            return float(norm.isf(self._how.level))
        null = self._null[measure]
        return float(np.quantile(null, 1 - self._how.level, method="higher"))

    def excess(self, measure: str, x: float) -> float:
        """Return how far the quantile of the power lies above the threshold at shift x.

        Measures of few documents have few values: one at the threshold is not beyond it.
        """
        drawn = np.sort(self._draw(self._pairs, x)[measure])
        reached = float(drawn[int((1 - self._how.power) * len(drawn))])
        return reached - self.threshold(measure) - _TIE

    def power(self, measure: str, x: float) -> float:
        """Return how often a shift x is detected."""
        pairs = NULL_PAIRS * self._pairs
        if self._shift.is_score:
            pairs *= 2  # there is none of the null hypothesis to draw
        else:
            self._null = self._draw(pairs, x, null=True)
        drawn = self._draw(pairs, x)[measure]
        return float(np.mean(drawn - self.threshold(measure) >= _TIE))

    def smallest(self, measure: str, guess: float, factor: float = 2.0) -> float:
        """Find the effect from a guess that is wrong by about a factor; NaN for none."""
        if not self._shift.is_score:
            pooled = min(guess, self._shift.largest) if factor <= _LINEAR else 0
            self._null = self._draw(NULL_PAIRS * self._pairs, pooled, null=True)
        found = self._bracketed(measure, guess, factor)
        # A shift may make what is pooled vary more: a larger one is then needed.
        grown = found > min(factor, _LINEAR) * guess and not self._shift.is_score
        if (factor <= _LINEAR and not grown) or math.isnan(found):
            return found
        return self.smallest(measure, found, _CLOSE if factor <= _LINEAR else _LINEAR)

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


@dataclass(frozen=True)
class Population:
    """Documents of the reference: types by document (V, D), groups (D,), and values (D,)."""

    counts: csc_matrix
    codes: np.ndarray
    values: Mapping[str, np.ndarray]
    grouped: bool  # whether whole groups are drawn

    @classmethod
    def of_documents(
        cls, values: Mapping[str, np.ndarray], groups: np.ndarray | None, counts: csc_matrix | None
    ) -> Self:
        """Take documents (D,) with groups or None; without counts only numbers are shifted."""
        own = np.arange(len(values[LENGTH])) if groups is None else groups
        codes = np.unique(own, return_inverse=True)[1]
        held = csc_matrix((0, len(own))) if counts is None else counts
        return cls(held, codes, values, groups is not None)

    def part(self, chosen: np.ndarray) -> Self:
        """Take some documents, bool, (D,)."""
        codes = np.unique(self.codes[chosen], return_inverse=True)[1]
        values = {name: own[chosen] for name, own in self.values.items()}
        return replace(self, counts=self.counts[:, chosen], codes=codes, values=values)

    def shifts(self, options: MeasurementOptions, seed: int) -> Iterator[Shift]:
        """List the shifts that have sound tests; of documents without words those of numbers."""
        if self.counts.shape[0]:
            yield from self._shifts_of_words(options, seed)
        yield from self._sized_shifts(seed)

    def _shifts_of_words(self, options: MeasurementOptions, seed: int) -> Iterator[Shift]:
        population = document_shifts.GroupedDocuments(self.codes, self.values[LENGTH])
        if not self.grouped:
            yield document_shifts.RankShift(self.counts, options.zipf_ranks)
            yield from curve_shifts.shared_shifts(self.values, HALF_UNITS)
            histograms = histograms_of(self.values)
            for tendency, name in type_token.HISTOGRAM_OF.items():
                if type_token.restrict(histograms[name]).counts.sum() >= HALF_UNITS:
                    yield TypeTokenShift(tendency, histograms[name])
        yield document_shifts.HeldOutShift(self.counts, population, seed)
        yield from self.number_shifts(seed)

    def number_shifts(self, seed: int, alike: float = 0.0) -> Iterator[Shift]:
        """List those of lengths and shares of smoothed documents; see `smoothed`."""
        values, codes = smoothed(self.values, self.codes, seed, alike)
        histograms = histograms_of(values)
        yield self._of_numbers(LengthShift(histograms[LENGTH]), codes, values[LENGTH])
        for tendency, row in SHARES.items():
            if row.histogram in values:
                inner = ShareShift(tendency, histograms[row.histogram])
                yield self._of_numbers(inner, codes, values[row.histogram], values[LENGTH])

    def _of_numbers(self, inner: Inner, codes: np.ndarray, *values: np.ndarray) -> Shift:
        """Return that of groups (D',) with numbers (D',), of shares with lengths behind them."""
        numbers, lengths = values[0], values[-1]
        if len(values) > 1:
            out = np.full(len(codes), np.nan)
            numbers = np.divide(numbers, lengths, where=lengths > 0, out=out)
        population = document_shifts.GroupedDocuments(codes, np.ones(len(codes)))
        swapped = document_shifts.NumberSwapShift
        return swapped(inner, population, numbers) if self.grouped else inner

    def sized(self) -> Iterator[tuple[str, Sized, np.ndarray, np.ndarray]]:
        """Yield the numbers and curves of documents long enough: in units, and which have them."""
        slopes = [name for name in self.values if name.startswith(TAYLOR)]
        known = {**SIZED, **dict.fromkeys(slopes, SLOPE)}
        for name in sorted(self.values.keys() & known.keys()):
            held = self.values[name]
            kept = (held if held.ndim == 1 else held[:, 0]) != ABSENT
            if kept.sum() >= HALF_UNITS:
                yield name, known[name], held, kept

    def _sized_shifts(self, seed: int) -> Iterator[Shift]:
        for name, (tendency, row, size), held, kept in self.sized():
            values = held[kept] * row.unit
            if held.ndim == 2:
                population = document_shifts.GroupedDocuments(self.codes, kept.astype(float))
                only = int(name.removeprefix(TAYLOR)) if row.kind == "slope" else 0
                given = tendency, row.distance, values, population, only
                yield curve_shifts.CurveShift(*given)
                continue
            codes = np.unique(self.codes[kept], return_inverse=True)[1]
            numbers, codes = smoothed_numbers(values, codes, stream(seed, "sensitivity/numbers"))
            how = float(kept.mean()), step_of(values, size, row.unit)
            yield self._of_numbers(NumberShift(tendency, numbers, *how), codes, numbers)


def halves(codes: np.ndarray, weights: np.ndarray, seed: int) -> list[np.ndarray]:
    """Deal groups (D,) at random to two halves, bool, (D,); none with too few effective ones."""
    n = int(codes.max(initial=-1)) + 1
    first = np.zeros(n, bool)
    first[stream(seed, "sensitivity/halves").permutation(n)[: n // 2]] = True
    parts = [first[codes], ~first[codes]]
    effective = (effective_groups(np.bincount(codes[own], weights[own])) for own in parts)
    return parts if min(effective) >= HALF_UNITS else []


def detected_shifts(
    shift: Shift, other: Shift | None, how: SensitivityOptions, seed: int
) -> Iterator[tuple[str, int, float, float]]:
    """Yield measure, documents, the effect of one half and its power in the other; NaN for none."""
    found: dict[str, float] = {}
    before = how.documents[0]
    for n in [shift.only_n] if shift.only_n else how.documents:
        search = _Search(shift, n, how, seed)
        for measure in shift.measures:
            x = power = math.nan
            if other is not None:
                # Shifts fall with the root of the documents, from the second number on.
                known = not math.isnan(found.get(measure, math.nan))
                guess = found[measure] * math.sqrt(before / n) if known else _GUESS
                x = found[measure] = search.smallest(measure, guess, _LINEAR if known else 2.0)
                if not math.isnan(x):
                    power = _Search(other, n, how, seed, "power").power(measure, x)
            yield measure, n, x, power
        if isinstance(shift, LengthShift | ShareShift | NumberShift):
            x = power = math.nan
            if isinstance(other, type(shift)):
                x = mean_shift(shift.moments, round(n * shift.share), how, shift.largest)
                power = mean_power(other.moments, x, round(n * other.share), how.level)
            yield SIGNED, n, x, power
        before = n


def minimum_detectable_effects(
    reference: Statistics,
    texts: Iterable[pa.Array],
    options: MeasurementOptions,
    how: SensitivityOptions,
    seed: int,
    source: str,
    classes: ClassOptions,
    read: Callable[[pa.Array], TokenBatch] = tokenize_batch,
    groups: np.ndarray | None = None,
    kind: type[Population] = Population,
) -> pa.Table:
    """Find the minimum detectable effect of every tendency: schema ``sensitivity``.

    `relative` is to the half's own value, of unigrams the share of the documents whose words are
    swapped. The populations are halves of the texts, documents of the reference or some of them.
    With groups (D,) the human side is of whole groups; what has no sound test is left out.
    """
    held = list(texts)
    counts = count_documents_by_type(held, reference.types, read)
    order = np.argsort(-np.asarray(counts.sum(axis=1)).ravel(), kind="stable")  # frequent first
    sizes = {sized.name: sized for sized in reference.sizes(classes.later).values()}
    batches = list(map(read, held))
    values = joined_draws(map(value_counter(classes, sizes), batches))
    if groups is None:
        values |= curve_shifts.first_words(reference, batches)
    for n in () if groups is not None else how.documents:  # the words of a slope are those of n
        if (slopes := reference.slope_counter(n)) is not None:
            values[f"{TAYLOR}{n}"] = np.concatenate([slopes(batch) for batch in batches])[:, None]
    text = kind.of_documents(values, groups, counts.tocsr()[order].tocsc())
    return effects_of(text, options, how, seed, source)


def effects_of(
    text: Population,
    options: MeasurementOptions,
    how: SensitivityOptions,
    seed: int,
    source: str,
    lacking: str | None = None,
) -> pa.Table:
    """Find the effects of one half of a text, and their power in the other; see `shift_table`."""
    halved = [] if lacking else halves(text.codes, text.values[LENGTH], seed)
    parts = [text.part(chosen) for chosen in halved] or [text]
    first, *second = (list(part.shifts(options, seed)) for part in parts)
    others = {(one.tendency, one.measures, one.only_n): one for one in chain(*second)}
    both = ((one, others.get((one.tendency, one.measures, one.only_n))) for one in first)
    return shift_table(both, how, seed, source, grouped=text.grouped, lacking=lacking)


def shift_table(
    halves: Iterable[tuple[Shift, Shift | None]],
    how: SensitivityOptions,
    seed: int,
    source: str,
    *,
    grouped: bool,
    lacking: str | None = None,
) -> pa.Table:
    """Tabulate `minimum_detectable_effects` of both halves; schema ``sensitivity``.

    `lacking` is the reason why there is no other half; else it is too small.
    """
    records: list[Mapping[str, object]] = []
    for shift, other in halves:
        why = None if other else lacking or reason("few_for_halves", least=HALF_UNITS)
        for measure, n, x, power in detected_shifts(shift, other, how, seed):
            sizes = (math.nan, math.nan) if math.isnan(x) else shift.size(measure, x)
            size, relative, reached = (None if math.isnan(y) else y for y in (*sizes, power))
            names = {"source": source, "tendency": shift.tendency, "measure": measure}
            numbers = {"n": n, "minimum_detectable_effect": size, "relative": relative}
            wanted = {"level": how.level, "power": how.power, "groups": grouped}
            found = {"power_reached": reached, "reason": why}
            records.append({**names, "unit": shift.unit, **numbers, **wanted, **found})
    return pa.Table.from_pylist(records, SENSITIVITY)
