"""Fits of Zipf's and Heaps' laws.

Needs nothing but the package. Oracles: recovery of the parameters of simulated data, scipy's
generic optimizers on the log-likelihoods as printed in the paper, derivatives, the paper's own
figures.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize, minimize_scalar
from scipy.special import zeta
from scipy.stats import poisson, zipf

from beyond_perplexity.tendencies.power_laws import Heaps, fit_heaps, fit_zipf, zipf_cdf


def test_mass_beyond_rank_10000_is_the_papers_floor():
    assert 1 - zipf_cdf(1.1997, 10_000)[-1] == pytest.approx(0.1421, abs=5e-5)


def test_zipf_cdf_is_scipys():
    assert zipf_cdf(1.7, 50) == pytest.approx(zipf.cdf(np.arange(1, 51), 1.7), abs=1e-12)


def log_likelihood(s: float, ranked: np.ndarray) -> float:
    return float(-ranked.sum() * np.log(zeta(s)) - s * ranked @ np.log(np.arange(len(ranked)) + 1))


@pytest.mark.parametrize("s", [1.05, 1.2, 2.0, 5.0])
def test_zipf_fit_is_the_maximum_of_the_likelihood(s):
    ranked = np.round(1e6 * np.arange(1, 5001) ** -s)
    ranked = ranked[ranked > 0]
    found = fit_zipf(ranked)
    other = minimize_scalar(
        lambda x: -log_likelihood(x, ranked) / ranked.sum(), bounds=(1.0001, 20), method="bounded"
    )
    assert found == pytest.approx(other.x, rel=1e-4)
    step = 1e-4 * (found - 1)
    slope = log_likelihood(found + step, ranked) - log_likelihood(found - step, ranked)
    assert abs(slope / (2 * step)) < 1e-4 * ranked.sum()


def test_zipf_fit_recovers_the_exponent_of_its_own_draws():
    tokens = np.random.default_rng(0).zipf(2.3, 200_000)
    counts = np.bincount(tokens[tokens <= 100_000])[1:]  # in the order of the true ranks
    assert fit_zipf(counts) == pytest.approx(2.3, abs=0.01)


def test_zipf_fit_without_a_maximum_is_nan():
    assert np.isnan(fit_zipf(np.array([5])))
    assert np.isnan(fit_zipf(np.zeros(0)))


@pytest.fixture(scope="module")
def heaps_data():
    rng = np.random.default_rng(1)
    lengths = rng.integers(1, 300, 20_000)
    types = rng.poisson(1.39 * lengths**0.841)
    distinct, inverse = np.unique(lengths, return_inverse=True)
    sums = np.bincount(inverse), np.bincount(inverse, types)
    return lengths, types, (distinct, *sums)


def test_heaps_fit_recovers_the_parameters_of_its_own_draws(heaps_data):
    found = fit_heaps(*heaps_data[2])
    assert found.alpha == pytest.approx(1.39, abs=0.02)
    assert found.beta == pytest.approx(0.841, abs=0.003)


def test_heaps_fit_is_the_maximum_over_single_documents(heaps_data):
    lengths, types, aggregated = heaps_data

    def loss(parameters: np.ndarray) -> float:
        rate = np.exp(parameters[0]) * lengths ** parameters[1]
        return -float(poisson.logpmf(types, rate).mean())

    other = minimize(loss, np.array([0.0, 0.7]), method="Nelder-Mead", options={"xatol": 1e-9})
    found = fit_heaps(*aggregated)
    assert found.alpha == pytest.approx(np.exp(other.x[0]), rel=1e-4)
    assert found.beta == pytest.approx(other.x[1], abs=1e-5)
    best = loss(np.array([np.log(found.alpha), found.beta]))
    for change in np.eye(2) * 1e-4:  # the derivative along both axes is zero
        at = np.array([np.log(found.alpha), found.beta])
        assert abs(loss(at + change) - loss(at - change)) / 2e-4 < 1e-4
        assert best <= loss(at + change)


def test_heaps_fit_of_exact_means_is_exact():
    lengths = np.array([1, 10, 100, 1000])
    law = Heaps(0.7, 1.1)
    found = fit_heaps(lengths, np.array([3, 5, 1, 2]), law.rate(lengths) * [3, 5, 1, 2])
    assert found == pytest.approx(law, rel=1e-10)


@pytest.mark.parametrize(
    "data", [([5], [3], [9]), ([], [], []), ([0, 4], [3, 2], [0, 5]), ([1, 2], [1, 1], [0, 0])]
)
def test_heaps_fit_that_is_not_identified_is_nan(data):
    found = fit_heaps(*(np.array(column, float) for column in data))
    assert np.isnan(found.alpha)
    assert np.isnan(found.beta)
