"""The table of tendencies of samples against a reference.

Rows of schema ``tendencies``. `value` is the measure; `low` and `high` a bootstrap interval over
documents; `p_value` the test named below; `n_reference` and `n_samples` count documents.

==================== ==================== ========================================================
tendency             measure              meaning (p-value)
==================== ==================== ========================================================
rank_frequency       zipf_s               exponent fitted to the samples
rank_frequency       zipf_s_reference     exponent fitted to the reference
rank_frequency       ks_zipf_model        samples against Zipf with zipf_s (Monte Carlo, against
the law restricted to the ranks)
rank_frequency       ks_zipf_reference    samples against Zipf with zipf_s_reference (likewise)
rank_frequency       ks_empirical         samples against the reference's ranks (permutation)
type_token_unigrams  heaps_alpha          Heaps' alpha of the samples
type_token_unigrams  heaps_beta           Heaps' beta of the samples
type_token_unigrams  heaps_alpha_reference, heaps_beta_reference: of the reference
type_token_unigrams  ks_heaps_model       mean over lengths: against the samples' fit (Monte Carlo)
type_token_unigrams  ks_heaps_reference   ... against the reference's fit (Monte Carlo)
type_token_unigrams  ks_empirical         ... against the reference's documents (permutation)
type_token_bigrams   the same for distinct bigrams of a document of that many tokens
unigram              tvd                  half of sum |p1 - p2| (permutation)
unigram              max_difference       sup |p1 - p2|, the paper's eq. 11 (permutation)
length               mean, mean_reference tokens of a document
length               mean_difference      samples minus reference (permutation)
length               ks                   sup |F1 - F2| (permutation)
each share           the same for the share of the tokens of a document
vocabulary           documents, tokens, types (and each with _reference)
vocabulary           novel_types          share of the samples' types that the reference lacks
vocabulary           coverage             share of the reference's tokens whose type the samples
have
==================== ==================== ========================================================

A value that is not defined (no tokens, a single length, ...) is null. The reduction of a type-token
curve to its mean is defined in `type_token`, the p-values and intervals in `resampling`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beyond_perplexity.invariance.streams import stream
from beyond_perplexity.schemas.tendencies import TENDENCY_MEASURES
from beyond_perplexity.tendencies import histograms, type_token
from beyond_perplexity.tendencies.distances import ks_to_cdf, rank_ks
from beyond_perplexity.tendencies.options import MeasurementOptions
from beyond_perplexity.tendencies.pairs import BodyPair, paired
from beyond_perplexity.tendencies.power_laws import fit_zipf, zipf_cdf
from beyond_perplexity.tendencies.resampling import (
    interval,
    monte_carlo_p,
    permutation_p,
)
from beyond_perplexity.tendencies.rows import tendencies_of
from beyond_perplexity.tendencies.statistics import Statistics
from beyond_perplexity.tendencies.unigrams import (
    DocumentCounts,
    permuted_distances,
    top_ranks,
    unigram_distances,
)

_Draws = dict[str, np.ndarray]
_DISTANCES = ("ks", "tvd", "max_difference")


class MeasureRow(NamedTuple):
    """One measure of one tendency; NaN where a number is not defined."""

    tendency: str
    measure: str
    value: float
    low: float = math.nan
    high: float = math.nan
    p_value: float = math.nan


def _row(
    tendency: str,
    measure: str,
    value: float,
    options: MeasurementOptions,
    replicates: _Draws | None = None,
    p_value: float = math.nan,
) -> MeasureRow:
    drawn = (replicates or {}).get(measure, np.zeros(0))
    low, high = interval(float(value), drawn, options.confidence)
    if measure.startswith(_DISTANCES):
        low, high = float(np.clip(low, 0, 1)), float(np.clip(high, 0, 1))
    return MeasureRow(tendency, measure, float(value), low, high, p_value)


def _ks_to_zipf(ranked: np.ndarray, s: float) -> float:
    if math.isnan(s) or len(ranked) == 0:
        return math.nan
    return float(ks_to_cdf(ranked, zipf_cdf(s, len(ranked))))


def _rank_values(reference: np.ndarray, samples: np.ndarray) -> dict[str, float]:
    """Compute every measure of rank_frequency from counts by rank, of shape (K,) each."""
    s_model, s_reference = fit_zipf(samples), fit_zipf(reference)
    return {
        "zipf_s": s_model,
        "zipf_s_reference": s_reference,
        "ks_zipf_model": _ks_to_zipf(samples, s_model),
        "ks_zipf_reference": _ks_to_zipf(samples, s_reference),
        "ks_empirical": float(rank_ks(reference, samples)),
    }


def _zipf_p(ranked: np.ndarray, s: float, n: int, seed: int, purpose: str) -> float:
    """Test counts by rank against Zipf(s) restricted to these ranks, by Monte Carlo.

    The paper's distance is to the unrestricted law, so that it cannot fall below the mass beyond
    the last rank and hardly differs between samples of the law and others. The test therefore
    takes the distance to the restricted law. The number of tokens is Poisson, which makes the
    counts independent and quick to draw.
    """
    if math.isnan(s) or not n or not len(ranked):
        return math.nan
    cdf = zipf_cdf(s, len(ranked))
    cdf = cdf / cdf[-1]
    expected = np.diff(cdf, prepend=0) * ranked.sum()
    drawn = np.empty(n)
    for b in range(n):
        counts = np.sort(stream(seed, purpose, b).poisson(expected))[::-1]
        drawn[b] = ks_to_cdf(counts, cdf) if counts.any() else 1.0
    return monte_carlo_p(float(ks_to_cdf(ranked, cdf)), drawn)


def _collect(parts: Iterator[_Draws]) -> _Draws:
    gathered = list(parts)
    if not gathered:
        return {}
    return {name: np.concatenate([part[name] for part in gathered]) for name in gathered[0]}


def _permuted(
    counts: DocumentCounts, pooled: np.ndarray, options: MeasurementOptions, seed: int
) -> _Draws:
    def parts() -> Iterator[_Draws]:
        purpose = "permutation/unigram"
        for first in counts.permutations(options.permutations, seed, purpose):
            second = pooled.astype(first.dtype)[:, None] - first  # (V, w)
            tops = (top_ranks(side, options.zipf_ranks) for side in (first, second))
            yield {**permuted_distances(first, pooled), "ks_empirical": rank_ks(*tops)}

    return _collect(parts())


def _resampled(counts: DocumentCounts, options: MeasurementOptions, seed: int) -> _Draws:
    def parts() -> Iterator[_Draws]:
        for first, second in counts.resamples(options.bootstrap, seed, "bootstrap/unigram"):
            tops = [top_ranks(side, options.zipf_ranks) for side in (first, second)]
            values = [_rank_values(*pair) for pair in zip(*tops, strict=True)]
            ranks = {name: np.array([value[name] for value in values]) for name in values[0]}
            yield {**unigram_distances(first, second), **ranks}

    return _collect(parts())


def _unigram_rows(pair: BodyPair, options: MeasurementOptions, seed: int) -> Iterator[MeasureRow]:
    """Measure rank_frequency and unigram, which share one pass of permutations and resamples."""
    if not pair.defined:
        return
    permuted: _Draws = {}
    resampled: _Draws = {}
    if pair.documents is not None:
        permuted = _permuted(pair.documents, pair.pooled, options, seed)
        resampled = _resampled(pair.documents, options, seed)
    values = _rank_values(*(body.ranked(options.zipf_ranks) for body in pair.bodies))
    p_values = {
        "ks_empirical": permutation_p(
            values["ks_empirical"], permuted.get("ks_empirical", np.zeros(0))
        )
    }
    ranked = pair.samples.ranked(options.zipf_ranks)
    for name, s in (("ks_zipf_model", "zipf_s"), ("ks_zipf_reference", "zipf_s_reference")):
        purpose = f"monte_carlo/{name}"
        p_values[name] = _zipf_p(ranked, values[s], options.monte_carlo, seed, purpose)
    for name, value in values.items():
        p_value = p_values.get(name, math.nan)
        yield _row("rank_frequency", name, value, options, resampled, p_value)
    found = unigram_distances(pair.counts[0][:, None], pair.counts[1][:, None])
    compared = permuted_distances(pair.counts[0][:, None], pair.pooled)  # as the permuted ones
    for name, (distance,) in found.items():
        p_value = permutation_p(float(compared[name][0]), permuted.get(name, np.zeros(0)))
        yield _row("unigram", name, distance, options, resampled, p_value)


def _type_token_rows(
    reference: Statistics,
    samples: Statistics,
    tendency: str,
    options: MeasurementOptions,
    seed: int,
) -> Iterator[MeasureRow]:
    name = type_token.HISTOGRAM_OF[tendency]
    fits = {}
    for suffix, body in (("", samples), ("_reference", reference)):
        fits[suffix] = type_token.fit(body.histograms[name])
        drawn = np.zeros((0, 2))
        if options.bootstrap:
            purpose = f"bootstrap/heaps/{tendency}{suffix}"
            drawn = type_token.bootstrap_fit(
                body.histograms[name], options.bootstrap, seed, purpose
            )
        for column, parameter in enumerate(("heaps_alpha", "heaps_beta")):
            measure = parameter + suffix
            replicates = {measure: drawn[:, column]}
            yield _row(tendency, measure, fits[suffix][column], options, replicates)
    paired = type_token.pair_by_length(reference, samples, tendency, options.heaps_maximum_length)
    if paired is None or paired.samples.sum() == 0:
        return
    laws = {"ks_heaps_model": fits[""], "ks_heaps_reference": fits["_reference"]}
    laws = {measure: law for measure, law in laws.items() if not math.isnan(law.beta)}
    values = type_token.summarize_lengths(paired, paired.reference, paired.samples, laws)
    replicates = {}
    if options.bootstrap:
        purpose = f"bootstrap/{tendency}"
        replicates = type_token.bootstrap_by_length(paired, laws, options.bootstrap, seed, purpose)
    for measure, law in laws.items():
        purpose = f"monte_carlo/{tendency}/{measure}"
        drawn = type_token.draw_from_heaps(
            paired.cells, paired.samples, law, options.monte_carlo, seed, purpose
        )
        p_value = monte_carlo_p(float(values[measure]), drawn)
        yield _row(tendency, measure, float(values[measure]), options, replicates, p_value)
    permuted = type_token.permute_by_length(
        paired, options.permutations, seed, f"permutation/{tendency}"
    )
    value = float(values["ks_empirical"])
    yield _row(tendency, "ks_empirical", value, options, replicates, permutation_p(value, permuted))


def _histogram_rows(
    reference: Statistics,
    samples: Statistics,
    tendency: str,
    options: MeasurementOptions,
    seed: int,
) -> Iterator[MeasureRow]:
    paired = histograms.pair(reference, samples, tendency)
    if paired.reference.sum() == 0 or paired.samples.sum() == 0:
        return
    values = histograms.compare(paired.support, paired.reference, paired.samples)
    permuted: _Draws = {}
    replicates: _Draws = {}
    if options.permutations:
        purpose = f"permutation/{tendency}"
        permuted = histograms.permute(paired, options.permutations, seed, purpose)
    if options.bootstrap:
        purpose = f"bootstrap/{tendency}"
        replicates = histograms.bootstrap(paired, options.bootstrap, seed, purpose)
    for measure, value in values.items():
        p_value = math.nan
        if measure in ("mean_difference", "ks"):
            p_value = permutation_p(float(value), permuted.get(measure, np.zeros(0)))
        yield _row(tendency, measure, float(value), options, replicates, p_value)


def _vocabulary_rows(reference: Statistics, samples: Statistics) -> Iterator[MeasureRow]:
    for suffix, body in (("", samples), ("_reference", reference)):
        yield MeasureRow("vocabulary", f"documents{suffix}", float(body.n_documents))
        yield MeasureRow("vocabulary", f"tokens{suffix}", float(body.n_tokens))
        yield MeasureRow("vocabulary", f"types{suffix}", float(len(body.types)))
    if len(samples.types):
        shared = np.asarray(pc.is_in(samples.types, value_set=reference.types))
        yield MeasureRow("vocabulary", "novel_types", float(1 - shared.mean()))
    if reference.n_tokens:
        shared = np.asarray(pc.is_in(reference.types, value_set=samples.types))
        coverage = float(reference.counts[shared].sum() / reference.n_tokens)
        yield MeasureRow("vocabulary", "coverage", coverage)


def measure_rows(pair: BodyPair, options: MeasurementOptions, seed: int) -> list[MeasureRow]:
    """Measure all tendencies of a pair; the rows are listed in the docstring of this module.

    Parameters
    ----------
    pair : BodyPair
        With its documents, or no unigram is permuted and resampled.
    options : MeasurementOptions
        Numbers of draws and the like.
    seed : int
        Seed of all draws.
    """
    reference, samples = pair.bodies
    rows = list(_unigram_rows(pair, options, seed))
    for tendency in type_token.HISTOGRAM_OF:
        rows += _type_token_rows(reference, samples, tendency, options, seed)
    for tendency in tendencies_of("length", "share"):
        rows += _histogram_rows(reference, samples, tendency, options, seed)
    rows += _vocabulary_rows(reference, samples)
    return rows


def measure_table(rows: Sequence[MeasureRow], pair: BodyPair, source: str) -> pa.Table:
    """Write the rows of `measure_rows` as a table of schema ``tendencies``."""
    columns: dict[str, list[object]] = {
        "source": [source] * len(rows),
        "tendency": [row.tendency for row in rows],
        "measure": [row.measure for row in rows],
        "n_reference": [pair.reference.n_documents] * len(rows),
        "n_samples": [pair.samples.n_documents] * len(rows),
    }
    for name in ("value", "low", "high", "p_value"):
        numbers = (getattr(row, name) for row in rows)
        columns[name] = [None if math.isnan(number) else number for number in numbers]
    schema = TENDENCY_MEASURES
    return pa.table({name: columns[name] for name in schema.names}, schema)


def measured_tendencies(
    reference: Statistics,
    samples: Statistics,
    reference_texts: Iterable[pa.Array],
    sample_texts: Iterable[pa.Array],
    options: MeasurementOptions,
    seed: int,
    source: str,
) -> pa.Table:
    """Measure all tendencies of samples against a reference.

    Parameters
    ----------
    reference, samples : Statistics
        Sufficient statistics of both bodies of text.
    reference_texts, sample_texts : iterable of pyarrow.StringArray
        The documents themselves, in batches of any size, for the permutations and resamples of
        unigram counts; read once, and not at all without permutations and bootstrap.
    options : MeasurementOptions
        Numbers of draws and the like.
    seed : int
        Seed of all draws.
    source : str
        Name of the samples, e.g. ``"lstm/nucleus"``.

    Returns
    -------
    pyarrow.Table
        Schema ``tendencies``; the rows are listed in the docstring of this module.

    Raises
    ------
    InputError
        When the documents are not those of the statistics.
    """
    texts = (reference_texts, sample_texts) if options.draws else None
    with paired(reference, samples, texts) as pair:
        return measure_table(measure_rows(pair, options, seed), pair, source)
