"""Levels, coverages and power of what is said of perplexity, by simulation: 1,000 repeats.

Needs half a minute. Oracles: the nominal level of 5%, coverage of 95% and power of 80%, for group
differences that are symmetric about 0. With exponential skew, where the sign-flips are not exact,
the table alone is printed (`-s`).
"""

import pytest

from benchmarks.calibration_perplexity import SHAPES, SIZES, Setting, calibrate

REPEATS = 1000


@pytest.mark.parametrize("groups", [26, 60])
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("shape", SHAPES)
def test_levels_coverages_and_power(groups, sizes, shape):
    found = calibrate(Setting(groups, sizes, shape), REPEATS)
    print(f"{groups} {sizes} groups, {shape} differences: {found}")
    assert found["own"] >= 0.93
    assert found["paired"] > found["unpaired"]
    if shape != "exponential":
        assert found["level"] <= 0.075
        assert found["coverage"] >= 0.93
        assert 0.75 <= found["promised"] <= 0.85
