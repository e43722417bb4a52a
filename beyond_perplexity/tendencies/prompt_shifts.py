"""Shifts of answers to prompts: pairs are drawn with their prompts, and one side is shifted.

The population is prompts with as many answers of both texts. Prompts, or groups of them, are drawn
with replacement, so that answers to one stay together; labels are permuted within them as the test
does, so that nothing differs; then the answers of the second side are shifted as `shifts` says.
How answers to one prompt vary is that of both texts together: where these differ, only larger
effects are found. Under the null hypothesis labels are permuted once more, behind the shift. Words
and types are those of pairs that are cut to equal lengths.

D pairs, K drawn pairs, V types. Pair k has documents k and D + k; from 2 D on they are shifted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Self

import numpy as np
import pyarrow as pa
from scipy.sparse import csc_matrix, hstack

from beyond_perplexity.inference.held_out import halvings
from beyond_perplexity.inference.histogram_draws import permuted_cells
from beyond_perplexity.inference.p_values import joined_draws
from beyond_perplexity.inference.permuted_units import HALVINGS
from beyond_perplexity.inference.prompts import Prompts, paired_t
from beyond_perplexity.inference.two_sample_test import ks_of_samples
from beyond_perplexity.random_streams import stream
from beyond_perplexity.tendencies import (
    curve_shifts,
    document_files,
    document_shifts,
    sensitivity,
    shared_ngrams,
    type_token,
)
from beyond_perplexity.tendencies.definitions import LENGTH, SHARED_NGRAMS, SIGNED, TENDENCIES
from beyond_perplexity.tendencies.document_counts import DocumentCounts
from beyond_perplexity.tendencies.document_statistics import ABSENT
from beyond_perplexity.tendencies.measurement_options import MeasurementOptions, SensitivityOptions
from beyond_perplexity.tendencies.pairs import SampleSetPair
from beyond_perplexity.tendencies.shifts import (
    FINE,
    NumberShift,
    Shift,
    TypeTokenShift,
    half_step,
    smoothed,
    smoothed_numbers,
    step_of,
)
from beyond_perplexity.tendencies.statistics import Histogram, histograms_of
from beyond_perplexity.verdicts import reason

_EFFORT = 0.6  # pairs of samples of each shift, relative to the options'
_RANDOMIZED = 60  # times that a drawn pair is, for the score of its types
_POOLED = 0.1  # of the answers in order of length: the deviation over which types are pooled
_TINY = 1e-12  # a smaller error is taken as this one
_AT_ONCE = 256  # documents whose types are looked up together
_SAME = "both texts have the same answers, so that nothing tells how answers to a prompt vary"
PairMeasure = Callable[["DrawnAnswers", float], dict[str, float]]


@dataclass(frozen=True)
class PromptAnswers(sensitivity.Population):
    """Answers to prompts, D of either text: counts (V, 2 D) of types are of those that are cut.

    `codes` (2 D,) are the prompts of pairs, or their groups, which are swapped as a `whole`; values
    of documents (2 D,) are those of whole answers, and `cut` those of answers that are cut.
    """

    cut: Mapping[str, np.ndarray]
    whole: bool

    @classmethod
    def of(cls, pair: SampleSetPair, most: int, seed: int) -> PromptAnswers:
        """Take whole prompts, or groups, with at most so many pairs."""
        prompts = pair.groups
        assert isinstance(prompts, Prompts)
        chosen = document_files.draw_groups(prompts.units, most, seed)
        own = [np.argsort(codes)[chosen] for codes in prompts.pairs]
        values, counts = [], []
        for documents in (pair.documents, pair.of_words.documents):
            assert documents is not None
            both = zip((documents.values(0), documents.values(1)), own, strict=True)
            sides = [{k: x[one] for k, x in held.items()} for held, one in both]
            values.append(joined_draws(sides))
            counts = [columns_of(documents, number, one) for number, one in enumerate(own)]
        codes = np.tile(np.unique(prompts.units[chosen], return_inverse=True)[1], 2)
        return cls(hstack(counts, "csc"), codes, values[0], False, values[1], prompts.whole)

    def part(self, chosen: np.ndarray) -> Self:
        """Take some prompts, or groups: their documents, bool, (2 D,)."""
        cut = {name: own[chosen] for name, own in self.cut.items()}
        return replace(super().part(chosen), cut=cut)

    @property
    def units(self) -> np.ndarray:
        """The prompts of pairs, or their groups: (D,)."""
        return self.codes[: len(self.codes) // 2]

    @property
    def same(self) -> bool:
        """Whether both texts have the same answers."""
        n = len(self.units)
        alike = all(np.array_equal(x[:n], x[n:]) for x in self.values.values())
        return alike and (self.counts[:, :n] != self.counts[:, n:]).nnz == 0

    def _shifts_of_words(self, options: MeasurementOptions, seed: int) -> Iterator[Shift]:
        held = self.units, self.whole
        ranks = document_shifts.RankShift(self.counts, options.zipf_ranks)
        yield PairShift(ranks, *held, partial(_ranks, ranks))
        yield from self._shared_shifts()
        yield from self._type_shifts(seed)
        n = len(self.codes)
        alone = document_shifts.GroupedDocuments(np.arange(n), np.ones(n))
        words = document_shifts.HeldOutShift(self.counts, alone, seed)
        yield PairShift(words, *held, partial(_words, words, self.units))
        yield from self.number_shifts(seed, self._alike(self.values[LENGTH].astype(float)))

    def _alike(self, numbers: np.ndarray) -> float:
        """Say how much numbers (2 D,) have in common within a prompt, to be smoothed with it."""
        kept = ~np.isnan(numbers)
        held, codes = numbers[kept], self.codes[kept]
        of_prompts = np.bincount(codes)
        within = held - (np.bincount(codes, held) / np.maximum(of_prompts, 1))[codes]
        varies = np.sum(within**2) / max(len(held) - np.sum(of_prompts > 0), 1)
        return float(np.clip(1 - varies / max(held.var(), _TINY), 0, 1))

    def _sized_shifts(self, seed: int) -> Iterator[Shift]:
        n = len(self.units)
        for _, (tendency, row, size), units, kept in self.sized():
            held = np.where(units == ABSENT, np.nan, units * row.unit)
            if held.ndim == 1:
                how = stream(seed, "sensitivity/numbers"), self._alike(held)
                numbers, codes = smoothed_numbers(held, self.codes, *how)
                step = step_of(held[kept], size, row.unit)
                inner = NumberShift(tendency, numbers[~np.isnan(numbers)], 1.0, step)
                yield self._of_numbers(inner, codes, numbers)
                continue
            if row.kind == "slope":  # each document by the law of its own text
                held = np.concatenate([held[:n, :1], held[n:, 1:]])
            groups = document_shifts.GroupedDocuments(self.codes, kept.astype(float))
            curve = curve_shifts.CurveShift(tendency, row.distance, held[kept], groups)
            yield self._of_numbers(curve, self.codes, held)

    def _shared_shifts(self) -> Iterator[Shift]:
        """Yield that of shared n-grams of whole answers, where so many are long enough."""
        beginnings = self.values[SHARED_NGRAMS]
        long = beginnings[:, 0] != ABSENT
        if long.sum() >= 2 * sensitivity.HALF_UNITS:
            inner = curve_shifts.SharedShift(beginnings[long], self.codes[long])
            yield PairShift(inner, self.units, self.whole, partial(_shared, inner, long))

    def _type_shifts(self, seed: int) -> Iterator[Shift]:
        """Move pairs to other lengths, and lose or add repeats as a power law of them says.

        A few answers have few numbers of types at a length, of which a shift moves more at once
        than of many: those of about one length are pooled.
        """
        lengths, histograms = self.cut[LENGTH][: len(self.units)], histograms_of(self.cut)
        held, units = smoothed({LENGTH: lengths}, self.units, seed)  # (P,) each
        moved = np.maximum(held[LENGTH], 1)
        own, rng = np.arange(len(moved)) % len(lengths), stream(seed, "sensitivity/types")
        place = np.argsort(np.argsort(moved, kind="stable")) / len(moved)
        moved[np.argsort(place + _POOLED * rng.normal(size=len(place)))] = np.sort(moved)
        for tendency, name in type_token.HISTOGRAM_OF.items():
            if type_token.restrict(histograms[name]).counts.sum() >= 2 * sensitivity.HALF_UNITS:
                law = type_token.fit_repeats(tendency, histograms[name])
                repeats = type_token.repeats_of(tendency, lengths, self.cut[name].reshape(2, -1))
                rates = law.rate(lengths)[own], law.rate(moved)
                repeats = type_token.moved_repeats(repeats[:, own], *rates, rng)
                types = np.maximum(type_token.repeats_of(tendency, moved, repeats), 0)
                measure = partial(_types, types.ravel(), np.tile(moved, 2))
                inner = TypeTokenShift(tendency, histograms[name])
                yield PairShift(inner, units, self.whole, measure)

    def _of_numbers(self, inner: Shift, codes: np.ndarray, *values: np.ndarray) -> Shift:
        shape = -1, 2, len(self.units)
        codes, *held = (
            np.moveaxis(x.reshape(*shape, *x.shape[1:]), 1, 0).reshape(x.shape)
            for x in (codes, *values)
        )
        measure = partial(_numbers, held[0], held[-1], len(held) == 1)  # (2 P,) each
        if isinstance(inner, NumberShift | curve_shifts.CurveShift):
            grid = inner.step if isinstance(inner, NumberShift) else FINE
            measure = partial(_larger, held[0].reshape(len(codes), -1), inner.spread, grid)
        return PairShift(inner, codes[: len(codes) // 2], self.whole, measure)


def columns_of(documents: DocumentCounts, sample_set: int, wanted: np.ndarray) -> csc_matrix:
    """Take the counts of some documents of a text, in their order: float64, (V, D)."""
    n, parts = documents.n_documents(sample_set), []
    for block in np.array_split(wanted, -(-len(wanted) // _AT_ONCE)):
        labels = np.zeros((n, len(block)), bool)
        labels[block, np.arange(len(block))] = True
        parts.append(csc_matrix(documents.sums_of(sample_set, labels, np.arange(n)), dtype=float))
    return hstack(parts, "csc")


@dataclass(frozen=True)
class DrawnAnswers:
    """A pair of samples of K pairs: `sides` (2, K) of documents."""

    rng: np.random.Generator
    prompts: Prompts  # every draw of a prompt is one of its own
    sides: np.ndarray

    def dealt(self, *, of_words: bool) -> DrawnAnswers:
        """Permute labels as the tests do."""
        units = self.prompts.permuted(of_words=of_words)
        labels = next(units.labels(1, int(self.rng.integers(1 << 62))))[:, 0]
        first = np.stack([labels[codes] for codes in units.codes])  # (2, K)
        codes = np.stack([units.codes[0] if of_words else self.prompts.units] * 2)
        parts = (self.sides[x][np.argsort(codes[x], kind="stable")] for x in (first, ~first))
        return replace(self, sides=np.stack(list(parts)))


class PairShift(document_shifts.DrawnShift):
    """A shift of one answer of each of D pairs, as `inner` shifts independent documents.

    Pairs are of prompts, or groups, `units` (D,), which are swapped as a `whole`; they are drawn,
    or for ranks each of them is taken once.
    """

    def __init__(self, inner: Shift, units: np.ndarray, whole: bool, measure: PairMeasure) -> None:
        super().__init__(inner)
        self.share = 1.0  # answers that are too short are drawn with the others
        self.is_score, self.effort = inner.is_score, inner.effort if inner.is_score else _EFFORT
        kind = TENDENCIES[inner.tendency].kind
        self._of_words, self._once = kind in ("words", "ranks", "types"), kind == "ranks"
        numbers = kind in ("length", "share", "number")
        self.measures = document_shifts.NumberSwapShift.measures if numbers else inner.measures
        self._whole, self._measure = whole, measure
        self._by_unit, self._sizes = np.argsort(units, kind="stable"), np.bincount(units)
        self._ends = np.cumsum(self._sizes)

    def drawn(self, rng: np.random.Generator, n: int) -> DrawnAnswers:
        """Draw prompts, or groups, that have about n pairs, with the answers that they have."""
        size, many = len(self._by_unit), len(self._sizes)
        chosen = rng.integers(many, size=max(2, round(n * many / size)))
        chosen = np.arange(many) if self._once else chosen
        held = self._sizes[chosen]
        numbers, own = np.arange(held.sum()), np.repeat(np.arange(len(chosen)), held)
        pairs = self._by_unit[numbers + np.repeat(self._ends[chosen] - np.cumsum(held), held)]
        prompts = Prompts.of((numbers, numbers), own, self._whole)
        return DrawnAnswers(rng, prompts, np.stack([pairs, pairs + size]))

    def _pair(self, rng: np.random.Generator, n: int, x: float, null: bool) -> dict[str, float]:
        size = len(self._by_unit)
        if self._once:
            n, x = size, min(self.largest, x * math.sqrt(n / size))
        drawn = self.drawn(rng, n).dealt(of_words=self._of_words)
        drawn.sides[1] += 2 * size
        drawn = drawn.dealt(of_words=self._of_words) if null else drawn
        return self._measure(drawn, x)


def _numbers(
    values: np.ndarray, lengths: np.ndarray, longer: bool, drawn: DrawnAnswers, x: float
) -> dict[str, float]:
    """Measure answers that are longer, or have more tokens of a class, (2 D,)."""
    own, shifted = drawn.sides % len(lengths), drawn.sides >= len(lengths)
    held = lengths[own]
    if longer:
        numbers = np.floor(held * (1 + shifted * x) + shifted * drawn.rng.random(held.shape))
    else:
        more = drawn.rng.binomial(held - values[own], x)
        numbers = (values[own] + shifted * more) / held
    return _measured(drawn, numbers[..., None].astype(float))


def _larger(
    values: np.ndarray, spread: np.ndarray | float, step: float, drawn: DrawnAnswers, x: float
) -> dict[str, float]:
    """Measure answers whose numbers, or curves, (2 D, K) are larger by x spreads, (K,), in steps,
    rounded at random."""
    own, shifted = drawn.sides % len(values), drawn.sides >= len(values)
    rises = np.floor(x * spread / step + drawn.rng.random((*own.shape, 1))) * shifted[..., None]
    return _measured(drawn, (np.rint(values[own] / step) + rises) * step)


def _shared(
    inner: curve_shifts.SharedShift, long: np.ndarray, drawn: DrawnAnswers, x: float
) -> dict[str, float]:
    """Measure what answers share, those that are `long` enough, bool, (2 D,), and compared."""
    own, shifted = drawn.sides % len(long), drawn.sides >= len(long)
    kept = np.stack([shared_ngrams.spread_over(side) for side in long[own]])  # (2, K')
    places, rarer = (np.cumsum(long) - 1)[own], inner.rarer(x)
    rarer = rarer[drawn.rng.integers(len(rarer))]
    moved = np.where(shifted[..., None], rarer[places], inner.plain[places])
    return _measured(drawn, np.where(kept[..., None], moved, np.nan))


def _measured(drawn: DrawnAnswers, values: np.ndarray) -> dict[str, float]:
    """Measure numbers or curves of answers, (2, K', K), NaN for those that have none."""
    kept = np.broadcast_to(~np.isnan(values[..., :1]), values.shape)
    sums = [
        [[np.bincount(drawn.prompts.units, place) for place in side.T] for side in held]
        for held in (np.where(kept, values, 0), kept.astype(float))
    ]
    t = float(np.abs(paired_t(np.moveaxis(np.array(sums), (0, 2), (1, 3)))).max())
    distance = ks_of_samples(*(side[~np.isnan(side)] for side in values[..., 0]))
    return {"ks": distance, **dict.fromkeys((SIGNED, "max_difference", "slope_difference"), t)}


def _types(
    values: np.ndarray, lengths: np.ndarray, drawn: DrawnAnswers, x: float
) -> dict[str, float]:
    """Score answers with fewer types, (2 D,), at their lengths, against randomizations of them.

    How large a distance must be depends on the pair: on how many of its answers repeat a word.
    """
    own, shifted = drawn.sides % len(lengths), drawn.sides >= len(lengths)
    types = np.floor(values[own] * (1 - x * shifted) + shifted * drawn.rng.random(own.shape))
    types = np.maximum(types, np.minimum(values[own], 1))
    both, types = lengths[own].ravel(), types.astype(int).ravel()
    held = type_token.restrict(Histogram.of(both, types, np.ones(len(both), int)))
    cells = type_token.LengthCells.of(held)
    first, second = np.split(type_token.type_places(both, types, cells), 2)
    evaluate = partial(type_token.scaled_distance, cells)
    units, seed = drawn.prompts.permuted(of_words=True), int(drawn.rng.integers(1 << 62))
    of_cells = (first, second), len(held.keys), evaluate
    null = permuted_cells(*of_cells, units, _RANDOMIZED, seed)["ks_empirical"]
    counted = (np.bincount(one[one >= 0], minlength=len(held.keys)) for one in (first, second))
    found = float(evaluate(*counted)["ks_empirical"])
    score = (found - null.mean()) / max(float(null.std(ddof=1)), _TINY) - half_step(null)
    return {"ks_empirical": score}


def _ranks(inner: document_shifts.RankShift, drawn: DrawnAnswers, x: float) -> dict[str, float]:
    totals = []
    for own in drawn.sides:
        times = np.bincount(own, minlength=2 * inner.counts.shape[1]).reshape(2, -1).T
        plain, moved = np.hsplit(inner.counts @ times.astype(float), 2)  # (V, 1) each
        totals.append(plain + inner.thinned(moved, [drawn.rng], x))
    return {"ks_empirical": float(inner.measure(*totals)["ks_empirical"][0])}


def _words(
    inner: document_shifts.HeldOutShift, units: np.ndarray, drawn: DrawnAnswers, x: float
) -> dict[str, float]:
    n = 2 * len(units)
    swapped = (drawn.sides >= n) & (drawn.rng.random(drawn.sides.shape) < x)
    # Copies of a prompt stay in one half: what one learns the other must not have read.
    dealt = halvings(int(units.max()) + 1, [drawn.rng] * HALVINGS)
    own = dealt[units[drawn.sides[0] % len(units)]]
    sides = [document_shifts.Side(inner.texts, k, own) for k in drawn.sides % n + n * swapped]
    return {"tvd": document_shifts.held_out_score(sides[0], sides[1], drawn.prompts.units)}


def prompt_effects(
    pair: SampleSetPair,
    options: MeasurementOptions,
    how: SensitivityOptions,
    seed: int,
    source: str,
) -> pa.Table:
    """Find the minimum detectable effects of as many answers to prompts: schema ``sensitivity``.

    Of halves of the prompts, or of groups of them, as `sensitivity.minimum_detectable_effects` has
    them; n counts pairs of answers. Null where both texts are the same.
    """
    held = PromptAnswers.of(pair, how.largest_population, seed)
    how = replace(how, documents=(pair.n_documents[0],))
    lacking = reason("not_counted", why=_SAME) if held.same else None
    return sensitivity.effects_of(held, options, how, seed, source, lacking)
