"""The table of tendencies of samples against a reference.

Rows of schema ``tendencies``. `value` is the measure; `low` and `high` its interval or limits
(`inference.intervals`); `p_value` the test named below, one-sided for a distance and two-sided for
a signed difference; `p_adjusted` is adjusted for the `family` of all tests of the sample set,
each of so many `draws`; `verdict` says what was found. Where there is no sound
test, or so few draws that none can differ, `reason` has a code of `verdicts.REASON_TEXTS` and its
numbers; `permuted` says what a test permuted in the place of documents, `note` what else is to be
known of the value. `p_value_law` is
the Monte Carlo test of a fitted law, which says nothing of the reference; `baseline`,
`baseline_low` and `baseline_high` what two human texts as large are apart, and `excess` = `value` -
`baseline`. Where the baseline is of halves of the reference (`inference.halves`), `value` is the
distance at their size and `value_all` that of all documents, which limits and p-values are of.
`n_reference` and `n_samples` count documents, `groups_reference` the reference's groups;
`vocabulary` names the closed vocabulary that both texts are read in.

==================== ==================== ========================================================
tendency             measure              meaning (p-value)
==================== ==================== ========================================================
rank_frequency       zipf_s               exponent fitted to the samples, as in the paper: ranks
and frequencies of the same tokens
rank_frequency       zipf_s_reference     ... to the reference
rank_frequency       zipf_s_split         exponent with ranks and frequencies of different halves
of the samples; its interval names that at these ranks
(`power_laws`)
rank_frequency       zipf_s_split_reference: ... of the reference
rank_frequency       zipf_ranks           ranks that it is fitted to; no fit below 30 in a half
rank_frequency       zipf_ranks_reference: ... of the reference
rank_frequency       ks_zipf_model        samples against Zipf with zipf_s (law: the split fit)
rank_frequency       ks_zipf_reference    samples against Zipf with zipf_s_reference (likewise)
rank_frequency       ks_empirical         samples against the reference's ranks (randomization)
type_token_unigrams  heaps_alpha          Heaps' alpha of the samples
type_token_unigrams  heaps_beta           Heaps' beta of the samples
type_token_unigrams  heaps_alpha_reference, heaps_beta_reference: of the reference
type_token_unigrams  ks_heaps_model       mean over lengths: against the samples' fit (law)
type_token_unigrams  ks_heaps_reference   ... against the reference's fit (law)
type_token_unigrams  ks_empirical         ... against the reference's documents (randomization; no
verdict where the reference alone has groups)
type_token_bigrams   the same for distinct bigrams of a document of that many tokens
unigram              tvd                  half of sum |p1 - p2| (randomization; held out where
the reference alone has groups)
unigram              tvd_1000             the same over both sides' first 1,000 ranks
unigram              max_difference       sup |p1 - p2|, the paper's eq. 11 (randomization)
unigram              max_difference_known the same without the unknown word, where there is one
length               mean, mean_reference tokens of a document
length               mean_difference      samples minus reference (randomization)
length               ks                   sup |F1 - F2| (randomization)
each share           the same for the share of the tokens of a document
vocabulary           documents, tokens, types (and each with _reference)
vocabulary           novel_types          share of the samples' types that the reference lacks
vocabulary           coverage             share of the reference's tokens whose type the samples
have
embedding            mmd and what stands beside it: where documents are embedded, see
`embedding_measures`
==================== ==================== ========================================================

Values and limits of rank_frequency and unigram are at equal tokens (`word_distances`), those of all
others and all p-values of all documents. Randomizations permute documents, or groups of them
(`inference.permuted_units`). A value that is not defined (no tokens, a single length, ...) is
null. The reduction of a type-token curve to its mean is defined in `type_token`.

Where the samples alone have groups, measures are averaged over draws of one document of each group.
Primary tests of a sample set are its distances to the reference. Further tests of the same null are
children of one of them: a child is rejected only together with its parent, so a false rejection of
a child is one of the parent, and the error over all is that of the primary tests.
"""

from __future__ import annotations

import math
import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from beyond_perplexity.inference import permuted_units
from beyond_perplexity.inference.halves import Baseline
from beyond_perplexity.inference.held_out import held_out_distance
from beyond_perplexity.inference.p_values import draw_warning, holm, needed_draws, permutation_p
from beyond_perplexity.inference.permuted_units import (
    EFFECTIVE_GROUPS,
    VERDICT_LEVELS,
    Groups,
    Scheme,
)
from beyond_perplexity.schemas.tendencies import TENDENCY_MEASURES
from beyond_perplexity.tendencies import document_measures, word_measures
from beyond_perplexity.tendencies.definitions import (
    SIGNED,
    MeasureKey,
    MeasurementOptions,
    MeasureRow,
    compares_texts,
    tendencies_of,
)
from beyond_perplexity.tendencies.pairs import Measuring, SampleSetPair, part_of
from beyond_perplexity.tendencies.type_token import HISTOGRAM_OF
from beyond_perplexity.verdicts import (
    TOO_FEW,
    cannot_tell,
    joined_facts,
    no_verdict_text,
    permuted_text,
    reason,
)

_Draws = dict[MeasureKey, np.ndarray]


def null_draws(how: Measuring) -> _Draws:
    """Draw every measure that compares two texts under randomizations of all documents: (B,).

    NaN where not defined; without what the sample sets do not have or the units give no verdict on.
    """
    documents = document_measures.randomized_documents(how)
    return word_measures.randomized_words(how) | documents


def averaged_draws(how: Measuring) -> tuple[dict[MeasureKey, float], _Draws]:
    """Compute the comparing measures of a pair whose samples alone have groups, and their null.

    Every draw of one document per group is measured and randomized as any other pair; then measures
    are averaged over draws, those of the texts and those of each randomization, (B,). Types by
    length are of the first draw alone, which is exact: at single lengths there are so few documents
    that their average would reject up to 10% at .05 with 60 groups.
    """
    pair = how.pair
    draws = permuted_units.group_draws(pair.groups, pair.n_documents, how.seed)
    held: dict[MeasureKey, list[np.ndarray]] = defaultdict(list)
    for drawn in draws:
        both = zip(pair.n_documents, drawn, strict=True)
        first, second = (np.isin(np.arange(n), indices) for n, indices in both)
        with part_of(pair, (first, second)) as part:
            own = replace(how, pair=part, units=draws.units(drawn))
            null, observed = null_draws(own), word_measures.observed_words(own)
            for cells in document_measures.cell_comparisons(part):
                observed |= {(cells.tendency, name): x for name, x in cells.observed().items()}
        for key in null.keys() & observed.keys():
            if not (key[0] in HISTOGRAM_OF and held[key]):
                held[key].append(np.append(null[key], observed[key]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # NumPy's, of nothing but NaN
        means = {key: np.nanmean(found, axis=0) for key, found in sorted(held.items())}
    observed = {key: float(found[-1]) for key, found in means.items()}
    return observed, {key: found[:-1] for key, found in means.items()}


_TVD = ("unigram", "tvd")
_TYPES = {(tendency, "ks_empirical") for tendency in HISTOGRAM_OF}
# What swaps of groups with independent documents have no sound test for, and why.
_NO_SWAPS = {
    **dict.fromkeys(_TYPES, "lengths_not_kept"),
    ("rank_frequency", "ks_empirical"): "clustered",
    ("unigram", "tvd_1000"): "clustered",
}
# Measure -> the measure of the same tendency whose child it is.
PARENTS = {SIGNED: "ks", "tvd_1000": "tvd", "max_difference_known": "max_difference"}
_HELD_OUT = "tested by the held-out distance"
_LENGTHS_TOO = "a difference of lengths shows here too"


def unlike_sizes(groups: Groups, n_documents: tuple[int, int]) -> str:
    """Return the reason that groups of two texts are too unlike in size; empty if none."""
    sizes, factor = permuted_units.unlike_groups(groups, n_documents), permuted_units.SIZE_RATIO
    return reason("unlike_groups", first=sizes[0], second=sizes[1], factor=factor) if sizes else ""


def without_verdict(pair: SampleSetPair) -> str:
    """Return the reason why the groups of a pair allow no verdict at all; empty when they do."""
    if pair.documents is None:
        return ""
    why = unlike_sizes(pair.groups, pair.n_documents)
    return why or too_few_groups(pair.groups, pair.document_lengths, "few_groups")


def too_few_groups(groups: Groups, lengths: Sequence[np.ndarray], code: str) -> str:
    """Return the reason that a text has too few effective groups or units to draw, or nothing."""
    if permuted_units.scheme_of(groups) == "draws":
        draws = permuted_units.group_draws(groups, (len(lengths[0]), len(lengths[1])), 0)
        code = "few_sample_groups" if draws.blocks < draws.n_reference else "few_documents"
        few = draws.blocks < EFFECTIVE_GROUPS
        return reason(code, n=draws.blocks, least=EFFECTIVE_GROUPS) if few else ""
    for codes, own, name in zip(groups, lengths, ("reference", "samples"), strict=True):
        if codes is not None:
            n = permuted_units.effective_groups(permuted_units.group_sums(codes, own))
            if n < EFFECTIVE_GROUPS:
                return reason(code, effective=n, text=name, least=EFFECTIVE_GROUPS)
    return ""


def permuted_told(pair: SampleSetPair, given: Groups) -> str:
    """Say what the tests of a pair permute, or why there are none; `given` are its own groups."""
    if held := without_verdict(pair):
        return no_verdict_text(held)
    scheme = permuted_units.scheme_of(pair.groups)
    told = permuted_text("some_draws" if scheme == "draws" else scheme)
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

    Without permutations nothing is tested; a text against itself has p = 1 in every row.
    """
    pair = how.pair
    if not how.options.permutations:
        return list(rows)
    values = {row.key: row.value for row in rows if compares_texts(row.measure)}
    words = word_measures.observed_words(how)
    observed = values | {key: value for key, value in words.items() if key in values}
    if observed and not any(observed.values()):
        # To randomize words the documents are needed.
        untested = () if pair.documents is not None else ("rank_frequency", "unigram")
        equal = {key for key in observed if key[0] not in untested}
        return [row._replace(p_value=1.0) if row.key in equal else row for row in rows]
    if why := without_verdict(pair):
        return [row._replace(reason=why) if row.key in observed else row for row in rows]
    scheme = permuted_units.scheme_of(pair.groups)
    averaged, null = averaged_draws(how) if scheme == "draws" else (observed, null_draws(how))
    p_values = {
        key: permutation_p(averaged[key], drawn, two_sided=key[1] == SIGNED)
        for key, drawn in null.items()
        if key in averaged
    }
    if scheme == "swaps" and _TVD in observed and pair.documents is not None:
        held = held_out_distance(pair.documents, pair.groups, how.seed)
        p_values[_TVD] = held.p_value if observed[_TVD] else 1.0
    return [_tested_row(row, p_values, scheme) for row in rows]


def _tested_row(
    row: MeasureRow, p_values: Mapping[MeasureKey, float], scheme: Scheme
) -> MeasureRow:
    """Fill in a p-value with what was permuted, where it is not documents."""
    if row.withheld:
        return row._replace(p_value=math.nan)
    if scheme == "swaps" and row.key in _NO_SWAPS:
        return row._replace(reason=reason(_NO_SWAPS[row.key]))
    row = row._replace(p_value=p_values.get(row.key, row.p_value))
    if scheme == "documents" or row.key not in p_values:
        return row
    if scheme == "swaps" and row.key == _TVD:
        return row._replace(fact=joined_facts(_HELD_OUT, row.fact))
    permuted: str = scheme
    if scheme == "draws":
        permuted = "one_draw" if row.key in _TYPES else f"draws {permuted_units.GROUP_DRAWS}"
    told = _LENGTHS_TOO if row.key in _TYPES else ""
    return row._replace(permuted=permuted, fact=joined_facts(told, row.fact))


def _parent(key: MeasureKey, tested: Mapping[MeasureKey, float]) -> MeasureKey:
    parent = key[0], PARENTS.get(key[1], key[1])
    return parent if parent in tested else key


def adjusted_p_values(
    p_values: Mapping[MeasureKey, float], sample_sets: int = 1
) -> dict[MeasureKey, float]:
    """Adjust the p-values of a sample set by tendency and measure; NaN where there is no test.

    A child whose parent has none is a primary test.
    """
    tested = {key: p for key, p in p_values.items() if not math.isnan(p)}
    primary = [key for key in tested if _parent(key, tested) == key]
    found = dict(zip(primary, holm([tested[key] for key in primary], sample_sets), strict=True))
    return {key: max(float(found[_parent(key, tested)]), p) for key, p in tested.items()}


def adjusted_rows(
    rows: Sequence[MeasureRow], permutations: int, sample_sets: int = 1
) -> list[MeasureRow]:
    """Fill in the adjusted p-values of a sample set, and what says which stars can appear."""
    adjusted = adjusted_p_values({row.key: row.p_value for row in rows}, sample_sets)
    family, drawn = _family(rows, sample_sets), _family(_drawn(rows), sample_sets)
    needed = needed_draws(drawn, VERDICT_LEVELS[0], permutations)
    numbers = {"draws": permutations, "level": VERDICT_LEVELS[0], "family": drawn}
    few = reason(TOO_FEW, **numbers, needed=needed) if needed else ""
    found = []
    for row in rows:
        if row.key in adjusted:
            old = "" if cannot_tell(row.reason) else row.reason  # of rows that are adjusted anew
            row = row._replace(reason=few if few and _drawn([row]) else old)
            row = row._replace(p_adjusted=adjusted[row.key], family=family, draws=permutations)
        found.append(row)
    return found


def star_warning(rows: Sequence[MeasureRow], permutations: int, sample_sets: int = 1) -> str:
    """Say which stars so few permutations cannot give to the rows of a sample set, or nothing."""
    return draw_warning(_family(_drawn(rows), sample_sets), permutations, "permutations")


def _drawn(rows: Sequence[MeasureRow]) -> list[MeasureRow]:
    """Leave out the held-out distance: its p needs no draws, and a small one is of no other's."""
    return [row for row in rows if not row.fact.startswith(_HELD_OUT)]


def _family(rows: Sequence[MeasureRow], sample_sets: int) -> int:
    """Count the primary tests of so many sample sets with these rows."""
    tested = {row.key: row.p_value for row in rows if not math.isnan(row.p_value)}
    return sample_sets * sum(_parent(key, tested) == key for key in tested)


def _described(how: Measuring) -> Iterator[MeasureRow]:
    """Measure everything; p-values of comparisons are left out."""
    yield from word_measures.word_rows(how)
    for tendency in HISTOGRAM_OF:
        yield from document_measures.type_token_rows(how, tendency)
    for tendency in tendencies_of("length", "share"):
        yield from document_measures.histogram_rows(how, tendency)
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
    how = Measuring.of(pair, options, seed)
    rows = tested_rows(list(_described(how)), how)
    rows = adjusted_rows([*rows, *others], options.permutations, sample_sets)
    known = baselines or {}
    return [row.above(known[row.key]) if row.key in known else row for row in rows]


def measure_table(
    rows: Sequence[MeasureRow], pair: SampleSetPair, source: str, vocabulary: str = "raw"
) -> pa.Table:
    """Write rows as a table of schema ``tendencies``; both sides are read in the vocabulary."""
    groups, (n, m) = pair.groups[0], pair.n_documents
    of_sample_set = {"source": source, "n_reference": n, "n_samples": m, "vocabulary": vocabulary}
    of_sample_set["groups_reference"] = None if groups is None else len(np.unique(groups))
    return pa.Table.from_pylist([row.cells() | of_sample_set for row in rows], TENDENCY_MEASURES)
