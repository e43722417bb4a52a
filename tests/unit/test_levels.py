"""Tests of the tendencies keep their level: small cases of `benchmarks/calibration.py`.

Needs nothing. The oracle is the binomial distribution of rejections at the nominal level.
"""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from scipy.stats import binom
from scipy.stats import t as student

from benchmarks.calibration import PARTS, rates
from benchmarks.coverages import Covered, Shifted
from benchmarks.levels import ANY, LEVEL, EqualTexts
from benchmarks.populations import Topics
from beyond_perplexity.inference import intervals
from beyond_perplexity.inference.intervals import StandardError, mean_error
from beyond_perplexity.tendencies.power_laws import Heaps, fit_heaps, heaps_columns, heaps_errors

REPEATS = 60
TEXT = Topics(n_types=300, n_topics=8, own=30, size=6.0, least=4)
SWAPPED = {"unigram tvd", "unigram max_difference", "length ks", "length mean_difference"}


@pytest.mark.parametrize(
    ("units", "grouped", "vocabulary", "documents"),
    [
        (60, (False, False), None, None),
        (24, (True, True), None, None),
        (30, (True, False), 80, None),
        (30, (True, False), 80, 900),
    ],
)
def test_equal_populations_are_rejected_at_the_nominal_rate(units, grouped, vocabulary, documents):
    """The last has 6 times the samples, where swaps cannot test types by length."""
    case = EqualTexts(f"unit {units}", TEXT, units, grouped, vocabulary, documents)
    rejected: Counter[str] = Counter()
    for repeat in range(REPEATS):
        rejected.update({name: int(value) for name, value in case(repeat).items()})
    most = binom.isf(1e-4, REPEATS, LEVEL)
    swaps = grouped == (True, False)
    assert len(rejected) >= (9 if swaps else 11)
    assert any(name.startswith("type_token") for name in rejected) == (not swaps)
    assert set(rejected) >= SWAPPED
    assert max(rejected.values()) <= most, rejected
    assert sum(rejected.values()) > 0


def test_what_differs_is_rejected_and_few_groups_have_no_verdict():
    assert EqualTexts("few", TEXT, 12, (True, False))(0) == {ANY: False}
    # The simulation itself can reject: another population on the other side.

    class Mixed:
        classes = TEXT.classes
        documents = staticmethod(lambda rng, n: TEXT.documents(rng, n, factor=2.0))
        groups = TEXT.groups

    found = EqualTexts("apart", Mixed(), 40, (True, False))(0)
    assert found["length ks"]
    assert found[ANY]


def test_a_rate_counts_what_happened_and_says_what_fails():
    class Every:
        name, nominal, limits = "every third", "1/3", (0.3, 0.4)

        def __call__(self, repeat: int) -> dict[str, bool]:
            return {"a": repeat % 3 == 0} | ({"b": True} if repeat < 2 else {})

    found = rates("test", Every(), 9)
    assert [(rate.measure, rate.rate, rate.repeats) for rate in found] == [
        ("a", pytest.approx(1 / 3), 9),
        ("b", 1.0, 2),
    ]
    assert [rate.allowed for rate in found] == [True, False]
    assert "FAILS" in str(found[1])
    assert set(PARTS) == {"levels", "coverage", "zipf", "power"}


def units_of(columns, groups=None, used=None):
    """Units of documents that have a cell each."""
    n = len(columns)
    kept = np.ones(n, bool) if used is None else used
    return intervals.sums_by_unit(np.ones(n, np.int64), columns, kept, lambda: np.arange(n), groups)


def test_the_error_of_a_mean_of_documents_is_the_textbook_one():
    values = np.random.default_rng(0).normal(10, 3, 50)
    error = mean_error(units_of(values[:, None]))
    assert error.variance == pytest.approx(values.var(ddof=1) / 50)
    changes = values - values.mean()
    few = 3 * np.sum(changes**2) ** 2 / np.sum(changes**4)
    assert error.df == pytest.approx(min(50, few) - 1)
    margin = student.ppf(0.975, error.df) * math.sqrt(error.variance)
    assert error.limits(10.0, 0.95) == pytest.approx((10 - margin, 10 + margin))
    values, counts = np.array([1.0, 4.0, 6.0]), np.array([3, 0, 5])
    cells = intervals.sums_by_unit(counts, values[:, None], counts >= 0, lambda: counts, None)
    single = units_of(np.repeat(values, counts)[:, None])
    assert mean_error(cells) == pytest.approx(mean_error(single))


def test_groups_are_left_out_whole():
    rng = np.random.default_rng(1)
    groups = np.repeat([0, 1, 3, 4, 5], [1, 9, 4, 2, 7])  # group 2 has no document
    values = rng.normal(5, 1, 23) + groups
    used = np.arange(23) != 4
    found = mean_error(units_of(values[:, None], groups, used))
    kept = [(values[used & (groups != g)]) for g in np.unique(groups)]
    without = np.array([x.mean() for x in kept])
    assert found.variance == pytest.approx(4 / 5 * np.sum((without - values[used].mean()) ** 2))
    sizes = np.bincount(groups[used])
    changes = without - values[used].mean()
    few = 3 * np.sum(changes**2) ** 2 / np.sum(changes**4)
    assert found.df == pytest.approx(min(np.sum(sizes**2) ** 2 / np.sum(sizes**4), few) - 1)


@pytest.mark.parametrize("grouped", [False, True])
def test_one_step_without_a_unit_is_a_refit(grouped):
    """Oracle: `fit_heaps` of what remains; a step of Newton's method is near to it."""
    rng = np.random.default_rng(2)
    lengths = np.concatenate([[0, 0], 1 + rng.poisson(20, 198)])
    types = np.minimum(lengths, rng.poisson(1.4 * lengths**0.8))
    groups = np.arange(200) // 8 if grouped else np.arange(200)

    def fit(kept):
        sizes = np.bincount(lengths[kept])
        held = np.flatnonzero(sizes)
        return fit_heaps(held, sizes[held], np.bincount(lengths[kept], types[kept])[held])

    whole = fit(np.ones(200, bool))
    columns, used = heaps_columns(lengths, types, whole)
    errors = heaps_errors(units_of(columns, groups if grouped else None, used), whole)
    numbers = np.unique(groups[used])
    without = np.array([fit(groups != g) for g in numbers])
    sizes = np.bincount(groups[used])[numbers]
    ones = intervals.UnitSums(np.ones(len(numbers)), sizes, np.zeros((0, 1)))
    for column, error in enumerate(errors):
        exact = intervals.error_of(whole[column], without[:, column], ones)
        assert error == pytest.approx(exact, rel=0.01)


def test_what_is_not_defined_has_no_limits():
    one = units_of(np.array([[3.0]]))
    assert all(map(math.isnan, mean_error(one).limits(3.0, 0.95)))
    lengths, types = np.array([4, 4, 9]), np.array([3, 4, 6])
    fit = fit_heaps(np.array([4, 9]), np.array([2, 1]), np.array([7, 6]))
    columns, used = heaps_columns(lengths, types, fit)
    errors = heaps_errors(units_of(columns, None, used), fit)  # without the third one length
    assert all(math.isnan(error.variance) for error in errors)
    nothing = heaps_errors(units_of(columns, None, used), Heaps(math.nan, math.nan))
    assert all(math.isnan(error.variance) for error in nothing)


def test_errors_are_joined_by_their_formulas():
    found = StandardError(4.0, 9.0).mean_with(StandardError(16.0, 5.0))
    assert found == pytest.approx((9, 5))
    # Oracle: the formula at two points; equal errors and sizes double the freedom.
    error = StandardError(2.0, 9.0)
    assert error.with_another(error) == pytest.approx((4, 18))
    assert error.with_another(StandardError(0.0, 3.0)) == pytest.approx((2, 9))
    assert StandardError(0.0, 3.0).with_another(StandardError(0.0, 5.0)) == (0, 3)


@pytest.mark.parametrize(("units", "grouped"), [(200, (False, False)), (24, (True, False))])
def test_intervals_hold_what_they_name(units, grouped):
    """A small case of `benchmarks/coverages.py`: of every measure, binomially many."""
    shifted = Shifted(Topics(n_types=300, n_topics=8, own=30, size=6.0, least=3), 0.15, 1.15)
    case = Covered(f"unit {units}", shifted, shifted.targets(20_000), units, grouped)
    repeats = 40
    found = [case(repeat) for repeat in range(repeats)]
    rates = {name: sum(held[name] for held in found) for name in found[0]}
    assert len(rates) == 23
    assert min(rates.values()) >= binom.ppf(1e-4, repeats, 0.93), rates
