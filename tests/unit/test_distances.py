"""Distances between distributions.

Needs nothing but the package. Oracles: scipy's two-sample Kolmogorov-Smirnov statistic, sums over
explicit dictionaries, closed forms, brute force over all points of the support.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ks_2samp, poisson

from beyond_perplexity.inference.two_sample_test import ks, ks_to_cdf, rank_ks
from beyond_perplexity.tendencies import type_token
from beyond_perplexity.tendencies.power_laws import Heaps, zipf_cdf
from beyond_perplexity.tendencies.statistics import Histogram
from beyond_perplexity.tendencies.word_distances import unigram_distances

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


def test_distances_work_along_the_last_axis():
    rng = np.random.default_rng(0)
    first, second = rng.integers(1, 9, (2, 3, 4, 7))
    assert ks(first, second).shape == (3, 4)
    assert ks(first, second)[1, 2] == ks(first[1, 2], second[1, 2])


def test_disjoint_and_equal_distributions():
    assert unigram_distances(np.array([[3], [0]]), np.array([[0], [5]]))["tvd"] == 1
    assert ks(np.array([2, 4, 6]), np.array([1, 2, 3])) == 0


def test_a_zipfian_sample_keeps_the_mass_beyond_its_ranks_as_distance():
    """Closed form: renormalized to K ranks, F / F(K) differs from F by at most 1 - F(K)."""
    cdf = zipf_cdf(1.1997, 10_000)
    assert ks_to_cdf(np.diff(cdf, prepend=0), cdf) == pytest.approx(1 - cdf[-1])


def test_shorter_ranks_are_continued_with_zeros():
    assert rank_ks(np.array([6, 3, 1]), np.array([5, 5])) == pytest.approx(0.1)
    assert rank_ks(np.array([1]), np.array([1, 1, 2])) == pytest.approx(0.75)


@pytest.fixture
def histogram():
    rng = np.random.default_rng(3)
    lengths = rng.integers(1, 6, 200)
    return Histogram.of(lengths, rng.poisson(lengths**0.8), np.ones(200, int))


def test_distance_to_heaps_is_the_supremum_over_all_numbers(histogram):
    law = Heaps(1.2, 0.7)
    cells = type_token.LengthCells.of(histogram)
    found = type_token.ks_to_heaps(cells, histogram.counts, law)
    for length, distance in zip(cells.group_lengths, found, strict=True):
        chosen = histogram.lengths == length
        values, counts = histogram.values[chosen], histogram.counts[chosen]
        points = np.arange(60)
        empirical = np.array([counts[values <= u].sum() / counts.sum() for u in points])
        assert distance == pytest.approx(
            np.abs(empirical - poisson.cdf(points, 1.2 * length**0.7)).max()
        )


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
    pooled = histogram + other
    cells = type_token.LengthCells.of(pooled)
    counts = np.zeros((2, len(pooled.keys)), np.int64)
    for row, side in enumerate((histogram, other)):
        counts[row, np.searchsorted(pooled.keys, side.keys)] = side.counts
    found = type_token.ks_between(cells, counts[0], counts[1])
    for length, distance in zip(cells.group_lengths, found, strict=True):
        sides = [
            np.repeat(side.values[side.lengths == length], side.counts[side.lengths == length])
            for side in (histogram, other)
        ]
        assert distance == pytest.approx(ks_2samp(*sides, method="asymp").statistic)
    stacked = np.stack([counts[0], counts[1]])  # a leading axis gives the same numbers
    assert type_token.ks_between(cells, stacked, stacked[::-1])[0] == pytest.approx(found)
