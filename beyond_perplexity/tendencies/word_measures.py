"""The measures of rank_frequency, unigram and vocabulary; the first two share randomizations.

Values and intervals are at equal tokens: of the longer text random documents are taken that hold at
most the tokens of the shorter (`equal_tokens`). Randomizations are of all documents.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain

import numpy as np
import pyarrow.compute as pc

from beyond_perplexity import inference
from beyond_perplexity.inference.p_values import joined_draws
from beyond_perplexity.inference.two_sample_test import ks_to_cdf, rank_ks
from beyond_perplexity.tendencies import word_distances
from beyond_perplexity.tendencies.definitions import MeasureKey, MeasureRow
from beyond_perplexity.tendencies.measurement_options import MeasurementOptions
from beyond_perplexity.tendencies.pairs import Measuring, SampleSetPair
from beyond_perplexity.tendencies.power_laws import fit_zipf, split_fit, zipf_cdf
from beyond_perplexity.tendencies.statistics import Statistics
from beyond_perplexity.tendencies.tokens import UNKNOWN_WORD
from beyond_perplexity.tendencies.word_distances import EqualTokens
from beyond_perplexity.tendencies.zipf_law import law_p
from beyond_perplexity.verdicts import reason

_Draws = dict[str, np.ndarray]
_Keyed = dict[MeasureKey, np.ndarray]
_RANKS = "rank_frequency"
_WORDS = "unigram"
_LAW_NOTE = "p_value_law is of the split fit, the value of the fit as in the paper"
_SHOWN = 40  # characters of a word in a note


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


def _keyed(draws: _Draws) -> _Keyed:
    """Say of what tendency each measure is."""
    return {(_RANKS if name == "ks_empirical" else _WORDS, name): x for name, x in draws.items()}


def _unknown(pair: SampleSetPair) -> int | None:
    index = pc.index(pair.types, UNKNOWN_WORD).as_py()
    return None if index < 0 else int(index)


def _comparison(how: Measuring, *, tested: bool) -> Callable[[np.ndarray], _Keyed]:
    """Return what compares counts of one side, (V, w), with the rest of both: (w,) each.

    Only what randomizations are a test of, where that is wanted.
    """
    pooled, unknown, units = how.pair.pooled, _unknown(how.pair), how.word_units
    if units is not None and units.weights != (1.0, 1.0):
        pooled = np.array(units.weights) @ how.pair.counts
    # Ranks of groups beside independent documents have no sound test: see `measures`.
    unranked = tested and units is not None and units.scheme in ("swaps", "draws")
    distances = word_distances.largest_differences if tested else word_distances.permuted_distances

    def compare(first: np.ndarray) -> _Keyed:
        found = distances(first, pooled, unknown)
        if unranked:
            return _keyed(found)
        second = pooled.astype(first.dtype)[:, None] - first  # (V, w)
        most = word_distances.bounds_from(pooled)
        found["tvd_1000"] = word_distances.first_ranks_distance(first, second, most)
        return _keyed(found | {"ks_empirical": _rank_ks(first, second, how.options)})

    return compare


def _rank_ks(first: np.ndarray, second: np.ndarray, options: MeasurementOptions) -> np.ndarray:
    return rank_ks(*(word_distances.top_ranks(x, options.zipf_ranks) for x in (first, second)))


def _first_sides(how: Measuring) -> Iterator[np.ndarray]:
    """Draw the counts of the first side under randomizations: (V, w) each."""
    documents, units, n = how.pair.documents, how.word_units, how.options.permutations
    assert documents is not None
    if units is None:
        yield from documents.permutations(n, how.seed, "permutation/unigram")
        return
    for labels in units.labels(n, how.seed):
        first, second = (
            documents.sums_of(sample_set, labels, units.codes[sample_set]) for sample_set in (0, 1)
        )
        if units.weights != (1.0, 1.0):
            first = units.weights[0] * first.astype(float)
            second = units.weights[1] * second.astype(float)
        yield first + second


def randomized_words(how: Measuring, *, tested: bool = True) -> _Keyed:
    """Draw the comparing measures of both under randomizations, and last those of the data.

    Of those that are a test, or of all distances: (B + 1,) each.
    """
    if how.pair.documents is None or not how.pair.defined:
        return {}
    compare = _comparison(how, tested=tested)
    weight = 1.0 if how.word_units is None else how.word_units.weights[0]
    sides = chain(_first_sides(how), [how.pair.counts[0][:, None] * weight])
    return joined_draws(map(compare, sides))


def observed_words(how: Measuring) -> dict[MeasureKey, float]:
    """Compute all measures of the texts themselves, in the same way as the random ones."""
    if not how.pair.defined:
        return {}
    weight = 1.0 if how.word_units is None else how.word_units.weights[0]
    found = _comparison(how, tested=False)(how.pair.counts[0][:, None] * weight)
    return {key: float(value) for key, (value,) in found.items()}


def _resample(
    pair: SampleSetPair, equal: EqualTokens, sample_set: int, items: range, seed: int
) -> np.ndarray:
    assert pair.documents is not None
    side = ("reference", "samples")[sample_set] if not pair.prompted else "prompts"
    purpose = f"bootstrap/unigram/{side}"
    if pair.groups[sample_set] is None:
        return pair.documents.resampled(sample_set, items, seed, purpose, equal.kept[sample_set])
    units = equal.units(sample_set)
    n = int(units.max(initial=-1)) + 1
    weights = inference.histogram_draws.group_weights(n, items, seed, purpose)
    weights = np.vstack([weights, np.zeros((1, len(items)), weights.dtype)])
    return pair.documents.weighted_sums(sample_set, weights, np.where(units < 0, n, units))


def _distances(first: np.ndarray, second: np.ndarray, unknown: int | None) -> _Draws:
    """Compute the distances of unigrams of counts (V, w) each: (w,) by name."""
    most = word_distances.bounds_from(np.maximum(first.max(axis=1), second.max(axis=1)))
    found = word_distances.unigram_distances(first, second, unknown)
    return found | {"tvd_1000": word_distances.first_ranks_distance(first, second, most)}


def shared_vocabulary(
    pair: SampleSetPair, first: np.ndarray, second: np.ndarray, options: MeasurementOptions
) -> _Keyed:
    """Compute every comparing measure of words for w pairs of counts, (V, w) each: (w,)."""
    empty = (first.sum(axis=0) == 0) | (second.sum(axis=0) == 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        found = _distances(first, second, _unknown(pair))
        found["ks_empirical"] = _rank_ks(first, second, options)
    return _keyed({name: np.where(empty, np.nan, held) for name, held in found.items()})


def _resampled(how: Measuring, equal: EqualTokens) -> _Draws:
    unknown, ranks = _unknown(how.pair), how.options.zipf_ranks

    def parts() -> Iterator[_Draws]:
        for items in inference.permuted_units.side_by_side(how.options.bootstrap):
            sides = (_resample(how.pair, equal, side, items, how.seed) for side in (0, 1))
            first, second = sides
            tops = [word_distances.top_ranks(side, ranks) for side in (first, second)]
            values = [_rank_values(*both) for both in zip(*tops, strict=True)]
            found = {name: np.array([value[name] for value in values]) for name in values[0]}
            yield _distances(first, second, unknown) | found

    return joined_draws(parts())


def _law_rows(how: Measuring, equal: EqualTokens) -> tuple[list[MeasureRow], dict[str, float]]:
    """Return the rows of the split fit, at equal tokens, and the p-values of the law."""
    documents, options = how.pair.documents, how.options
    if documents is None:
        return [], {}
    given = options.zipf_ranks, options.confidence, how.seed
    reference, samples = (split_fit(documents, b, equal.units(b), *given) for b in (0, 1))
    rows = []
    for fit, suffix in ((samples, ""), (reference, "_reference")):
        limits = (fit.low, fit.high) if options.bootstrap else ()
        least = min(map(len, fit.halves.ranked))
        why = f"no fit: {least} ranks in a half, fewer than {inference.permuted_units.SPLIT_RANKS}"
        row = MeasureRow(_RANKS, f"zipf_s_split{suffix}", fit.exponent, *limits)
        rows.append(row._replace(fact=why if fit.halves.too_few else ""))
        n_ranks = float(np.mean(list(map(len, fit.halves.ranked))))
        rows.append(MeasureRow(_RANKS, f"zipf_ranks{suffix}", n_ranks))
    p_values, n = {}, options.monte_carlo
    for name, fitted in (("ks_zipf_model", samples), ("ks_zipf_reference", reference)):
        purpose, halves = f"monte_carlo/{name}", (samples.halves, fitted.halves)
        p_values[name] = law_p(*halves, n, options.zipf_ranks, how.seed, purpose)
    return rows, p_values


def _named(pair: SampleSetPair, counts: np.ndarray, without: int | None = None) -> str:
    """Name the word of the largest difference; plain text, without control characters."""
    shares = counts / counts.sum(axis=1, keepdims=True)
    apart = np.abs(shares[1] - shares[0])
    if without is not None:
        apart[without] = 0
    index = int(np.argmax(apart))
    if not apart[index] > 0:
        return ""
    word = pair.types[index].as_py()
    word = word if len(word) <= _SHOWN else word[: _SHOWN - 1] + "…"
    shown = "".join(x if x.isprintable() else "�" for x in json.dumps(word, ensure_ascii=False))
    return f"word {shown}: {shares[1][index]:.4f} here, {shares[0][index]:.4f} in the reference"


def word_rows(how: Measuring) -> Iterator[MeasureRow]:
    """Measure rank_frequency and unigram; p-values of comparisons are filled in by `measures`."""
    pair, options = how.pair, how.options
    if not pair.defined:
        return
    equal = word_distances.equal_tokens(pair, how.seed)
    counts, spread = equal.counts, equal.spread
    if not np.all(counts.sum(axis=1) > 0):
        why = reason("longer_documents")
        compared = observed_words(replace(how, word_units=None))
        yield from (MeasureRow(*key, math.nan, reason=why) for key in compared)
        return
    resampled = _Draws() if pair.documents is None else _resampled(how, equal)
    unknown = _unknown(pair)
    tops = (np.sort(side)[::-1][: options.zipf_ranks].astype(float) for side in counts)
    values = _rank_values(*(top[top > 0] for top in tops))
    fits, laws = _law_rows(how, equal)

    def row(tendency: str, name: str, value: float) -> MeasureRow:
        drawn = None if name.startswith("zipf_s") else resampled.get(name)
        high = inference.limits.upper_limit(value, drawn, options.confidence, spread)
        return MeasureRow(tendency, name, value, high=high)

    for name, value in values.items():
        law = laws.get(name, math.nan)
        note = "" if math.isnan(law) else _LAW_NOTE
        yield row(_RANKS, name, value)._replace(p_value_law=law, fact=note)
    yield from fits
    found = _distances(counts[0][:, None], counts[1][:, None], unknown)
    for name, (distance,) in found.items():
        made = row(_WORDS, name, float(distance))
        if name == "tvd" and pair.documents is not None:
            halved = inference.held_out.Halved.of(pair.documents, pair.groups, how.seed, equal.kept)
            value, *limits = halved.partitioned(options.confidence)
            if options.bootstrap:
                made = made._replace(low=halved.distance().lower_limit(options.confidence))
            yield MeasureRow(
                _WORDS, "partitioned_tvd", value, *(limits if options.bootstrap else ())
            )
        elif name.startswith("max_difference"):
            without = unknown if name == "max_difference_known" else None
            made = made._replace(fact=_named(pair, counts, without))
        yield made


def vocabulary_rows(reference: Statistics, samples: Statistics) -> Iterator[MeasureRow]:
    """Describe the types of both texts, and the share that they have in common."""
    for suffix, sample_set in (("", samples), ("_reference", reference)):
        yield MeasureRow("vocabulary", f"documents{suffix}", float(sample_set.n_documents))
        yield MeasureRow("vocabulary", f"tokens{suffix}", float(sample_set.n_tokens))
        yield MeasureRow("vocabulary", f"types{suffix}", float(len(sample_set.types)))
    if len(samples.types):
        shared = np.asarray(pc.is_in(samples.types, value_set=reference.types))
        yield MeasureRow("vocabulary", "novel_types", float(1 - shared.mean()))
    if reference.n_tokens:
        shared = np.asarray(pc.is_in(reference.types, value_set=samples.types))
        coverage = float(reference.counts[shared].sum() / reference.n_tokens)
        yield MeasureRow("vocabulary", "coverage", coverage)
