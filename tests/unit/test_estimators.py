"""Estimators of log p(x): unbiased, bounded, debiased; their subsets, pairings and diagnostics.

Oracles: every outcome of K samples of four latents, every subset and pairing; SciPy's logsumexp and
fit; closed forms, known shapes and the spread of replicates for diagnostics.
"""

from collections import Counter
from itertools import combinations, permutations, product

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats
from scipy.special import logsumexp

from beyond_perplexity.importance import importance_sampling as subsets
from beyond_perplexity.importance import reduction, weight_files
from beyond_perplexity.importance.beam_marginalization import beam_log_likelihood
from beyond_perplexity.importance.beam_plus_tail import beam_plus_tail
from beyond_perplexity.importance.temperature_mixture import mixture_log_weights
from beyond_perplexity.inference import weight_diagnostics as tails
from beyond_perplexity.inference.log_space import (
    jackknife,
    log_mean_exp,
    log_sum_exp,
    to_perplexity,
)
from tests.unit.latent_tables import model, proposal

P, Q = model()[0], proposal()[0]
LOG_P, LOG_Q = np.log(P), np.log(Q)
TRUE = float(np.log(P.sum()))
LATENTS = range(len(P))


def expected(q, value):
    """Return E value(z) exactly, for one latent drawn from each of the proposals."""
    total = 0.0
    for outcome in product(LATENTS, repeat=len(q)):
        chance = float(np.prod([one[z] for one, z in zip(q, outcome, strict=True)]))
        total += chance * value(list(outcome)) if chance else 0.0
    return total


def log_estimate(z):
    return float(log_mean_exp((LOG_P - LOG_Q)[z]))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_log_sum_exp_is_that_of_scipy(axis):
    values = np.random.default_rng(0).normal(0, 300, (5, 7))
    values[0, 3] = values[:, 2] = -np.inf
    kept = values.copy()
    np.testing.assert_allclose(log_sum_exp(values, axis), logsumexp(values, axis), rtol=1e-14)
    np.testing.assert_array_equal(values, kept)
    np.testing.assert_array_equal(log_sum_exp(np.empty((2, 0))), [-np.inf, -np.inf])
    assert log_mean_exp(np.full(3, -np.inf)) == -np.inf


@pytest.mark.parametrize("n_samples", [1, 2, 3])
def test_the_estimate_is_unbiased(n_samples):
    mean = expected([Q] * n_samples, lambda z: np.exp(log_estimate(z)))
    np.testing.assert_allclose(mean, P.sum(), rtol=1e-13)


def test_the_expected_logarithm_rises_with_samples_below_the_truth():
    means = [expected([Q] * n, log_estimate) for n in (1, 2, 3, 4)]
    assert means == sorted(means)
    assert means[0] + 0.01 < means[-1] < TRUE


def test_a_proposal_that_misses_latents_gives_a_bound_and_the_posterior_the_truth():
    partial = np.where(np.arange(4) == int(P.argmax()), 0, Q)
    partial /= partial.sum()
    mean = expected([partial] * 2, lambda z: float(log_mean_exp(LOG_P[z] - np.log(partial[z]))))
    assert mean < TRUE
    log_weights = LOG_P - np.log(P / P.sum())
    for n in (1, 2, 5):
        drawn = np.random.default_rng(n).choice(log_weights, n)
        assert float(log_mean_exp(drawn)) == pytest.approx(TRUE, rel=1e-14)
    # An impossible latent is a weight of zero.
    assert log_mean_exp(np.array([np.log(3.0), -np.inf, -np.inf])) == pytest.approx(0.0, abs=1e-15)


def test_the_mixture_is_unbiased_and_bounds_in_expectation():
    taus = [proposal(temperature=tau)[0] for tau in (0.5, 2.0)]
    grid = np.log(np.stack(taus, 1))  # (Z, 2)
    counts = np.array([2, 1])

    def estimate(z):
        return float(log_mean_exp(mixture_log_weights(LOG_P[z], grid[z], counts)))

    drawn = [taus[0], taus[0], taus[1]]
    np.testing.assert_allclose(expected(drawn, lambda z: np.exp(estimate(z))), P.sum(), rtol=1e-13)
    assert expected(drawn, estimate) < TRUE
    # Of one proposal it is importance sampling.
    weights = mixture_log_weights(LOG_P, LOG_Q[:, None], np.array([4]))
    np.testing.assert_allclose(weights, LOG_P - LOG_Q, rtol=1e-14)


def test_the_beam_rises_to_the_truth_at_full_support():
    order = np.argsort(-Q)
    sums = [beam_log_likelihood(LOG_P[order[:k]], order[:k]) for k in range(1, 5)]
    assert (sums, sums[-1]) == (sorted(sums), pytest.approx(TRUE, rel=1e-14))
    assert sums[0] == LOG_P[order[0]]
    # A latent counts once, and at its least.
    twice = beam_log_likelihood(np.log([0.2, 0.1, 0.2 + 1e-9]), np.array([5, -6, 5]))
    assert twice == pytest.approx(np.log(0.3), rel=1e-14)


@pytest.mark.parametrize("size", [1, 2, 4])
def test_beam_plus_tail_is_unbiased_and_never_below_the_beam(size):
    beam = np.argsort(-Q)[:size]
    inside = beam_log_likelihood(LOG_P[beam], beam)

    def estimate(z):
        value, weights = beam_plus_tail(inside, (LOG_P - LOG_Q)[z], ~np.isin(z, beam))
        assert value >= inside
        assert value == pytest.approx(float(log_mean_exp(weights)), rel=1e-13)
        return float(np.exp(value))

    np.testing.assert_allclose(expected([Q] * 3, estimate), P.sum(), rtol=1e-13)


def test_every_estimator_has_the_truth_as_mean_of_many_samples():
    random = np.random.default_rng(5)
    n, k = 4000, 10
    taus = [proposal(temperature=tau)[0] for tau in (0.5, 1.0)]
    z = np.stack([random.choice(4, (n, k), p=one) for one in taus])  # (2, n, k)
    grid = np.log(np.stack(taus, 1))
    both = np.concatenate(list(z), 1)
    plain = log_mean_exp((LOG_P - LOG_Q)[z[1]], 1)
    logs = [mixture_log_weights(LOG_P[row], grid[row], np.array([k, k])) for row in both]
    mixed = np.array([log_mean_exp(one) for one in logs])
    beam = np.argsort(-Q)[:1]
    inside, log_w = LOG_P[beam[0]], LOG_P - LOG_Q
    tail = [beam_plus_tail(inside, log_w[row], ~np.isin(row, beam))[0] for row in z[1]]
    for estimates in (np.exp(plain), np.exp(mixed), np.exp(tail)):
        error = estimates.std(ddof=1) / np.sqrt(n)
        assert abs(estimates.mean() - P.sum()) < 4 * error


def test_the_jackknife_is_what_leaving_out_gives_and_closer_to_the_truth():
    weights = np.random.default_rng(1).normal(0, 3, 9)
    without = [float(log_mean_exp(np.delete(weights, k))) for k in range(9)]
    naive = 9 * float(log_mean_exp(weights)) - 8 * np.mean(without)
    assert jackknife(weights) == pytest.approx(naive, rel=1e-12)
    far = np.array([0.0, -800.0, -900.0])  # the largest left out, the others are still there
    without = [float(log_mean_exp(np.delete(far, k))) for k in range(3)]
    assert jackknife(far) == pytest.approx(3 * -np.log(3) - 2 * np.mean(without), rel=1e-12)
    assert np.isnan([jackknife(np.array([1.0, *[-np.inf] * k])) for k in (0, 2)]).all()
    plain = expected([Q] * 4, log_estimate)
    debiased = expected([Q] * 4, lambda z: jackknife((LOG_P - LOG_Q)[z]))
    assert abs(debiased - TRUE) < 0.5 * abs(plain - TRUE)


def test_all_pairings_have_the_product_as_mean_and_one_is_below_the_instance_level():
    weights = np.random.default_rng(3).normal(-5, 2, (3, 4))  # (N, K)
    orders = [list(order) for order in permutations(range(4))]
    sums = [weights[0] + weights[1][a] + weights[2][b] for a in orders for b in orders]
    products = [float(np.exp(log_mean_exp(one))) for one in sums]
    instance = float(np.exp(log_mean_exp(weights, 1).sum()))
    np.testing.assert_allclose(np.mean(products), instance, rtol=1e-13)
    assert np.std(products) > 0.1 * instance
    p, q = model(2, 3), proposal(2, 3)
    log_w = np.log(p) - np.log(q)
    corpus = instance = 0.0
    for z in product(range(3), repeat=4):
        first, second = list(z[:2]), list(z[2:])
        chance = np.prod(q[0, first]) * np.prod(q[1, second])
        corpus += chance * float(log_mean_exp(log_w[0, first] + log_w[1, second]))
        instance += chance * float(log_mean_exp(log_w[0, first]) + log_mean_exp(log_w[1, second]))
    assert corpus < instance < np.log(p.sum(1)).sum()


def test_perplexity_and_its_infinities():
    np.testing.assert_allclose(to_perplexity(np.log(0.25) * 3, 3), 4.0, rtol=1e-15)
    np.testing.assert_array_equal(to_perplexity(np.array([-np.inf, -1e6]), 2), [np.inf, np.inf])


def reduced(path):
    found = reduction.reduce_weights(weight_files.WeightReader([path])).estimators
    return next(one for _, one in found if type(one) is subsets.ImportanceSampling)


@pytest.mark.parametrize(
    ("wanted", "n_samples", "expected"),
    [(200, 1, 200), (200, 160_000, 200), (200, 1_000_000, 33), (200, 10**8, 8), (5, 10**8, 5)],
)
def test_orders_of_very_many_samples_are_fewer(wanted, n_samples, expected):
    """A million samples of one instance took 4.2 GB; no more than 2^25 weights are held now."""
    assert subsets.n_orders(wanted, n_samples) == expected
    rows = subsets.rows_at_once(n_samples)
    assert rows * n_samples <= 2**22 or rows == 1


@pytest.mark.parametrize("values", [1, 700, 10**9])
def test_orders_held_at_once_change_no_number(tmp_path, monkeypatch, values):
    """Oracle: all at once."""
    reader, random = tmp_path / "w.parquet", np.random.default_rng(1)
    columns = {"instance_id": np.repeat([1, 2], 60), "sample_id": np.tile(np.arange(60), 2)}
    columns |= {"n_tokens": np.full(120, 4), "log_q": np.zeros(120)}
    pq.write_table(pa.table({**columns, "log_p": random.normal(size=120) - 9}), reader)
    monkeypatch.setattr(subsets, "_VALUES_AT_ONCE", 10**9)
    whole = reduced(reader)
    monkeypatch.setattr(subsets, "_VALUES_AT_ONCE", values)
    again = reduced(reader)
    assert np.array_equal(whole.ordered, again.ordered)
    assert np.array_equal(whole.prefixes, again.prefixes)


@pytest.mark.parametrize("n_samples", [1, 2, 7, 10, 100, 1100])
def test_sizes_of_the_curves(n_samples):
    sizes = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]
    below = [size for size in sizes if size < n_samples]
    assert subsets.subset_sizes(n_samples).tolist() == [*below, n_samples]


def test_random_orders_are_all_alike_and_their_prefixes_those_of_scipy_and_of_all_subsets():
    values = np.array([3.0, -np.inf, 1.0])
    orders = subsets.random_orders(values, 6000, np.random.default_rng(0))
    counts = Counter(map(tuple, orders.tolist()))
    assert len(counts) == 6
    assert all(abs(count - 1000) < 5 * np.sqrt(1000) for count in counts.values())
    weights = np.random.default_rng(1).normal(0, 400, (4, 30))
    weights[0, :5] = -np.inf
    sizes = subsets.subset_sizes(30)
    found = subsets.prefix_log_means(weights, sizes)
    for column, size in enumerate(sizes):
        wanted = logsumexp(weights[:, :size], 1) - np.log(size)
        np.testing.assert_allclose(found[:, column], wanted, rtol=1e-13)
    weights = np.random.default_rng(2).normal(0, 2, 6)
    orders = subsets.random_orders(weights, 20_000, np.random.default_rng(3))
    found = subsets.prefix_log_means(orders, np.array([2, 4]))
    for column, size in enumerate((2, 4)):
        every = [float(log_mean_exp(weights[list(c)])) for c in combinations(range(6), size)]
        error = found[:, column].std() / np.sqrt(len(found))
        assert abs(found[:, column].mean() - np.mean(every)) < 4 * error


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
        k_hat, tail = tails.pareto_k_hat(random.choice(values, random.integers(1, 400)))
        assert (tail == tails.FITTED) == np.isfinite(k_hat)


def test_k_hat_and_its_threshold_do_not_depend_on_the_scale():
    log_weights = np.random.default_rng(2).normal(0, 2, 500)
    plain = tails.pareto_k_hat(log_weights)[0]
    assert tails.pareto_k_hat(log_weights + 5000)[0] == pytest.approx(plain, rel=1e-9)
    assert (tails.k_hat_threshold(100), tails.k_hat_threshold(10_000)) == (0.5, 0.7)
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
    parts = [random.normal(0, 0.3, (3000, 300)), random.normal(0.5, 0.8, (3000, 100))]
    draws = np.concatenate(parts, 1)
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
    predicted = np.sqrt(tails.relative_variance(log_weights, counts))
    assert replicates.std(ddof=1) == pytest.approx(predicted, rel=0.06)


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
