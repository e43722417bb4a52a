"""The measures of one number per document: types by length, length and shares of tokens."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from beyond_perplexity.inference import histogram_draws, standard_errors
from beyond_perplexity.inference.counted_units import counted_units
from beyond_perplexity.inference.limits import upper_limit
from beyond_perplexity.inference.p_values import monte_carlo_p
from beyond_perplexity.inference.permuted_units import DOCUMENTS_AT_LENGTHS
from beyond_perplexity.inference.two_sample_test import (
    ks,
    permuted_means,
    studentized_difference,
)
from beyond_perplexity.random_streams import stream
from beyond_perplexity.tendencies import type_token
from beyond_perplexity.tendencies.curve_comparison import most_of, size_told
from beyond_perplexity.tendencies.definitions import (
    LENGTH,
    SIGNED,
    TENDENCIES,
    MeasureKey,
    MeasureRow,
    tendencies_of,
)
from beyond_perplexity.tendencies.document_statistics import ABSENT, Sized
from beyond_perplexity.tendencies.measurement_options import MeasurementOptions
from beyond_perplexity.tendencies.pairs import Measuring, SampleSetPair
from beyond_perplexity.tendencies.power_laws import Heaps, heaps_columns, heaps_errors
from beyond_perplexity.tendencies.statistics import Statistics
from beyond_perplexity.verdicts import reason


def distribution(
    statistics: Statistics, tendency: str, sized: Sized | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the values of length, a share or a number (float64, (C,), increasing), and documents.

    A number is of documents that are cut to a size.
    """
    row = TENDENCIES[tendency]
    histogram = statistics.histograms[sized.name if sized else row.histogram]
    if sized:
        return histogram.values * row.unit, histogram.counts
    if row.kind == "length":
        return histogram.lengths.astype(float), histogram.counts
    filled = histogram.lengths > 0
    # Division rounds correctly, so equal fractions such as 1/2 and 2/4 give equal floats.
    shares = histogram.values[filled] / histogram.lengths[filled]
    values, inverse = np.unique(shares, return_inverse=True)
    counts = np.zeros(len(values), np.int64)
    np.add.at(counts, inverse, histogram.counts[filled])
    return values, counts


def compare_histograms(
    support: np.ndarray, reference: np.ndarray, samples: np.ndarray
) -> dict[str, np.ndarray]:
    """Compute means and distances of documents (..., C) on a support (C,); NaN without any."""
    with np.errstate(invalid="ignore"):
        mean_reference = reference @ support / reference.sum(axis=-1)
        mean = samples @ support / samples.sum(axis=-1)
        held = {"mean": mean, "mean_reference": mean_reference}
        return held | {"mean_difference": mean - mean_reference, "ks": ks(reference, samples)}


_TESTED = "ks_empirical"


class CellComparison(NamedTuple):
    """One tendency of both texts as documents by cell.

    `counts` are the documents of both by cell (2, C), without those in no cell; `cells_of` returns
    the cell of each document of a sample set (0 or 1), -1 for none: (D,); `evaluate` computes
    measures by name from the documents of two texts, (..., C) each.
    """

    pair: SampleSetPair
    tendency: str
    cells: Any  # `LengthCells` of types by length; of numbers their values (C,), increasing
    counts: np.ndarray
    cells_of: Callable[[int], np.ndarray]
    evaluate: histogram_draws.Evaluate

    def observed(self) -> dict[str, float]:
        """Compute the measures of the texts themselves."""
        return {name: float(x) for name, x in self.evaluate(*self.counts).items()}

    def replicates(self, options: MeasurementOptions, seed: int) -> dict[str, np.ndarray]:
        """Compute the measures of resampled documents, or groups; empty without a bootstrap."""
        if not options.bootstrap:
            return {}
        width, drawers = self.counts.shape[1], list[histogram_draws.Resampler]()
        for sample_set, name in enumerate(("reference", "samples")):
            counts, groups = self.counts[sample_set], self.pair.groups[sample_set]
            # Answers to the same prompts are resampled together.
            side = name if not self.pair.prompted else "prompts"
            purpose = f"bootstrap/{self.tendency}/{side}"
            draw: histogram_draws.Resampler
            if groups is None:
                draw = partial(histogram_draws.resample, counts, seed=seed, purpose=purpose)
            else:
                found_cells = self.cells_of(sample_set)
                draw = histogram_draws.group_resampler(found_cells, groups, width, seed, purpose)
            drawers.append(draw)
        return histogram_draws.bootstrap_both(drawers, width, self.evaluate, options.bootstrap)


def _values(pair: SampleSetPair, sample_set: int, name: str) -> tuple[np.ndarray, np.ndarray]:
    assert pair.documents is not None
    values = pair.documents.values(sample_set)
    return values[LENGTH], values[name]


def _type_cells(
    pair: SampleSetPair, name: str, cells: type_token.LengthCells, sample_set: int
) -> np.ndarray:
    return type_token.type_places(*_values(pair, sample_set, name), cells)


def _by_length(
    pair: SampleSetPair, tendency: str, laws: Mapping[str, Heaps] = MappingProxyType({})
) -> CellComparison | None:
    """Compare types by length, also with laws; None where the samples have none."""
    found = type_token.pair_by_length(*pair.sample_sets, tendency)
    if found is None or found[1][1].sum() == 0:
        return None
    cells, counts = found
    cells_of = partial(_type_cells, pair, type_token.HISTOGRAM_OF[tendency], cells)
    evaluate = partial(type_token.summarize_lengths, cells, laws=laws)
    return CellComparison(pair, tendency, cells, counts, cells_of, evaluate)


def by_value(pair: SampleSetPair, tendency: str) -> CellComparison | None:
    """Compare the distributions of length, a share or a number; None where a text has none."""
    row, sized = TENDENCIES[tendency], pair.sizes.get(tendency)
    if row.kind == "number" and sized is None:
        return None
    sides = [distribution(sample_set, tendency, sized) for sample_set in pair.sample_sets]
    support = np.union1d(sides[0][0], sides[1][0])
    counts = np.zeros((2, len(support)), np.int64)
    for own, (values, documents) in zip(counts, sides, strict=True):
        own[np.searchsorted(support, values)] = documents
    if not counts.sum(axis=1).all():
        return None

    def cells_of(sample_set: int) -> np.ndarray:
        lengths, values = _values(pair, sample_set, sized.name if sized else row.histogram)
        if row.kind == "length":
            return np.searchsorted(support, lengths)
        if sized:
            found_cells = np.searchsorted(support, values * row.unit)
            return np.where(values == ABSENT, -1, found_cells)
        filled, found_cells = lengths > 0, np.full(len(lengths), -1)
        found_cells[filled] = np.searchsorted(support, values[filled] / lengths[filled])
        return found_cells

    evaluate = partial(compare_histograms, support)
    return CellComparison(pair, tendency, support, counts, cells_of, evaluate)


def types_by_length(pair: SampleSetPair) -> Iterator[CellComparison]:
    """Yield types by length, of unigrams and bigrams, where both texts have them."""
    yield from filter(None, (_by_length(pair, tendency) for tendency in type_token.HISTOGRAM_OF))


def numbers_of_documents(pair: SampleSetPair) -> Iterator[CellComparison]:
    """Yield length, the shares and the numbers, where both texts have them."""
    names = tendencies_of("length", "share", "number")
    yield from filter(None, (by_value(pair, name) for name in names))


def cell_comparisons(pair: SampleSetPair) -> Iterator[CellComparison]:
    """Yield every tendency of one number per document that both texts have."""
    yield from types_by_length(pair.of_words)
    yield from numbers_of_documents(pair)


def randomized_types(how: Measuring, *, tested: bool = True) -> dict[MeasureKey, np.ndarray]:
    """Draw the distances of types by length, and last those of the data: (B + 1,) each.

    Documents of one length are permuted, or groups of as many documents, of which a test compares
    `type_token.scaled_distance`; swaps of groups do not keep lengths, so that there is no draw.
    """
    found: dict[MeasureKey, np.ndarray] = {}
    seed, n, units = how.seed, how.options.permutations, how.units
    if units is not None and units.scheme == "swaps":
        return found
    for held in types_by_length(how.pair):
        evaluate = held.evaluate
        if units is None:
            purpose = f"permutation/{held.tendency}"
            drawn = type_token.permute_by_length(held.cells, held.counts, n, seed, purpose)
        else:
            if tested:
                evaluate = partial(type_token.scaled_distance, held.cells)
            cells, width = (held.cells_of(0), held.cells_of(1)), held.counts.shape[1]
            found_cells = histogram_draws.permuted_cells(cells, width, evaluate, units, n, seed)
            drawn = found_cells.get(_TESTED, np.zeros(0))
        found[held.tendency, _TESTED] = np.append(drawn, evaluate(*held.counts)[_TESTED])
    return found


def _of_share(
    held: CellComparison, how: Measuring
) -> tuple[CellComparison, histogram_draws.Evaluate]:
    """Leave out documents of the second text, where at most a share of them is to have a number.

    Groups change sides as a whole, before any is left out.
    """
    evaluate, sized = partial(_tested_numbers, held.cells), held.pair.sizes.get(held.tendency)
    if sized is None or (most := most_of(how, sized.name)) is None:
        return held, evaluate
    rng = stream(0, f"floor/long/{sized.name}")
    if how.units is not None:
        return held, lambda first, second: evaluate(first, _fewer(second, most, rng))
    counts = np.stack([held.counts[0], _fewer(held.counts[1], most, rng)])
    return held._replace(counts=counts), evaluate


def _fewer(counts: np.ndarray, most: int, rng: np.random.Generator) -> np.ndarray:
    """Draw at most so many of the documents of each of some texts, by cell: (..., C)."""
    whole = counts.reshape(-1, counts.shape[-1]).astype(np.int64)
    few = [rng.multivariate_hypergeometric(own, min(most, int(own.sum()))) for own in whole]
    return np.reshape(few, counts.shape)


def randomized_numbers(how: Measuring) -> dict[MeasureKey, np.ndarray]:
    """Draw distances of numbers and t of the difference of means, and last of the data: (B + 1,).

    Without units documents are permuted. No distance where no unit can move.
    """
    found: dict[MeasureKey, np.ndarray] = {}
    units, seed, n = how.units, how.seed, how.options.permutations
    for held, evaluate in (_of_share(held, how) for held in numbers_of_documents(how.pair)):
        purpose = f"permutation/{held.tendency}"
        if units is None:
            drawn = histogram_draws.permute(held.counts, evaluate, n, seed, purpose)
        else:
            one, two = held.cells_of(0), held.cells_of(1)
            counted = counted_units(units, (one >= 0, two >= 0))
            cells, width = (one[one >= 0], two[two >= 0]), held.counts.shape[1]
            drawn = histogram_draws.permuted_cells(cells, width, evaluate, counted, n, seed)
        observed = evaluate(*held.counts)
        both = {name: np.append(drawn.get(name, []), x) for name, x in observed.items()}
        if units is not None:
            values = held.cells[cells[0]], held.cells[cells[1]]
            if counted.strata is not None and not counted.strata.moved:
                both = {}
            both[SIGNED] = permuted_means(*values, counted, n, seed)
        found |= {(held.tendency, name): x for name, x in both.items()}
    return found


def _tested_numbers(
    support: np.ndarray, reference: np.ndarray, samples: np.ndarray
) -> dict[str, np.ndarray]:
    t = studentized_difference(reference, samples, support, np.ones(len(support)))
    with np.errstate(invalid="ignore"):
        distance = ks(reference, samples)
    # A randomization may leave a side without a document that is long enough: as far as can be.
    return {SIGNED: t, "ks": np.where(np.isnan(distance), 1.0, distance)}


def _heaps_rows(how: Measuring, tendency: str, fits: tuple[Heaps, Heaps]) -> Iterator[MeasureRow]:
    pair, options, name = how.pair, how.options, type_token.HISTOGRAM_OF[tendency]
    for sample_set, suffix in ((1, ""), (0, "_reference")):
        histogram, fit = pair.sample_sets[sample_set].histograms[name], fits[sample_set]
        errors = standard_errors.NOT_DEFINED, standard_errors.NOT_DEFINED
        if options.bootstrap and not math.isnan(fit.beta):
            cells = type_token.LengthCells.of(histogram)
            cells_of = partial(_type_cells, pair, name, cells, sample_set)
            columns, used = heaps_columns(cells.lengths, cells.values, fit)
            groups = pair.groups[sample_set]
            held = standard_errors.sums_by_unit(histogram.counts, columns, used, cells_of, groups)
            errors = heaps_errors(held, fit)
        for parameter, value, error in zip(("alpha", "beta"), fit, errors, strict=True):
            limits = error.limits(value, options.confidence)
            yield MeasureRow(tendency, f"heaps_{parameter}{suffix}", value, *limits)


def _shared_lengths(held: CellComparison, n_samples: int) -> tuple[str, str]:
    """Describe the lengths that both texts have; else the reason that they are too few."""
    totals = held.cells.totals(held.counts)  # (2, G)
    shared = totals[:, (totals > 0).all(axis=0)]
    there, here = shared.sum(axis=1).tolist()
    lengths = f"{shared.shape[1]} shared length{'s' if shared.shape[1] != 1 else ''}"
    note = f"{lengths} with {here} of {n_samples} documents"
    if min(here, there) >= DOCUMENTS_AT_LENGTHS:
        return note, ""
    return "", reason("few_at_lengths", note=note, there=there, least=DOCUMENTS_AT_LENGTHS)


def type_token_rows(how: Measuring, tendency: str) -> Iterator[MeasureRow]:
    """Measure a type-token relation; the p-value of the comparison is filled in by `measures`."""
    pair, options, name = how.pair, how.options, type_token.HISTOGRAM_OF[tendency]
    reference, samples = (type_token.fit(one.histograms[name]) for one in pair.sample_sets)
    yield from _heaps_rows(how, tendency, (reference, samples))
    fits = {"ks_heaps_model": samples, "ks_heaps_reference": reference}
    laws = {measure: law for measure, law in fits.items() if not math.isnan(law.beta)}
    held = _by_length(pair, tendency, laws)
    if held is None:
        return
    values, replicates = held.observed(), held.replicates(options, how.seed)
    for measure in (*laws, _TESTED):
        value, drawn = values[measure], replicates.get(measure)
        high = upper_limit(value, drawn, options.confidence, how.spread)
        row = MeasureRow(tendency, measure, value, high=high)
        if measure in laws:
            law, purpose = laws[measure], f"monte_carlo/{tendency}/{measure}"
            drawn = type_token.draw_from_heaps(
                held.cells, held.counts[1], law, options.monte_carlo, how.seed, purpose
            )
            yield row._replace(p_value_law=monte_carlo_p(value, drawn))
        else:
            fact, why = _shared_lengths(held, pair.samples.n_documents)
            yield row._replace(fact=fact, reason=why)


def _mean_limits(
    held: CellComparison, values: Mapping[str, float], confidence: float
) -> dict[str, tuple[float, float]]:
    everything, column, sums = np.ones(len(held.cells), bool), held.cells[:, None], []
    for sample_set, (counts, groups) in enumerate(zip(held.counts, held.pair.groups, strict=True)):
        cells_of = partial(held.cells_of, sample_set)
        sums.append(standard_errors.sums_by_unit(counts, column, everything, cells_of, groups))
    reference, samples = map(standard_errors.mean_error, sums)
    errors = {"mean": samples, "mean_reference": reference}
    errors["mean_difference"] = samples.with_another(reference)
    if held.pair.prompted:
        errors["mean_difference"] = standard_errors.paired_mean_error(*sums)
    return {name: error.limits(values[name], confidence) for name, error in errors.items()}


def histogram_rows(how: Measuring, tendency: str) -> Iterator[MeasureRow]:
    """Measure length, a share or a number; p-values are filled in by `measures`."""
    options, held = how.options, by_value(how.pair, tendency)
    if held is None:
        return
    values, limits = held.observed(), dict[str, tuple[float, float]]()
    if options.bootstrap:
        limits = _mean_limits(held, values, options.confidence)
        drawn = held.replicates(options, how.seed)["ks"]
        high = upper_limit(values["ks"], drawn, options.confidence, how.spread)
        limits["ks"] = math.nan, high
    for measure, value in values.items():
        row = MeasureRow(tendency, measure, value, *limits.get(measure, ()))
        if measure in ("ks", SIGNED) and tendency in how.pair.sizes:
            fact, why = size_told(how.pair, how.pair.sizes[tendency])
            row = row._replace(fact=fact, reason=why)
        yield row
