"""The measures of one number per document: types by length, length and shares of tokens."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

import numpy as np

from beyond_perplexity.inference.exchanged_units import ExchangedUnits
from beyond_perplexity.inference.histogram_draws import (
    DocumentCells,
    PairedHistogram,
    Resampler,
    bootstrap_both,
    compare_histograms,
    document_resampler,
    exchanged_cells,
    group_resampler,
    permute,
)
from beyond_perplexity.inference.intervals import (
    NOT_DEFINED,
    Spread,
    mean_error,
    sums_by_unit,
    upper_limit,
)
from beyond_perplexity.inference.p_values import monte_carlo_p
from beyond_perplexity.inference.thresholds import DOCUMENTS_AT_LENGTHS
from beyond_perplexity.tendencies import type_token
from beyond_perplexity.tendencies.definitions import (
    LENGTH,
    TENDENCIES,
    MeasureKey,
    MeasureRow,
    TendencyKind,
    compares_texts,
    tendencies_of,
)
from beyond_perplexity.tendencies.options import MeasurementOptions
from beyond_perplexity.tendencies.pairs import BodyPair
from beyond_perplexity.tendencies.power_laws import heaps_columns, heaps_errors
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


def paired_histogram(reference: Statistics, samples: Statistics, tendency: str) -> PairedHistogram:
    """Bring the distributions of two bodies of text to a common support; see `distribution`."""
    values_1, counts_1 = distribution(reference, tendency)
    values_2, counts_2 = distribution(samples, tendency)
    support = np.union1d(values_1, values_2)
    first, second = np.zeros((2, len(support)), np.int64)
    first[np.searchsorted(support, values_1)] = counts_1
    second[np.searchsorted(support, values_2)] = counts_2
    return PairedHistogram(support, first, second)


def value_places(
    lengths: np.ndarray, values: np.ndarray, support: np.ndarray, kind: TendencyKind
) -> np.ndarray:
    """Return the place of each document in the support of `paired_histogram`; -1 for no value."""
    if kind == "length":
        return np.searchsorted(support, lengths)
    filled = lengths > 0
    places = np.full(len(lengths), -1)
    places[filled] = np.searchsorted(support, values[filled] / lengths[filled])
    return places


_TESTED = "ks_empirical"
_NUMBERS = tendencies_of("length", "share")


class _Counted(NamedTuple):
    """Documents of both texts by cell, and how they are found and resampled."""

    counts: tuple[np.ndarray, np.ndarray]  # (C,) each
    place: Callable[[int], np.ndarray]  # of each document of a body in the cells
    pair: BodyPair

    def drawers(self, seed: int, purpose: str) -> tuple[Resampler, ...]:
        """Return what resamples documents, or groups, of the reference and of the samples."""
        return tuple(
            self.drawer(body, seed, f"{purpose}/{name}")
            for body, name in enumerate(("reference", "samples"))
        )

    def drawer(self, body: int, seed: int, purpose: str) -> Resampler:
        """Return what resamples one body."""
        groups = self.pair.groups[body]
        if groups is None:
            return document_resampler(self.counts[body], seed, purpose)
        return group_resampler(self.place(body), groups, len(self.counts[body]), seed, purpose)


def _values(pair: BodyPair, body: int, name: str) -> tuple[np.ndarray, np.ndarray]:
    assert pair.documents is not None
    values = pair.documents.values(body)
    return values[LENGTH], values[name]


def _type_places(pair: BodyPair, name: str, cells: type_token.LengthCells, body: int) -> np.ndarray:
    return type_token.type_places(*_values(pair, body, name), cells)


def _cells(
    pair: BodyPair, tendency: str, options: MeasurementOptions
) -> tuple[type_token.PairedCells, _Counted] | None:
    found = type_token.pair_by_length(*pair.bodies, tendency, options.heaps_maximum_length)
    if found is None or found.samples.sum() == 0:
        return None
    place = partial(_type_places, pair, type_token.HISTOGRAM_OF[tendency], found.cells)
    return found, _Counted((found.reference, found.samples), place, pair)


def _numbers(pair: BodyPair, tendency: str) -> tuple[PairedHistogram, _Counted] | None:
    found = paired_histogram(*pair.bodies, tendency)
    if not (found.reference.sum() and found.samples.sum()):
        return None
    row = TENDENCIES[tendency]

    def place(body: int) -> np.ndarray:
        values = _values(pair, body, row.histogram)
        return value_places(*values, found.support, row.kind)

    return found, _Counted((found.reference, found.samples), place, pair)


class CellComparison(NamedTuple):
    """One tendency of both texts as documents by cell.

    `counts` are the documents of both by cell (C,), without those in no cell; `place` returns the
    cell of each document of a body (0 or 1), -1 for none: (D,); `evaluate` computes measures by
    name from the documents of two texts, (C,) each.
    """

    tendency: str
    counts: tuple[np.ndarray, np.ndarray]
    place: Callable[[int], np.ndarray]
    evaluate: Callable[[np.ndarray, np.ndarray], dict[str, np.ndarray]]


def cell_comparisons(pair: BodyPair, options: MeasurementOptions) -> Iterator[CellComparison]:
    """Yield every tendency of one number per document that both texts have."""
    for tendency in type_token.HISTOGRAM_OF:
        if (cells := _cells(pair, tendency, options)) is not None:
            evaluate = partial(type_token.summarize_lengths, cells[0], laws={})
            yield CellComparison(tendency, cells[1].counts, cells[1].place, evaluate)
    for tendency in _NUMBERS:
        if (held := _numbers(pair, tendency)) is not None:
            evaluate = partial(compare_histograms, held[0].support)
            yield CellComparison(tendency, held[1].counts, held[1].place, evaluate)


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

    def exchanged(
        counted: _Counted, evaluate: Callable[..., dict[str, np.ndarray]]
    ) -> dict[str, np.ndarray]:
        assert units is not None
        places = counted.place(0), counted.place(1)
        return exchanged_cells(
            DocumentCells(len(counted.counts[0]), places, evaluate), units, n, seed
        )

    by_length = () if units is not None and units.scheme == "swaps" else type_token.HISTOGRAM_OF
    for tendency in by_length:  # swaps do not keep lengths, which types depend on
        if (cells := _cells(pair, tendency, options)) is None:
            continue
        if units is None:
            purpose = f"permutation/{tendency}"
            drawn = type_token.permute_by_length(cells[0], n, seed, purpose)
        else:
            evaluate = partial(type_token.summarize_lengths, cells[0], laws={})
            drawn = exchanged(cells[1], evaluate)[_TESTED]
        found[tendency, _TESTED] = drawn
    for tendency in _NUMBERS:
        if (held := _numbers(pair, tendency)) is None:
            continue
        if units is None:
            permuted = permute(held[0], n, seed, f"permutation/{tendency}")
        else:
            permuted = exchanged(held[1], partial(compare_histograms, held[0].support))
        found |= {(tendency, name): x for name, x in permuted.items() if compares_texts(name)}
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
    found = _cells(pair, tendency, options)
    if found is None:
        return
    paired, counted = found
    name = type_token.HISTOGRAM_OF[tendency]
    fits = {
        "ks_heaps_model": type_token.fit(pair.samples.histograms[name]),
        "ks_heaps_reference": type_token.fit(pair.reference.histograms[name]),
    }
    laws = {measure: law for measure, law in fits.items() if not math.isnan(law.beta)}
    evaluate = partial(type_token.summarize_lengths, paired, laws=laws)
    values = evaluate(paired.reference, paired.samples)
    replicates = {}
    if options.bootstrap:
        drawers = counted.drawers(seed, f"bootstrap/{tendency}")
        width = len(paired.reference)
        replicates = bootstrap_both(drawers, width, evaluate, options.bootstrap)
    for measure in (*laws, _TESTED):
        value = float(values[measure])
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
    counted: _Counted, support: np.ndarray, values: Mapping[str, float], confidence: float
) -> dict[str, tuple[float, float]]:
    everything = np.ones(len(support), bool)
    reference, samples = (
        mean_error(
            sums_by_unit(
                counted.counts[body],
                support[:, None],
                everything,
                partial(counted.place, body),
                counted.pair.groups[body],
            )
        )
        for body in (0, 1)
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
    found = _numbers(pair, tendency)
    if found is None:
        return
    paired, counted = found
    evaluate = partial(compare_histograms, paired.support)
    compared = evaluate(paired.reference, paired.samples)
    values = {measure: float(value) for measure, value in compared.items()}
    limits: dict[str, tuple[float, float]] = {}
    if options.bootstrap:
        limits = _mean_limits(counted, paired.support, values, options.confidence)
        drawers = counted.drawers(seed, f"bootstrap/{tendency}")
        width = len(paired.support)
        drawn = bootstrap_both(drawers, width, evaluate, options.bootstrap)["ks"]
        limits["ks"] = math.nan, upper_limit(values["ks"], drawn, options.confidence, spread)
    for measure, value in values.items():
        yield MeasureRow(tendency, measure, value, *limits.get(measure, ()))
