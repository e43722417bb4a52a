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
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import numpy as np
import pyarrow as pa
from scipy.sparse import csc_matrix, hstack

from beyond_perplexity.inference import permuted_units
from beyond_perplexity.inference.held_out import combine_pairs, halvings
from beyond_perplexity.inference.prompts import Prompts
from beyond_perplexity.inference.two_sample_test import ks_of_samples
from beyond_perplexity.random_streams import stream
from beyond_perplexity.tendencies import document_shifts, sensitivity, type_token
from beyond_perplexity.tendencies.definitions import LENGTH, SHARES
from beyond_perplexity.tendencies.document_counts import DocumentCounts
from beyond_perplexity.tendencies.measurement_options import MeasurementOptions, SensitivityOptions
from beyond_perplexity.tendencies.pairs import SampleSetPair
from beyond_perplexity.tendencies.shifts import (
    LengthShift,
    MeasureDraws,
    PairDraw,
    ShareShift,
    Shift,
    TypeTokenShift,
    smoothed,
)
from beyond_perplexity.tendencies.statistics import Histogram, histograms_of
from beyond_perplexity.verdicts import reason

_EFFORT = 0.6  # pairs of samples of each shift, relative to the options'
_TINY = 1e-12  # a smaller error is taken as this one
_AT_ONCE = 256  # documents whose types are looked up together
_SAME = "both texts have the same answers, so that nothing tells how answers to a prompt vary"
PairMeasure = Callable[["DrawnAnswers", float], dict[str, float]]


@dataclass(frozen=True)
class PromptAnswers:
    """Answers to prompts, D of either text.

    `units` (D,) are the prompts of pairs, or their groups, which are swapped as a `whole`; values
    of documents (2 D,) and, of those that are cut, values and counts of types (V, 2 D).
    """

    units: np.ndarray
    whole: bool
    values: dict[str, np.ndarray] = field(default_factory=dict)
    cut: dict[str, np.ndarray] = field(default_factory=dict)
    counts: csc_matrix = field(default_factory=lambda: csc_matrix((0, 0)))

    @classmethod
    def of(cls, pair: SampleSetPair, most: int, seed: int) -> PromptAnswers:
        """Take whole prompts, or groups, with at most so many pairs."""
        prompts = pair.groups
        assert isinstance(prompts, Prompts)
        chosen = sensitivity.draw_groups(prompts.units, most, seed)
        own = [np.argsort(codes)[chosen] for codes in prompts.pairs]
        values, counts = [], []
        for documents in (pair.documents, pair.of_words.documents):
            assert documents is not None
            both = [documents.values(number) for number in (0, 1)]
            sides = [
                {k: x[one] for k, x in held.items()} for held, one in zip(both, own, strict=True)
            ]
            values.append({k: np.concatenate([x, sides[1][k]]) for k, x in sides[0].items()})
            counts = [columns_of(documents, number, one) for number, one in enumerate(own)]
        units = np.unique(prompts.units[chosen], return_inverse=True)[1]
        return cls(units, prompts.whole, values[0], values[1], hstack(counts, "csc"))

    def part(self, chosen: np.ndarray) -> PromptAnswers:
        """Take some pairs, bool, (D,)."""
        units, both = np.unique(self.units[chosen], return_inverse=True)[1], np.tile(chosen, 2)
        values, cut = ({k: x[both] for k, x in held.items()} for held in (self.values, self.cut))
        return PromptAnswers(units, self.whole, values, cut, self.counts[:, both])

    @property
    def same(self) -> bool:
        """Whether both texts have the same answers."""
        n = len(self.units)
        alike = all(np.array_equal(x[:n], x[n:]) for x in self.values.values())
        return alike and (self.counts[:, :n] != self.counts[:, n:]).nnz == 0

    @cached_property
    def members(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Pairs by unit, (D,), and of each unit the first of them and their number, (U,)."""
        sizes = np.bincount(self.units)
        return np.argsort(self.units, kind="stable"), np.cumsum(sizes) - sizes, sizes

    def shifts(self, options: MeasurementOptions, seed: int) -> Iterator[Shift]:
        """List the shifts that have sound tests."""
        n = 2 * len(self.units)
        ranks = document_shifts.RankShift(self.counts, options.zipf_ranks)
        yield PairShift(ranks, self, "ks_empirical", partial(_ranks, ranks), once=True)
        yield from self._type_shifts(seed)
        alone = document_shifts.GroupedDocuments(np.arange(n), np.ones(n))
        words = document_shifts.HeldOutShift(self.counts, alone, seed)
        yield PairShift(words, self, "tvd", partial(_words, words, self.units))
        yield from self._number_shifts(seed)

    def _copied(self, n: int) -> PromptAnswers:
        """Return the prompts of n pairs that are copies of these, time after time."""
        copies, own = np.divmod(np.arange(n), len(self.units))
        return replace(self, units=copies * (self.units.max() + 1) + self.units[own])

    def _type_shifts(self, seed: int) -> Iterator[Shift]:
        """Move pairs to other lengths by a kernel, and their types as Heaps' law says."""
        lengths, histograms = self.cut[LENGTH][: len(self.units)], histograms_of(self.cut)
        moved = smoothed({LENGTH: lengths}, np.arange(len(lengths)), seed)[0][LENGTH]  # (P,)
        moved = np.clip(moved, 1, type_token.HEAPS_MAXIMUM_LENGTH)
        own, rng = np.arange(len(moved)) % len(lengths), stream(seed, "sensitivity/types")
        for tendency, name in type_token.HISTOGRAM_OF.items():
            if len(type_token.restrict(histograms[name]).keys):
                law = type_token.fit(histograms[name])
                ratio = np.nan_to_num(law.rate(moved) / law.rate(lengths[own]), nan=1.0)
                types = self.cut[name].reshape(2, -1)[:, own] * ratio + rng.random(len(own))
                types = np.minimum(types.astype(int), moved).ravel()  # (2 P,)
                measure = partial(_types, types, np.tile(moved, 2))
                inner = TypeTokenShift(tendency, histograms[name])
                yield PairShift(inner, self._copied(len(own)), "ks_empirical", measure)

    def _number_shifts(self, seed: int) -> Iterator[Shift]:
        """Smooth lengths, with as much in common within a prompt as they have themselves."""
        codes, lengths = np.tile(self.units, 2), self.values[LENGTH]
        within = lengths - (np.bincount(codes, lengths) / np.bincount(codes))[codes]
        varies = np.sum(within**2) / max(len(codes) - codes.max() - 1, 1)
        common = np.clip(1 - varies / max(lengths.var(), _TINY), 0, 1)
        moved, _ = smoothed(self.values, codes, seed, float(common))
        sides = {k: x.reshape(-1, 2, len(self.units)).swapaxes(0, 1) for k, x in moved.items()}
        histograms, rows = histograms_of(moved), {LENGTH: LENGTH}
        rows |= {name: row.histogram for name, row in SHARES.items()}
        for tendency, name in ((k, v) for k, v in rows.items() if v in sides):
            held = histograms[name]
            inner = ShareShift(tendency, held) if name != LENGTH else LengthShift(held)
            values, lengths = (sides[one].ravel() for one in (name, LENGTH))  # (2 P,) each
            copies = self._copied(len(values) // 2)
            measure = partial(_numbers, values, lengths, name == LENGTH)
            yield PairShift(inner, copies, "ks mean_difference", measure, of_words=False)


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
    """A pair of samples: `sides` (2, K) of documents, and of each pair its number, (K,)."""

    rng: np.random.Generator
    pairs: np.ndarray
    prompts: Prompts  # every draw of a prompt is one of its own
    sides: np.ndarray

    @classmethod
    def of(
        cls, held: PromptAnswers, rng: np.random.Generator, n: int, *, once: bool = False
    ) -> DrawnAnswers:
        """Draw prompts, or groups, that have about n pairs; or take each of them `once`."""
        order, starts, sizes = held.members
        chosen = rng.integers(len(sizes), size=max(2, round(n * len(sizes) / len(order))))
        chosen = np.arange(len(sizes)) if once else chosen
        own = np.repeat(np.arange(len(chosen)), sizes[chosen])
        numbers = np.arange(len(own))
        pairs = order[(starts[chosen] - np.cumsum(sizes[chosen]) + sizes[chosen])[own] + numbers]
        prompts = Prompts.of((numbers, numbers), own, held.whole)
        return cls(rng, pairs, prompts, np.stack([pairs, pairs + len(order)]))

    def dealt(self, *, of_words: bool) -> DrawnAnswers:
        """Permute labels as the tests do."""
        units = self.prompts.permuted(of_words=of_words)
        labels = next(units.labels(1, int(self.rng.integers(1 << 62))))[:, 0]
        first = np.stack([labels[codes] for codes in units.codes])  # (2, K)
        codes = np.stack([units.codes[0] if of_words else self.prompts.units] * 2)
        parts = (self.sides[x][np.argsort(codes[x], kind="stable")] for x in (first, ~first))
        return replace(self, sides=np.stack(list(parts)))


class PairShift(Shift):
    """A shift of one answer of each pair, as `inner` shifts independent documents."""

    def __init__(
        self,
        inner: Shift,
        held: PromptAnswers,
        measures: str,
        measure: PairMeasure,
        *,
        of_words: bool = True,
        once: bool = False,
    ) -> None:
        self.tendency, self.unit, self.largest = inner.tendency, inner.unit, inner.largest
        self.is_score, self.effort = inner.is_score, inner.effort if inner.is_score else _EFFORT
        self.measures, self._of_words = tuple(measures.split()), of_words
        self._inner, self._held, self._measure, self._once = inner, held, measure, once

    def size(self, measure: str, x: float) -> tuple[float, float]:
        """Return that of the shift of independent documents."""
        return self._inner.size(measure, x)

    def draw(self, how: PairDraw, x: float, null: bool = False) -> MeasureDraws:
        """Draw pairs of samples; see the module."""
        parts, n = [], how.n
        if self._once:
            n = len(self._held.units)
            x = min(self.largest, x * math.sqrt(how.n / n))
        for item in range(how.pairs):
            rng = stream(how.seed, how.purpose, item)
            drawn = DrawnAnswers.of(self._held, rng, n, once=self._once)
            drawn = drawn.dealt(of_words=self._of_words)
            drawn.sides[1] += 2 * len(self._held.units)
            drawn = drawn.dealt(of_words=self._of_words) if null else drawn
            parts.append(self._measure(drawn, x))
        return {name: np.array([one[name] for one in parts]) for name in self.measures}


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
    first, second = numbers.astype(float)
    sums, sizes = (np.bincount(drawn.prompts.units, x) for x in (second - first, first * 0 + 1))
    mean, n = sums.sum() / sizes.sum(), len(sizes)
    # That of `inference.prompts.permuted_paired_t`, of as many answers on either side.
    error = math.sqrt(n / (n - 1) * np.sum((sums - mean * sizes) ** 2)) / sizes.sum()
    return {"ks": ks_of_samples(first, second), "mean_difference": abs(mean) / max(error, _TINY)}


def _types(
    values: np.ndarray, lengths: np.ndarray, drawn: DrawnAnswers, x: float
) -> dict[str, float]:
    """Measure answers with fewer types, (2 D,), at their lengths."""
    own, shifted = drawn.sides % len(lengths), drawn.sides >= len(lengths)
    types = np.floor(values[own] * (1 - x * shifted) + shifted * drawn.rng.random(own.shape))
    both, types = lengths[own].ravel(), types.astype(int).ravel()
    held = type_token.restrict(Histogram.of(both, types, np.ones(len(both), int)))
    cells = type_token.LengthCells.of(held)
    places = np.split(type_token.type_places(both, types, cells), 2)
    first, second = (np.bincount(one[one >= 0], minlength=len(held.keys)) for one in places)
    found = type_token.summarize_lengths(cells, first, second, {})
    return {"ks_empirical": float(found["ks_empirical"])}


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
    n, prompts = 2 * len(units), drawn.prompts.units
    swapped = (drawn.sides >= n) & (drawn.rng.random(drawn.sides.shape) < x)
    # Copies of a prompt stay in one half: what one learns the other must not have read.
    many = permuted_units.HALVINGS
    own = halvings(int(units.max()) + 1, [drawn.rng] * many)[units[drawn.pairs]]
    sides = [document_shifts.Side(inner.texts, k, own) for k in drawn.sides % n + n * swapped]
    effective = (permuted_units.effective_groups(np.bincount(prompts, k.tokens)) for k in sides)
    if min(effective) < permuted_units.EFFECTIVE_GROUPS:
        return {"tvd": document_shifts.NO_VERDICT}

    def combined(*held: np.ndarray) -> tuple[float, float, float]:
        return combine_pairs(*(np.bincount(prompts, one) for one in held))

    return {"tvd": document_shifts.held_out_score(sides[0], sides[1], combined)}


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
    held, lacking = PromptAnswers.of(pair, how.largest_population, seed), None
    how, weights = replace(how, documents=(pair.n_documents[0],)), held.values[LENGTH]
    halves = sensitivity.halves(held.units, weights.reshape(2, -1).sum(axis=0), seed)
    if held.same:
        halves, lacking = [], reason("not_counted", why=_SAME)
    parts = [held.part(chosen).shifts(options, seed) for chosen in halves]
    shifts = sensitivity.pairs_of_shifts(parts or [held.shifts(options, seed)])
    return sensitivity.shift_table(shifts, how, seed, source, grouped=False, lacking=lacking)
