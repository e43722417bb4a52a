"""Correlations as matrices with a tree, of few models as scatters; those of all papers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, cycle, permutations
from textwrap import fill
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from beyond_perplexity.errors import NothingToShowError
from beyond_perplexity.figures import measure_names, numbers, style
from beyond_perplexity.figures.labels import Labels, Looks
from beyond_perplexity.relations.measures import OVER_ROWS, WITHIN_DECODINGS, shared_rows
from beyond_perplexity.relations.readers import PERPLEXITY

_COLOURS = "RdBu_r"  # also for red-green blindness: negative is blue
_CELL, _LABELS = 0.28, 2.1  # inches
_TREE = 0.9
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


def _shown_value(value: float) -> str:
    """Write a correlation with two decimals, without a zero before the point."""
    rounded = round(value, 2)
    size, nearly = abs(rounded), "≈" if abs(rounded) == 1 and abs(value) < 1 - 1e-9 else ""
    text = f"{size:.0f}" if size in (0, 1) else f"{size:.2f}".replace("0.", ".", 1)
    return f"{numbers.MINUS if rounded < 0 else ''}{nearly}{text}"


def _draw_correlation(axis: Axes, place: tuple[int, int], found: ShownCorrelation) -> None:
    row, column = place
    if math.isnan(found.value):
        axis.text(column, row, "·", fontsize=7, color=_UNSURE, **style.CENTRED)
        return
    if found.sure:
        style.fill_cell(axis, row, column, colormaps[_COLOURS]((found.value + 1) / 2))
    ink = "#FFFFFF" if abs(found.value) > _DARK else "#000000"
    ink = ink if found.sure else _UNSURE
    axis.text(column, row, _shown_value(found.value), fontsize=7, color=ink, **style.CENTRED)


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
    """Draw a matrix of measures, rows with titles, columns with numbers, its triangles of two
    kinds, coloured where the interval leaves 0 out."""
    n = len(titles)
    for (row, first), (column, second) in permutations(enumerate(titles), 2):
        kind = below if row > column else above
        _draw_correlation(axis, (row, column), either_way(kind, first, second))
    for place in range(n):
        style.fill_cell(axis, place, place, "#D9D9D9")
    axis.set(xlim=(-0.5, n - 0.5), ylim=(n - 0.5, -0.5), aspect="equal", anchor="E")
    rows = [f"{fill(title, _LINE)}  {number}" for number, title in enumerate(titles.values(), 1)]
    axis.set_yticks(range(n), rows)
    axis.set_xticks(range(n), [str(number) for number in range(1, n + 1)])
    style.name_columns_above(axis)


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
    """Two clusters become one, n + k for merge k of leaves 0 to n − 1, at the mean distance of
    their leaves; the lowest leaf's comes first."""

    first: int
    second: int
    height: float


def average_linkage(distances: np.ndarray) -> tuple[list[Merge], list[int]]:
    """Cluster by the mean distance of leaves, (n, n) (Sokal, Michener 1958), the nearest first,
    ties by the lower leaves, and give leaves in an order in which no branches cross."""
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


class Scatter(NamedTuple):
    """A panel of one measure against another; a point is (model, decoding or split, x, y)."""

    title: str
    found: Sequence[ShownCorrelation]
    n: str
    points: Sequence[tuple[str, str, float, float]]
    turned: tuple[bool, bool] = (False, False)  # x and y of which less is better


def draw_scatters(
    scatters: Sequence[Scatter], labels: Labels, xlabel: str, kinds: Mapping[str, str]
) -> Figure:
    """Draw panels with a mark for each model, filled by its decoding or split (key and title); a
    far or infinite x is at the edge, and named in the legend's title."""
    shown = [one for one in scatters if one.points]
    if not shown:
        raise NothingToShowError("no two measures are known of the same models")
    models = labels.sort_models({point[0] for one in shown for point in one.points})
    looks = Looks(replace(labels, models=list(dict.fromkeys([*labels.models, *models]))), [])
    fills = dict(
        zip(kinds, cycle(("full", "none", "left", "right", "top", "bottom")), strict=False)
    )
    figure, axes = style.panel_grid(len(shown), 4, 1.5, 1.0)
    far: dict[str, None] = {}
    for axis, one in zip(axes, shown, strict=True):
        low, high = style.range_without_outliers({x for *_, x, _ in one.points}) or (-1e300, 1e300)
        for model, kind, x, y in one.points:
            how: dict[str, Any] = {"color": looks.colour(model), "fillstyle": fills.get(kind)}
            if not low <= x <= high:
                far[f"{labels.model(model)} {numbers.shown(x, 2)}"] = None
                x = 0.03 if (x > high) == one.turned[0] else 0.97
                how["transform"] = axis.get_yaxis_transform()
            axis.plot(x, y, looks.marker(model), **how)
        values = ("?" if math.isnan(f.value) else _shown_value(f.value) for f in one.found)
        title = f"{fill(one.title, 20)}\nρ = {' / '.join(values)}, n = {one.n}"
        axis.set_title(title, fontsize=7, loc="left")
        axis.margins(0.12)
        axis.locator_params(nbins=3)
        axis.ticklabel_format(style="plain", useOffset=False)
        for side, turned in zip((axis.xaxis, axis.yaxis), one.turned, strict=True):
            side.set_inverted(turned)
    entries = [
        style.handle(labels.model(m), looks.colour(m), looks.marker(m), "none") for m in models
    ]
    entries += [style.handle(title, "#333333", "o", "none") for title in kinds.values()]
    for entry, filled in zip(entries[len(models) :], fills.values(), strict=True):
        entry.set_fillstyle(filled)  # type: ignore[arg-type]
    style.legend_below(figure, entries)
    said = f"\nAt the edge, beyond the axis: {', '.join(far)}" if far else ""
    figure.legends[0].set_title(xlabel + said)
    return figure


def _draw_few(
    measures: pd.DataFrame, correlations: pd.DataFrame, titles: Mapping[str, str], labels: Labels
) -> Figure:
    """Draw bits per byte, or the first measure where it is unknown, against every other."""
    known = measures[measures["value"].notna()].astype(object)
    held: dict[str, dict[tuple[str, str | None], float]] = {}
    for model, decoding, name, value in known[["model", "decoding", "measure", "value"]].values:
        held.setdefault(name, {})[model, decoding if isinstance(decoding, str) else None] = value
    lower = set(measures.loc[measures["direction"] < 0, "measure"])
    first = PERPLEXITY if PERPLEXITY in titles else next(iter(titles))
    over = correlations[correlations["scope"] == OVER_ROWS]
    found = correlations_of(over, over["first"], over["second"])
    scatters = []
    for name in (name for name in titles if name != first):
        pairs = shared_rows(held.get(first, {}), held.get(name, {}))
        n = f"{len(pairs)} ({len({model for model, _ in pairs})})"
        points = [(model, decoding or "", *both) for (model, decoding), both in pairs.items()]
        rho, turned = either_way(found, first, name), (first in lower, name in lower)
        scatters.append(Scatter(titles[name], [rho], n, points, turned))
    decodings = labels.sort_decodings(known["decoding"].dropna())
    xlabel = f"Across: {titles[first]}; right and up are better. ρ: Spearman's; n: rows (models)"
    return draw_scatters(scatters, labels, xlabel, {one: labels.decoding(one) for one in decodings})


@style.styled
def relation_matrix(measures: pd.DataFrame, correlations: pd.DataFrame, labels: Labels) -> Figure:
    """Draw the rank correlations of enough families with their tree; of fewer, scatters."""
    titles = measure_names.relation_titles(measures, labels)
    few = correlations["families"].median() < measure_names.FEW_MODELS
    shown = (
        correlations if few else correlations[correlations["families"] >= measure_names.FEW_MODELS]
    )
    known = {*shown["first"], *shown["second"]}
    names = [key for key in titles if key in known]
    if len(names) < 2:
        raise NothingToShowError("there are fewer than two measures to correlate")
    if few:
        return _draw_few(measures, correlations, {key: titles[key] for key in names}, labels)
    parts = (shown[shown["scope"] == s] for s in (OVER_ROWS, WITHIN_DECODINGS))
    below, above = (correlations_of(rows, rows["first"], rows["second"]) for rows in parts)
    merges, order = cluster_measures(above, names)
    figure, (left, axis) = matrix_figure(len(names), tree=True)
    draw_correlations(axis, {names[place]: titles[names[place]] for place in order}, below, above)
    draw_tree(left, merges, order)
    models = int(measures["model"].nunique())
    rows = len(measures[["model", "decoding"]].drop_duplicates())
    axis.set_xlabel(
        f"Spearman's correlation; more is better in all. {models} models, {rows} rows.\n"
        "Below the diagonal: over all rows; above: over models within decodings. Coloured\n"
        "where the 95% interval, which counts families of models and not rows, leaves 0 out",
        fontsize=7,
    )
    return figure
