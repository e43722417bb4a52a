"""Tests of the tendencies keep their level: a small case of `tests/long/test_levels.py`.

Needs nothing. The oracle is the binomial distribution of rejections at the nominal level.
"""

from __future__ import annotations

from scipy.stats import binom

from tests.unit.levels import LEVEL, rejections

REPEATS = 80


def test_equal_populations_are_rejected_at_the_nominal_rate(tmp_path):
    rejected = rejections(tmp_path, REPEATS, 60, seed=5)
    most = binom.isf(1e-4, REPEATS, LEVEL)
    assert len(rejected) == 12
    assert max(rejected.values()) <= most, rejected
    assert sum(rejected.values()) > 0
