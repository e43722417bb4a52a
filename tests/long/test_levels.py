"""Levels of the tests of the tendencies by simulation: equal populations, 1,000 repeats.

Needs some minutes. The oracle is the nominal level of 5%; its table is printed (`-s`).
"""

from __future__ import annotations

import pytest

from tests.unit.levels import rejections

REPEATS = 1000


@pytest.mark.parametrize("count", [30, 100])
def test_no_test_rejects_more_than_seven_and_a_half_percent(tmp_path, count):
    rejected = rejections(tmp_path, REPEATS, count, seed=count)
    for (tendency, measure), times in sorted(rejected.items()):
        print(f"{count} + {count} documents: {tendency} {measure} {times / REPEATS:.3f}")
    assert max(rejected.values()) <= 0.075 * REPEATS, rejected
