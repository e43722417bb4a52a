"""Document lengths as box plots: Figure 5 of the tendencies paper."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from beyond_perplexity.figures.labels import Labels, Looks, is_reference, parse_source
from beyond_perplexity.figures.style import COLUMN_WIDTH, select, single_panel, styled

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
    axis.set_yticks(range(len(sources)), [labels.source(name) for name in sources])
    axis.set_ylim(len(sources) - 0.5, -0.5)
    axis.set_xlim(left=0)
    axis.set_xlabel("Document length (tokens)")
    axis.grid(visible=False, axis="y")
    return figure
