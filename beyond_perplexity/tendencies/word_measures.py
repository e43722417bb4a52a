"""The measures of rank_frequency, unigram and vocabulary; the first two share randomizations.

Values and intervals are at equal tokens: of the longer text random documents are taken that hold at
most the tokens of the shorter (`equal_tokens`). Randomizations are of all documents.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow.compute as pc

from beyond_perplexity.inference.exchanged_units import SPLIT_RANKS, ExchangedUnits, side_by_side
from beyond_perplexity.inference.held_out import held_out_distance
from beyond_perplexity.inference.histogram_draws import group_weights
from beyond_perplexity.inference.intervals import upper_limit
from beyond_perplexity.inference.p_values import joined_draws
from beyond_perplexity.inference.two_sample_test import ks_to_cdf, rank_ks
from beyond_perplexity.tendencies.definitions import MeasureKey, MeasurementOptions, MeasureRow
from beyond_perplexity.tendencies.pairs import BodyPair
from beyond_perplexity.tendencies.power_laws import SplitFit, fit_zipf, split_fit, zipf_cdf
from beyond_perplexity.tendencies.statistics import Statistics
from beyond_perplexity.tendencies.tokens import UNKNOWN_WORD
from beyond_perplexity.tendencies.word_distances import (
    EqualTokens,
    bounds_from,
    equal_tokens,
    first_ranks_distance,
    largest_differences,
    permuted_distances,
    top_ranks,
    unigram_distances,
)
from beyond_perplexity.tendencies.zipf_law import law_p
from beyond_perplexity.verdicts import reason

_Draws = dict[str, np.ndarray]
_RANKS = "rank_frequency"
_WORDS = "unigram"
_LAW_NOTE = "p_value_law is of the split fit, the value of the fit as in the paper"
_SHOWN = 40  # characters of a word in a note
_NAMES = ("reference", "samples")


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


class _Compare(NamedTuple):
    """How counts of one side are compared with the rest of both."""

    pooled: np.ndarray  # (V,)
    ranks: int | None
    unknown: int | None  # place of the unknown word
    swaps: bool  # whether only what swaps give a verdict on is computed

    def of(self, first: np.ndarray) -> _Draws:
        """Compute what is randomized, of counts of one side (V, w)."""
        if self.swaps:
            return largest_differences(first, self.pooled, self.unknown)
        second = self.pooled.astype(first.dtype)[:, None] - first  # (V, w)
        tops = (top_ranks(side, self.ranks) for side in (first, second))
        return {
            **permuted_distances(first, self.pooled, self.unknown),
            "tvd_1000": first_ranks_distance(first, second, bounds_from(self.pooled)),
            "ks_empirical": rank_ks(*tops),
        }


def _keyed(draws: _Draws) -> dict[MeasureKey, np.ndarray]:
    """Say of what tendency each measure is."""
    return {(_RANKS if name == "ks_empirical" else _WORDS, name): x for name, x in draws.items()}


def _unknown(pair: BodyPair) -> int | None:
    place = pc.index(pair.types, UNKNOWN_WORD).as_py()
    return None if place < 0 else int(place)


def _comparison(
    pair: BodyPair, units: ExchangedUnits | None, options: MeasurementOptions
) -> _Compare:
    pooled, swaps = pair.pooled, units is not None and units.scheme == "swaps"
    if units is not None and units.weights != (1.0, 1.0):
        pooled = np.array(units.weights) @ pair.counts
    return _Compare(pooled, options.zipf_ranks, _unknown(pair), swaps)


def _first_sides(
    pair: BodyPair, units: ExchangedUnits | None, n: int, seed: int
) -> Iterator[np.ndarray]:
    """Draw the counts of the first side under randomizations: (V, w) each."""
    assert pair.documents is not None
    if units is None:
        yield from pair.documents.permutations(n, seed, "permutation/unigram")
        return
    for labels in units.labels(n, seed):
        first, second = (pair.documents.sums_of(body, labels, units.codes[body]) for body in (0, 1))
        if units.weights != (1.0, 1.0):
            first = units.weights[0] * first.astype(float)
            second = units.weights[1] * second.astype(float)
        yield first + second


def randomized_words(
    pair: BodyPair, units: ExchangedUnits | None, options: MeasurementOptions, seed: int
) -> dict[MeasureKey, np.ndarray]:
    """Draw the comparing measures of rank_frequency and unigram under randomizations: (B,) each.

    Those on which swaps give no verdict are left out.
    """
    if pair.documents is None or not pair.defined:
        return {}
    compare = _comparison(pair, units, options)
    sides = _first_sides(pair, units, options.permutations, seed)
    return _keyed(joined_draws(compare.of(first) for first in sides))


def observed_words(
    pair: BodyPair, units: ExchangedUnits | None, options: MeasurementOptions
) -> dict[MeasureKey, float]:
    """Compute the same measures of the texts themselves, in the same way as the random ones."""
    if not pair.defined:
        return {}
    compare = _comparison(pair, units, options)._replace(swaps=False)
    weight = 1.0 if units is None else units.weights[0]
    found = compare.of(pair.counts[0][:, None] * weight)
    return {key: float(value) for key, (value,) in _keyed(found).items()}


def _resample(pair: BodyPair, equal: EqualTokens, body: int, items: range, seed: int) -> np.ndarray:
    assert pair.documents is not None
    purpose = f"bootstrap/unigram/{_NAMES[body]}"
    if pair.groups[body] is None:
        return pair.documents.resampled(body, items, seed, purpose, equal.kept[body])
    units = equal.units(body)
    n = int(units.max(initial=-1)) + 1
    weights = group_weights(n, items, seed, purpose)
    weights = np.vstack([weights, np.zeros((1, len(items)), weights.dtype)])
    return pair.documents.weighted_sums(body, weights, np.where(units < 0, n, units))


def _distances(first: np.ndarray, second: np.ndarray, unknown: int | None) -> _Draws:
    """Compute the distances of unigrams of counts (V, w) each: (w,) by name."""
    most = bounds_from(np.maximum(first.max(axis=1), second.max(axis=1)))
    found = unigram_distances(first, second, unknown)
    return found | {"tvd_1000": first_ranks_distance(first, second, most)}


def compared_words(
    pair: BodyPair, first: np.ndarray, second: np.ndarray, options: MeasurementOptions
) -> dict[MeasureKey, np.ndarray]:
    """Compute every comparing measure of words for w pairs of counts, (V, w) each: (w,).

    Types that are not compared, and ranks, are those of the pair and the options.
    """
    empty = (first.sum(axis=0) == 0) | (second.sum(axis=0) == 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        found = _distances(first, second, _unknown(pair))
        tops = (top_ranks(side, options.zipf_ranks) for side in (first, second))
        found["ks_empirical"] = rank_ks(*tops)
    return _keyed({name: np.where(empty, np.nan, held) for name, held in found.items()})


def _resampled(
    pair: BodyPair, equal: EqualTokens, options: MeasurementOptions, seed: int
) -> _Draws:
    unknown = _unknown(pair)

    def parts() -> Iterator[_Draws]:
        for items in side_by_side(options.bootstrap):
            first, second = (_resample(pair, equal, body, items, seed) for body in (0, 1))
            tops = [top_ranks(side, options.zipf_ranks) for side in (first, second)]
            values = [_rank_values(*both) for both in zip(*tops, strict=True)]
            ranks = {name: np.array([value[name] for value in values]) for name in values[0]}
            yield _distances(first, second, unknown) | ranks

    return joined_draws(parts())


def split_fits(
    pair: BodyPair, equal: EqualTokens, options: MeasurementOptions, seed: int
) -> list[SplitFit]:
    """Fit Zipf's law to the reference and to the samples, at equal tokens; see `zipf_split`."""
    assert pair.documents is not None
    how = options.zipf_ranks, options.confidence, seed
    return [split_fit(pair.documents, body, equal.units(body), *how) for body in (0, 1)]


def _too_few_ranks(fit: SplitFit) -> str:
    """Say why the split fit was not made; empty where it was."""
    if not fit.halves.too_few:
        return ""
    least = min(map(len, fit.halves.ranked))
    return f"no fit: {least} ranks in a half, fewer than {SPLIT_RANKS}"


def _law_rows(
    pair: BodyPair, equal: EqualTokens, options: MeasurementOptions, seed: int
) -> tuple[list[MeasureRow], dict[str, float]]:
    """Return the rows of the split fit, and the p-values of the law."""
    if pair.documents is None:
        return [], {}
    reference, samples = split_fits(pair, equal, options, seed)
    rows = []
    for fit, suffix in ((samples, ""), (reference, "_reference")):
        limits = (fit.low, fit.high) if options.bootstrap else ()
        row = MeasureRow(_RANKS, f"zipf_s_split{suffix}", fit.exponent, *limits)
        rows.append(row._replace(fact=_too_few_ranks(fit)))
        rows.append(MeasureRow(_RANKS, f"zipf_ranks{suffix}", fit.halves.n_ranks))
    p_values = {
        name: law_p(
            samples.halves,
            fitted.halves,
            options.monte_carlo,
            options.zipf_ranks,
            seed,
            f"monte_carlo/{name}",
        )
        for name, fitted in (("ks_zipf_model", samples), ("ks_zipf_reference", reference))
    }
    return rows, p_values


def _named(pair: BodyPair, counts: np.ndarray, without: int | None = None) -> str:
    """Name the word of the largest difference; plain text, without control characters."""
    shares = counts / counts.sum(axis=1, keepdims=True)
    apart = np.abs(shares[1] - shares[0])
    if without is not None:
        apart[without] = 0
    place = int(np.argmax(apart))
    if not apart[place] > 0:
        return ""
    word = pair.types[place].as_py()
    word = word if len(word) <= _SHOWN else word[: _SHOWN - 1] + "…"
    shown = "".join(x if x.isprintable() else "�" for x in json.dumps(word, ensure_ascii=False))
    return f"word {shown}: {shares[1][place]:.4f} here, {shares[0][place]:.4f} in the reference"


def word_rows(pair: BodyPair, options: MeasurementOptions, seed: int) -> Iterator[MeasureRow]:
    """Measure rank_frequency and unigram; p-values of comparisons are filled in by `measures`."""
    if not pair.defined:
        return
    equal = equal_tokens(pair, seed)
    counts, spread = equal.counts, equal.spread
    if not np.all(counts.sum(axis=1) > 0):
        why = reason("longer_documents")
        compared = observed_words(pair, None, options)
        yield from (MeasureRow(*key, math.nan, reason=why) for key in compared)
        return
    resampled: _Draws = {}
    if pair.documents is not None:
        resampled = _resampled(pair, equal, options, seed)
    unknown = _unknown(pair)
    tops = (np.sort(side)[::-1][: options.zipf_ranks].astype(float) for side in counts)
    values = _rank_values(*(top[top > 0] for top in tops))
    fits, laws = _law_rows(pair, equal, options, seed)

    def row(tendency: str, name: str, value: float) -> MeasureRow:
        drawn = None if name.startswith("zipf_s") else resampled.get(name)
        high = upper_limit(value, drawn, options.confidence, spread)
        return MeasureRow(tendency, name, value, high=high)

    for name, value in values.items():
        law = laws.get(name, math.nan)
        note = "" if math.isnan(law) else _LAW_NOTE
        yield row(_RANKS, name, value)._replace(p_value_law=law, fact=note)
    yield from fits
    found = _distances(counts[0][:, None], counts[1][:, None], unknown)
    for name, (distance,) in found.items():
        made = row(_WORDS, name, float(distance))
        if name == "tvd" and pair.documents is not None and options.bootstrap:
            held = held_out_distance(pair.documents, pair.groups, seed, equal.kept)
            made = made._replace(low=held.lower_limit(options.confidence))
        elif name.startswith("max_difference"):
            without = unknown if name == "max_difference_known" else None
            made = made._replace(fact=_named(pair, counts, without))
        yield made


def vocabulary_rows(reference: Statistics, samples: Statistics) -> Iterator[MeasureRow]:
    """Describe the types of both texts, and the share that they have in common."""
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
