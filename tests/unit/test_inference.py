"""What a comparison may claim: units that are permuted, held-out distance, families, limits.

Oracles: enumeration of all swaps and permutations, held-out distances in loops, the jackknife by
leaving units out, p-values by hand, level and coverage by simulation, SciPy's tests, doctests.
"""

import ast
import doctest
import importlib
import math
import pkgutil
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom, ks_2samp, ttest_ind
from scipy.stats import t as student

from benchmarks.attributions import AttributionCases
from beyond_perplexity import inference, random_streams, verdicts
from beyond_perplexity.inference import held_out, p_values, permuted_units, two_sample_test
from beyond_perplexity.inference.halves import Baseline, Halving
from beyond_perplexity.inference.limits import Spread, spread_of, upper_limit
from beyond_perplexity.inference.p_values import permutation_p
from beyond_perplexity.inference.permuted_units import GROUP_DRAWS, GroupDraws
from beyond_perplexity.tendencies import adjustment, document_measures, measures, pairs, power_laws
from beyond_perplexity.tendencies.definitions import MeasureRow
from beyond_perplexity.tendencies.measurement_options import MeasurementOptions
from beyond_perplexity.tendencies.measures import measure_rows, null_draws
from beyond_perplexity.tendencies.power_laws import fit_truncated_zipf, rank_order, split_fit
from beyond_perplexity.tendencies.type_token import (
    HISTOGRAM_OF,
    LengthCells,
    scaled_distance,
    summarize_lengths,
)
from tests.unit.text_pairs import (
    NO_LIMITS,
    exact_ks,
    pair_of,
    plain_measures,
    rows_of,
    types_at_lengths,
)
from tests.unit.text_pairs import draw_texts as draw

TWO_SIDED = "mean_difference"
RANKS = measures._RANKS
# Tested by the held-out distance, and by t: see tests of their own.
NOT_DRAWN = {
    ("unigram", "tvd"),
    *((name, TWO_SIDED) for name in ("length", "stop_words", "symbols")),
}


def measured(first, second):
    found = plain_measures([[text.split() for text in side] for side in (first, second)])
    return {key: math.nan if value is None else float(value) for key, value in found.items()}


def scaled_types(first, second):
    """Average √h D over lengths, each weighted with √h, where h = n m / (n + m): a plain loop."""
    sides, found = [[text.split() for text in side] for side in (first, second)], {}
    for name in HISTOGRAM_OF:
        at = [(len(x) * len(y) / (len(x) + len(y)), x, y) for x, y in types_at_lengths(sides, name)]
        total = sum(h * exact_ks(x, y) for h, x, y in at)
        found[name, "ks_empirical"] = total / sum(math.sqrt(h) for h, *_ in at) if at else math.nan
    return found


def test_the_scaled_distance_is_as_large_whatever_side_the_documents_are_on():
    """Oracle: D of n and m draws of one law is about √(1 / n + 1 / m) times a constant."""
    rng, cells = (
        np.random.default_rng(1),
        LengthCells(np.full(400, 9), np.arange(400), np.zeros(1, int)),
    )
    found = {}
    for n, m in ((200, 200), (40, 360)):
        sides = (
            rng.multinomial(n, np.full(400, 1 / 400), 300),
            rng.multinomial(m, np.full(400, 1 / 400), 300),
        )
        plain = summarize_lengths(cells, *sides, {})["ks_empirical"].mean()
        found[n] = plain, scaled_distance(cells, *sides)["ks_empirical"].mean()
    assert found[40][0] > 1.5 * found[200][0]
    assert found[40][1] == pytest.approx(found[200][1], rel=0.05)


def without_data(drawn: dict) -> dict:
    """Leave out what is of the data themselves: the last."""
    return {key: values[:-1] for key, values in drawn.items()}


def assert_same_law(drawn: dict, exact: list[dict], keys: list) -> None:
    """Each value of the enumeration appears as often as it should, and no other value."""
    for key in keys:
        values = np.array([found[key] for found in exact])
        found = drawn[key]
        for value in np.unique(np.round(values[~np.isnan(values)], 9)):
            share = np.mean(np.abs(values - value) < 1e-8)
            times = np.sum(np.abs(found - value) < 1e-8)
            low, high = binom.ppf([1e-6, 1 - 1e-6], len(found), share)
            assert low <= times <= high, (key, value)
        for value in found[~np.isnan(found)]:
            assert np.nanmin(np.abs(values - value)) < 1e-8


REFERENCE, SAMPLES = draw(0, 9), draw(1, 9, mean=7)
GROUPS = [0, 0, 1, 1, 1, 2, 3, 3, 3]


def test_permuted_groups_are_all_the_choices_of_groups():
    own = [0, 1, 1, 1, 2, 2, 2, 2, 2]
    with pair_of(REFERENCE, SAMPLES, (GROUPS, own)) as pair:
        permuted = permuted_units.permuted_units(pair.groups, (9, 9), 0)
        drawn = without_data(null_draws(pairs.Measuring(pair, NO_LIMITS, 3, permuted, permuted)))
    assert (permuted.scheme, permuted.n) == ("groups", (4, 3))
    documents = [*REFERENCE, *SAMPLES]
    codes = np.array([*GROUPS, *(4 + np.array(own))])
    exact = []
    for chosen in combinations(range(7), 4):
        sides = ([], [])
        for text, code in zip(documents, codes, strict=True):
            sides[code not in chosen].append(text)
        exact.append(measured(*sides) | scaled_types(*sides))
    assert_same_law(drawn, exact, [key for key in exact[0] if key not in NOT_DRAWN])
    assert exact[0].keys() - drawn.keys() == {("unigram", "tvd")}


@pytest.mark.parametrize("n", [9, 5, 20])
def test_swaps_are_all_the_swaps(n):
    """Documents of the smaller text weigh more: repeated as often in the enumeration."""
    samples = draw(1, n, mean=7)
    with pair_of(REFERENCE, samples, (GROUPS, None)) as pair:
        permuted = permuted_units.permuted_units(pair.groups, (9, n), 3)
        drawn = without_data(null_draws(pairs.Measuring(pair, NO_LIMITS, 3, permuted, permuted)))
    assert permuted.scheme == "swaps"
    pseudo = permuted.codes[1] - 4
    assert np.abs(np.bincount(pseudo, minlength=4) - np.bincount(GROUPS) * n / 9).max() <= 1
    exact = []
    for kept in product([False, True], repeat=4):
        sides = [], []
        for text, group in zip(REFERENCE, GROUPS, strict=True):
            sides[not kept[group]].extend([text] * n)
        for text, group in zip(samples, pseudo, strict=True):
            sides[kept[group]].extend([text] * 9)
        exact.append(measured(*(sides if all(sides) else (REFERENCE, samples))))
        if not all(sides):
            exact[-1] = dict.fromkeys(exact[-1], math.nan)
    without = {*RANKS, *((x, "ks_empirical") for x in HISTOGRAM_OF)}
    assert_same_law(drawn, exact, [key for key in exact[1] if key not in without | NOT_DRAWN])
    assert not without & set(drawn)


RNG = np.random.default_rng(3)


@pytest.mark.parametrize("scheme", ["groups", "swaps"])
def test_t_of_means_is_that_of_all_randomizations(scheme):
    """Oracle: the formula in a loop over units, for every choice of units."""
    codes = np.array(GROUPS), np.array([0, 1, 1, 1, 2, 2, 2, 2, 2])
    groups = codes if scheme == "groups" else (codes[0], None)
    x, y = RNG.integers(1, 30, 9), RNG.integers(1, 30, 9)
    units = permuted_units.permuted_units(groups, (9, 9), 1)
    drawn = two_sample_test.permuted_means(x, y, units, 1999, 3)
    held = [np.array([*x, *y])[np.concatenate(units.codes) == u] for u in range(sum(units.n))]

    def t(first: list[np.ndarray], second: list[np.ndarray]) -> float:
        means, variances = [], []
        for side in (first, second):
            total, n, k = sum(u.sum() for u in side), sum(map(len, side)), len(side)
            spread = sum((u.sum() - total / n * len(u)) ** 2 for u in side)
            means.append(total / n)
            variances.append(k / (k - 1) * spread / n**2)
        return (means[1] - means[0]) / math.sqrt(sum(variances))

    n = units.n[0]
    assert drawn[-1] == pytest.approx(t(held[:n], held[n:]))
    choices = [set(chosen) for chosen in combinations(range(len(held)), n)]
    if scheme == "swaps":
        choices = [c for c in choices if all((g in c) != (g + n in c) for g in range(n))]
    both = ([[held[u] for u in range(len(held)) if (u in c) == own] for own in (True, False)]
            for c in choices)  # fmt: skip
    exact = np.round([t(*sides) for sides in both], 8)
    for value in np.unique(exact):
        share = np.mean(exact == value)
        least, most = binom.ppf([1e-6, 1 - 1e-6], 1999, share)
        assert least <= np.sum(np.abs(drawn[:-1] - value) < 1e-6) <= most
    single = permuted_units.single_documents((9, 9))
    found = two_sample_test.permuted_means(x, y, single, 5, 3)[-1]
    assert found == pytest.approx(ttest_ind(y, x, equal_var=False).statistic)


def test_units_are_permuted_among_those_of_their_size():
    rng = np.random.default_rng(5)
    lengths = rng.integers(3, 60, 300), rng.integers(3, 40, 200)
    units = permuted_units.permuted_units((None, None), (300, 200), 0, lengths)
    sizes, own = np.concatenate(lengths), np.arange(500) < 300
    edges = np.unique(np.sort(sizes)[np.arange(31) * 500 // 31])
    strata = np.searchsorted(edges, sizes, side="right")
    for labels in np.concatenate(list(units.labels(40, 1)), axis=1).T:
        assert np.array_equal(np.bincount(strata, labels), np.bincount(strata, own))
        assert np.mean(labels[own]) < 0.9
        assert abs(sizes[labels].sum() / sizes[own].sum() - 1) < 0.02
    assert units.unlike == ""
    apart = permuted_units.permuted_units(
        (None, None), (60, 60), 0, (np.full(60, 5), np.full(60, 9))
    )
    assert "only 0 documents of one length in either text" in verdicts.reason_text(apart.unlike)
    groups = np.arange(120) // 3, np.repeat(np.arange(40), np.tile([3, 5], 20))
    groups = groups[0], groups[1][:120]
    unlike = permuted_units.permuted_units(groups, (120, 120), 0).unlike
    assert "groups of as many documents" in verdicts.reason_text(unlike)


def test_groups_count_by_what_they_are_and_thresholds_are_fixed():
    assert permuted_units.scheme_of((None, np.array([0, 0, 1]))) == "draws"
    assert permuted_units.permuted_units((None, np.array([0, 0, 1])), (2, 3), 0) is None
    assert permuted_units.permuted_units((None, None), (2, 3), 0) is None
    assert permuted_units.effective_groups(np.full(7, 3)) == pytest.approx(7)
    assert permuted_units.effective_groups(np.array([1, 1, 2])) == pytest.approx(16 / 6)
    assert permuted_units.effective_groups(np.zeros(3)) == 0
    assert measures.EFFECTIVE_GROUPS == 20
    assert held_out.HALVINGS == 7
    assert document_measures.DOCUMENTS_AT_LENGTHS == 20
    assert (power_laws.OCCURRENCES, power_laws.SPLIT_RANKS) == (10, 30)
    assert (permuted_units.SIZE_RATIO, permuted_units.NEARLY_SINGLE) == (1.1, 0.9)
    assert (permuted_units.STRATUM, permuted_units.STRATA, permuted_units.MANY_SIZES) == (16, 32, 2)
    assert permuted_units.LEAST_MOVED == 10


def plain_held_out(documents, codes, halves, samples, sample_halves):
    """Compute the formulas of decision 2, document by document."""
    y, t = Counter(), Counter()
    n, m = [], []
    for here in (True, False):  # the half that chooses A
        shares = []
        for texts, side in ((documents, halves), (samples, sample_halves)):
            counts = Counter(w for d, text in enumerate(texts) if side[d] == here for w in text)
            total = sum(counts.values())
            shares.append({w: c / total for w, c in counts.items()})
        inside = {w for w, share in shares[0].items() if share > shares[1].get(w, 0)}
        for d, text in enumerate(documents):
            if halves[d] != here:
                y[codes[d]] += sum(w in inside for w in text)
                t[codes[d]] += len(text)
        for d, text in enumerate(samples):
            if sample_halves[d] != here:
                n.append(sum(w in inside for w in text))
                m.append(len(text))
    G, D = len(t), len(m)
    e_h, e_m = sum(y.values()) / sum(t.values()), sum(n) / sum(m)
    without = [sum(y[k] for k in t if k != g) / sum(t[k] for k in t if k != g) - e_h for g in t]
    v_h = (G - 1) / G * sum(x**2 for x in without)
    v_m = sum((a - e_m * b) ** 2 for a, b in zip(n, m, strict=True)) / sum(m) ** 2
    G_eff = sum(t.values()) ** 2 / sum(x**2 for x in t.values())
    df = (v_h + v_m) ** 2 / (v_h**2 / (G_eff - 1) + v_m**2 / (D - 1))
    return e_h - e_m, math.sqrt(v_h + v_m), df


def test_the_held_out_distance_is_that_of_a_loop():
    first, second = draw(5, 40), draw(6, 33)
    codes = np.sort(np.random.default_rng(0).integers(0, 12, 40))
    codes = np.unique(codes, return_inverse=True)[1]
    with pair_of(first, second, (codes, None)) as pair:
        found = held_out.held_out_distance(pair.documents, pair.groups, 9)
    groups, halves = (
        held_out.halvings(n, [random_streams.stream(9, f"held_out/{name}", h) for h in range(7)])
        for name, n in (("reference", codes.max() + 1), ("samples", 33))
    )
    tokens = [text.split() for text in first], [text.split() for text in second]
    for h in range(7):
        expected = plain_held_out(tokens[0], codes, groups[codes, h], tokens[1], halves[:, h])
        assert (found.estimate[h], found.error[h], found.df[h]) == pytest.approx(expected)
    tails = student.sf(found.estimate / found.error, found.df)
    assert found.p_value == pytest.approx(np.median(tails))
    limits = found.estimate - student.ppf(0.95, found.df) * found.error
    assert found.lower_limit(0.95) == pytest.approx(max(0, np.median(limits)))
    # Of some documents it is that of them alone.
    kept = np.arange(40) % 8 != 3
    with pair_of(first, second) as pair:
        cut = held_out.held_out_distance(pair.documents, (None, None), 9, (kept, None))
    some = [text for text, own in zip(first, kept, strict=True) if own]
    with pair_of(some, second) as pair:
        alone = held_out.held_out_distance(pair.documents, (None, None), 9)
    assert (cut.estimate, cut.df) == (pytest.approx(alone.estimate), pytest.approx(alone.df))


def test_the_distance_over_a_partition_is_that_of_a_loop(monkeypatch):
    """Oracle: cells, shares and limits document by document; the law of topics is covered."""
    monkeypatch.setattr(held_out, "PARTITION_TYPES", 4)
    first, second = draw(5, 40), draw(6, 33)
    with pair_of(first, second) as pair:
        found = held_out.Halved.of(pair.documents, (None, None), 9).partitioned(0.9)
        names = pair.types.to_pylist()
    X, Y = (np.array([[t.split().count(w) for w in names] for t in own]) for own in (first, second))
    h, m = (
        held_out.halvings(
            len(own), [random_streams.stream(9, f"held_out/{name}", b) for b in range(7)]
        )
        for name, own in (("reference", X), ("samples", Y))
    )
    held, above = [], []
    for b in range(7):
        y, n, py, pn = np.zeros(40), np.zeros(33), np.zeros(40), np.zeros(33)
        for here in (True, False):
            own, rest = X[h[:, b] == here].sum(axis=0), X[h[:, b] != here].sum(axis=0)
            cells = {w: k for k, w in enumerate(np.argsort(-own, kind="stable")[:4])}
            cell = np.array([cells.get(w, 4) for w in range(len(names))])

            def inside(a, c, cell=cell):
                shares = [np.bincount(cell, counts, 5) / counts.sum() for counts in (a, c)]
                return (shares[0] > shares[1])[cell]

            A = inside(own, Y[m[:, b] == here].sum(axis=0))
            B = inside(rest, Y.sum(axis=0))
            y[h[:, b] != here] = X[h[:, b] != here][:, A].sum(axis=1)
            n[m[:, b] != here] = Y[m[:, b] != here][:, A].sum(axis=1)
            py[h[:, b] != here] = X[h[:, b] != here][:, B].sum(axis=1)
            pn += Y[:, B].sum(axis=1) / 2
        lengths = X.sum(axis=1), Y.sum(axis=1)
        held.append(held_out.combine(y, lengths[0], n, lengths[1], sample_groups=False))
        above.append(held_out.combine(py, lengths[0], pn, lengths[1], sample_groups=False))
    low = np.median([e - student.ppf(0.9, df) * error for e, error, df in held])
    high = np.median([e + student.ppf(0.9, df) * error for e, error, df in above])
    value = np.median([e for e, _, _ in held])
    assert found == pytest.approx((max(0, value), max(0, low), high))
    assert found.high > found.value


@pytest.mark.parametrize(("n", "m"), [(400, 100), (100, 400)])
def test_a_mean_is_told_from_a_spread(n, m):
    """Equal means, spreads 1 : 2: a permutation of plain means rejects 45% or nothing."""
    rejected = 0
    for repeat in range(200):
        rng = np.random.default_rng(repeat)
        found = inference.permutation_test(
            rng.normal(size=n), 2 * rng.normal(size=m),
            statistic=inference.mean_difference, two_sided=True, permutations=99, seed=repeat,
        )  # fmt: skip
        rejected += found.p_value <= 0.05
    assert binom.ppf(0.001, 200, 0.04) <= rejected <= binom.ppf(0.999, 200, 0.05)


@pytest.mark.parametrize(
    ("name", "units"),
    [
        ("40% shorter, documents", 150),
        ("groups of 20 and 11, on average", 60),
        ("sizes correlated with lengths, groups, groups, ", 60),
    ],
)
def test_words_are_told_from_lengths_and_from_sizes_of_groups(name, units):
    """One law of words; without strata, or with documents for groups, ranks always reject."""
    (case,) = (c for c in AttributionCases(None) if c.name == name)
    case = replace(case, human=replace(case.human, n=units), model=replace(case.model, n=units))
    found = [case(repeat) for repeat in range(20)]
    for measure in {measure for held in found for measure in held}:
        own = [held[measure] for held in found if measure in held]
        assert sum(own) <= binom.ppf(0.999, len(own), 0.05), measure
    assert {"unigram tvd", "unigram max_difference"} <= {key for held in found for key in held}


COMPARED = [
    ("rank_frequency", "ks_empirical"),
    ("type_token_unigrams", "ks_empirical"),
    ("type_token_bigrams", "ks_empirical"),
    *(("unigram", name) for name in ("tvd", "tvd_1000", "max_difference")),
    *((name, of) for name in ("length", "stop_words", "symbols") for of in ("ks", TWO_SIDED)),
]


SCHEMES = ["documents", "groups", "swaps", "draws"]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_text_against_itself_has_p_1_in_every_row(scheme):
    texts, codes = draw(3, 60), np.arange(60) // 2
    groups = [(None, None), (codes, codes), (codes, None), (None, codes)][SCHEMES.index(scheme)]
    options = MeasurementOptions(permutations=39, bootstrap=0, monte_carlo=0)
    rows = rows_of(texts, texts, groups, options)
    assert {rows[key].p_value for key in COMPARED} == {1.0}
    assert {rows[key].p_adjusted for key in COMPARED} == {1.0}


@pytest.mark.parametrize(
    ("sizes", "groups", "said"),
    [
        ((60, 60), (15, None), "effective groups in the reference, fewer than 20"),
        ((70, 45), (None, 15), "15 groups of samples"),
        ((15, 180), (None, 60), "15 documents of the ref"),
    ],
)
def test_too_few_groups_or_blocks_give_no_verdict(sizes, groups, said):
    both = zip(sizes, groups, strict=True)
    own = [None if many is None else np.arange(n) // (n // many) for n, many in both]
    options = replace(NO_LIMITS, permutations=39, bootstrap=9)
    rows = rows_of(draw(3, sizes[0]), draw(4, sizes[1]), own, options)
    for key in COMPARED:
        assert math.isnan(rows[key].p_value)
        assert math.isnan(rows[key].p_adjusted)
        assert said in rows[key].note
    for measure, side in (("ks", None), (TWO_SIDED, None), ("mean", 1), ("mean_reference", 0)):
        many = side is not None and (own[side] is None or own[side][-1] >= 19)
        assert math.isnan(rows["length", measure].high) != many, measure


def test_groups_count_by_the_documents_that_are_long_enough():
    """Half of the documents are long, and these are of 8 of the 48 groups of either text."""
    texts, codes = [], np.repeat(np.arange(48), [15] * 8 + [3] * 40)
    for seed in (3, 4):
        long, short = draw(seed, 120, mean=40, least=32), draw(seed + 9, 120, mean=4)
        texts.append([*long, *short])
    rows = rows_of(*texts, (codes, codes))
    said = "no verdict: 8.0 effective groups in the reference, fewer than 20"
    for key in (("burstiness", "ks"), ("recurrence", "max_difference")):
        assert rows[key].note.startswith(said), key
        assert math.isnan(rows[key].p_value)
    assert rows["length", "ks"].verdict != verdicts.WITHOUT_VERDICT
    alone = rows_of(*texts, (None, codes))  # one document of each group
    assert alone["burstiness", "ks"].note.startswith("no verdict: 8 groups of samples, fewer")
    assert alone["length", "ks"].verdict != verdicts.WITHOUT_VERDICT


def test_swaps_give_verdicts_where_they_are_sound_and_rows_say_what_was_permuted():
    codes = np.arange(120) // 3
    with pair_of(draw(3, 120), draw(4, 120), (codes, None)) as pair:
        rows = {row.key: row for row in measure_rows(pair, NO_LIMITS, 0)}
        expected = held_out.held_out_distance(pair.documents, pair.groups, 0).p_value
    withheld = {key for key in COMPARED if math.isnan(rows[key].p_value)}
    types = {(tendency, "ks_empirical") for tendency in HISTOGRAM_OF}
    assert {("rank_frequency", "ks_empirical"), ("unigram", "tvd_1000"), *types} <= withheld
    assert "only one text has" in rows["rank_frequency", "ks_empirical"].note
    reason = "the numbers of types depend on lengths, which swaps do not keep"
    for row in map(rows.get, types):
        assert row.value > 0
        assert math.isnan(row.p_adjusted)
        assert row.note.startswith(f"no verdict: {reason}; ")
    assert rows["length", "ks"].note.startswith("permuted: groups of the reference with as many")
    assert rows["unigram", "tvd"].note.startswith("tested by the held-out distance")
    assert rows["unigram", "tvd"].p_value == expected
    rows = rows_of(draw(3, 120), draw(4, 120), (codes, codes))
    assert "permuted: whole groups; " in rows["type_token_unigrams", "ks_empirical"].note
    assert rows["length", "ks"].note.startswith("permuted: whole groups")
    codes = np.arange(300) // 5
    rows = rows_of(draw(3, 70), draw(4, 300), (None, codes), options=FEW)
    for key in COMPARED:
        assert rows[key].withheld == (key in RANKS)
        if key in {*RANKS, ("unigram", "tvd")}:
            continue
        assert 0 < rows[key].p_value <= 1, key
        assert "one document per group of the samples" in rows[key].note
        draws = "one draw" if key[0] in HISTOGRAM_OF else "mean over 20 draws"
        assert draws in rows[key].note


@pytest.mark.parametrize("scheme", SCHEMES)
def test_one_document_of_most_tokens_is_no_sample_of_many(scheme):
    """Of the same words: its share of the tokens, and no distance, would give a small p."""
    texts, codes = draw(3, 120, mean=8), np.arange(120) // 3
    groups = [(None, None), (codes, codes), (codes, None), (None, codes)][SCHEMES.index(scheme)]
    samples = [*draw(4, 119, mean=8), " ".join(draw(5, 900))]
    note = rows_of(texts, samples, groups)["unigram", "tvd"].note
    assert "in the samples, fewer than 20" in note


def nearly_single(n):
    """Give each of n documents a group, but the first two one together."""
    return np.maximum(np.arange(n) - 1, 0)


@pytest.mark.parametrize(
    ("size", "own", "scheme", "reason"),
    [
        (3, nearly_single(120), "swaps", ""),
        (2, np.arange(120) // 4, "groups", "only 0 groups of as many documents in either text"),
        (3, np.maximum(np.arange(120) - 19, 0), "groups", "only 1 groups of as many documents"),
        (1, np.arange(120) // 3, "draws", ""),
    ],
)
def test_groups_of_other_sizes_are_not_permuted(size, own, scheme, reason):
    """The fourth has one group of 20 and 100 single documents: neither groups nor documents."""
    codes = np.arange(120) // size
    with pair_of(draw(3, 120), draw(4, 120), (codes, own)) as pair:
        assert permuted_units.scheme_of(pair.groups) == scheme
        rows = {row.key: row for row in measure_rows(pair, NO_LIMITS, 0)}
        told = measures.permuted_told(pair, (codes, own))
    row = rows["length", "ks"]
    assert math.isnan(row.p_value) == bool(reason)
    assert reason in row.note
    assert rows["length", TWO_SIDED].p_value > 0  # its t knows of sizes
    assert reason or told.split(" (")[0] in row.note
    assert ("119 groups of 120 documents of the samples count" in told) == (scheme == "swaps")
    assert ("120 groups of 120 documents of the reference" in told) == (scheme == "draws")


def test_holm_is_that_of_hand_and_children_follow_their_parents():
    assert p_values.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert p_values.holm([0.01, 0.04, 0.03, 0.005], 2) == pytest.approx([0.06, 0.12, 0.12, 0.04])
    assert (p_values.holm([0.6, 0.9]), len(p_values.holm([]))) == (pytest.approx([1, 1]), 0)
    given = {("length", "ks"): 0.01, ("length", TWO_SIDED): 0.5, ("symbols", "ks"): math.nan}
    given |= {("unigram", "tvd"): 0.04, ("unigram", "tvd_1000"): 0.001}
    given |= {("unigram", "max_difference"): math.nan, ("unigram", "max_difference_known"): 0.03}
    # Three primary tests: a child whose parent has no test is one of its own.
    assert adjustment.adjusted_p_values(given) == pytest.approx(
        {
            ("length", "ks"): 0.03,
            ("length", TWO_SIDED): 0.5,
            ("unigram", "max_difference_known"): 0.09,
            ("unigram", "tvd"): 0.09,
            ("unigram", "tvd_1000"): 0.09,
        }
    )
    # By hand: a chain counts until all its tests are rejected.
    assert p_values.holm_chains([[0.01, 0.02], [0.015]]) == [
        pytest.approx([0.02, 0.03]),
        pytest.approx([0.03]),
    ]
    rng, false = np.random.default_rng(2), np.zeros(2)
    for _ in range(4000):  # three parents are false and their children true: no more false stars
        true = rng.random(3)
        chains = [[1e-9, p] for p in true] + [[rng.random(), 1e-9]]
        found = p_values.holm_chains(chains)
        false[0] += any(p[1] < 0.05 for p in found[:3]) or found[3][0] < 0.05
        false[1] += any(p < 0.05 for p in true)
    assert false[0] <= binom.ppf(0.999, 4000, 0.05)
    assert false[1] > 4000 * 0.12  # what a child at its own level would give


def test_what_permutations_cannot_reach_is_said():
    """A star is p < level: the smallest p at a level itself has none."""

    def rows(p, n):
        return [MeasureRow(f"t{i}", "ks", 0.1, p_value=p) for i in range(n)]

    warning = adjustment.star_warning
    for n, draws in ((8, 1999), (8, 1600), (10, 2000)):
        assert warning(rows(0.5, n), draws) == ""
    assert "1,600 are needed" in warning(rows(0.5, 8), 1599)  # 8 / 1600 = .005
    assert warning(rows(0.5, 11), 1999).startswith("1,999 permutations cannot")
    assert "2,200 are needed" in warning(rows(0.5, 11), 1999)
    assert "p < 0.05 in a family of 16" in warning(rows(0.5, 8), 199, sample_sets=2)
    adjusted = adjustment.adjusted_rows(rows(0.001, 11), 999)
    assert adjusted[0].p_adjusted == pytest.approx(0.011)
    assert "2,200" in adjusted[0].note
    # Holm: 11 tests of B permutations reach 11 / (B + 1), which is below .05 from B = 220 on.
    for draws, said in ((219, "cannot tell"), (220, "no difference found")):
        at_least = adjustment.adjusted_rows(
            [*rows(1 / (draws + 1), 10), *rows(0.7, 11)[10:]], draws
        )
        assert at_least[-1].verdict == said
        assert {row.verdict for row in at_least} == {said, "differs" if draws == 220 else said}
    few = adjustment.adjusted_rows(rows(0.05, 4), 19)
    assert few[0].reason.startswith('{"code": "too_few_permutations"')
    said = verdicts.reason_text(few[0].reason)
    assert said == "19 permutations, where p < 0.05 in 4 tests needs 80"
    assert few[0].note == warning(few, 19)
    # The held-out distance draws nothing; beside its small p 4 others reach 4 / 100.
    held_out = MeasureRow("u", "tvd", 0.1, p_value=1e-9, fact=adjustment.HELD_OUT)
    for draws, said in ((99, "differs"), (79, "cannot tell")):
        found = adjustment.adjusted_rows([held_out, *rows(1 / (draws + 1), 4)], draws)
        assert [row.verdict for row in found] == ["differs", *[said] * 4]
    # Rows of a table that are adjusted anew, with as many draws as it takes.
    assert {row.reason for row in adjustment.adjusted_rows(few, 80)} == {""}
    for size in range(1, 40):
        for level in (0.05, 0.005):
            needed = p_values.needed_draws(size, level, 1)
            enough = (B for B in range(1, 9000) if size * 1000 < round(level * 1000) * (B + 1))
            assert (needed or 1) == next(enough)


def test_inside_the_band_of_two_human_texts_nothing_differs():
    """Of a distance, and of the mean behind it; the total variation only has to exceed the mean."""

    def verdicts_of(value):
        band = {"baseline": 0.1, "baseline_low": 0.05, "baseline_high": 0.2}
        rows = [
            MeasureRow("length", "ks", value, p_value=0.001, **band),
            MeasureRow("length", TWO_SIDED, 3.0, p_value=0.001),
            MeasureRow("unigram", "tvd", value, p_value=1e-9, fact=adjustment.HELD_OUT, **band),
            MeasureRow("recurrence", "max_difference", value, p_value=0.001, **band),
        ]
        found = adjustment.adjusted_rows(rows, 999)
        assert all(row.p_adjusted < 0.01 for row in found)
        return [row.verdict for row in found], [row.note for row in found]

    differs, alike = verdicts.DIFFERS, verdicts.ALIKE
    assert verdicts_of(0.21)[0] == [differs] * 4
    found, notes = verdicts_of(0.2)
    assert found == [alike, alike, differs, differs]
    assert notes[0] == "parts of the human text are as far apart: 0.2 is at most 0.2"
    assert notes[1] == "parts of the human text are as far apart by ks"
    assert verdicts_of(0.1)[0] == [alike, alike, alike, differs]


def test_few_documents_say_what_is_missing_and_the_largest_difference_its_word(monkeypatch):
    first, second = ["a b c"] * 15 + ["a b"] * 30, ["a b c"] * 40 + ["a"] * 4
    for least, withheld in ((20, True), (15, False)):
        monkeypatch.setattr(document_measures, "DOCUMENTS_AT_LENGTHS", least)
        row = rows_of(first, second)["type_token_unigrams", "ks_empirical"]
        assert math.isnan(row.p_value) == withheld
        assert "1 shared length with 40 of 44 documents" in row.note
        assert ("15 of the reference" in row.note) == withheld
    rows = rows_of(["a b c d", "e f"], ["a"])
    assert math.isnan(rows["unigram", "tvd"].value)
    assert "longer than the other text" in rows["unigram", "tvd"].note
    assert rows["length", "mean"].value == 1
    note = rows_of(["a b"] * 4, ['\x1b[31m"<b>$x_1$*\u202e'] * 4)["unigram", "max_difference"].note
    assert note.isprintable()
    assert '"\\u001b[31m\\"<b>$x_1$*�": 1.0000 here' in note
    first, second = ["a b a b"] * 15, ["a <unk> <unk> b"] * 15
    rows = rows_of(first, second)
    assert rows["unigram", "max_difference"].value == pytest.approx(0.5)
    assert rows["unigram", "max_difference_known"].value == pytest.approx(0.25)
    assert 'word "a"' in rows["unigram", "max_difference_known"].note
    p_value = rows["unigram", "max_difference"].p_value
    assert rows["unigram", "max_difference_known"].p_value == pytest.approx(p_value, abs=0.02)


def test_baselines_fill_their_columns_and_limits_are_those_of_their_formulas():
    baselines = {("unigram", "tvd"): Baseline(0.1, 0.05, 0.2)}
    baselines["length", "ks"] = Baseline(0.1, 0, 1, 0.03)
    rows = rows_of(draw(3, 30), draw(4, 30), baselines=baselines)
    row = rows["unigram", "tvd"]
    assert row.excess == pytest.approx(row.value - 0.1)
    assert (row.baseline, row.baseline_low, row.baseline_high) == (0.1, 0.05, 0.2)
    assert rows["length", "ks"].excess == 0.03
    assert math.isnan(rows["symbols", "ks"].baseline)
    drawn = np.arange(100.0) / 1000
    error = np.std(drawn, ddof=1)
    assert upper_limit(0.2, drawn, 0.95) == pytest.approx(0.2 + 1.6448536 * error)
    margin = student.ppf(0.95, 19) * math.sqrt(26 / 25) * error
    grouped = Spread(math.sqrt(26 / 25), 19.0)
    assert upper_limit(0.2, drawn, 0.95, grouped) == pytest.approx(0.2 + margin)
    assert upper_limit(0.99, drawn, 0.95, grouped) == 1
    assert all(math.isnan(upper_limit(0.2, x, 0.95)) for x in (None, drawn[:1], np.ones(9)))
    assert math.isnan(upper_limit(0.2, drawn, 0.95, Spread(math.nan, math.nan)))
    found = spread_of(np.array([0, 0, 1, 2]), np.array([1, 1, 2, 4]))
    assert found == pytest.approx((math.sqrt(3 / 2), 64 / 24 - 1))


def test_the_interval_of_the_split_fit_leaves_documents_out():
    """Oracle: the fit without each document of the half that gives the frequencies."""
    texts = draw(7, 120, mean=90)
    with pair_of(texts, texts) as pair:
        documents, types = pair.documents, pair.types.to_pylist()
        found = split_fit(documents, 0, np.arange(120), None, 0.95, 4)
    rng = random_streams.stream(4, "zipf/halves", 0)
    first = np.zeros(120, bool)
    first[rng.permutation(120)[:60]] = True
    X = np.array([[text.split().count(w) for w in types] for text in texts])
    sides = X[first].sum(axis=0), X[~first].sum(axis=0)
    orders = [rank_order(counts, None, rng) for counts in sides]
    fits, variances, freedom = [], [], []
    for order, half in zip(orders, (~first, first), strict=True):
        counted = X[half][:, order]
        fits.append(fit_truncated_zipf(counted.sum(axis=0)))
        counted = counted[counted.sum(axis=1) > 0]
        without = [fit_truncated_zipf(counted.sum(axis=0) - row) for row in counted]
        n, changes = len(without), np.array(without) - fits[-1]
        variances.append((n - 1) / n * np.sum(changes**2))
        sizes = counted.sum(axis=1)
        like = np.sum(sizes**2) ** 2 / np.sum(sizes**4)
        few = 3 * np.sum(changes**2) ** 2 / np.sum(changes**4)
        freedom.append(min(like, few) - 1)
    assert found.halves.exponent == pytest.approx(np.mean(fits))
    margin = student.ppf(0.975, min(freedom)) * np.mean(np.sqrt(variances))
    assert found.high - found.halves.exponent == pytest.approx(margin, rel=0.02)
    assert found.halves.exponent - found.low == pytest.approx(margin, rel=0.02)


def test_the_split_interval_covers_the_exponent_at_its_ranks():
    """Zipf's law in few documents: what is named is covered, the law's own exponent less."""
    law = np.arange(1, 301.0) ** -1.2
    law /= law.sum()
    held, repeats = 0, 60
    for repeat in range(repeats):
        rng = np.random.default_rng(repeat)
        texts = [" ".join(f"w{k}" for k in rng.choice(300, 120, p=law) + 1) for _ in range(60)]
        with pair_of(texts, texts[:2]) as pair:
            shares = np.array([law[int(name[1:]) - 1] for name in pair.types.to_pylist()])
            found = split_fit(pair.documents, 0, np.arange(60), None, 0.95, repeat)
        fits = [fit_truncated_zipf(shares[order]) for order in found.orders]
        assert found.target(shares) == pytest.approx(np.mean(fits))
        held += found.low <= found.target(shares) <= found.high
    assert held >= binom.ppf(1e-3, repeats, 0.93)


def test_few_ranks_have_no_split_fit():
    """With 10 words the fit would be of ten points; the paper's own stays."""
    texts = [" ".join(f"w{int(word[1:]) % 10}" for word in t.split()) for t in draw(7, 120, 20)]
    options = MeasurementOptions(permutations=0, bootstrap=9, monte_carlo=9)
    rows = rows_of(texts, texts, options=options)
    for suffix in ("", "_reference"):
        row = rows["rank_frequency", f"zipf_s_split{suffix}"]
        assert np.isnan([row.value, row.low, row.high]).all()
        assert row.note == "no fit: 10 ranks in a half, fewer than 30"
        assert rows["rank_frequency", f"zipf_ranks{suffix}"].value == 10
        assert rows["rank_frequency", f"zipf_s{suffix}"].value > 0
    assert math.isnan(rows["rank_frequency", "ks_zipf_model"].p_value_law)
    rows = rows_of(draw(7, 120, 90), draw(8, 120, 90), options=options)
    assert rows["rank_frequency", "zipf_s_split"].value > 0
    for name in ("ks_zipf_model", "ks_zipf_reference"):
        assert rows["rank_frequency", name].p_value_law > 0
        assert "of the split fit" in rows["rank_frequency", name].note


def test_groups_of_samples_count_by_their_effective_number(monkeypatch):
    """Oracle: the formula of the module; groups of 1 and 9 tokens count less than two."""
    y, t = np.array([3.0, 4, 2]), np.array([6.0, 6, 6])
    n, m = np.array([1.0, 1, 4]), np.array([2.0, 2, 16])
    without = (9 - y) / (18 - t)
    v_h = 2 / 3 * np.sum((without - 0.5) ** 2)
    v_m = np.sum((n - 0.3 * m) ** 2) / 400
    effective = 400 / (4 + 4 + 256)
    for grouped, number in ((True, effective), (False, 3)):
        found = held_out.combine(y, t, n, m, sample_groups=grouped)
        df = (v_h + v_m) ** 2 / (v_h**2 / 2 + v_m**2 / (number - 1))
        assert found == pytest.approx((0.2, math.sqrt(v_h + v_m), df))
    asked = []
    plain = held_out.combine

    def combine(*given, sample_groups):
        asked.append(sample_groups)
        return plain(*given, sample_groups=sample_groups)

    monkeypatch.setattr(held_out, "combine", combine)
    codes = np.arange(60) // 3
    with pair_of(draw(3, 60), draw(4, 60), (codes, codes)) as pair:
        held_out.held_out_distance(pair.documents, (codes, codes), 0)
        held_out.held_out_distance(pair.documents, (codes, None), 0)
    assert asked == [True] * held_out.HALVINGS + [False] * held_out.HALVINGS


FEW = MeasurementOptions(permutations=40, bootstrap=0, monte_carlo=0, zipf_ranks=None)


@pytest.mark.parametrize(("n", "groups"), [(9, 9), (20, 7), (5, 12)])
def test_every_draw_takes_one_document_of_each_block(n, groups):
    codes = np.random.default_rng(1).permutation(np.repeat(np.arange(groups), 4))
    draws = GroupDraws(codes, n, 3)
    m = min(n, groups)
    seen = [set(), set()]
    blocks = [{}, {}]
    for reference, samples in draws:
        assert len(reference) == len(samples) == m
        assert len(set(reference)) == len(set(codes[samples])) == m
        for sample_set, units in enumerate((reference, codes[samples])):
            seen[sample_set] |= set(units.tolist())
            for block, unit in enumerate(units.tolist()):
                assert blocks[sample_set].setdefault(unit, block) == block  # in all draws alike
    assert [len(found) for found in seen] == [n, groups]
    assert len(list(draws)) == GROUP_DRAWS
    for first, again in zip(draws, GroupDraws(codes, n, 3), strict=True):
        assert all(np.array_equal(*both) for both in zip(first, again, strict=True))


@pytest.mark.parametrize(("n", "groups"), [(12, 12), (14, 6)])
def test_measures_are_averages_over_draws_of_the_same_swaps(n, groups):
    reference, samples = draw(1, n), draw(2, 3 * groups)
    codes = np.arange(3 * groups) // 3
    with pair_of(reference, samples, (None, codes)) as pair:
        null = null_draws(pairs.Measuring(pair, FEW, 5))
        by_length = permuted_units.group_draws(
            pair.groups, pair.n_documents, 5, pair.document_lengths
        )
        lengths = pair.document_lengths
    plain = permuted_units.group_draws((None, codes), (n, 3 * groups), 5)
    m = min(n, groups)
    own = np.bincount(codes, lengths[1])
    for first, second in by_length:  # blocks of units of one length
        assert np.all(np.diff(lengths[0][first]) >= 0) or n > m
        assert np.all(np.diff(own[codes[second]]) >= 0) or groups > m
    for draws, of_words in ((plain, False), (by_length, True)):
        check_draws(draws, null, reference, samples, m, of_words)


def check_draws(draws, null, reference, samples, m, of_words):
    expected: list[list[dict]] = [[] for _ in range(FEW.permutations + 1)]
    for first, second in draws:
        units = draws.units((first, second))
        labels = np.concatenate(list(units.labels(FEW.permutations, 5)), axis=1)
        assert labels.shape == (2 * m, FEW.permutations)
        assert (labels[:m] != labels[m:]).all()
        for place, label in enumerate([np.arange(2 * m) < m, *labels.T]):
            sides = ([], [])
            for block in range(m):
                sides[not label[block]].append(reference[first[block]])
                sides[not label[m + block]].append(samples[second[block]])
            expected[place].append(measured(*sides) | scaled_types(*sides))
    for key in expected[0][0]:
        if key in NOT_DRAWN | RANKS.keys() or (key[0] in ("unigram", *HISTOGRAM_OF)) != of_words:
            continue
        used = 1 if key[0] in HISTOGRAM_OF else GROUP_DRAWS  # types by length: of one draw
        several = [[one[key] for one in held[:used]] for held in expected]
        values = [found[0] if used == 1 else np.nanmean(found) for found in several]
        assert null[key] == pytest.approx(np.array([*values[1:], values[0]]), nan_ok=True), key


def test_the_baseline_takes_one_document_of_each_group():
    codes = np.arange(200) // 5
    with pair_of(draw(3, 60), draw(4, 200), (None, codes)) as pair:
        halving = Halving(pair.groups, pair.n_documents, 1, pair.document_lengths[0])
        parts = [halving.parts(number)[0] for number in range(5)]
    for first, second, cut in parts:
        assert len(first) == len(second) == len(cut) == 30
        assert not set(first) & set(second)
        assert len(set(codes[cut])) == 30
    assert len({tuple(sorted(cut)) for _, _, cut in parts}) == 5


def p_value(reference, samples, codes, seed, most=GROUP_DRAWS):
    """Test a difference of means of numbers, by all draws or by the first ones alone."""
    draws, found = GroupDraws(codes, len(reference), seed), []
    for number, drawn in enumerate(draws):
        if number < most:
            apart = reference[drawn[0]] - samples[drawn[1]]  # (P,)
            (labels,) = draws.units((np.arange(len(apart)),) * 2).labels(32, seed)
            signs = np.where(labels[: len(apart)], 1, -1)  # (P, B)
            found.append(np.append(apart.sum(), apart @ signs))
    mean = np.abs(np.mean(found, axis=0))
    return permutation_p(float(mean[0]), mean[1:])


@pytest.mark.parametrize("alike", [0.0, 0.7])
@pytest.mark.parametrize(("n", "groups"), [(40, 40), (160, 30), (30, 120)])
def test_the_level_holds_and_draws_add_power(n, groups, alike):
    """500 repeats of skew numbers, whose means a quarter more than the level may distinguish.

    Permuted units would reject 15 to 25% where 120 groups meet 30 documents.
    """
    codes, rng = np.arange(5 * groups) // 5, np.random.default_rng(7)
    rejected = np.zeros(3)
    for repeat in range(500):
        reference = rng.standard_exponential(n)
        shared = rng.random(groups)[codes] < alike  # such documents are copies of one
        own = rng.standard_exponential(5 * groups)
        samples = np.where(shared, own[codes * 5], own)
        level = 2.5 / 33  # of 33 values of p
        rejected[0] += p_value(reference, samples, codes, repeat) <= level
        rejected[1] += p_value(reference, samples + 0.35, codes, repeat) <= level
        rejected[2] += p_value(reference, samples + 0.35, codes, repeat, 1) <= level
    assert rejected[0] <= binom.ppf(0.999, 500, 1.25 * 2 / 33)
    assert rejected[1] > rejected[2]


MODULES = [part.name for part in pkgutil.iter_modules(inference.__path__)]
# What the arithmetic may import of the package.
BASE = ("inference", "random_streams", "storage.provenance", "verdicts")


def test_it_imports_numpy_alone_and_its_distances_are_those_of_scipy():
    code = "import sys, beyond_perplexity.inference; print(*sys.modules)"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    heavy = {"pandas", "torch", "pyarrow", "arviz_stats", "scipy"}
    assert not heavy & set(done.stdout.split())
    public = [found for name, found in vars(inference).items() if not name.startswith("_")]
    for found in filter(callable, public):
        assert isinstance(found, type) or ">>>" in str(found.__doc__), found
    rng = np.random.default_rng(0)
    x, y = rng.integers(9, size=40), rng.integers(3, 12, size=31)
    found = inference.permutation_test(x, y, permutations=19)
    assert found.statistic == pytest.approx(ks_2samp(x, y).statistic)
    assert inference.ks_of_samples(x, y) == pytest.approx(found.statistic)
    assert found.scheme == "documents"
    x, y = np.arange(30), np.arange(30) - 12
    how = {"statistic": inference.mean_difference}
    one, two = (inference.permutation_test(x, y, two_sided=both, **how) for both in (False, True))
    assert (one.p_value, two.p_value, two.statistic) == (1, 1 / 2000, -12)


@pytest.mark.parametrize("name", MODULES)
def test_examples_give_what_they_say(name):
    """Examples of the docstrings; and no module looks up to one that is not beneath it."""
    module = importlib.import_module(f"beyond_perplexity.inference.{name}")
    assert not doctest.testmod(module).failed
    for node in ast.walk(ast.parse(Path(str(module.__file__)).read_text())):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("beyond_perplexity."):
            assert str(node.module).partition(".")[2].startswith(BASE), node.module


def grouped(rng, n):
    """Draw n groups of five documents that are nearly alike."""
    codes = np.repeat(rng.permutation(n) + 7, 5)
    return rng.normal(size=n).repeat(5) + 0.1 * rng.normal(size=5 * n), codes


@pytest.mark.parametrize("scheme", ["groups", "swaps", "draws"])
def test_groups_of_one_distribution_are_seldom_distinguished(scheme):
    rng = np.random.default_rng(1)
    rejected = {"given": 0, "ignored": 0}
    for seed in range(60):
        (x, first), (y, second) = grouped(rng, 40), grouped(rng, 40)
        if scheme == "swaps":
            y, second = np.sqrt(1.01) * rng.normal(size=200), None
        if scheme == "draws":
            x, first = np.sqrt(1.01) * rng.normal(size=200), None
        for name, groups in (("given", (first, second)), ("ignored", (None, None))):
            found = inference.permutation_test(x, y, groups=groups, permutations=99, seed=seed)
            rejected[name] += found.p_value <= 0.05
            assert found.scheme == (scheme if name == "given" else "documents")
    assert rejected["given"] <= 9  # of 60 with probability .05 each; more in 1 of 1,000 cases
    assert rejected["ignored"] > 15


def test_halves_are_as_far_apart_as_samples_and_held_out_distances_bound_from_below():
    rng = np.random.default_rng(0)
    human, alike, other = rng.normal(size=600), rng.normal(size=200), rng.normal(1, size=200)
    measure = inference.ks_of_samples
    first, second = (inference.half_baseline(human, x, measure) for x in (alike, other))
    assert first is not None
    assert second is not None
    assert first.mean == second.mean
    assert abs(first.excess or 1) < first.high - first.low
    assert (second.excess or 0) > 0.2
    assert inference.half_baseline(human[:3], other, measure) is None
    few = np.arange(600) % 30  # groups: halves of 15
    assert inference.half_baseline(human, other, measure, groups=(few, None)) is None
    rng = np.random.default_rng(0)
    human, alike = (rng.multinomial(40, [0.4, 0.3, 0.2, 0.1], size=80) for _ in range(2))
    other = rng.multinomial(40, [0.1, 0.2, 0.3, 0.4], size=80)  # 0.4 away
    held = inference.held_out_total_variation(human, other)
    assert 0.35 < held.lower_limit(0.95) < 0.4
    assert held.p_value < 1e-6
    assert inference.held_out_total_variation(human, alike).p_value > 0.01


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda x: inference.permutation_test(x, x[:0]), "give a number for each document"),
        (lambda x: inference.permutation_test(x, x, groups=(x[:3], None)), "3 groups of 12"),
        (lambda x: inference.permutation_test(x, x, groups=(x // 2, x // 6)), "not exchangeable"),
        (lambda x: inference.held_out_total_variation(x, x), "documents by the same types"),
        (
            lambda x: inference.half_baseline(x, x, max, groups=(None, x[:2])),
            "2 groups of 12 documents",
        ),
    ],
)
def test_what_does_not_fit_is_said(call, told):
    with pytest.raises(ValueError, match=told):
        call(np.arange(12))
