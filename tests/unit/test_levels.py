"""Tests of the tendencies keep their level: small cases of `benchmarks/calibration.py`.

Needs nothing. The oracle is the binomial distribution of rejections at the nominal level.
"""

from __future__ import annotations

from collections import Counter

import pytest
from scipy.stats import binom

from benchmarks.calibration import PARTS, rates
from benchmarks.levels import ANY, LEVEL, EqualTexts
from benchmarks.populations import Topics

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
        found = case(repeat)
        rejected.update({name: int(value) for name, value in found.items()})
    most = binom.isf(1e-4, REPEATS, LEVEL)
    swaps = grouped == (True, False)
    assert len(rejected) >= (9 if swaps else 11)
    assert any(name.startswith("type_token") for name in rejected) == (not swaps)
    assert set(rejected) >= SWAPPED
    assert max(rejected.values()) <= most, rejected
    assert sum(rejected.values()) > 0


def test_few_groups_have_no_verdict():
    assert EqualTexts("few", TEXT, 12, (True, False))(0) == {ANY: False}


def test_what_differs_is_rejected():
    """The simulation itself can reject: another population on the other side."""

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
