"""Human baselines: distances between human texts as large as those that are compared.

Every distance between two samples is above 0, the more the smaller they are. Its baseline is its
mean over random splits of human text, with the 2.5% and 97.5% quantiles, at the same numbers of
documents, of tokens (for the measures of words), of groups, and of documents that are long enough
for a number or a curve (further text may have fewer: `_of_as_many`), in the same vocabulary. *With
further human text* (`split_baselines`) the excess is the distance above it. *Without*
(`reference_baselines`), the baseline is that of two halves of the reference (`inference.halves`),
cut to as many documents as there are samples, and the excess the mean distance of as many samples
from such halves, less the baseline. Types by length of documents without groups have the baseline
of their test (`baselines_by_length`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from beyond_perplexity.inference import permuted_units
from beyond_perplexity.inference.halves import (
    EXCESS_SPLITS,
    HUMAN_SPLITS,
    PAIRED_SPLITS,
    SAMPLE_SETS,
    Baseline,
    HalfSamples,
    Halving,
    baseline_of,
)
from beyond_perplexity.inference.histogram_draws import documents_within
from beyond_perplexity.inference.mean_curves import largest_difference
from beyond_perplexity.inference.prompts import PromptHalving
from beyond_perplexity.random_streams import stream, stream_key
from beyond_perplexity.tendencies import document_measures, pairs
from beyond_perplexity.tendencies.curve_comparison import CurveComparison, most_of
from beyond_perplexity.tendencies.definitions import (
    NOVELTY,
    SHARED_NGRAMS,
    MeasureKey,
    MeasureRow,
    is_distance,
)
from beyond_perplexity.tendencies.document_curves import curve_comparisons, curve_differences
from beyond_perplexity.tendencies.document_statistics import ABSENT
from beyond_perplexity.tendencies.measurement_options import MeasurementOptions
from beyond_perplexity.tendencies.word_measures import randomized_words, shared_vocabulary

_UNDEFINED = 0.05  # of the splits, at most, in which a distance with a baseline is not defined
_Distances = dict[MeasureKey, list[float]]


def _part_counts(
    cells: document_measures.CellComparison,
    own_cells: list[np.ndarray] | None,
    parts: list[np.ndarray],
    number: int,
    seed: int,
) -> list[np.ndarray]:
    """Count the documents of the three parts of a split by cell: (C,) each.

    Without cells they stand alone, and others are drawn than those whose words are counted.
    """
    if own_cells is not None:
        width = cells.counts.shape[1] + 1  # the first are documents in no cell
        both = zip(SAMPLE_SETS, parts, strict=True)
        return [np.bincount(own_cells[b][held] + 1, minlength=width)[1:] for b, held in both]
    rng = stream(seed, f"floor/cells/{cells.tendency}", number)
    sizes = cells.pair.n_documents
    left = [np.append(own, n - own.sum()) for own, n in zip(cells.counts, sizes, strict=True)]
    found = []
    for sample_set, held in zip(SAMPLE_SETS, parts, strict=True):
        drawn = rng.multivariate_hypergeometric(left[sample_set], len(held))
        left[sample_set] = left[sample_set] - drawn
        found.append(drawn[:-1])
    return found


def _words(
    pair: pairs.SampleSetPair, splits: Iterable[tuple[list[np.ndarray], np.random.Generator]]
) -> list[np.ndarray]:
    """Count the types of each part of some splits at equal tokens: (V, w) each."""
    assert pair.documents is not None
    held = list(splits)
    sizes = [sample_set.n_documents for sample_set in pair.sample_sets]
    labels = [np.zeros((sizes[sample_set], len(held)), bool) for sample_set in SAMPLE_SETS]
    for column, (parts, rng) in enumerate(held):
        lengths = [pair.document_lengths[b][x] for b, x in zip(SAMPLE_SETS, parts, strict=True)]
        tokens = min(int(own.sum(dtype=np.int64)) for own in lengths)
        for label, part, own in zip(labels, parts, lengths, strict=True):
            label[part[documents_within(own, tokens, rng)], column] = True
    return [
        pair.documents.sums_of(sample_set, label, np.arange(sizes[sample_set]))
        for sample_set, label in zip(SAMPLE_SETS, labels, strict=True)
    ]


def half_draws(
    pair: pairs.SampleSetPair,
    splits: int,
    excess_splits: int,
    options: MeasurementOptions,
    seed: int,
    halving: Halving | None = None,
) -> tuple[dict[MeasureKey, np.ndarray], dict[MeasureKey, np.ndarray]] | None:
    """Compute the distances of B random splits, (B,), and of E to the cut samples, (2 E,).

    None where halves have too few documents or groups; see `inference.halves`.
    """
    halving = halving or Halving(pair.groups, pair.n_documents, seed, pair.document_lengths[0])
    if not halving.is_possible:
        return None
    grouped = permuted_units.scheme_of(pair.groups) != "documents"
    held = [
        (cells, [cells.cells_of(0), cells.cells_of(1)] if grouped else None)
        for cells in document_measures.cell_comparisons(pair)
    ]
    curves = [one for one in curve_comparisons(pair) if one.has_documents]
    human, against = _Distances(), _Distances()
    for items in permuted_units.side_by_side(splits):
        drawn = [halving.parts(number) for number in items]
        for number, (parts, _) in zip(items, drawn, strict=True):
            others = against if number < excess_splits else {}
            for cells, own_cells in held:
                counts = _part_counts(cells, own_cells, parts, number, seed)
                if cells.tendency in pair.sizes:
                    rng = stream(seed, f"floor/long/{cells.tendency}", number)
                    least = min(int(own.sum()) for own in counts)
                    counts = [rng.multivariate_hypergeometric(own, least) for own in counts]
                for one, other, found in ((0, 1, human), (0, 2, others), (1, 2, others)):
                    values = cells.evaluate(counts[one], counts[other])
                    for name in filter(is_distance, values):
                        found.setdefault((cells.tendency, name), []).append(float(values[name]))
        known = max(0, excess_splits - items.start)
        if pair.defined:
            _add_words(pair.of_words, drawn, known, options, human, against)
        _add_curves(curves, drawn, known, human, against)
    return _arrays(human), _arrays(against)


def _add_words(
    pair: pairs.SampleSetPair,
    drawn: Sequence[tuple[list[np.ndarray], np.random.Generator]],
    known: int,
    options: MeasurementOptions,
    human: _Distances,
    others: _Distances,
) -> None:
    """Add the distances of the words of the three parts of splits, of so many to the samples."""
    first, second, cut = _words(pair, drawn)
    compared = [(first, second, human)]
    if known:
        compared += [(half[:, :known], cut[:, :known], others) for half in (first, second)]
    for left, right, found in compared:
        for key, values in shared_vocabulary(pair, left, right, options).items():
            found.setdefault(key, []).extend(values.tolist())


def _add_curves(
    curves: list[CurveComparison],
    drawn: Sequence[tuple[list[np.ndarray], np.random.Generator]],
    known: int,
    human: _Distances,
    others: _Distances,
) -> None:
    """Add the distances of the curves of the three parts of splits, of so many to the samples."""
    for held in curves:
        parts = zip(*(held.cut(own, rng) for own, rng in drawn), strict=True)
        first, second, cut = (held.of_parts(*own) for own in zip(SAMPLE_SETS, parts, strict=True))
        human.setdefault(held.key, []).extend(largest_difference(first, second).tolist())
        for half in (first, second):
            values = largest_difference(half[:known], cut[:known])
            others.setdefault(held.key, []).extend(values.tolist())


def _arrays(found: _Distances) -> dict[MeasureKey, np.ndarray]:
    return {key: np.array(values) for key, values in found.items()}


def with_halves(
    rows: Sequence[MeasureRow],
    pair: pairs.SampleSetPair,
    options: MeasurementOptions,
    seed: int,
    source: str,
) -> list[MeasureRow]:
    """Put distances between halves of both texts beside those of samples without groups.

    Where documents stand alone, halves of their numbers are drawn anew for every `source`: then
    differences vary less than is said. None where some halves are too small for a distance.
    """
    drawn = None
    known = pair.documents is not None and pair.defined and pair.groups[1] is None
    if known and options.permutations:
        halving = HalfSamples(pair.groups, pair.n_documents, seed, pair.document_lengths[0])
        how = PAIRED_SPLITS, PAIRED_SPLITS, options, stream_key(seed, f"halves/{source}")
        drawn = half_draws(pair, *how, halving)
    against = drawn[1].items() if drawn else ()
    held = {key: tuple(values) for key, values in against if not np.isnan(values).any()}
    return [row._replace(halves=held.get(row.key, ())) for row in rows]


def split_baselines(
    human: pairs.SampleSetPair,
    tokens: int,
    options: MeasurementOptions,
    seed: int,
    few: pairs.SampleSetPair | None = None,
    shares: Mapping[str, float] | None = None,
) -> dict[MeasureKey, Baseline]:
    """Compute the baselines of a pair of human texts, of distances; `Baseline.excess` is None.

    Words are taken at so many tokens at most, numbers of documents of `few` of them; `shares` of
    the second text have one, at most, as `counted_shares` has it of the samples.
    """
    few = few or human
    how = replace(options, permutations=HUMAN_SPLITS, bootstrap=0, monte_carlo=0)
    measuring = replace(pairs.Measuring.of(few, how, seed), shares=shares)
    numbers = document_measures.randomized_numbers(measuring)
    if permuted_units.scheme_of(few.groups) != "documents":  # else see `baselines_by_length`
        numbers |= document_measures.randomized_types(measuring, tested=False)
    draws = {key: drawn[:-1] for key, drawn in numbers.items()}
    draws = _of_as_many(draws | curve_differences(measuring), measuring)
    with pairs.fewer_tokens(human, min(tokens, least_tokens(human)), seed) as cut:
        if cut.defined:
            plain = pairs.Measuring.of(cut, how, seed)
            plain = replace(plain, word_units=plain.units)
            words = randomized_words(plain, tested=False)
            draws |= {key: drawn[:-1] for key, drawn in words.items()}
    return _baselines(draws)


def _of_as_many(
    draws: dict[MeasureKey, np.ndarray], how: pairs.Measuring
) -> dict[MeasureKey, np.ndarray]:
    """Shrink distances of numbers and curves that fewer further documents have than are wanted.

    Of equal texts they go with √(1 / n + 1 / m), where documents are independent; of groups they
    are somewhat too small then (.8 to .9 of what they should be). None of too few documents.
    """
    for sized in how.pair.sizes.values():
        n, m = (one.documents_of(sized.name) for one in how.pair.sample_sets)
        if n and m and (wanted := most_of(how, sized.name) or m) > m:
            scale = math.sqrt((1 / n + 1 / wanted) / (1 / n + 1 / m))
            scale = math.nan if m < permuted_units.DOCUMENTS_AT_LENGTHS <= wanted else scale
            draws |= {key: scale * x for key, x in draws.items() if key[0] == sized.tendency}
    return draws


def baselines_by_length(
    pair: pairs.SampleSetPair, options: MeasurementOptions, seed: int
) -> dict[MeasureKey, Baseline]:
    """Compute the baselines of types by length, of documents of both texts that change sides.

    At each length, as their test does: a distance over lengths depends on those of either text, and
    halves of the reference have others than the samples. None where documents come in groups.
    """
    if permuted_units.scheme_of(pair.groups) != "documents":
        return {}
    how = pairs.Measuring.of(pair, replace(options, permutations=HUMAN_SPLITS), seed)
    drawn = document_measures.randomized_types(how, tested=False)
    return _baselines({key: own[:-1] for key, own in drawn.items()})


def counted_shares(pair: pairs.SampleSetPair) -> dict[str, float]:
    """Return the share of the samples that has each number and curve."""
    n = max(pair.samples.n_documents, 1)
    shares = {x.name: pair.samples.documents_of(x.name) / n for x in pair.sizes.values()}
    kept = {} if pair.documents is None else pair.documents.values(1)
    if SHARED_NGRAMS in kept:  # before as many are left out as need not be compared
        shares[SHARED_NGRAMS] = float(np.mean(kept[SHARED_NGRAMS][:, 0] != ABSENT))
    return shares


def further_baselines(
    pair: pairs.SampleSetPair,
    further: pairs.SampleSetPair,
    options: MeasurementOptions,
    seed: int,
) -> dict[MeasureKey, Baseline]:
    """Compute the baselines of a pair by further human text, which has the place of the samples."""
    how = least_tokens(pair), options, seed
    found = split_baselines(further, *how, shares=counted_shares(pair))
    return found | baselines_by_length(pair, options, seed)


def smaller_baselines(
    further: pairs.SampleSetPair,
    n: int,
    tokens: int,
    options: MeasurementOptions,
    seed: int,
    shares: Mapping[str, float] | None = None,
) -> dict[MeasureKey, Baseline]:
    """Compute the baselines of the reference and n documents, or `tokens` tokens of either."""
    with pairs.fewer_documents(further, n, seed) as few:
        return split_baselines(further, tokens, options, seed, few, shares)


def _baselines(draws: Mapping[MeasureKey, np.ndarray]) -> dict[MeasureKey, Baseline]:
    """Summarize distances; none where more than one in twenty splits is too small for it."""
    known = ((key, own) for key, own in draws.items() if is_distance(key[1]))
    return {key: baseline_of(own) for key, own in known if np.isnan(own).mean() <= _UNDEFINED}


def randomized_baselines(
    pair: pairs.SampleSetPair, options: MeasurementOptions, seed: int
) -> dict[MeasureKey, Baseline]:
    """Compute mean and band of every distance under the randomizations of its test."""
    how = pairs.Measuring.of(pair, replace(options, permutations=HUMAN_SPLITS), seed)
    draws = randomized_words(how.for_words, tested=False)
    draws |= document_measures.randomized_types(how.for_words, tested=False)
    draws |= document_measures.randomized_numbers(how)
    draws = {key: drawn[:-1] for key, drawn in draws.items()}
    return _baselines(draws | curve_differences(how))


def reference_baselines(
    pair: pairs.SampleSetPair,
    options: MeasurementOptions,
    seed: int,
    human: pairs.SampleSetPair | None = None,
) -> dict[MeasureKey, Baseline]:
    """Compute the baseline and the excess of every distance of a pair from the reference alone.

    Empty without documents or permutations, and where halves have too few documents or groups.

    Of answers to prompts halves are within prompts, of `human`, all answers where people gave two;
    without them mean and band are those of the randomization of the test.
    """
    if pair.documents is None or not options.permutations:
        return {}
    halving = None
    if human is not None:
        pair, halving = human, PromptHalving(human.groups, human.n_documents, seed)
    elif pair.prompted:
        return randomized_baselines(pair, options, seed)
    drawn = half_draws(pair, HUMAN_SPLITS, EXCESS_SPLITS, options, seed, halving)
    if drawn is None:
        return {}
    return _with_excess(*drawn) | baselines_by_length(pair, options, seed)


def held_out_baselines(
    pair: pairs.SampleSetPair, options: MeasurementOptions, seed: int
) -> dict[MeasureKey, Baseline]:
    """Compute baseline and excess of novelty, as `reference_baselines` does of all distances.

    Further human text may be the training text itself.
    """
    curves = [one for one in curve_comparisons(pair) if one.sized.tendency == NOVELTY]
    if not (curves and options.permutations and curves[0].has_documents):
        return {}
    halving = Halving(pair.groups, pair.n_documents, seed, pair.document_lengths[0])
    human, against = _Distances(), _Distances()
    for items in permuted_units.side_by_side(HUMAN_SPLITS * halving.is_possible):
        drawn = [halving.parts(number) for number in items]
        _add_curves(curves, drawn, max(0, EXCESS_SPLITS - items.start), human, against)
    return _with_excess(_arrays(human), _arrays(against))


def _with_excess(
    of_halves: Mapping[MeasureKey, np.ndarray], against: Mapping[MeasureKey, np.ndarray]
) -> dict[MeasureKey, Baseline]:
    found = {}
    for key, baseline in _baselines(of_halves).items():
        if np.isnan(against[key]).mean() <= _UNDEFINED:
            found[key] = baseline._replace(excess=float(np.nanmean(against[key])) - baseline.mean)
    return found


def least_tokens(pair: pairs.SampleSetPair) -> int:
    """Return the tokens of the smaller sample set."""
    return min(sample_set.n_tokens for sample_set in pair.sample_sets)
