"""Matrices of correlations with their intervals and tree; that of the measures of all papers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations, permutations
from textwrap import fill
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from beyond_perplexity.errors import NothingToShowError
from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.figures.measure_names import relation_titles
from beyond_perplexity.figures.numbers import MINUS
from beyond_perplexity.figures.style import CENTRED, fill_cell, name_columns_above, styled
from beyond_perplexity.relations.measures import OVER_ROWS, WITHIN_DECODINGS

_COLOURS = "RdBu_r"  # also for red-green blindness: negative is blue
_CELL, _LABELS = 0.36, 2.5  # inches
_TREE = 1.1
_LINE = 26  # characters of a line of a title
_DARK = 0.65  # from here on ink is white
_UNSURE = "#6A6A6A"


class ShownCorrelation(NamedTuple):
    """A correlation with its interval; NaN where it is not known."""

    value: float
    low: float
    high: float

    @property
    def sure(self) -> bool:
        """Whether its interval leaves 0 out."""
        return self.low > 0 or self.high < 0


UNKNOWN_CORRELATION = ShownCorrelation(math.nan, math.nan, math.nan)
ShownCorrelations = Mapping[tuple[Any, Any], ShownCorrelation]


def correlations_of(
    rows: pd.DataFrame, firsts: Iterable[Any], seconds: Iterable[Any]
) -> ShownCorrelations:
    """Return the correlations of rows by the names of their two measures."""
    values = map(ShownCorrelation, rows["value"], rows["low"], rows["high"])
    return dict(zip(zip(firsts, seconds, strict=True), values, strict=True))


def either_way(held: ShownCorrelations, first: Any, second: Any) -> ShownCorrelation:
    """Find the correlation of two measures, in whichever order they stand."""
    return held.get((first, second), held.get((second, first), UNKNOWN_CORRELATION))


def cluster_measures(
    held: ShownCorrelations, names: Sequence[Any]
) -> tuple[list[Merge], list[int]]:
    """Cluster measures by 1 − |correlation| (unknown: 0); also returns their order."""
    size = [[abs(either_way(held, one, two).value) for two in names] for one in names]
    distances = 1 - np.nan_to_num(np.array(size).reshape(len(names), len(names)))
    np.fill_diagonal(distances, 0)
    return average_linkage(distances)


def _digits(value: float, digits: int) -> str:
    """Write a correlation without a zero before the point."""
    rounded = round(value, digits)
    if abs(rounded) in (0, 1):
        return f"{MINUS if rounded < 0 else ''}{abs(rounded):.0f}"
    return f"{MINUS if rounded < 0 else ''}{abs(rounded):.{digits}f}".replace("0.", ".", 1)


def _shown_value(value: float) -> str:
    text = _digits(value, 2)
    return text.replace("1", "≈1") if text in ("1", f"{MINUS}1") and abs(value) < 1 - 1e-9 else text


def _interval(found: ShownCorrelation) -> str:
    if math.isnan(found.low + found.high):
        return ""
    digits = 2 if found.high - found.low < 0.4 else 1
    texts = [_digits(limit, digits) for limit in (found.low, found.high)]
    return ", ".join(texts) if texts[0] != texts[1] else ""


def _draw_correlation(axis: Axes, place: tuple[int, int], found: ShownCorrelation) -> None:
    row, column = place
    if math.isnan(found.value):
        axis.text(column, row, "·", fontsize=6, color=_UNSURE, **CENTRED)
        return
    if found.sure:
        fill_cell(axis, row, column, colormaps[_COLOURS]((found.value + 1) / 2))
    ink = "#FFFFFF" if abs(found.value) > _DARK else "#000000"
    ink = ink if found.sure else _UNSURE
    interval = _interval(found)
    height = row - 0.14 if interval else row
    axis.text(column, height, _shown_value(found.value), fontsize=6.2, color=ink, **CENTRED)
    axis.text(column, row + 0.24, interval, fontsize=3.9, color=ink, **CENTRED)


def matrix_figure(
    measures: int, *, tree: bool = False, below: int = 1
) -> tuple[Figure, list[Axes]]:
    """Lay out matrices of so many measures below one another, with room for a tree on the left."""
    side = _CELL * max(measures, 4)
    widths = [_TREE, _LABELS + side] if tree else [_LABELS + side]
    figure = Figure(figsize=(sum(widths), below * (side + 0.95)), layout="constrained")
    shape = (below, len(widths))
    axes = figure.subplots(*shape, squeeze=False, gridspec_kw={"width_ratios": widths})
    return figure, list(axes.flat)


def draw_correlations(
    axis: Axes, titles: Mapping[Any, str], below: ShownCorrelations, above: ShownCorrelations
) -> None:
    """Draw a matrix of measures, by name, whose lower and upper triangle are of two kinds.

    Rows have the titles, columns their numbers; coloured is where the interval leaves 0 out.
    """
    n = len(titles)
    for (row, first), (column, second) in permutations(enumerate(titles), 2):
        kind = below if row > column else above
        _draw_correlation(axis, (row, column), either_way(kind, first, second))
    for place in range(n):
        fill_cell(axis, place, place, "#D9D9D9")
    axis.set(xlim=(-0.5, n - 0.5), ylim=(n - 0.5, -0.5), aspect="equal", anchor="E")
    rows = [f"{fill(title, _LINE)}  {number}" for number, title in enumerate(titles.values(), 1)]
    axis.set_yticks(range(n), rows)
    axis.set_xticks(range(n), [str(number) for number in range(1, n + 1)])
    name_columns_above(axis)


def draw_tree(axis: Axes, merges: Sequence[Merge], order: Sequence[int]) -> None:
    """Draw a tree whose leaves are the rows of a matrix, its root on the left."""
    places = {leaf: float(row) for row, leaf in enumerate(order)}
    heights = dict.fromkeys(places, 0.0)
    for number, merge in enumerate(merges, start=len(order)):
        rows = [places[one] for one in (merge.first, merge.second)]
        ends = [heights[one] for one in (merge.first, merge.second)]
        line = [ends[0], merge.height, merge.height, ends[1]], [rows[0], rows[0], rows[1], rows[1]]
        axis.plot(*line, color="#333333", linewidth=0.8, solid_capstyle="round")
        places[number], heights[number] = sum(rows) / 2, merge.height
    axis.set(ylim=(len(order) - 0.5, -0.5), xlim=(1, 0))
    axis.set_xticks([0, 0.5, 1], ["0", ".5", "1"])
    axis.set_yticks([])
    axis.spines["left"].set_visible(False)
    axis.grid(axis="y", visible=False)
    axis.set_xlabel("1 − |correlation|")


class Merge(NamedTuple):
    """Two clusters become one, at the mean distance of their leaves; the lowest leaf's comes first.

    The leaves are 0 to n − 1, the cluster of merge k is n + k.
    """

    first: int
    second: int
    height: float


def average_linkage(distances: np.ndarray) -> tuple[list[Merge], list[int]]:
    """Cluster by the mean distance of leaves, symmetric of shape (n, n) (Sokal, Michener 1958).

    Merges are from the nearest on; of equal distances that of the lower leaves is first. Also
    returns the leaves as they stand in the tree, so that no two branches cross.
    """
    members = {leaf: [leaf] for leaf in range(len(distances))}
    merges: list[Merge] = []
    while len(members) > 1:
        pairs = list(combinations(sorted(members, key=lambda name: members[name]), 2))
        heights = [float(distances[np.ix_(members[a], members[b])].mean()) for a, b in pairs]
        nearest = int(np.argmin(heights))
        first, second = pairs[nearest]
        members[len(distances) + len(merges)] = members.pop(first) + members.pop(second)
        merges.append(Merge(first, second, heights[nearest]))
    return merges, [leaf for held in members.values() for leaf in held]


@styled
def relation_matrix(measures: pd.DataFrame, correlations: pd.DataFrame, labels: Labels) -> Figure:
    """Draw the rank correlations of all measures, within decodings above, with their tree."""
    titles = relation_titles(measures, labels)
    known = {*correlations["first"], *correlations["second"]}
    names = [key for key in titles if key in known]
    if len(names) < 2:
        raise NothingToShowError("there are fewer than two measures to correlate")
    parts = (correlations[correlations["scope"] == s] for s in (OVER_ROWS, WITHIN_DECODINGS))
    below, above = (correlations_of(rows, rows["first"], rows["second"]) for rows in parts)
    merges, order = cluster_measures(above, names)
    figure, (left, axis) = matrix_figure(len(names), tree=True)
    draw_correlations(axis, {names[place]: titles[names[place]] for place in order}, below, above)
    draw_tree(left, merges, order)
    models = int(measures["model"].nunique())
    rows = len(measures[["model", "decoding"]].drop_duplicates())
    few = "few models: intervals are wide. " if models < 10 else ""
    axis.set_xlabel(
        f"Spearman's correlation; more is better in all. {models} models, {rows} rows, "
        f"{few}\nBelow the diagonal: over all rows; above: over models within decodings. "
        "Coloured where\nthe 95% interval, which counts models and not rows, leaves 0 out",
        fontsize=7,
    )
    return figure
