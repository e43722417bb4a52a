"""Frequency against rank of types (Zipf's law): Figure 6 of the tendencies paper."""

from __future__ import annotations

from functools import partial

import pandas as pd
from matplotlib.figure import Figure

from beyond_perplexity.figures.labels import NEUTRAL_COLOUR, Labels, Style, is_reference
from beyond_perplexity.figures.style import (
    draw_by_decoding,
    handle,
    legend_below,
    select,
    styled,
    thin,
)

FIT_STYLES: tuple[Style, ...] = ((0, (2, 2)), (0, (0.8, 1.6)))
FIT_COLOURS = (NEUTRAL_COLOUR, "#999999")


@styled
def rank_frequency(table: pd.DataFrame, labels: Labels) -> Figure:
    """Draw relative frequency against rank, both logarithmic, with the test set's Zipf fit.

    Takes ``rank_frequency`` (x rank, y relative frequency) and ``zipf_fit`` of the reference.
    """
    curves = select(table, "rank_frequency")
    human = table["source"].map(is_reference)
    drawn = table[(table["curve"] == "zipf_fit") & human].sort_values("x")
    fits = [(name, drawn[drawn["source"] == name]) for name in labels.sort_sources(drawn["source"])]
    figure, axes, entries = draw_by_decoding(
        curves,
        labels,
        xlabel="Rank of the type",
        ylabel="Relative frequency",
        prepare=partial(thin, log=True),
    )
    for axis in axes:
        axis.set(xscale="log", yscale="log")
        for place, (_, fit) in enumerate(fits):
            x, y = (thin(fit, log=True)[name] for name in ("x", "y"))
            colour, style = FIT_COLOURS[place % 2], FIT_STYLES[place % 2]
            axis.plot(x, y, color=colour, linestyle=style, linewidth=1, zorder=4)
    for place, (name, _) in enumerate(fits):
        title = f"Zipf fit, {labels.human(name)}"
        entries.append(handle(title, FIT_COLOURS[place % 2], None, FIT_STYLES[place % 2]))
    legend_below(figure, entries)
    return figure
