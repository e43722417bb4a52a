"""The measures of rank_frequency and unigram, which share one pass of randomizations."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from beyond_perplexity.invariance.streams import stream
from beyond_perplexity.tendencies.distances import ks_to_cdf, rank_ks
from beyond_perplexity.tendencies.measured import MeasureRow
from beyond_perplexity.tendencies.options import MeasurementOptions
from beyond_perplexity.tendencies.pairs import BodyPair
from beyond_perplexity.tendencies.power_laws import fit_zipf, zipf_cdf
from beyond_perplexity.tendencies.resampling import monte_carlo_p, replicate_interval
from beyond_perplexity.tendencies.unigrams import DocumentCounts
from beyond_perplexity.tendencies.word_distances import (
    permuted_distances,
    top_ranks,
    unigram_distances,
)

_Draws = dict[str, np.ndarray]
_RANKS = "rank_frequency"
_WORDS = "unigram"


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


def _compared(first: np.ndarray, pooled: np.ndarray, ranks: int | None) -> _Draws:
    """Compute what is randomized, of counts of one side (V, w) and of both together (V,)."""
    second = pooled.astype(first.dtype)[:, None] - first  # (V, w)
    tops = (top_ranks(side, ranks) for side in (first, second))
    return {**permuted_distances(first, pooled), "ks_empirical": rank_ks(*tops)}


def _keyed(draws: _Draws) -> dict[tuple[str, str], np.ndarray]:
    """Say of what tendency each measure is."""
    return {(_RANKS if name == "ks_empirical" else _WORDS, name): x for name, x in draws.items()}


def permuted_words(
    pair: BodyPair, options: MeasurementOptions, seed: int
) -> dict[tuple[str, str], np.ndarray]:
    """Draw the comparing measures of rank_frequency and unigram under permutations of documents.

    Returns
    -------
    dict of (tendency, measure) to numpy.ndarray of float64, shape (B,)
        Nothing without documents or tokens.
    """
    if pair.documents is None or not pair.defined:
        return {}
    blocks = pair.documents.permutations(options.permutations, seed, "permutation/unigram")
    pooled = pair.pooled
    return _keyed(_collect(_compared(first, pooled, options.zipf_ranks) for first in blocks))


def observed_words(pair: BodyPair, options: MeasurementOptions) -> dict[tuple[str, str], float]:
    """Compute the same measures of the bodies themselves, in the same way as the permuted ones."""
    if not pair.defined:
        return {}
    found = _compared(pair.counts[0][:, None].astype(float), pair.pooled, options.zipf_ranks)
    return {key: float(value) for key, (value,) in _keyed(found).items()}


def _resampled(counts: DocumentCounts, options: MeasurementOptions, seed: int) -> _Draws:
    def parts() -> Iterator[_Draws]:
        for first, second in counts.resamples(options.bootstrap, seed, "bootstrap/unigram"):
            tops = [top_ranks(side, options.zipf_ranks) for side in (first, second)]
            values = [_rank_values(*pair) for pair in zip(*tops, strict=True)]
            ranks = {name: np.array([value[name] for value in values]) for name in values[0]}
            yield {**unigram_distances(first, second), **ranks}

    return _collect(parts())


def word_rows(pair: BodyPair, options: MeasurementOptions, seed: int) -> Iterator[MeasureRow]:
    """Measure rank_frequency and unigram; p-values of comparisons are filled in by `measures`."""
    if not pair.defined:
        return
    resampled: _Draws = {}
    if pair.documents is not None:
        resampled = _resampled(pair.documents, options, seed)
    values = _rank_values(*(body.ranked(options.zipf_ranks) for body in pair.bodies))
    laws = {}
    ranked = pair.samples.ranked(options.zipf_ranks)
    for name, s in (("ks_zipf_model", "zipf_s"), ("ks_zipf_reference", "zipf_s_reference")):
        purpose = f"monte_carlo/{name}"
        laws[name] = _zipf_p(ranked, values[s], options.monte_carlo, seed, purpose)
    for name, value in values.items():
        limits = replicate_interval(name, value, resampled, options.confidence)
        row = MeasureRow(_RANKS, name, value, *limits)
        yield row._replace(p_value_law=laws.get(name, math.nan))
    found = unigram_distances(pair.counts[0][:, None], pair.counts[1][:, None])
    for name, (distance,) in found.items():
        limits = replicate_interval(name, float(distance), resampled, options.confidence)
        yield MeasureRow(_WORDS, name, float(distance), *limits)
