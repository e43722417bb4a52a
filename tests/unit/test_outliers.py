"""Axes that a few far values do not squash. Oracle: the ranges, by hand, and the artists drawn."""

from __future__ import annotations

import math

import pytest
from matplotlib.figure import Figure

from beyond_perplexity.figures.style import AxisPoint, cut_outliers, range_without_outliers


@pytest.mark.parametrize(
    ("values", "kept"),
    [
        ([1.83, 1.84, 1.85, 1.87, 2.37], (1.83, 1.87)),
        ([-50.0, 1.0, 2.0, 3.0], (1.0, 3.0)),
        ([1.0, 2.0, 3.0, 4.0, math.inf, math.nan], None),  # what is not finite squashes nothing
        ([1.0, 2.0, 9.0], None),  # of three values none is far from the others
        ([1.0, 2.0, 3.0, 8.9], None),  # less than four times as far
        ([1.0, 1.0, 1.0, 5.0], None),  # no range is left to be drawn
        ([*range(10), 100, 110], (0, 9)),
        ([0, 1, 2, 3, 4, 5, 100, 200, 300], None),  # a third of all are no outliers
        ([], None),
    ],
)
def test_far_values_are_left_out(values, kept) -> None:
    assert range_without_outliers(values) == kept


def test_what_is_cut_off_is_said_and_what_is_near_stays_whole() -> None:
    axis = Figure().subplots()
    points = [
        AxisPoint((x - 0.2, x, x + 0.2), y, f"{x:g}", "#000000") for y, x in enumerate([1, 2, 3])
    ]
    far = [
        AxisPoint((90, 95, 99), 3, "95", "#FF0000"),
        AxisPoint((math.nan, math.inf, 1), 4, "∞", "#000"),
    ]
    for point in [*points, far[0]]:
        axis.plot(point.x[1], point.y, "o")
    cut_outliers(axis, [*points, *far])
    low, high = axis.get_xlim()
    assert low < 0.8
    assert 3.2 < high < 4
    assert [text.get_text() for text in axis.texts] == ["95 →"]
    untouched = Figure().subplots()
    untouched.set_xlim(0, 7)
    cut_outliers(untouched, points)
    assert untouched.get_xlim() == (0, 7)
    assert not untouched.texts
