"""Fits of Zipf's and Heaps' laws.

Oracles: parameters of simulated data, scipy's optimizers on the printed likelihoods, derivatives,
the paper's figures.
"""

import math

import numpy as np
import pytest
from scipy.optimize import minimize, minimize_scalar
from scipy.special import zeta
from scipy.stats import binom, chisquare, poisson, zipf

from beyond_perplexity.tendencies import power_laws, zipf_law


def test_zipfs_law_has_the_papers_mass_and_its_fit_recovers_the_exponent():
    assert 1 - power_laws.zipf_cdf(1.1997, 10_000)[-1] == pytest.approx(0.1421, abs=5e-5)
    assert power_laws.zipf_cdf(1.7, 50) == pytest.approx(zipf.cdf(np.arange(1, 51), 1.7), abs=1e-12)
    tokens = np.random.default_rng(0).zipf(2.3, 200_000)
    counts = np.bincount(tokens[tokens <= 100_000])[1:]  # in the order of the true ranks
    assert power_laws.fit_zipf(counts) == pytest.approx(2.3, abs=0.01)
    assert np.isnan(power_laws.fit_zipf(np.array([5])))
    assert np.isnan(power_laws.fit_zipf(np.zeros(0)))


def log_likelihood(s: float, ranked: np.ndarray) -> float:
    return float(-ranked.sum() * np.log(zeta(s)) - s * ranked @ np.log(np.arange(len(ranked)) + 1))


@pytest.mark.parametrize("s", [1.05, 1.2, 2.0, 5.0])
def test_zipf_fit_is_the_maximum_of_the_likelihood(s):
    ranked = np.round(1e6 * np.arange(1, 5001) ** -s)
    ranked = ranked[ranked > 0]
    found = power_laws.fit_zipf(ranked)
    how = {"bounds": (1.0001, 20), "method": "bounded"}
    other = minimize_scalar(lambda x: -log_likelihood(x, ranked) / ranked.sum(), **how)
    assert found == pytest.approx(other.x, rel=1e-4)
    step = 1e-4 * (found - 1)
    slope = log_likelihood(found + step, ranked) - log_likelihood(found - step, ranked)
    assert abs(slope / (2 * step)) < 1e-4 * ranked.sum()


@pytest.fixture(scope="module")
def heaps_data():
    rng = np.random.default_rng(1)
    lengths = rng.integers(1, 300, 20_000)
    types = rng.poisson(1.39 * lengths**0.841)
    distinct, inverse = np.unique(lengths, return_inverse=True)
    sums = np.bincount(inverse), np.bincount(inverse, types)
    return lengths, types, (distinct, *sums)


def test_heaps_fit_recovers_its_parameters_and_is_the_maximum_over_single_documents(heaps_data):
    found = power_laws.fit_heaps(*heaps_data[2])
    assert found.alpha == pytest.approx(1.39, abs=0.02)
    assert found.beta == pytest.approx(0.841, abs=0.003)
    lengths = np.array([1, 10, 100, 1000])
    law = power_laws.Heaps(0.7, 1.1)
    found = power_laws.fit_heaps(lengths, np.array([3, 5, 1, 2]), law.rate(lengths) * [3, 5, 1, 2])
    assert found == pytest.approx(law, rel=1e-10)
    lengths, types, aggregated = heaps_data

    def loss(parameters: np.ndarray) -> float:
        rate = np.exp(parameters[0]) * lengths ** parameters[1]
        return -float(poisson.logpmf(types, rate).mean())

    other = minimize(loss, np.array([0.0, 0.7]), method="Nelder-Mead", options={"xatol": 1e-9})
    found = power_laws.fit_heaps(*aggregated)
    assert found.alpha == pytest.approx(np.exp(other.x[0]), rel=1e-4)
    assert found.beta == pytest.approx(other.x[1], abs=1e-5)
    best = loss(np.array([np.log(found.alpha), found.beta]))
    for change in np.eye(2) * 1e-4:  # the derivative along both axes is zero
        at = np.array([np.log(found.alpha), found.beta])
        assert abs(loss(at + change) - loss(at - change)) / 2e-4 < 1e-4
        assert best <= loss(at + change)


@pytest.mark.parametrize(
    "data", [([5], [3], [9]), ([], [], []), ([0, 4], [3, 2], [0, 5]), ([1, 2], [1, 1], [0, 0])]
)
def test_heaps_fit_that_is_not_identified_is_nan(data):
    found = power_laws.fit_heaps(*(np.array(column, float) for column in data))
    assert np.isnan(found.alpha)
    assert np.isnan(found.beta)


def zipf_halves(rng: np.random.Generator, s: float, n: int) -> power_laws.Halves:
    tokens = rng.zipf(s, n)
    sides = [np.bincount(half[half <= 10**5], minlength=10**5 + 1) for half in np.split(tokens, 2)]
    orders = [power_laws.rank_order(counts, 10_000, rng) for counts in sides]
    return power_laws.Halves((sides[1][orders[0]], sides[0][orders[1]]))


@pytest.mark.parametrize("s", [1.1, 1.2, 1.5])
def test_the_split_fit_finds_the_exponent(s):
    halves = zipf_halves(np.random.default_rng(round(10 * s)), s, 10**6)
    assert halves.exponent == pytest.approx(s, rel=0.01)


def fits(counts: np.ndarray, rate: float, top: int) -> float:
    """Return the p-value of counts from 0 to top, and above, under Poisson's law."""
    seen = np.bincount(np.minimum(counts, top + 1), minlength=top + 2)
    law = np.append(poisson.pmf(np.arange(top + 1), rate), poisson.sf(top, rate))
    common = law * len(counts) >= 5
    seen = np.append(seen[common], seen[~common].sum())
    law = np.append(law[common], law[~common].sum())
    return chisquare(seen, law * len(counts)).pvalue


def test_counts_by_inversion_are_poisson():
    """Oracle: scipy's probabilities; rates above and below the limit of the tables."""
    rates = np.array([1000.0, 201.0, 199.0, 60.0, 12.0, 6.5, 0.3])
    counts = zipf_law.PoissonTables(rates).draw(np.random.default_rng(1), 40_000)
    assert counts.shape == (7, 40_000)
    for rate, drawn in zip(rates, counts, strict=True):
        assert fits(drawn, rate, int(rate + 6 * math.sqrt(rate) + 10)) > 1e-4
    assert np.abs(np.corrcoef(counts) - np.eye(7)).max() < 5 / math.sqrt(40_000)
    rates = np.linspace(190, 6, 500)
    counts = zipf_law.PoissonTables(rates).draw(np.random.default_rng(2), 4_000)
    errors = (counts.mean(axis=1) - rates) / np.sqrt(rates / 4_000)
    assert np.abs(errors).max() < 5
    assert abs(np.mean(errors**2) - 1) < 5 * math.sqrt(2 / 500)
    nothing, rng = np.zeros(0), np.random.default_rng(0)
    assert zipf_law.PoissonTables(nothing).draw(rng, 4).shape == (0, 4)
    assert not len(zipf_law.SeldomCounts(nothing, 10).draw_reached(rng, 4)[0])


def test_seldom_counts_are_poisson_where_they_are_asked_for():
    """Oracle: scipy's probabilities of what reaches the count, and of what does not."""
    rates, width, rng = np.array([5.0, 2.0, 0.5]), 200_000, np.random.default_rng(3)
    seldom = zipf_law.SeldomCounts(rates, 3)
    reached = seldom.draw_reached(rng, width)
    keys, counts = reached
    draws, types = np.divmod(keys, 3)
    assert (np.diff(keys) > 0).all()
    whole = seldom.counts(rng, reached, np.arange(3 * width)).reshape(width, 3)
    assert (whole[draws, types] == counts).all()
    assert (whole >= 3).sum() == len(keys)
    for rate, drawn in zip(rates, whole.T, strict=True):
        assert fits(drawn, rate, 25) > 1e-4
    assert np.abs(np.corrcoef(whole.T) - np.eye(3)).max() < 5 / math.sqrt(width)


def test_interpolated_exponents_are_those_of_the_fit_and_fewer_draws_the_first():
    """Oracle: the root that is found for each mean alone, inside and outside the table."""
    rng = np.random.default_rng(4)
    table = power_laws.ExponentTable(1.2, 900)
    ranks = rng.integers(2, 1200, 200)
    means = np.empty(200)
    for row, n in enumerate(ranks):
        log_ranks = np.log(np.arange(1, n + 1))
        weights = np.exp(-rng.uniform(1.05, 1.35) * log_ranks)
        means[row] = log_ranks @ weights / weights.sum()
    logs = [np.log(np.arange(1, n + 1)) for n in ranks]
    expected = list(map(power_laws.exponent_of_mean, means, logs))
    assert table.exponents(means, ranks) == pytest.approx(expected, abs=1e-8)
    assert np.isnan(table.exponents(np.zeros(3), np.array([0, 1, 40]))).all()
    # A p-value of n draws counts the first n, wherever a block ends
    own = zipf_halves(np.random.default_rng(7), 1.2, 16_000)
    counts = (31, 32, 33, 65)
    above = [round(zipf_law.law_p(own, own, n, 10_000, 0, "test") * (n + 1) - 1) for n in counts]
    assert above == sorted(above)
    assert (np.diff(above)[:2] <= 1).all()


@pytest.mark.parametrize("ranks", [None, 60])
def test_draws_side_by_side_are_fitted_and_compared_as_one_text_is(ranks):
    """Oracle: the fit and the distance of each draw as a text of its own."""
    own = zipf_halves(np.random.default_rng(5), 1.2, 16_000)
    own = power_laws.Halves(tuple(held[:ranks] for held in own.ranked))
    drawn, fitted = zipf_law.Law(own, 1.2, ranks).draw_fitted(np.random.default_rng(6), 24)
    texts = [drawn.halves(draw) for draw in range(24)]
    assert fitted == pytest.approx([text.exponent for text in texts], abs=1e-8)
    distances = [text.distance(s) for text, s in zip(texts, fitted, strict=True)]
    assert drawn.distances(fitted) == pytest.approx(distances, abs=1e-12)
    if ranks:
        assert {len(held) for text in texts for held in text.ranked} == {ranks}


@pytest.mark.parametrize("s", [1.1, 1.5])
def test_zipf_samples_are_rejected_at_the_nominal_rate(s):
    """Oracle: the binomial distribution of rejections; a law that is bent is rejected."""
    repeats = 60
    rejected = [0, 0]
    for repeat in range(repeats):
        rng = np.random.default_rng([round(10 * s), repeat])
        own, other = zipf_halves(rng, s, 16_000), zipf_halves(rng, s, 16_000)
        assert not any(halves.too_few for halves in (own, other))
        rejected[0] += zipf_law.law_p(own, own, 19, 10_000, repeat, "test") <= 0.05
        rejected[1] += zipf_law.law_p(own, other, 19, 10_000, repeat, "test") <= 0.05
    assert max(rejected) <= binom.isf(1e-3, repeats, 0.05)
    k = np.arange(1, 201)
    bent = power_laws.Halves((np.round(np.where(k < 30, 3e3 / k, 3e3 * 30 / k**2)),) * 2)
    assert zipf_law.law_p(bent, bent, 19, 10_000, 0, "test") == pytest.approx(0.05)


def test_halves_of_a_law_are_drawn_as_if_every_type_were_counted():
    """Oracle: expected ranks and tokens of independent Poisson counts, summed over all types."""
    own = zipf_halves(np.random.default_rng(0), 1.1, 16_000)
    draws = 13 * zipf_law.BLOCK_DRAWS
    drawn = zipf_law.Law(own, 1.1, None).draw(np.random.default_rng(0), draws)
    weights = np.arange(1, 200_001) ** -1.1
    second, first = (weights * held.sum() / weights[: len(held)].sum() for held in own.ranked)
    found = []
    for b in range(draws):
        by_first, by_second = drawn.halves(b).ranked
        tails = [held[len(held) // 2 :].sum() for held in (by_first, by_second)]
        found.append([len(by_first), len(by_second), by_first.sum(), by_second.sum(), *tails])
    in_first, in_second = (poisson.sf(9, rates) for rates in (first, second))
    sums = [in_first.sum(), in_second.sum(), in_first @ second, in_second @ first]
    means, errors = np.mean(found, axis=0), np.std(found, axis=0) / math.sqrt(draws)
    assert (np.abs(means[:4] - sums) < 4 * errors[:4]).all()
    plain = []
    for b in range(draws):
        rng = np.random.default_rng([1, b])
        sides = [rng.poisson(rates) for rates in (first, second)]
        orders = [power_laws.rank_order(counts, None, rng) for counts in sides]
        held = sides[1][orders[0]], sides[0][orders[1]]
        plain.append([each[len(each) // 2 :].sum() for each in held])
    spread = np.hypot(errors[4:], np.std(plain, axis=0) / math.sqrt(draws))
    assert (np.abs(means[4:] - np.mean(plain, axis=0)) < 4 * spread).all()
