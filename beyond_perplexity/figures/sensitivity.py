"""The smallest shift of each tendency that a number of documents detects."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from beyond_perplexity.errors import NothingToShowError
from beyond_perplexity.figures.labels import MARKERS, NEUTRAL_COLOUR, PALETTE, Labels
from beyond_perplexity.figures.style import COLUMN_WIDTH, handle, legend_below, single_panel, styled
from beyond_perplexity.tendencies.definitions import TENDENCIES

# Beside the test of the whole distribution, which is solid.
DASHED = ("mean_difference", "max_difference")
SOLID, DASH = "-", "--"


def _percent(value: float, _place: object = None) -> str:
    return f"{100 * value:g}%"


@styled
def sensitivity(table: pd.DataFrame, labels: Labels) -> Figure:
    """Draw the smallest detectable shift against the number of documents, both logarithmic.

    Parameters
    ----------
    table : pandas.DataFrame
        Schema ``sensitivity``; takes ``relative``.
    labels : Labels
        Names.

    Returns
    -------
    matplotlib.figure.Figure
        A colour per tendency; solid for the distance of whole distributions, dashed for the
        difference of means and the largest difference.

    Raises
    ------
    NothingToShowError
        When there is no shift to draw.
    """
    found = table[table["relative"].notna()]
    if found.empty:
        raise NothingToShowError("the sensitivity has no shift to draw")
    figure, axis = single_panel(COLUMN_WIDTH * 1.4, 3.6)
    entries = []
    tendencies = [name for name in TENDENCIES if name in set(found["tendency"])]
    for place, tendency in enumerate(tendencies):
        colour, marker = PALETTE[place % len(PALETTE)], MARKERS[place % len(MARKERS)]
        entries.append(handle(TENDENCIES[tendency].title, colour, marker))
        for measure, rows in found[found["tendency"] == tendency].groupby("measure"):
            points = rows.sort_values("n")
            style = DASH if measure in DASHED else SOLID
            axis.plot(
                points["n"].to_numpy(),
                points["relative"].to_numpy(),
                color=colour,
                marker=marker,
                linestyle=style,
                linewidth=1.1,
            )
    grouped = bool(found["groups"].iloc[0])
    label = "Documents in each sample, the human one of whole groups"
    axis.set(xscale="log", yscale="log")
    axis.set_xlabel(label if grouped else "Documents in each of two samples")
    axis.set_ylabel(f"Smallest detectable shift\n(relative to the {labels.reference.lower()})")
    axis.yaxis.set_major_formatter(FuncFormatter(_percent))
    axis.set_xticks(np.unique(found["n"]))
    axis.minorticks_off()
    entries.append(handle("KS, total variation", NEUTRAL_COLOUR, None, SOLID))
    entries.append(handle("Mean, largest difference", NEUTRAL_COLOUR, None, DASH))
    legend_below(figure, entries)
    return figure
