"""Diagnostics of importance weights: effective size, k̂ and its guards, standard errors.

Needs arviz-stats. Oracles: closed forms, distributions of known shape, SciPy's maximum likelihood
fit, and the spread of many replicates.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from beyond_perplexity.inference import weight_diagnostics as tails
from beyond_perplexity.inference.log_space import log_mean_exp


def test_effective_size_and_largest_weight_in_closed_form():
    found = tails.diagnose(np.log([3.0, 1.0]) - 700)
    assert found.ess == pytest.approx(16 / 10, rel=1e-12)
    assert found.largest_weight == pytest.approx(0.75, rel=1e-12)
    assert np.isnan(found.unique_share)
    equal = tails.diagnose(np.full(40, -3.0), np.array([1, 2] * 20))
    assert equal.ess == pytest.approx(40, rel=1e-12)
    assert (equal.unique_share, equal.tail) == (0.05, tails.CONSTANT)
    assert tails.relative_variance(np.full(40, -3.0)) == pytest.approx(0.0, abs=1e-15)
    found = tails.diagnose(np.full(30, -np.inf))
    assert found.ess == 0
    assert np.isnan([found.largest_weight, found.k_hat]).all()
    assert found.tail == tails.EMPTY
    assert np.isnan(tails.relative_variance(np.full(30, -np.inf)))


@pytest.mark.parametrize("shape", [0.1, 0.5, 0.9])
def test_k_hat_finds_the_shape_of_a_pareto_tail(shape):
    random = np.random.default_rng(7)
    weights = stats.genpareto.rvs(shape, size=20_000, random_state=random) + 1e-9
    k_hat, tail = tails.pareto_k_hat(np.log(weights))
    assert tail == tails.FITTED
    assert k_hat == pytest.approx(shape, abs=0.12)
    size = int(3 * len(weights) ** 0.5)
    ordered = np.sort(weights)
    fitted = stats.genpareto.fit(ordered[-size:] - ordered[-size - 1], floc=0)[0]
    # The fit of the library pulls k̂ to 0.5 with the weight of 10 observations.
    assert k_hat == pytest.approx((size * fitted + 10 * 0.5) / (size + 10), abs=0.03)


@pytest.mark.parametrize(
    ("log_weights", "tail"),
    [
        (np.arange(24.0), tails.SHORT),
        (np.array([0.0] * 30 + [1.0] * 30), tails.CONSTANT),
        (np.array([0.0] * 90 + [1.0] * 7 + [2.0] * 3), tails.TIED),
        (np.array([-np.inf] * 90 + [1.0] * 7 + [2.0] * 3), tails.TIED),
        (np.append(np.linspace(-900, -800, 99), 0.0), tails.DEGENERATE),
    ],
)
def test_tails_that_have_no_shape_are_named(log_weights, tail):
    k_hat, found = tails.pareto_k_hat(log_weights)
    assert found == tail
    assert np.isposinf(k_hat) if tail == tails.DEGENERATE else np.isnan(k_hat)


def test_no_set_of_discrete_weights_breaks_the_fit():
    random = np.random.default_rng(0)
    for _ in range(300):
        values = random.normal(0, random.choice([0.1, 3.0, 200.0]), random.integers(2, 60))
        values[0] = random.choice([-np.inf, 0.0])
        chosen = random.choice(values, random.integers(1, 400))
        k_hat, tail = tails.pareto_k_hat(chosen)
        assert (tail == tails.FITTED) == np.isfinite(k_hat)


def test_k_hat_and_its_threshold_do_not_depend_on_the_scale():
    log_weights = np.random.default_rng(2).normal(0, 2, 500)
    assert tails.pareto_k_hat(log_weights + 5000)[0] == pytest.approx(
        tails.pareto_k_hat(log_weights)[0], rel=1e-9
    )
    assert tails.k_hat_threshold(100) == 0.5
    assert tails.k_hat_threshold(10_000) == 0.7
    assert np.isnan(tails.k_hat_threshold(1))


def test_the_delta_method_in_closed_form_and_against_many_replicates():
    random = np.random.default_rng(4)
    draws = random.normal(0, 0.7, (3000, 400))
    one = draws[0]
    share = (400 / tails.diagnose(one).ess - 1) / 399
    assert tails.relative_variance(one) == pytest.approx(share, rel=1e-12)
    predicted = np.sqrt(np.mean([tails.relative_variance(row) for row in draws]))
    assert log_mean_exp(draws, 1).std() == pytest.approx(predicted, rel=0.06)
    # In closed form: the weights are log-normal, Var(w) / E(w)² = exp(σ²) − 1.
    assert predicted == pytest.approx(np.sqrt(np.expm1(0.49) / 400), rel=0.02)
    random = np.random.default_rng(5)
    counts = np.array([300, 100])
    draws = np.concatenate(
        [random.normal(0, 0.3, (3000, 300)), random.normal(0.5, 0.8, (3000, 100))], 1
    )
    predicted = np.sqrt(np.mean([tails.relative_variance(row, counts) for row in draws]))
    assert log_mean_exp(draws, 1).std() == pytest.approx(predicted, rel=0.06)
    assert np.isnan(tails.relative_variance(draws[0], np.array([399, 1])))


def test_the_delta_method_is_not_used_where_one_instance_degenerates():
    assert tails.delta_variance(np.array([0.05, 0.1])) == pytest.approx(0.15)
    for wrong in ([0.05, 0.11], [0.05, np.nan], []):
        assert np.isnan(tails.delta_variance(np.array(wrong)))
    # One weight above all others: the relative variance is 1, whatever stands below it.
    for distance in (20.0, 200.0):
        assert tails.relative_variance(np.append(np.full(99, -distance), 0.0)) == pytest.approx(1.0)


@pytest.mark.parametrize(("sigma", "delta"), [(1.3, 0.97), (2.0, 0.77), (5.0, 0.38), (20.0, 0.12)])
def test_the_delta_method_saturates_and_the_bootstrap_does_not(sigma, delta):
    """Oracle: the spread of log p̂ over many independent sets of log-normal weights."""
    random = np.random.default_rng(0)
    draws = random.normal(0, sigma, (1500, 100))
    true = log_mean_exp(draws, 1).std()
    found = np.sqrt(np.mean([tails.relative_variance(row) for row in draws])) / true
    assert found == pytest.approx(delta, abs=0.06)
    resampled = [tails.bootstrap_samples(row, 100, random).var(ddof=1) for row in draws[:300]]
    assert 0.65 < np.sqrt(np.mean(resampled)) / true < 1.05


@pytest.mark.parametrize("counts", [None, np.array([150, 50])])
def test_the_bootstrap_over_samples_agrees_with_the_delta_method(counts):
    random = np.random.default_rng(6)
    log_weights = random.normal(-4000, 0.4, 200)
    replicates = tails.bootstrap_samples(log_weights, 4000, random, counts)
    assert replicates.std(ddof=1) == pytest.approx(
        np.sqrt(tails.relative_variance(log_weights, counts)), rel=0.06
    )


def test_the_bootstrap_over_samples_is_exact_in_small_and_in_pieces(monkeypatch):
    replicates = tails.bootstrap_samples(np.array([0.0, -np.inf]), 400, np.random.default_rng(0))
    assert set(replicates) == {0.0, -np.inf, -np.log(2)}
    assert np.isneginf(replicates).mean() == pytest.approx(0.25, abs=0.08)
    log_weights = np.random.default_rng(1).normal(0, 1, 50)
    whole = tails.bootstrap_samples(log_weights, 30, np.random.default_rng(2))
    monkeypatch.setattr(tails, "_BOOTSTRAP_VALUES", 350)
    pieces = tails.bootstrap_samples(log_weights, 30, np.random.default_rng(2))
    np.testing.assert_array_equal(whole, pieces)


def test_the_bootstrap_over_instances_agrees_with_the_ratio_estimator():
    random = np.random.default_rng(8)
    n_tokens = random.integers(5, 40, 300)
    log_p = -4.0 * n_tokens + random.normal(0, 10, 300)
    replicates = tails.bootstrap_instances(log_p, n_tokens, 4000, random)
    mean = log_p.sum() / n_tokens.sum()
    residual = log_p - mean * n_tokens
    deviation = np.sqrt(300 * residual.var()) / n_tokens.sum()
    assert replicates.std(ddof=1) == pytest.approx(np.exp(-mean) * deviation, rel=0.06)
