"""Document lengths as box plots: Figure 5 of the tendencies paper."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from beyond_perplexity.errors import NothingToShowError
from beyond_perplexity.figures.labels import Labels, Looks, is_reference, parse_source, reference_in
from beyond_perplexity.figures.style import (
    COLUMN_WIDTH,
    PAGE_WIDTH,
    name_rows,
    select,
    single_panel,
    styled,
)

BOX_LEVELS = {"whislo": 0.05, "q1": 0.25, "med": 0.5, "q3": 0.75, "whishi": 0.95}


def _draw_box(axis: Axes, box: dict[str, float], place: int, colour: str) -> None:
    drawn = axis.bxp(
        [box],
        positions=[place],
        widths=0.62,
        orientation="horizontal",
        showmeans=True,
        showfliers=False,
        patch_artist=True,
        manage_ticks=False,
        boxprops={"facecolor": colour + "59", "edgecolor": colour, "linewidth": 1},
        whiskerprops={"color": colour, "linewidth": 1},
        capprops={"color": colour, "linewidth": 1},
        medianprops={"color": "#000000", "linewidth": 1.4},
        meanprops={
            "marker": "D",
            "markersize": 3.2,
            "markerfacecolor": "#FFFFFF",
            "markeredgecolor": "#000000",
            "markeredgewidth": 0.7,
        },
    )
    for artists in drawn.values():
        for artist in artists:
            artist.set_zorder(3)


def _without_repeats(boxes: Mapping[str, dict[str, float]]) -> list[str]:
    """Leave a test set out whose box another vocabulary gives too: reading changes no length."""
    shown: list[str] = []
    for name, box in boxes.items():
        if not (is_reference(name) and any(boxes[other] == box for other in shown)):
            shown.append(name)
    return shown


@styled
def length(table: pd.DataFrame, labels: Labels) -> Figure:
    """Draw a box of document lengths per model and decoding under the test set's (paper, Fig. 5).

    Takes ``length_quantiles`` (x level in [0, 1], y tokens) and ``length_mean``. Boxes span the
    quartiles, whiskers the 5th to the 95th percentile; the line is the median, the diamond the
    mean, and the shade behind the boxes the test set's quartiles.
    """
    curves = select(table, "length_quantiles")
    means = table[table["curve"] == "length_mean"].set_index("source")["y"].to_dict()
    boxes = {}
    for name in labels.sort_sources(curves["source"]):
        own = curves[curves["source"] == name]
        levels, values = own["x"].to_numpy(), own["y"].to_numpy()
        ends = {key: float(np.interp(level, levels, values)) for key, level in BOX_LEVELS.items()}
        boxes[name] = {**ends, "mean": means.get(name, np.nan)}
    sources = _without_repeats(boxes)
    looks = Looks(labels, sources)
    figure, axis = single_panel(COLUMN_WIDTH * 1.4, 0.65 + 0.2 * len(sources))
    for place, name in enumerate(sources):
        box = boxes[name]
        _draw_box(axis, box, place, looks.colour(parse_source(name).model))
        if is_reference(name) and place == 0:
            axis.axvspan(box["q1"], box["q3"], color="#000000", alpha=0.07, linewidth=0)
    name_rows(axis, [labels.source(name) for name in sources])
    axis.set_xlim(left=0)
    axis.set_xlabel("Document length (tokens)")
    return figure


_MEASURES = {
    "types": "Types",
    "tokens": "Tokens",
    "novel_types": "Share of types\nnot in {reference}",
    "coverage": "Share of tokens\nof {reference} known",
}
UNIT_STEPS = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


def short_number(value: float, _place: object = None) -> str:
    """Write a number with a unit prefix: 57,450,000 as 57.4M."""
    for step, letter in UNIT_STEPS:
        if abs(value) >= step:
            return f"{value / step:.3g}{letter}"
    return f"{value:.3g}"


def _draw_bars(axis: Axes, values: dict[str, float], places: dict[str, int], looks: Looks) -> None:
    for name, value in values.items():
        colour = looks.colour(parse_source(name).model)
        axis.barh(places[name], value, height=0.68, color=colour, alpha=0.85)
        axis.annotate(
            short_number(value),
            (value, places[name]),
            xytext=(2, 0),
            textcoords="offset points",
            va="center",
            fontsize=6.5,
        )


@styled
def vocabulary(table: pd.DataFrame, labels: Labels) -> Figure:
    """Draw the number of types and tokens of every source, and what it shares with the test set.

    A token of the test set is known to a source that has its type; the test set's own measures end
    in ``_reference``.
    """
    rows = table[table["tendency"] == "vocabulary"]
    held = [name for name in _MEASURES if name in set(rows["measure"])]
    if not held:
        raise NothingToShowError("the measures have no tendency 'vocabulary' to draw")
    humans = {reference_in(name): name for name in rows["vocabulary"]}
    sources = labels.sort_sources([*humans, *rows["source"]])
    looks = Looks(labels, sources)
    places = {name: place for place, name in enumerate(sources)}
    size = (PAGE_WIDTH, 0.75 + 0.19 * len(sources))
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(1, len(held), sharey=True, squeeze=False)[0]
    for axis, measure in zip(axes, held, strict=True):
        chosen = rows[rows["measure"] == measure]
        known = chosen[chosen["value"].notna()]
        own = dict(zip(known["source"], known["value"], strict=True))
        totals = rows[rows["measure"] == f"{measure}_reference"]
        for human, read_in in humans.items():
            total = totals[totals["vocabulary"] == read_in]["value"].dropna()
            if len(total):
                own[human] = float(total.iloc[0])
        _draw_bars(axis, own, places, looks)
        axis.set_title(_MEASURES[measure].format(reference=labels.human()))
        axis.margins(x=0.28)
        axis.set_xlim(left=0)
        axis.xaxis.set_major_locator(MaxNLocator(3))
        axis.xaxis.set_major_formatter(FuncFormatter(short_number))
        name_rows(axis, [labels.source(name) for name in sources])
    return figure
