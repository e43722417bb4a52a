"""The measures of one number per document: types by length, length and shares of tokens."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from beyond_perplexity.tendencies import histograms, type_token
from beyond_perplexity.tendencies.measured import MeasureRow, compares_texts
from beyond_perplexity.tendencies.options import MeasurementOptions
from beyond_perplexity.tendencies.pairs import BodyPair
from beyond_perplexity.tendencies.resampling import monte_carlo_p, replicate_interval
from beyond_perplexity.tendencies.rows import tendencies_of

_TESTED = "ks_empirical"


def _cells(
    pair: BodyPair, tendency: str, options: MeasurementOptions
) -> type_token.PairedCells | None:
    found = type_token.pair_by_length(*pair.bodies, tendency, options.heaps_maximum_length)
    return None if found is None or found.samples.sum() == 0 else found


def _values(pair: BodyPair, tendency: str) -> histograms.PairedHistogram | None:
    found = histograms.pair(*pair.bodies, tendency)
    return found if found.reference.sum() and found.samples.sum() else None


def permuted_documents(
    pair: BodyPair, options: MeasurementOptions, seed: int
) -> dict[tuple[str, str], np.ndarray]:
    """Draw the comparing measures of one number per document under permutations of documents.

    Returns
    -------
    dict of (tendency, measure) to numpy.ndarray of float64, shape (B,)
        What is not defined of the bodies is left out.
    """
    found, n = {}, options.permutations
    for tendency in type_token.HISTOGRAM_OF:
        cells = _cells(pair, tendency, options)
        if cells is not None:
            purpose = f"permutation/{tendency}"
            drawn = type_token.permute_by_length(cells, n, seed, purpose)
            found[tendency, _TESTED] = drawn
    for tendency in tendencies_of("length", "share"):
        held = _values(pair, tendency)
        if held is not None:
            permuted = histograms.permute(held, n, seed, f"permutation/{tendency}")
            tested = {name: x for name, x in permuted.items() if compares_texts(name)}
            found |= {(tendency, name): x for name, x in tested.items()}
    return found


def _heaps_rows(
    pair: BodyPair, tendency: str, options: MeasurementOptions, seed: int
) -> Iterator[MeasureRow]:
    name = type_token.HISTOGRAM_OF[tendency]
    for suffix, body in (("", pair.samples), ("_reference", pair.reference)):
        fit = type_token.fit(body.histograms[name])
        drawn = np.zeros((0, 2))
        if options.bootstrap:
            purpose = f"bootstrap/heaps/{tendency}{suffix}"
            drawn = type_token.bootstrap_fit(
                body.histograms[name], options.bootstrap, seed, purpose
            )
        for column, parameter in enumerate(("heaps_alpha", "heaps_beta")):
            measure = parameter + suffix
            replicates = {measure: drawn[:, column]}
            limits = replicate_interval(measure, fit[column], replicates, options.confidence)
            yield MeasureRow(tendency, measure, fit[column], *limits)


def type_token_rows(
    pair: BodyPair, tendency: str, options: MeasurementOptions, seed: int
) -> Iterator[MeasureRow]:
    """Measure a type-token relation; the p-value of the comparison is filled in by `measures`."""
    yield from _heaps_rows(pair, tendency, options, seed)
    paired = _cells(pair, tendency, options)
    if paired is None:
        return
    name = type_token.HISTOGRAM_OF[tendency]
    fits = {
        "ks_heaps_model": type_token.fit(pair.samples.histograms[name]),
        "ks_heaps_reference": type_token.fit(pair.reference.histograms[name]),
    }
    laws = {measure: law for measure, law in fits.items() if not math.isnan(law.beta)}
    values = type_token.summarize_lengths(paired, paired.reference, paired.samples, laws)
    replicates = {}
    if options.bootstrap:
        purpose = f"bootstrap/{tendency}"
        replicates = type_token.bootstrap_by_length(paired, laws, options.bootstrap, seed, purpose)
    for measure in (*laws, _TESTED):
        value = float(values[measure])
        limits = replicate_interval(measure, value, replicates, options.confidence)
        row = MeasureRow(tendency, measure, value, *limits)
        if measure in laws:
            purpose = f"monte_carlo/{tendency}/{measure}"
            drawn = type_token.draw_from_heaps(
                paired.cells, paired.samples, laws[measure], options.monte_carlo, seed, purpose
            )
            row = row._replace(p_value_law=monte_carlo_p(value, drawn))
        yield row


def histogram_rows(
    pair: BodyPair, tendency: str, options: MeasurementOptions, seed: int
) -> Iterator[MeasureRow]:
    """Measure length or a share; p-values of comparisons are filled in by `measures`."""
    paired = _values(pair, tendency)
    if paired is None:
        return
    values = histograms.compare(paired.support, paired.reference, paired.samples)
    replicates: dict[str, np.ndarray] = {}
    if options.bootstrap:
        purpose = f"bootstrap/{tendency}"
        replicates = histograms.bootstrap(paired, options.bootstrap, seed, purpose)
    for measure, value in values.items():
        limits = replicate_interval(measure, float(value), replicates, options.confidence)
        yield MeasureRow(tendency, measure, float(value), *limits)
