"""The end of log p that allows for the tail of all weights together.

Oracles: SciPy's generalized Pareto distribution on a finer grid; the formula in plain loops;
weights whose mean is known, of which those that look good miss without that end. How often claims
miss in many cases: `tests/long/test_bracket_levels.py`.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import genpareto

from beyond_perplexity.importance.two_sided_bounds import PooledTail, largest_mean_excess
from beyond_perplexity.inference.weight_diagnostics import diagnose, tail_size
from tests.unit.uneven_weights import claim, diagnose_all, gaussian, lognormal


def upper_end(log_w: np.ndarray) -> float:
    tail = PooledTail(log_w.size)
    for row in log_w:
        tail.add(row)
    return tail.upper_end()


@pytest.mark.parametrize(("shape", "size"), [(-0.3, 60), (0.2, 25), (0.4, 400)])
def test_the_largest_mean_is_that_of_the_likelihood_region(shape, size):
    excess = genpareto.rvs(shape, scale=2.0, size=size, random_state=size)
    shapes = np.linspace(-0.6, 0.85, 45)
    scales = np.exp(np.linspace(-1, 3, 120))
    logs = genpareto.logpdf(excess[:, None, None], shapes[:, None], scale=scales)  # (M, G, H)
    fits = logs.sum(0)
    means = scales / (1 - shapes[:, None])
    expected = means[fits >= fits.max() - 3.29**2 / 2].max()
    assert largest_mean_excess(excess) == pytest.approx(expected, rel=0.08)
    assert largest_mean_excess(7.0 * excess) == pytest.approx(7.0 * largest_mean_excess(excess))
    assert expected > excess.mean()


def leave_one_out(log_w: np.ndarray) -> tuple[float, np.ndarray]:
    """Return Σ_n E_k log p̂ without sample k, and all ratios of a weight to that, in loops."""
    total, ratios = 0.0, []
    for row in np.exp(log_w):
        others = [np.delete(row, place).mean() for place in range(len(row))]
        total += np.mean(np.log(others))
        ratios.append(row / others)
    return total, np.array(ratios)


def test_without_a_tail_it_is_the_formula():
    """Of weights of two sizes the largest are all alike, and so nothing is fitted to them."""
    log_w = np.log(np.where(np.random.default_rng(0).random((6, 40)) < 0.4, 3.0, 0.5))
    log_w[:, 0], log_w[:, 1] = -np.inf, log_w[:, 2]
    log_w = np.sort(log_w)[:, ::-1]
    log_w[:, 16:24] = log_w[:, 16:17]
    log_w = np.repeat(log_w[:1], 6, 0) + np.arange(6)[:, None]
    total, ratios = leave_one_out(log_w)
    assert upper_end(log_w) == pytest.approx(total + 6 * math.log(ratios.mean()), rel=1e-12)


def test_with_a_tail_its_mean_excess_is_the_largest_that_is_borne_out():
    log_w = lognormal(1.2)(np.random.default_rng(3), (7, 60))
    total, ratios = leave_one_out(log_w)
    tail = np.sort(ratios.ravel())[-tail_size(420) - 1 :]
    excess = tail[1:] - tail[0]
    more = (largest_mean_excess(excess) - excess.mean()) * len(excess) / 420
    assert upper_end(log_w) == pytest.approx(total + 7 * math.log(ratios.mean() + more), rel=1e-12)


def test_it_depends_on_no_order_and_shifts_with_log_p():
    random = np.random.default_rng(5)
    log_w = lognormal(1.5)(random, (9, 80))
    end = upper_end(log_w)
    mixed = random.permuted(log_w, axis=1)[random.permutation(9)]
    assert upper_end(mixed) == pytest.approx(end, rel=1e-12)
    assert upper_end(log_w - 900.0) == pytest.approx(end - 8100.0, rel=1e-12)
    above = log_w.copy()
    above[3, 7] += 2000.0  # one weight beside which the others are nothing
    assert upper_end(above) > 2000.0


@pytest.mark.parametrize("k", [25, 100, 400])
def test_the_diagnostics_of_these_tests_are_the_packages(k):
    log_w = np.concatenate(
        [draw(np.random.default_rng(k), (6, k)) for draw in (lognormal(1.5), gaussian(0.8))]
    )
    log_w[2, : k // 2] = log_w[3, 0]  # ties
    for one, row in zip(diagnose_all(log_w), log_w, strict=True):
        expected = diagnose(row)
        assert one.tail == expected.tail
        assert (one.ess, one.k_hat) == pytest.approx((expected.ess, expected.k_hat), nan_ok=True)


def test_heavy_tails_that_look_good_miss_without_it():
    """Oracle: log p is 0. Of samples that lack the rare weights k̂ thinks well."""
    random = np.random.default_rng(7)
    found = [claim(gaussian(0.75)(random, (5, 100))) for _ in range(250)]
    made = [one for one in found if one.made]
    without, missed = sum(one.without for one in made), sum(one.missed for one in made)
    print(f"{len(made)} of 250 claimed; missed: {without} without, {missed} with it")
    assert len(made) >= 20
    assert without > 0.2 * len(made)
    assert missed <= 0.05 * len(made)
