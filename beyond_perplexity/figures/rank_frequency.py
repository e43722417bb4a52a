"""Frequency against rank of types (Zipf's law): Figure 6 of the tendencies paper."""

from __future__ import annotations

from functools import partial

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from beyond_perplexity.figures.labels import NEUTRAL_COLOUR, REFERENCE, Labels
from beyond_perplexity.figures.style import (
    draw_by_decoding,
    handle,
    legend_below,
    select,
    styled,
    thin,
)

FIT_STYLE = (0, (2, 2))


def _draw_fit(axis: Axes, fit: pd.DataFrame) -> None:
    axis.plot(fit["x"], fit["y"], color=NEUTRAL_COLOUR, linestyle=FIT_STYLE, linewidth=1, zorder=4)


@styled
def rank_frequency(table: pd.DataFrame, labels: Labels) -> Figure:
    """Draw relative frequency against rank, both logarithmic, with the test set's Zipf fit.

    Parameters
    ----------
    table : pandas.DataFrame
        Schema ``curves``; takes ``rank_frequency`` (x rank, y relative frequency) and, where it is
        there, ``zipf_fit`` of the reference.
    labels : Labels
        Names and order.

    Returns
    -------
    matplotlib.figure.Figure
        A panel per decoding, a line per model.

    Raises
    ------
    InputError
        When the curve is missing.
    """
    curves = select(table, "rank_frequency")
    fit = table[(table["curve"] == "zipf_fit") & (table["source"] == REFERENCE)].sort_values("x")
    figure, axes, entries = draw_by_decoding(
        curves,
        labels,
        xlabel="Rank of the type",
        ylabel="Relative frequency",
        prepare=partial(thin, log=True),
    )
    for axis in axes:
        axis.set(xscale="log", yscale="log")
        if not fit.empty:
            _draw_fit(axis, thin(fit, log=True))
    if not fit.empty:
        title = f"Zipf fit, {labels.reference.lower()}"
        entries.append(handle(title, NEUTRAL_COLOUR, None, FIT_STYLE))
    legend_below(figure, entries)
    return figure
