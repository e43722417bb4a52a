"""The measures of one number per document: types by length, length and shares of tokens."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from beyond_perplexity.inference.exchanged_units import DOCUMENTS_AT_LENGTHS, ExchangedUnits
from beyond_perplexity.inference.histogram_draws import (
    Evaluate,
    Resampler,
    bootstrap_both,
    exchanged_cells,
    group_resampler,
    permute,
    resample,
)
from beyond_perplexity.inference.intervals import (
    NOT_DEFINED,
    Spread,
    mean_error,
    sums_by_unit,
    upper_limit,
)
from beyond_perplexity.inference.p_values import monte_carlo_p
from beyond_perplexity.inference.two_sample_test import ks
from beyond_perplexity.tendencies import type_token
from beyond_perplexity.tendencies.definitions import (
    HEAPS_MAXIMUM_LENGTH,
    LENGTH,
    TENDENCIES,
    MeasureKey,
    MeasurementOptions,
    MeasureRow,
    TendencyKind,
    compares_texts,
    tendencies_of,
)
from beyond_perplexity.tendencies.pairs import BodyPair
from beyond_perplexity.tendencies.power_laws import Heaps, heaps_columns, heaps_errors
from beyond_perplexity.tendencies.statistics import Statistics
from beyond_perplexity.verdicts import reason


def distribution(statistics: Statistics, tendency: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the values (float64, (C,), increasing) of length or a share, and their documents.

    Documents without tokens have no share and are left out.
    """
    row = TENDENCIES[tendency]
    histogram = statistics.histograms[row.histogram]
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
    """Compute means and distances of documents by their value, (..., C), of a support (C,).

    ``mean`` (of the samples), ``mean_reference``, ``mean_difference`` (samples minus reference) and
    ``ks``; NaN where a side has no document.
    """
    with np.errstate(invalid="ignore"):
        mean_reference = reference @ support / reference.sum(axis=-1)
        mean = samples @ support / samples.sum(axis=-1)
        return {
            "mean": mean,
            "mean_reference": mean_reference,
            "mean_difference": mean - mean_reference,
            "ks": ks(reference, samples),
        }


def value_places(
    lengths: np.ndarray, values: np.ndarray, support: np.ndarray, kind: TendencyKind
) -> np.ndarray:
    """Return the place of each document in a support (C,); -1 for no value."""
    if kind == "length":
        return np.searchsorted(support, lengths)
    filled = lengths > 0
    places = np.full(len(lengths), -1)
    places[filled] = np.searchsorted(support, values[filled] / lengths[filled])
    return places


_TESTED = "ks_empirical"
_NUMBERS = tendencies_of("length", "share")


class CellComparison(NamedTuple):
    """One tendency of both texts as documents by cell.

    `counts` are the documents of both by cell (C,), without those in no cell; `place` returns the
    cell of each document of a body (0 or 1), -1 for none: (D,); `evaluate` computes measures by
    name from the documents of two texts, (..., C) each.
    """

    pair: BodyPair
    tendency: str
    cells: Any  # `PairedCells` of types by length; of numbers their values (C,), increasing
    counts: tuple[np.ndarray, np.ndarray]
    place: Callable[[int], np.ndarray]
    evaluate: Evaluate

    def observed(self) -> dict[str, float]:
        """Compute the measures of the texts themselves."""
        return {name: float(x) for name, x in self.evaluate(*self.counts).items()}

    def replicates(self, options: MeasurementOptions, seed: int) -> dict[str, np.ndarray]:
        """Compute the measures of resampled documents, or groups; empty without a bootstrap."""
        width, drawers = len(self.counts[0]), list[Resampler]()
        if not options.bootstrap:
            return {}
        for body, name in enumerate(("reference", "samples")):
            purpose, groups = f"bootstrap/{self.tendency}/{name}", self.pair.groups[body]
            if groups is None:
                drawers.append(partial(resample, self.counts[body], seed=seed, purpose=purpose))
            else:
                places = self.place(body)
                drawers.append(group_resampler(places, groups, width, seed, purpose))
        return bootstrap_both(drawers, width, self.evaluate, options.bootstrap)


def _values(pair: BodyPair, body: int, name: str) -> tuple[np.ndarray, np.ndarray]:
    assert pair.documents is not None
    values = pair.documents.values(body)
    return values[LENGTH], values[name]


def _type_places(pair: BodyPair, name: str, cells: type_token.LengthCells, body: int) -> np.ndarray:
    return type_token.type_places(*_values(pair, body, name), cells)


def _by_length(
    pair: BodyPair, tendency: str, options: MeasurementOptions, laws: Mapping[str, Heaps]
) -> CellComparison | None:
    """Compare types by length, also with laws; None where the samples have none."""
    found = type_token.pair_by_length(*pair.bodies, tendency, HEAPS_MAXIMUM_LENGTH)
    if found is None or found.samples.sum() == 0:
        return None
    place = partial(_type_places, pair, type_token.HISTOGRAM_OF[tendency], found.cells)
    evaluate = partial(type_token.summarize_lengths, found, laws=laws)
    counts = found.reference, found.samples
    return CellComparison(pair, tendency, found, counts, place, evaluate)


def by_value(pair: BodyPair, tendency: str) -> CellComparison | None:
    """Compare the distributions of length or a share; None where a text has none."""
    row = TENDENCIES[tendency]
    sides = [distribution(body, tendency) for body in pair.bodies]
    support = np.union1d(sides[0][0], sides[1][0])
    first, second = np.zeros((2, len(support)), np.int64)
    for counts, (values, documents) in zip((first, second), sides, strict=True):
        counts[np.searchsorted(support, values)] = documents
    if not (first.sum() and second.sum()):
        return None

    def place(body: int) -> np.ndarray:
        return value_places(*_values(pair, body, row.histogram), support, row.kind)

    evaluate = partial(compare_histograms, support)
    return CellComparison(pair, tendency, support, (first, second), place, evaluate)


def cell_comparisons(pair: BodyPair, options: MeasurementOptions) -> Iterator[CellComparison]:
    """Yield every tendency of one number per document that both texts have."""
    yield from filter(None, (_by_length(pair, x, options, {}) for x in type_token.HISTOGRAM_OF))
    yield from filter(None, (by_value(pair, tendency) for tendency in _NUMBERS))


def randomized_documents(
    pair: BodyPair, units: ExchangedUnits | None, options: MeasurementOptions, seed: int
) -> dict[MeasureKey, np.ndarray]:
    """Draw the comparing measures of one number per document under randomizations: (B,) each.

    Without units documents are permuted: for types by length those of equal length. Measures that
    the bodies do not have are left out, and of types by length where the reference alone has
    groups.
    """
    found: dict[MeasureKey, np.ndarray] = {}
    n = options.permutations
    for held in cell_comparisons(pair, options):
        types, purpose = held.tendency in type_token.HISTOGRAM_OF, f"permutation/{held.tendency}"
        if types and units is not None and units.scheme == "swaps":
            continue  # swaps do not keep lengths, which types depend on
        if units is not None:
            places, width = (held.place(0), held.place(1)), len(held.counts[0])
            drawn = exchanged_cells(places, width, held.evaluate, units, n, seed)
        elif types:
            drawn = {_TESTED: type_token.permute_by_length(held.cells, n, seed, purpose)}
        else:
            drawn = permute(held.counts, held.evaluate, n, seed, purpose)
        found |= {(held.tendency, name): x for name, x in drawn.items() if compares_texts(name)}
    return found


def _heaps_rows(pair: BodyPair, tendency: str, options: MeasurementOptions) -> Iterator[MeasureRow]:
    name = type_token.HISTOGRAM_OF[tendency]
    for body, suffix in ((1, ""), (0, "_reference")):
        histogram = pair.bodies[body].histograms[name]
        fit = type_token.fit(histogram)
        errors = NOT_DEFINED, NOT_DEFINED
        if options.bootstrap and not math.isnan(fit.beta):
            cells = type_token.LengthCells.of(histogram)
            place = partial(_type_places, pair, name, cells, body)
            columns, used = heaps_columns(cells.lengths, cells.values, fit)
            held = sums_by_unit(histogram.counts, columns, used, place, pair.groups[body])
            errors = heaps_errors(held, fit)
        for parameter, value, error in zip(("alpha", "beta"), fit, errors, strict=True):
            limits = error.limits(value, options.confidence)
            yield MeasureRow(tendency, f"heaps_{parameter}{suffix}", value, *limits)


def _shared_lengths(paired: type_token.PairedCells, n_samples: int) -> tuple[str, str]:
    """Describe the lengths that both texts have; else the reason that they are too few."""
    reference, samples = (paired.cells.totals(x) for x in (paired.reference, paired.samples))
    shared = (reference > 0) & (samples > 0)
    here, there = int(samples[shared].sum()), int(reference[shared].sum())
    lengths = int(shared.sum())
    note = (
        f"{lengths} shared length{'s' if lengths != 1 else ''} with {here} of {n_samples} documents"
    )
    if min(here, there) >= DOCUMENTS_AT_LENGTHS:
        return note, ""
    return "", reason("few_at_lengths", note=note, there=there, least=DOCUMENTS_AT_LENGTHS)


def type_token_rows(
    pair: BodyPair, tendency: str, options: MeasurementOptions, spread: Spread, seed: int
) -> Iterator[MeasureRow]:
    """Measure a type-token relation; the p-value of the comparison is filled in by `measures`."""
    yield from _heaps_rows(pair, tendency, options)
    name = type_token.HISTOGRAM_OF[tendency]
    fits = {
        "ks_heaps_model": type_token.fit(pair.samples.histograms[name]),
        "ks_heaps_reference": type_token.fit(pair.reference.histograms[name]),
    }
    laws = {measure: law for measure, law in fits.items() if not math.isnan(law.beta)}
    held = _by_length(pair, tendency, options, laws)
    if held is None:
        return
    values, paired = held.observed(), held.cells
    replicates = held.replicates(options, seed)
    for measure in (*laws, _TESTED):
        value = values[measure]
        high = upper_limit(value, replicates.get(measure), options.confidence, spread)
        row = MeasureRow(tendency, measure, value, high=high)
        if measure in laws:
            purpose = f"monte_carlo/{tendency}/{measure}"
            drawn = type_token.draw_from_heaps(
                paired.cells, paired.samples, laws[measure], options.monte_carlo, seed, purpose
            )
            row = row._replace(p_value_law=monte_carlo_p(value, drawn))
        else:
            fact, why = _shared_lengths(paired, pair.samples.n_documents)
            row = row._replace(fact=fact, reason=why)
        yield row


def _mean_limits(
    held: CellComparison, values: Mapping[str, float], confidence: float
) -> dict[str, tuple[float, float]]:
    everything, column = np.ones(len(held.cells), bool), held.cells[:, None]
    reference, samples = (
        mean_error(sums_by_unit(counts, column, everything, partial(held.place, body), groups))
        for body, (counts, groups) in enumerate(zip(held.counts, held.pair.groups, strict=True))
    )
    errors = {
        "mean": samples,
        "mean_reference": reference,
        "mean_difference": samples.with_another(reference),
    }
    return {name: error.limits(values[name], confidence) for name, error in errors.items()}


def histogram_rows(
    pair: BodyPair, tendency: str, options: MeasurementOptions, spread: Spread, seed: int
) -> Iterator[MeasureRow]:
    """Measure length or a share; p-values of comparisons are filled in by `measures`."""
    held = by_value(pair, tendency)
    if held is None:
        return
    values, limits = held.observed(), dict[str, tuple[float, float]]()
    if options.bootstrap:
        limits = _mean_limits(held, values, options.confidence)
        drawn = held.replicates(options, seed)["ks"]
        limits["ks"] = math.nan, upper_limit(values["ks"], drawn, options.confidence, spread)
    for measure, value in values.items():
        yield MeasureRow(tendency, measure, value, *limits.get(measure, ()))
