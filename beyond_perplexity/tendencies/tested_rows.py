"""P-values of the rows that compare two texts, adjusted, or the reason why there is none.

Where the samples alone have groups, measures are averaged over draws of one document of each group.

Primary tests of a body are its distances to the reference. Further tests of the same null are
children of one of them: a child is rejected only together with its parent, so a false rejection of
a child is one of the parent, and the error over all is that of the primary tests.
"""

from __future__ import annotations

import math
import warnings
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from beyond_perplexity.inference.exchanged_units import (
    ExchangedUnits,
    GroupDraws,
    Groups,
    Scheme,
    effective_groups,
    group_sums,
    scheme_of,
    unlike_groups,
)
from beyond_perplexity.inference.held_out import held_out_distance
from beyond_perplexity.inference.holm_adjustment import draw_warning, holm
from beyond_perplexity.inference.p_values import permutation_p
from beyond_perplexity.inference.thresholds import EFFECTIVE_GROUPS, GROUP_DRAWS, SIZE_RATIO
from beyond_perplexity.tendencies.definitions import SIGNED, MeasureKey, MeasureRow, compares_texts
from beyond_perplexity.tendencies.document_measures import cell_comparisons, randomized_documents
from beyond_perplexity.tendencies.options import MeasurementOptions
from beyond_perplexity.tendencies.pairs import BodyPair, part_of
from beyond_perplexity.tendencies.type_token import HISTOGRAM_OF
from beyond_perplexity.tendencies.word_measures import observed_words, randomized_words
from beyond_perplexity.verdicts import exchanged_text, joined_facts, no_verdict_text, reason

_Draws = dict[MeasureKey, np.ndarray]


def group_draws(pair: BodyPair, seed: int) -> GroupDraws:
    """Return the draws of a pair whose samples alone have groups."""
    assert pair.groups[1] is not None
    return GroupDraws(pair.groups[1], pair.reference.n_documents, seed)


def averaged_draws(
    pair: BodyPair, options: MeasurementOptions, seed: int
) -> tuple[dict[MeasureKey, float], _Draws]:
    """Compute the comparing measures of a pair whose samples alone have groups, and their null.

    Every draw of one document per group is a pair of texts of its own, which is measured and
    randomized as any other; then measures are averaged over draws, those of the texts and those of
    each randomization, (B,). Types by length are of the first draw alone, which is exact: at single
    lengths there are so few documents that their average would reject up to 10% at .05 with 60
    groups. Draws of which a measure is not defined count not.
    """
    draws = group_draws(pair, seed)
    held: dict[MeasureKey, list[np.ndarray]] = defaultdict(list)
    for drawn in draws:
        kept = np.zeros(pair.n_documents[0], bool), np.zeros(pair.n_documents[1], bool)
        for mask, places in zip(kept, drawn, strict=True):
            mask[places] = True
        with part_of(pair, kept) as part:
            units = draws.units(drawn)
            null = randomized_words(part, units, options, seed)
            null |= randomized_documents(part, units, options, seed)
            observed = observed_words(part, units, options) | _observed_documents(part, options)
        for key in null.keys() & observed.keys():
            if key[0] in HISTOGRAM_OF and held[key]:
                continue
            held[key].append(np.append(null[key], observed[key]))
    means = {key: _mean(found) for key, found in sorted(held.items())}
    observed = {key: float(found[-1]) for key, found in means.items()}
    return observed, {key: found[:-1] for key, found in means.items()}


def _observed_documents(part: BodyPair, options: MeasurementOptions) -> dict[MeasureKey, float]:
    return {
        (cells.tendency, name): float(value)
        for cells in cell_comparisons(part, options)
        for name, value in cells.evaluate(*cells.counts).items()
        if compares_texts(name)
    }


def _mean(found: list[np.ndarray]) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # NumPy's, of nothing but NaN
        mean: np.ndarray = np.nanmean(found, axis=0)
    return mean


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
NullDrawer = Callable[[BodyPair, MeasurementOptions, int], Mapping[MeasureKey, np.ndarray]]


def without_verdict(pair: BodyPair) -> str:
    """Return the reason why the groups of a pair allow no verdict at all; empty when they do."""
    if pair.documents is None:
        return ""
    if unlike := unlike_reason(pair.groups, pair.n_documents):
        return unlike
    if scheme_of(pair.groups) == "draws":
        return few_blocks(group_draws(pair, 0))
    names = ("reference", "samples")
    for groups, lengths, name in zip(pair.groups, pair.document_lengths, names, strict=True):
        if groups is not None:
            n = effective_groups(group_sums(groups, lengths))
            if n < EFFECTIVE_GROUPS:
                return reason("few_groups", effective=n, text=name, least=EFFECTIVE_GROUPS)
    return ""


def unlike_reason(groups: Groups, n_documents: tuple[int, int]) -> str:
    """Return the reason that groups of two texts are too unlike to be exchanged, or nothing."""
    if (sizes := unlike_groups(groups, n_documents)) is None:
        return ""
    return reason("unlike_groups", first=sizes[0], second=sizes[1], factor=SIZE_RATIO)


def few_blocks(draws: GroupDraws) -> str:
    """Return the reason that draws of one document per group are of too few units, or nothing."""
    if draws.blocks >= EFFECTIVE_GROUPS:
        return ""
    code = "few_sample_groups" if draws.blocks < draws.n_reference else "few_documents"
    return reason(code, n=draws.blocks, least=EFFECTIVE_GROUPS)


def exchanged_told(pair: BodyPair, given: Groups) -> str:
    """Say what the tests of a pair exchange, or why there are none; `given` are its own groups."""
    if held := without_verdict(pair):
        return no_verdict_text(held)
    scheme = scheme_of(pair.groups)
    told = exchanged_text("some_draws" if scheme == "draws" else scheme)
    names = ("reference", "samples")
    for body, codes in enumerate(given):
        if codes is not None and pair.groups[body] is None:
            n = len(np.unique(codes))
            told += f" (the {n:,} groups of {len(codes):,} documents of the {names[body]} count for"
            told += f" nothing: nearly all are single, and those of the {names[1 - body]} larger)"
    return told


def tested_rows(
    rows: Sequence[MeasureRow],
    pair: BodyPair,
    options: MeasurementOptions,
    seed: int,
    units: ExchangedUnits | None,
    draw: NullDrawer,
) -> list[MeasureRow]:
    """Fill in the p-values of a body's rows; where a verdict is withheld `note` says why.

    `draw` is `measures.null_draws`. Without permutations nothing is tested; a text against itself
    has p = 1 in every row.
    """
    if not options.permutations:
        return list(rows)
    values = {row.key: row.value for row in rows if compares_texts(row.measure)}
    observed = values | observed_words(pair, units, options)
    observed = {key: value for key, value in observed.items() if key in values}
    if observed and not any(observed.values()):
        # To randomize words the documents are needed.
        words = () if pair.documents is not None else ("rank_frequency", "unigram")
        equal = {key for key in observed if key[0] not in words}
        return [row._replace(p_value=1.0) if row.key in equal else row for row in rows]
    if why := without_verdict(pair):
        return [row._replace(reason=why) if row.key in observed else row for row in rows]
    scheme = scheme_of(pair.groups)
    swaps = scheme == "swaps"
    if scheme == "draws":
        averaged, averages = averaged_draws(pair, options, seed)
        p_values = _p_values(averaged, averages)
    else:
        p_values = _p_values(observed, draw(pair, options, seed))
    if swaps and _TVD in observed and pair.documents is not None:
        held = held_out_distance(pair.documents, pair.groups, seed)
        p_values[_TVD] = held.p_value if observed[_TVD] else 1.0
    tested = []
    for row in rows:
        if row.withheld:
            row = row._replace(p_value=float("nan"))
        elif swaps and row.key in _NO_SWAPS:
            row = row._replace(reason=reason(_NO_SWAPS[row.key]))
        elif row.key in p_values:
            row = _with_units(row._replace(p_value=p_values[row.key]), scheme)
        tested.append(row)
    return tested


def _with_units(row: MeasureRow, scheme: Scheme) -> MeasureRow:
    """Add what was exchanged, where it is not documents."""
    if scheme == "documents":
        return row
    if scheme == "swaps" and row.key == _TVD:
        return row._replace(fact=joined_facts(_HELD_OUT, row.fact))
    exchanged: str = scheme
    if scheme == "draws":
        exchanged = "one_draw" if row.key in _TYPES else f"draws {GROUP_DRAWS}"
    told = _LENGTHS_TOO if row.key in _TYPES else ""
    return row._replace(exchanged=exchanged, fact=joined_facts(told, row.fact))


def _p_values(
    observed: Mapping[MeasureKey, float], null: Mapping[MeasureKey, np.ndarray]
) -> dict[MeasureKey, float]:
    return {
        key: permutation_p(observed[key], drawn, two_sided=key[1] == SIGNED)
        for key, drawn in null.items()
        if key in observed
    }


def _parent(key: MeasureKey, tested: Mapping[MeasureKey, float]) -> MeasureKey:
    parent = key[0], PARENTS.get(key[1], key[1])
    return parent if parent in tested else key


def adjusted_p_values(
    p_values: Mapping[MeasureKey, float], bodies: int = 1
) -> dict[MeasureKey, float]:
    """Adjust the p-values of a body by tendency and measure; NaN where there is no test.

    A child whose parent has none is a primary test. The tests of so many `bodies` are one family.
    """
    tested = {key: p for key, p in p_values.items() if not math.isnan(p)}
    primary = [key for key in tested if _parent(key, tested) == key]
    found = dict(zip(primary, holm([tested[key] for key in primary], bodies), strict=True))
    return {key: max(float(found[_parent(key, tested)]), p) for key, p in tested.items()}


def adjusted_rows(
    rows: Sequence[MeasureRow], permutations: int, bodies: int = 1
) -> list[MeasureRow]:
    """Fill in the adjusted p-values of a body's rows, and what says which stars can appear."""
    adjusted = adjusted_p_values({row.key: row.p_value for row in rows}, bodies)
    family = _family(rows, bodies)
    return [
        row._replace(p_adjusted=adjusted[row.key], family=family, draws=permutations)
        if row.key in adjusted
        else row
        for row in rows
    ]


def star_warning(rows: Sequence[MeasureRow], permutations: int, bodies: int = 1) -> str:
    """Say which stars so few permutations cannot give to a body's rows; empty when all can appear.

    `bodies` is the number of bodies of text whose tests are one family.
    """
    return draw_warning(_family(rows, bodies), permutations, "permutations")


def _family(rows: Sequence[MeasureRow], bodies: int) -> int:
    """Count the primary tests of so many bodies of text with these rows."""
    tested = {row.key: row.p_value for row in rows if not math.isnan(row.p_value)}
    return bodies * sum(_parent(key, tested) == key for key in tested)
