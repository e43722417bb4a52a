"""Permutation tests, Monte Carlo tests and the bootstrap.

Oracles: enumeration of relabelings, scipy, binomial sums, uniform p-values, closed variances.
"""

from collections import Counter
from contextlib import contextmanager
from fractions import Fraction
from functools import partial
from itertools import combinations, pairwise, permutations
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from scipy.stats import binom, ks_1samp, ks_2samp, permutation_test, poisson, uniform

from beyond_perplexity.inference import histogram_draws
from beyond_perplexity.inference.histogram_draws import DocumentResample
from beyond_perplexity.inference.neighbours import (
    NEIGHBOUR_BLOCK,
    neighbour_test,
    number_test,
    told_of_scores,
)
from beyond_perplexity.inference.p_values import monte_carlo_p, permutation_p
from beyond_perplexity.inference.permuted_units import DocumentLabels
from beyond_perplexity.inference.two_sample_test import ks, ks_to_cdf, rank_ks
from beyond_perplexity.random_streams import stream
from beyond_perplexity.tendencies import document_counts, type_token, word_distances
from beyond_perplexity.tendencies.document_measures import compare_histograms
from beyond_perplexity.tendencies.power_laws import Heaps, zipf_cdf
from beyond_perplexity.tendencies.statistics import Histogram
from beyond_perplexity.tendencies.word_distances import unigram_distances
from tests.unit.text_pairs import batched

TEXTS = ["a a b", "c", "a d d", "", "b b e", "a f"]
N_REFERENCE = 3


def by_frequency(texts: list[str]) -> tuple[list[str], np.ndarray]:
    tokens = " ".join(texts).split()
    types = sorted(set(tokens), key=lambda word: (-tokens.count(word), word))
    return types, np.array([tokens.count(word) for word in types])


@contextmanager
def stored(texts: list[str], n_reference: int, cut: int = 100):
    types, pooled = by_frequency(texts)
    with document_counts.DocumentCounts(pa.array(types), pooled) as counts:
        for sample_set, part in enumerate((texts[:n_reference], texts[n_reference:])):
            counts.add(sample_set, batched(part, cut))
        yield counts


def matrix(texts: list[str], types: list[str]) -> np.ndarray:
    return np.array([[text.split().count(word) for word in types] for text in texts])


def test_p_value_counts_the_upper_tail_or_absolute_values():
    permuted = np.array([-2.0, -1.0, 0.0, 1.0, 2.0])
    assert permutation_p(2.0, permuted) == pytest.approx((1 + 1) / 6)
    assert permutation_p(-1.0, permuted) == pytest.approx((4 + 1) / 6)
    assert permutation_p(-1.0, permuted, two_sided=True) == pytest.approx((4 + 1) / 6)
    assert permutation_p(-2.0, permuted, two_sided=True) == pytest.approx((2 + 1) / 6)
    assert permutation_p(0.1, np.array([np.nan, 0.0])) == pytest.approx((1 + 1) / 3)
    assert permutation_p(9.0, np.zeros(99)) == pytest.approx(1 / 100)
    assert permutation_p(0.0, np.zeros(9)) == 1
    assert np.isnan(permutation_p(1.0, np.zeros(0)))
    assert monte_carlo_p(0.3, np.array([0.1, 0.3, 0.5])) == pytest.approx(3 / 4)


def by_definition(first, second):
    """Half of sum |p1 - p2| and sup |p1 - p2|, for counts (..., V)."""
    gap = np.abs(first / first.sum(-1, keepdims=True) - second / second.sum(-1, keepdims=True))
    return gap.sum(axis=-1) / 2, gap.max(axis=-1)


def test_relabelings_appear_equally_often_with_the_distances_of_the_definition():
    rng = np.random.default_rng(0)
    pooled = np.sort(rng.integers(1, 3000, 9000))[::-1]
    first = rng.binomial(pooled[:, None], 0.4, (9000, 5))
    fast = word_distances.permuted_distances(first.astype(np.float32), pooled)
    general = word_distances.unigram_distances(first, pooled[:, None] - first)
    for found in (fast, general):
        tvd, largest = by_definition(first.T, (pooled[:, None] - first).T)
        assert found["tvd"] == pytest.approx(tvd)
        assert found["max_difference"] == pytest.approx(largest, abs=1e-12)
    types, pooled = by_frequency(TEXTS)
    X = matrix(TEXTS, types)
    splits = (X[list(own)].sum(axis=0) for own in combinations(range(len(TEXTS)), N_REFERENCE))
    exact = Counter(tuple(np.round(by_definition(own, pooled - own), 12)) for own in splits)
    found: Counter[tuple[float, ...]] = Counter()
    n = 4000
    with stored(TEXTS, N_REFERENCE) as counts:
        for first in counts.permutations(n, 3, "test"):
            both = word_distances.permuted_distances(first, pooled)
            found.update(map(tuple, np.round([both["tvd"], both["max_difference"]], 12).T))
    assert set(found) == set(exact)
    for key, times in exact.items():
        share = times / 20
        assert abs(found[key] / n - share) < 5 * np.sqrt(share / n)


@pytest.mark.parametrize(("n", "n_first"), [(151, 1), (151, 150), (6, 3), (5, 2)])
def test_equal_distances_are_equal_floats(n, n_first):
    """Oracle: whole numbers over all splits, of which some are each other's mirror or swap."""
    rng = np.random.default_rng(n)
    X = np.stack([np.bincount(rng.zipf(1.3, 40) % 300, minlength=300) for _ in range(n)])
    X[-1], X[-2] = np.eye(300, dtype=int)[[3, 7]]  # two documents of one token
    splits = list(combinations(range(n), n_first))[:200]
    pooled = X.sum(axis=0)
    sides = np.stack([X[list(chosen)].sum(axis=0) for chosen in splits], axis=1)
    found = word_distances.permuted_distances(sides.astype(np.float32), pooled)
    exact: dict[str, list[Fraction]] = {"tvd": [], "max_difference": []}
    for first in sides.T:
        ones, twos = int(first.sum()), int(pooled.sum() - first.sum())
        apart = np.abs(first * twos - (pooled - first) * ones)
        exact["tvd"].append(Fraction(int(apart.sum()), 2 * ones * twos))
        exact["max_difference"].append(Fraction(int(apart.max()), ones * twos))
    for name, values in exact.items():
        assert found[name].tolist() == list(map(float, values))


@pytest.mark.parametrize("ranks", [3, 50, None])
def test_top_ranks_are_the_first_of_a_full_sort(ranks):
    counts = np.random.default_rng(0).integers(0, 1000, (200, 4))
    expected = -np.sort(-counts.T, axis=1)[:, :ranks]
    assert np.array_equal(word_distances.top_ranks(counts, ranks), expected)


@pytest.mark.parametrize("ranks", [1, 5, 30, 400])
def test_first_ranks_are_those_of_a_sort(ranks):
    """Ties go to the type that comes first; types that a side lacks have no rank."""
    rng = np.random.default_rng(ranks)
    pooled = np.sort(rng.integers(1, 40, 300))[::-1]
    first = rng.binomial(pooled[:, None], 0.4, (300, 5))
    sides = first, pooled[:, None] - first
    most = word_distances.bounds_from(pooled)
    found = word_distances.first_ranks_distance(*sides, most, ranks)
    for column in range(5):
        kept = set()
        for side in sides:
            order = np.argsort(-side[:, column], kind="stable")[:ranks]
            kept |= {int(place) for place in order if side[place, column]}
        chosen = sorted(kept)
        tvd, _ = by_definition(sides[0][chosen, column], sides[1][chosen, column])
        assert found[column] == pytest.approx(tvd)


def test_the_largest_difference_leaves_a_type_out():
    rng = np.random.default_rng(1)
    pooled = np.sort(rng.integers(1, 300, 700))[::-1]
    first = rng.binomial(pooled[:, None], rng.random(700)[:, None], (700, 4))
    second = pooled[:, None] - first
    apart = np.abs(first / first.sum(axis=0) - second / second.sum(axis=0))
    for without in (0, int(apart[:, 0].argmax()), 699):
        expected = np.delete(apart, without, axis=0).max(axis=0)
        for found in (
            word_distances.permuted_distances(first, pooled, without),
            word_distances.largest_differences(first, pooled, without),
            word_distances.unigram_distances(first, second, without),
        ):
            assert found["max_difference_known"] == pytest.approx(expected)
            assert found["max_difference"] == pytest.approx(apart.max(axis=0))


@pytest.mark.parametrize("longest", [500, 70_000])
def test_counts_beyond_16_bits_are_exact(longest):
    """Types that a block holds more than 2^16 times, and documents that do, lose nothing."""
    texts = ["a " * 500 + "b c"] * 299 + ["a " * longest + "d d"]
    types, _ = by_frequency(texts)
    X, codes = matrix(texts, types), np.arange(300) % 3
    labels = np.array([[True, False], [False, True], [True, True]])
    weights = np.array([[2.0], [0.0], [5.0]], np.float32)
    marks = np.arange(len(types), dtype=float)[:, None]
    with stored(texts, 150) as counts:
        found = counts.sums_of(0, labels, codes[:150]) + counts.sums_of(1, labels, codes[150:])
        assert np.array_equal(found, X.T @ labels[codes])
        assert np.array_equal(counts.totals(0, np.arange(150) % 4 == 1), X[1:150:4].sum(axis=0))
        weighted = counts.weighted_sums(1, weights, codes[150:])
        assert np.array_equal(weighted, X[150:].T @ weights[codes[150:]])
        assert np.array_equal(np.concatenate(list(counts.per_document(1, marks))), X[150:] @ marks)


def test_labels_do_not_depend_on_batches_and_split_over_blocks(monkeypatch):
    monkeypatch.setattr(document_counts, "BLOCK_DOCUMENTS", 16)
    rng = np.random.default_rng(0)
    texts = [" ".join(f"w{k}" for k in rng.zipf(1.5, 5)) for _ in range(100)]
    found = []
    for cut in (3, 16, 100):
        with stored(texts, 41, cut) as counts:
            assert counts.n_documents(0) == 41
            drawn = list(counts.permutations(20, 5, "test"))
            drawn += [counts.resampled(k, range(20), 5, f"test/{k}") for k in (0, 1)]
            found.append(np.concatenate(drawn, axis=1))
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])
    assert found[0].sum() > 0


def test_labels_are_one_random_subset_and_resamples_multinomial(monkeypatch):
    """Each document is as likely, and each pair, within and across blocks, as in one draw."""
    n, ones, trials = 12, 5, 6000
    drawn = np.zeros((trials, n))
    for b in range(trials):
        labels = DocumentLabels(stream(0, "labels", b), ones, n - ones)
        drawn[b] = np.concatenate([labels.next_block(7), labels.next_block(5)])
    assert (drawn.sum(axis=1) == ones).all()
    pairs = drawn.T @ drawn / trials
    expected = np.full((n, n), ones * (ones - 1) / (n * (n - 1)))
    np.fill_diagonal(expected, ones / n)
    assert np.abs(pairs - expected).max() < 5 * np.sqrt(0.25 / trials)
    n, trials = 8, 6000
    drawn = np.zeros((trials, n))
    for r in range(trials):
        weights = DocumentResample(stream(0, "resample", r), n)
        drawn[r] = np.concatenate([weights.next_block(5), weights.next_block(3)])
    assert (drawn.sum(axis=1) == n).all()
    covariance = np.cov(drawn.T)
    expected = np.full((n, n), -1 / n) + np.eye(n)
    assert np.abs(covariance - expected).max() < 0.1
    assert np.abs(drawn.mean(axis=0) - 1).max() < 0.07


def paired(first, second) -> tuple[tuple[np.ndarray, np.ndarray], partial]:
    """Count two samples by their values; return also what compares such counts."""
    support = np.union1d(first, second)
    places = [np.searchsorted(support, x) for x in (first, second)]
    sides = (np.bincount(place, minlength=len(support)) for place in places)
    return tuple(sides), partial(compare_histograms, support.astype(float))


def compare(counts, compared) -> dict[str, np.ndarray]:
    return compared(*counts)


@pytest.mark.parametrize("measure", ["mean_difference", "ks"])
def test_histogram_test_converges_to_all_relabelings(measure):
    first, second = [1, 1, 2, 5], [2, 4, 6, 6, 7]
    pooled = np.array(first + second)
    inside = (np.isin(np.arange(9), chosen) for chosen in combinations(range(9), 4))
    values = np.array([compare(*paired(pooled[x], pooled[~x]))[measure] for x in inside])
    two_sided = measure == "mean_difference"
    compared = np.abs(values) if two_sided else values
    expected = np.mean(compared >= compared[0] - 1e-12)
    drawn = histogram_draws.permute(*paired(first, second), 4000, 1, "test")[measure]
    found = permutation_p(float(values[0]), drawn, two_sided=two_sided)
    assert found == pytest.approx(expected, abs=0.03)


def test_mean_differences_agree_with_scipy_and_bootstraps_have_their_standard_error():
    rng = np.random.default_rng(5)
    first, second = rng.poisson(20, 300), rng.poisson(20.6, 200)
    sides, how = (second, first), {"n_resamples": 4000, "vectorized": True, "rng": 0}
    theirs = permutation_test(sides, lambda x, y, axis: x.mean(axis) - y.mean(axis), **how)
    data = paired(first, second)
    observed = float(compare(*data)["mean_difference"])
    drawn = histogram_draws.permute(*data, 4000, 1, "test")["mean_difference"]
    assert observed == pytest.approx(theirs.statistic)
    found = permutation_p(observed, drawn, two_sided=True)
    assert found == pytest.approx(theirs.pvalue, abs=0.03)
    assert drawn.std() == pytest.approx(theirs.null_distribution.std(), rel=0.05)
    rng = np.random.default_rng(7)
    first, second = rng.poisson(30, 400), rng.poisson(33, 300)
    data = paired(first, second)
    sides = zip(data[0], ("reference", "samples"), strict=True)
    draw = partial(histogram_draws.resample, seed=0)
    drawers = [partial(draw, counts, purpose=f"test/{name}") for counts, name in sides]
    drawn = histogram_draws.bootstrap_both(drawers, len(data[0][0]), data[1], 2000)
    expected = np.sqrt(first.var() / 400 + second.var() / 300)
    assert drawn["mean_difference"].std() == pytest.approx(expected, rel=0.08)
    assert drawn["mean_difference"].mean() == pytest.approx(second.mean() - first.mean(), abs=0.05)


def test_p_values_under_the_null_are_uniform_and_draws_do_not_depend_on_their_number(monkeypatch):
    rng = np.random.default_rng(6)
    p_values = []
    for trial in range(200):
        data = paired(rng.poisson(30, 60), rng.poisson(30, 40))
        observed = compare(*data)
        drawn = histogram_draws.permute(*data, 99, trial, "test")
        apart = float(observed["mean_difference"])
        p_values.append(permutation_p(apart, drawn["mean_difference"], two_sided=True))
    assert ks_1samp(p_values, uniform.cdf).pvalue > 0.01
    assert min(p_values) >= 1 / 100
    data = paired([1, 2, 3, 4, 4], [2, 3, 3, 9])
    whole = histogram_draws.permute(*data, 40, 1, "test")["ks"]
    monkeypatch.setattr(histogram_draws, "_HELD", 30)
    assert np.array_equal(histogram_draws.permute(*data, 25, 1, "test")["ks"], whole[:25])


@pytest.mark.parametrize("size", [4, 400])
def test_poisson_distances_follow_their_exact_law(size):
    """For one value of the rate, P(D >= d) by enumeration (4) or by scipy's samples (400)."""
    rate, n = 2.5, 4000
    found = type_token._poisson_ks(np.random.default_rng(0), rate, size, n)
    points = np.arange(40)
    drawn = np.random.default_rng(1).poisson(rate, (n, size))
    cdf = np.stack([(row[:, None] <= points).mean(axis=0) for row in drawn])
    brute = np.abs(cdf - poisson.cdf(points, rate)).max(axis=1)
    for point in np.quantile(brute, [0.1, 0.5, 0.9]):
        difference = (found > point + 1e-9).mean() - (brute > point + 1e-9).mean()
        assert abs(difference) < 5 * np.sqrt(0.5 / n)


def paired_cells(*sides: Histogram):
    sample_sets = [SimpleNamespace(histograms={"types": side}) for side in sides]
    return type_token.pair_by_length(*sample_sets, "type_token_unigrams")


def test_type_token_tests_permute_within_lengths_and_weigh_them():
    """Enumeration: at length 2 one of C(4, 2) splits, at length 3 one of C(3, 1)."""
    reference = Histogram.of(np.array([2, 2, 3]), np.array([1, 2, 3]), np.ones(3, int))
    samples = Histogram.of(np.array([2, 2, 3, 3]), np.array([2, 2, 3, 2]), np.ones(4, int))
    cells, counts = paired_cells(reference, samples)
    drawn = type_token.permute_by_length(cells, counts, 3000, 0, "test")
    # Length 2 has types 1, 2, 2, 2: the one lies on either side, D = 1/2. Length 3 has 2, 3, 3: the
    # reference's document is the 2 with probability 1/3, D = 1, else D = 1/2. Weights 2 and 2.
    assert set(np.round(drawn, 12)) == {0.5, 0.75}
    assert np.mean(drawn == 0.75) == pytest.approx(1 / 3, abs=5 * np.sqrt(2 / 9 / 3000))
    observed = type_token.summarize_lengths(cells, *counts, {})["ks_empirical"]
    assert float(observed) == pytest.approx(0.5)
    # Both lengths give D = 1 - P(0) when both documents have no type: exact binomial
    histogram = Histogram.of(np.array([1, 2]), np.array([0, 0]), np.array([1, 1]))
    cells = type_token.LengthCells.of(histogram)
    law = Heaps(0.5, 0.0)
    drawn = type_token.draw_from_heaps(cells, histogram.counts, law, 4000, 0, "test")
    zero = np.exp(-0.5)
    share = np.mean(np.isclose(drawn, 1 - zero))
    assert share == pytest.approx(binom.pmf(2, 2, zero), abs=0.04)


NUMBERS = st.lists(st.integers(0, 9), min_size=1, max_size=40)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of scipy's p-value, not used here
@settings(max_examples=50, deadline=None)
@given(NUMBERS, NUMBERS)
def test_ks_is_scipys(first, second):
    counts = [np.bincount(side, minlength=10) for side in (first, second)]
    assert ks(*counts) == pytest.approx(ks_2samp(first, second, method="asymp").statistic)


@given(NUMBERS, NUMBERS)
def test_variation_and_largest_difference_are_their_definitions(first, second):
    shares = [Counter(side) for side in (first, second)]
    differences = [abs(shares[0][k] / len(first) - shares[1][k] / len(second)) for k in range(10)]
    counts = [np.bincount(side, minlength=10) for side in (first, second)]
    found = unigram_distances(*(side[:, None] for side in counts))
    assert found["tvd"] == pytest.approx(sum(differences) / 2)
    assert found["max_difference"] == pytest.approx(max(differences))
    assert found["max_difference"] <= found["tvd"] + 1e-12


def test_distances_have_their_closed_forms_and_that_to_heaps_is_a_supremum(histogram):
    first, second = np.random.default_rng(0).integers(1, 9, (2, 3, 4, 7))
    assert ks(first, second).shape == (3, 4)
    assert ks(first, second)[1, 2] == ks(first[1, 2], second[1, 2])
    assert unigram_distances(np.array([[3], [0]]), np.array([[0], [5]]))["tvd"] == 1
    assert ks(np.array([2, 4, 6]), np.array([1, 2, 3])) == 0
    # Closed form: renormalized to K ranks, F / F(K) differs from F by at most 1 - F(K).
    cdf = zipf_cdf(1.1997, 10_000)
    assert ks_to_cdf(np.diff(cdf, prepend=0), cdf) == pytest.approx(1 - cdf[-1])
    assert rank_ks(np.array([6, 3, 1]), np.array([5, 5])) == pytest.approx(0.1)
    assert rank_ks(np.array([1]), np.array([1, 1, 2])) == pytest.approx(0.75)
    law = Heaps(1.2, 0.7)
    cells = type_token.LengthCells.of(histogram)
    found = type_token.ks_to_heaps(cells, histogram.counts, law)
    for length, distance in zip(cells.group_lengths, found, strict=True):
        chosen = histogram.lengths == length
        values, counts = histogram.values[chosen], histogram.counts[chosen]
        points = np.arange(60)
        empirical = np.array([counts[values <= u].sum() / counts.sum() for u in points])
        law = poisson.cdf(points, 1.2 * length**0.7)
        assert distance == pytest.approx(np.abs(empirical - law).max())


@pytest.fixture
def histogram():
    rng = np.random.default_rng(3)
    lengths = rng.integers(1, 6, 200)
    return Histogram.of(lengths, rng.poisson(lengths**0.8), np.ones(200, int))


@pytest.mark.parametrize("rate", [0.0, 1e-9, 0.7, 40.0, 5e4, float("nan")])
def test_the_poisson_distribution_is_scipys_to_the_bit(rate):
    values = np.concatenate([[0, 1, 2], np.arange(39_000, 61_000, 500)])
    found, expected = type_token._poisson_cdf(values, rate), poisson.cdf(values, rate)
    assert np.array_equal(found, expected, equal_nan=True)
    assert type_token._poisson_cdf(np.array([-1]), rate) == 0


def test_distance_by_length_is_scipys_at_each_length(histogram):
    rng = np.random.default_rng(4)
    lengths = rng.integers(1, 6, 90)
    other = Histogram.of(lengths, rng.poisson(lengths), np.ones(90, int))
    cells, counts = paired_cells(histogram, other)
    found = type_token.ks_between(cells, *counts)
    for length, distance in zip(cells.group_lengths, found, strict=True):
        held = [(side, side.lengths == length) for side in (histogram, other)]
        sides = [np.repeat(side.values[own], side.counts[own]) for side, own in held]
        assert distance == pytest.approx(ks_2samp(*sides, method="asymp").statistic)
    # A leading axis gives the same numbers.
    assert type_token.ks_between(cells, counts, counts[::-1])[0] == pytest.approx(found)


NEIGHBOURS = np.array(
    [[1, 0, 1, 0], [2, 0, 1, 1], [0, 1, 0, 1], [0, 3, 0, 0], [0, 1, 0, 0], [1, 0, 0, 0]]
)


def test_neighbours_are_those_of_all_orders_and_of_plain_cosines():
    """Oracles: cosines in loops, all orders of six documents."""
    weights = {}
    for word in range(4):
        documents = sum(row[word] > 0 for row in NEIGHBOURS)
        if 1 < documents <= 3:  # in more than one, and in at most half of them
            weights[word] = np.log(6 / documents)
    vectors = [[w * (row[word] > 0) for word, w in weights.items()] for row in NEIGHBOURS]

    def cosine(i, j):
        norms = np.linalg.norm(vectors[i]) * np.linalg.norm(vectors[j])
        return np.dot(vectors[i], vectors[j]) / norms if norms else 0.0

    def mean(order):
        return np.mean([cosine(*pair) for pair in pairwise(order)])

    found = neighbour_test([csr_matrix(NEIGHBOURS)])
    every = [mean(order) for order in permutations(range(6))]
    assert found.similarity == pytest.approx(mean(range(6)))
    assert found.expected == pytest.approx(np.mean(every))
    exact = np.mean(np.array(every) >= mean(range(6)) - 1e-9)
    assert found.p_value == pytest.approx(exact, abs=4 * np.sqrt(exact / 2_000))
    both = neighbour_test([csr_matrix(NEIGHBOURS[:3]), csr_matrix(NEIGHBOURS[3:])])
    assert np.isfinite(both.p_value)
    assert all(np.isnan(x) for x in neighbour_test([csr_matrix(NEIGHBOURS[:1])]))


def test_independent_documents_are_alike_at_the_level_and_dependent_ones_are_found():
    rng = np.random.default_rng(4)
    law = 1 / np.arange(3, 303)
    law /= law.sum()
    p_values = []
    for seed in range(300):
        held = csr_matrix(rng.multinomial(rng.integers(1, 60, 30), law))
        p_values.append(neighbour_test([held], seed).p_value)
    assert np.mean(np.array(p_values) <= 0.05) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 300)
    once = rng.multinomial(30, law, 50)
    assert neighbour_test([csr_matrix(np.repeat(once, 4, axis=0))]).alike
    topical = once.copy()
    topical[np.arange(50), 250 + np.arange(50) // 5] += 1
    assert neighbour_test([csr_matrix(topical)]).alike
    mixed = topical[rng.permutation(50)]
    assert not neighbour_test([csr_matrix(mixed)]).alike


def test_numbers_of_documents_side_by_side_are_compared_by_their_ranks():
    """Oracle: the correlation in a loop; p is uniform for independent numbers of any law."""
    rng = np.random.default_rng(4)
    numbers = rng.exponential(size=4 * NEIGHBOUR_BLOCK + 500)  # the rest are not read
    found, total, spread = number_test(numbers), 0.0, 0.0
    for block in np.split(numbers[: 4 * NEIGHBOUR_BLOCK], 4):
        ranks = np.argsort(np.argsort(block)) - (len(block) - 1) / 2
        total += sum(one * other for one, other in pairwise(ranks.tolist()))
        spread += sum(ranks**2)
    assert found.similarity == pytest.approx(total / spread)
    p_values = [number_test(rng.exponential(size=30), seed).p_value for seed in range(100)]
    assert ks_1samp(p_values, uniform.cdf).pvalue > 0.001
    pages = np.repeat(rng.normal(size=20), 20) + rng.normal(size=400)
    assert number_test(pages).alike
    assert not number_test(rng.permutation(pages)).alike
    assert number_test(np.ones(9)).p_value == 1
    assert np.isnan(number_test(numbers[:2]).p_value)
    assert np.isnan(number_test(np.append(numbers[:9], np.nan)).p_value)


def test_scores_tell_documents_that_depend_on_each_other():
    rng = np.random.default_rng(5)
    pages, keys, sizes = np.repeat(rng.normal(size=20), 20), np.arange(400), np.full(400, 40)
    said = told_of_scores(pages + rng.normal(size=400), keys, sizes)
    assert said.startswith("documents side by side are alike (rank correlation 0.")
    assert "name their groups, or take 10 documents in a row as one (group size 10)" in said
    alone = rng.normal(size=400)
    assert told_of_scores(alone, keys, sizes) == ""
    assert told_of_scores(alone, keys // 2, sizes).startswith("50.0% of the documents of 40 bytes")
    assert told_of_scores(alone, keys // 2, sizes - 1) == ""  # short ones are repeated by chance
