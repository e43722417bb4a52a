"""Densities of shares of tokens: Figures 8 and 9 of the tendencies paper, one for each share."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pandas as pd
from matplotlib.figure import Figure

from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.figures.style import draw_by_decoding, legend_below, select, styled
from beyond_perplexity.tendencies.definitions import SHARES, TENDENCIES

VISIBLE = 0.005  # of the highest density: below it the axis is cut


def __getattr__(tendency: str) -> Callable[[pd.DataFrame, Labels], Figure]:
    """Return the figure of a share by the name of its tendency."""
    if tendency in SHARES:
        return partial(share_density, tendency=tendency)
    raise AttributeError(f"there is no density of '{tendency}'")


@styled
def share_density(table: pd.DataFrame, labels: Labels, tendency: str) -> Figure:
    """Draw the density over documents of the share of a class of tokens (paper, Figs. 8 and 9).

    Takes curve ``{tendency}_density`` (x fraction, y density); the test set is black.
    """
    curves = select(table, f"{tendency}_density")
    figure, axes, entries = draw_by_decoding(
        curves,
        labels,
        xlabel=f"Fraction of {TENDENCIES[tendency].noun}",
        ylabel="Density over documents",
    )
    visible = curves[curves["y"] > VISIBLE * curves["y"].max()]
    right = min(1.0, float(visible["x"].max()) + 0.02)
    for axis in axes:
        axis.set_xlim(0, right)
        axis.set_ylim(bottom=0)
    legend_below(figure, entries)
    return figure
