"""The table of tendencies of samples against a reference.

Rows of schema ``tendencies``. `value` is the measure; `low` and `high` its interval or limits
(`inference.standard_errors`); `p_value` that of a test, one-sided for a distance and two-sided for
a signed difference; `p_adjusted` is adjusted for the `family` of all tests of the sample set, each
of so many `draws`; `verdict` says what was found. Where there is no sound test, or so few draws
that none can differ, `reason` has a code of `verdicts.REASON_TEXTS` and its numbers; `permuted`
says what a test permuted in the place of documents, `note` what else is to be known of the value.
`p_value_law` is the Monte Carlo test of a fitted law, which says nothing of the reference;
`baseline`, `baseline_low` and `baseline_high` what two human texts as large are apart, and `excess`
= `value` - `baseline`. Where the baseline is of halves of the reference (`inference.halves`),
`value` is the distance at their size and `value_all` that of all documents, which limits and
p-values are of. `n_reference` and `n_samples` count documents, `groups_reference` the reference's
groups; `vocabulary` names the closed vocabulary that both texts are read in.

What each measure is stands in `docs/measures.md`; ``novel_types`` is the share of the samples'
types that the reference lacks, ``coverage`` that of the reference's tokens whose type the samples
have; with ``_reference`` a measure is of the reference alone. The p-value of ``ks_zipf_*`` (samples
against the law of the split fit) and of ``ks_heaps_*`` is of a law, that of ``tvd`` by the held-out
distance, that of ``mean_difference`` of the randomization of its t, and that of every other
distance of a randomization; ``partitioned_tvd`` has limits and no test. ``ks_empirical`` and
``tvd_1000`` have no verdict where the reference alone has groups. There is no split fit of fewer
than 30 ranks in a half.

Values and limits of rank_frequency and unigram are at equal tokens (`word_distances`), those of all
others and all p-values of all documents. Randomizations permute documents, or groups of them
(`inference.permuted_units`); those of words and types permute documents of one length, or groups of
as many tokens, so that a difference of lengths alone is none of words.

A value that is not defined (no tokens, a single length, ...) is null. The reduction of a type-token
curve to its mean is defined in `type_token`.

Where the samples alone have groups, measures are averaged over draws of one document of each group.
What is a difference, once all tests are adjusted for, says `adjustment`.
"""

from __future__ import annotations

import math
import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from beyond_perplexity import verdicts
from beyond_perplexity.inference import permuted_units
from beyond_perplexity.inference.counted_units import counted_units
from beyond_perplexity.inference.halves import Baseline
from beyond_perplexity.inference.held_out import held_out_distance
from beyond_perplexity.inference.p_values import permutation_p
from beyond_perplexity.inference.permuted_units import EFFECTIVE_GROUPS, Groups, group_sums
from beyond_perplexity.schemas.tendencies import TENDENCY_MEASURES
from beyond_perplexity.tendencies import document_measures, word_measures
from beyond_perplexity.tendencies.adjustment import HELD_OUT, adjusted_rows
from beyond_perplexity.tendencies.definitions import (
    LENGTH,
    SIGNED,
    TAYLOR,
    TENDENCIES,
    MeasureKey,
    MeasureRow,
    compares_texts,
    tendencies_of,
)
from beyond_perplexity.tendencies.document_curves import curve_rows, randomized_curves
from beyond_perplexity.tendencies.document_statistics import ABSENT
from beyond_perplexity.tendencies.measurement_options import MeasurementOptions
from beyond_perplexity.tendencies.pairs import Measuring, SampleSetPair, part_of
from beyond_perplexity.tendencies.type_token import HISTOGRAM_OF

_Draws = dict[MeasureKey, np.ndarray]


def null_draws(how: Measuring) -> _Draws:
    """Draw what every test compares under randomizations, and last that of the data: (B + 1,).

    NaN where not defined; without what the sample sets do not have or the units give no verdict on.
    Where the samples alone have groups, every draw of one document per group is measured and
    randomized as any other pair, of words and types one from blocks of about one length; then
    measures are averaged over draws. Types by length are of the first draw alone, which is exact:
    at single lengths there are so few documents that their average would reject up to 10% at .05
    with 60 groups.
    """
    if permuted_units.scheme_of(how.pair.groups) == "draws":
        words, numbers = (_averaged(how, of_words=own) for own in (True, False))
        return words | numbers
    return _word_draws(how) | _number_draws(how)


def _word_draws(how: Measuring) -> _Draws:
    how = how.for_words
    return word_measures.randomized_words(how) | document_measures.randomized_types(how)


def _number_draws(how: Measuring) -> _Draws:
    return document_measures.randomized_numbers(how) | randomized_curves(how)


def _averaged(how: Measuring, *, of_words: bool) -> _Draws:
    pair, held = how.pair, defaultdict[MeasureKey, list[np.ndarray]](list)
    lengths = pair.document_lengths if of_words else None
    draws = permuted_units.group_draws(pair.groups, pair.n_documents, how.seed, lengths)
    for drawn in draws:
        both = zip(pair.n_documents, drawn, strict=True)
        first, second = (np.isin(np.arange(n), indices) for n, indices in both)
        with part_of(pair, (first, second)) as part:
            units = draws.units(drawn)
            own = replace(how, pair=part, units=units, word_units=units)
            null = _word_draws(own) if of_words else _number_draws(own)
        for key, found in null.items():
            if not (key[0] in HISTOGRAM_OF and held[key]):
                held[key].append(found)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # NumPy's, of nothing but NaN
        return {key: np.nanmean(found, axis=0) for key, found in held.items()}


_TVD = ("unigram", "tvd")
_TYPES = {(tendency, "ks_empirical") for tendency in HISTOGRAM_OF}
_CURVES = tendencies_of("curve", "slope")
# What groups beside independent documents have no sound test for, and why, by the scheme.
_RANKS = dict.fromkeys((("rank_frequency", "ks_empirical"), ("unigram", "tvd_1000")), "clustered")
_RANKS |= {(TAYLOR, "slope_difference"): "clustered"}
_UNSOUND = {"swaps": _RANKS | dict.fromkeys(_TYPES, "lengths_not_kept"), "draws": _RANKS}


def without_verdict(pair: SampleSetPair, tendency: str) -> str:
    """Return the reason why the groups of a pair allow no verdict on a tendency, or nothing.

    Groups count by what a measure weighs them with: tokens for words and types, else the documents
    that have a number.
    """
    if pair.documents is None or permuted_units.scheme_of(pair.groups) == "documents":
        return ""
    weights = [_weights(pair, tendency, sample_set) for sample_set in (0, 1)]
    return too_few_groups(pair.groups, weights, "few_prompts" if pair.prompted else "few_groups")


def _few_of(row: MeasureRow, pair: SampleSetPair) -> bool:
    """Tell whether a text that a row is of has too few groups, where one of both has."""
    sample_set = int(not row.measure.endswith("_reference"))
    codes = pair.groups[sample_set]
    if compares_texts(row.measure) or codes is None:
        return compares_texts(row.measure)
    sums = group_sums(codes, _weights(pair, row.tendency, sample_set))
    return permuted_units.effective_groups(sums) < EFFECTIVE_GROUPS


def _weights(pair: SampleSetPair, tendency: str, sample_set: int) -> np.ndarray:
    """Weigh the documents of a text as a tendency does, 0 where one is too short for it: (D,)."""
    if _is_of_words(tendency):
        return pair.of_words.document_lengths[sample_set]
    assert pair.documents is not None
    held, sized = pair.documents.values(sample_set), pair.sizes.get(tendency)
    if TENDENCIES[tendency].kind == "share":
        return (held[LENGTH] > 0).astype(float)
    values = held.get(sized.name if sized else tendency, held[LENGTH])
    return (values.reshape(len(values), -1)[:, 0] != ABSENT).astype(float)


def _is_of_words(tendency: str) -> bool:
    return TENDENCIES[tendency].kind in ("ranks", "words", "types")


def too_few_groups(groups: Groups, lengths: Sequence[np.ndarray], code: str) -> str:
    """Return the reason that a text has too few effective groups or units to draw, or nothing."""
    if permuted_units.scheme_of(groups) == "draws":
        n, own = (int(np.count_nonzero(x)) for x in (lengths[0], group_sums(groups[1], lengths[1])))
        code, few = ("few_sample_groups", own) if own < n else ("few_documents", n)
        reason = verdicts.reason(code, n=few, least=EFFECTIVE_GROUPS)
        return reason if few < EFFECTIVE_GROUPS else ""
    return _few_effective(groups, lengths, code, of_documents=False)


def _few_effective(
    groups: Groups, lengths: Sequence[np.ndarray], code: str, *, of_documents: bool
) -> str:
    for codes, own, name in zip(groups, lengths, ("reference", "samples"), strict=True):
        n = permuted_units.effective_groups(permuted_units.group_sums(codes, own))
        if n < EFFECTIVE_GROUPS and (of_documents or codes is not None):
            return verdicts.reason(code, effective=n, text=name, least=EFFECTIVE_GROUPS)
    return ""


def permuted_told(pair: SampleSetPair, given: Groups) -> str:
    """Say what the tests of a pair permute, or why there are none; `given` are its own groups."""
    held = [without_verdict(pair, tendency) for tendency in ("unigram", LENGTH)]
    if all(held):
        return verdicts.no_verdict_text(held[0])
    scheme = permuted_units.scheme_of(pair.groups)
    told = verdicts.permuted_text("some_draws" if scheme == "draws" else scheme)
    names = ("reference", "samples")
    for sample_set, codes in enumerate(given):
        if codes is not None and pair.groups[sample_set] is None:
            n = len(np.unique(codes))
            told += f" (the {n:,} groups of {len(codes):,} documents of the {names[sample_set]}"
            told += " count for nothing: nearly all are single, and those of the"
            told += f" {names[1 - sample_set]} larger)"
    return told


def tested_rows(rows: Sequence[MeasureRow], how: Measuring) -> list[MeasureRow]:
    """Fill in the p-values of a sample set's rows; where a verdict is withheld `note` says why.

    Without permutations nothing is tested; a text against itself has p = 1 in every row. Too few
    groups have no limits either, nor has what is of one text alone where that one has too few.
    """
    pair, words_of = how.pair, how.pair.of_words
    why = {name: without_verdict(pair, name) for name in {row.tendency for row in rows}}
    few = {row.key for row in rows if why[row.tendency] and _few_of(row, pair)}
    rows = [x._replace(low=math.nan, high=math.nan) if x.key in few else x for x in rows]
    if not how.options.permutations:
        return rows
    values = {row.key: row.value for row in rows if compares_texts(row.measure)}
    words = word_measures.observed_words(how.for_words)
    observed = values | {key: value for key, value in words.items() if key in values}
    if observed and not any(observed.values()):
        # To randomize words the documents are needed.
        untested = () if pair.documents is not None else ("rank_frequency", "unigram")
        equal = {key for key in observed if key[0] not in untested}
        return [row._replace(p_value=1.0) if row.key in equal else row for row in rows]
    p_values = dict[MeasureKey, float]()
    if not all(why.values()):
        for key, drawn in null_draws(how).items():
            two_sided = key[1] == SIGNED
            p_values[key] = permutation_p(float(drawn[-1]), drawn[:-1], two_sided=two_sided)
    if _TVD in observed and words_of.documents is not None:
        held = held_out_distance(words_of.documents, pair.groups, how.seed)
        p_values[_TVD] = held.p_value if observed[_TVD] else 1.0
    reasons = {
        row.key: why[row.tendency] or row.reason or _not_tested(row.key, how)
        for row in rows
        if row.key in observed
    }
    return [_tested_row(row, p_values, reasons.get(row.key, ""), how) for row in rows]


def _not_tested(key: MeasureKey, how: Measuring) -> str:
    """Return the reason why the units of a pair have no sound test of a measure, or nothing."""
    how = how.for_words if _is_of_words(key[0]) else how
    if key == _TVD:  # by the held-out distance, whatever is permuted
        lengths = how.pair.document_lengths
        return _few_effective(how.pair.groups, lengths, "few_units", of_documents=True)
    if unsound := _UNSOUND.get(permuted_units.scheme_of(how.pair.groups)):
        return verdicts.reason(unsound[key]) if key in unsound else ""
    if key[1] == SIGNED or key[0] in _CURVES or (key in _TYPES and how.units is None):
        return ""  # none of them depends on sizes: types are permuted at each length
    units = how.units if key in _TYPES or not _is_of_words(key[0]) else how.word_units
    if units is None or units.strata is None:
        return ""
    if not _is_of_words(key[0]):
        kept = _weights(how.pair, key[0], 0) > 0, _weights(how.pair, key[0], 1) > 0
        return counted_units(units, kept).unlike
    why = units.unlike
    if key in _TYPES and not why:
        both = zip(units.codes, how.pair.document_lengths, strict=True)
        tokens = np.concatenate([np.bincount(codes - codes.min(), own) for codes, own in both])
        why = units.strata.unlike_in(tokens, "documents of such groups")
    return why


def _tested_row(
    row: MeasureRow, p_values: Mapping[MeasureKey, float], why: str, how: Measuring
) -> MeasureRow:
    """Fill in a p-value with what was permuted, where it is not documents; or why there is none."""
    if why or row.withheld:
        return row._replace(p_value=math.nan, reason=why or row.reason)
    row = row._replace(p_value=p_values.get(row.key, row.p_value))
    if row.key == _TVD and not math.isnan(row.p_value):
        return row._replace(fact=verdicts.joined_facts(HELD_OUT, row.fact))
    scheme = permuted_units.scheme_of(how.pair.groups)
    if scheme == "documents" or row.key not in p_values:
        return row
    permuted: str = scheme
    if scheme == "draws":
        permuted = "one_draw" if row.key in _TYPES else f"draws {permuted_units.GROUP_DRAWS}"
    return row._replace(permuted=permuted)


def _described(how: Measuring) -> Iterator[MeasureRow]:
    """Measure everything; p-values of comparisons are left out."""
    yield from word_measures.word_rows(how.for_words)
    for tendency in HISTOGRAM_OF:
        yield from document_measures.type_token_rows(how.for_words, tendency)
    for tendency in tendencies_of("length", "share", "number"):
        yield from document_measures.histogram_rows(how, tendency)
    yield from curve_rows(how)
    yield from word_measures.vocabulary_rows(*how.pair.sample_sets)


def measure_rows(
    pair: SampleSetPair,
    options: MeasurementOptions,
    seed: int,
    *,
    baselines: Mapping[MeasureKey, Baseline] | None = None,
    sample_sets: int = 1,
    others: Sequence[MeasureRow] = (),
) -> list[MeasureRow]:
    """Measure all tendencies of a pair; the rows are listed in the docstring of this module.

    `baselines`: of two human texts; the tests of so many `sample_sets` are one family, with
    `others`, rows of the same sample set that are tested elsewhere.
    """
    how, known = Measuring.of(pair, options, seed), baselines or {}
    rows = tested_rows(list(_described(how)), how)
    rows = [row.above(known[row.key]) if row.key in known else row for row in rows]
    return adjusted_rows([*rows, *others], options.permutations, sample_sets)


def measure_table(
    rows: Sequence[MeasureRow], pair: SampleSetPair, source: str, vocabulary: str = "raw"
) -> pa.Table:
    """Write rows as a table of schema ``tendencies``; both sides are read in the vocabulary."""
    groups, (n, m) = pair.groups[0], pair.n_documents
    of_sample_set = {"source": source, "n_reference": n, "n_samples": m, "vocabulary": vocabulary}
    of_sample_set["groups_reference"] = None if groups is None else len(np.unique(groups))
    return pa.Table.from_pylist([row.cells() | of_sample_set for row in rows], TENDENCY_MEASURES)
