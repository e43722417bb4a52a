"""Axes that a few far values do not squash: they are cut off, and said at the edge."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from matplotlib.axes import Axes

FEWEST_NEAR = 3  # values that an axis is made for
FAR = 4.0  # times the range of the others that one must add to be cut off
EDGE_MARGIN = 0.12  # of the range, on either side


class AxisPoint(NamedTuple):
    """A point with its interval: lower limit (or NaN), value and upper limit; its place on y.

    The text, in a colour, is written instead where it is far.
    """

    x: tuple[float, float, float]
    y: float
    text: str
    colour: str


def range_without_outliers(values: Iterable[float]) -> tuple[float, float] | None:
    """Return the range of finite values without those that are far from all others; None: none is.

    From the end with the larger gap, up to a quarter of the values (one at least) are left out
    where the range with them is more than `FAR` times that without.
    """
    ordered = sorted(value for value in values if math.isfinite(value))
    most = max(1, len(ordered) // 4)
    whole = ordered[-1] - ordered[0] if ordered else 0.0
    for left_out in range(1, most + 1):
        rest = len(ordered) - left_out
        if rest < FEWEST_NEAR:
            break
        starts = range(left_out + 1)
        start = min(starts, key=lambda place: ordered[place + rest - 1] - ordered[place])
        low, high = ordered[start], ordered[start + rest - 1]
        if high > low and whole > FAR * (high - low):
            return low, high
    return None


def cut_outliers(axis: Axes, points: Iterable[AxisPoint]) -> None:
    """Limit the x axis of a finished drawing to near values, and write the others at its edge."""
    held = [point for point in points if math.isfinite(point.x[1])]
    kept = range_without_outliers(point.x[1] for point in held)
    if kept is None:
        return
    near = [point for point in held if kept[0] <= point.x[1] <= kept[1]]
    ends = [end for point in near for end in point.x if math.isfinite(end)]
    margin = EDGE_MARGIN * (max(ends) - min(ends))
    axis.set_xlim(min(ends) - margin, max(ends) + margin)
    for point in held:
        if point in near:
            continue
        right = point.x[1] > kept[1]
        axis.text(
            0.99 if right else 0.01,
            point.y,
            f"{point.text} →" if right else f"← {point.text}",
            transform=axis.get_yaxis_transform(),
            ha="right" if right else "left",
            va="center",
            fontsize=7,
            color=point.colour,
        )
