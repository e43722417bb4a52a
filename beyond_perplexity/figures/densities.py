"""Densities of the share of stop words and of symbols: Figures 8 and 9 of the tendencies paper."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.figures.style import (
    draw_by_decoding,
    legend_below,
    select,
    styled,
)

VISIBLE = 0.005  # of the highest density: below it the axis is cut


def _density(table: pd.DataFrame, labels: Labels, curve: str, what: str) -> Figure:
    curves = select(table, curve)
    figure, axes, entries = draw_by_decoding(
        curves, labels, xlabel=f"Fraction of {what}", ylabel="Density over documents"
    )
    visible = curves[curves["y"] > VISIBLE * curves["y"].max()]
    right = min(1.0, float(visible["x"].max()) + 0.02)
    for axis in axes:
        axis.set_xlim(0, right)
        axis.set_ylim(bottom=0)
    legend_below(figure, entries)
    return figure


@styled
def stop_words(table: pd.DataFrame, labels: Labels) -> Figure:
    """Draw the density over documents of the fraction of stop words (paper, Fig. 8).

    Parameters
    ----------
    table : pandas.DataFrame
        Schema ``curves``; takes ``stop_words_density``: x fraction, y density.
    labels : Labels
        Names and order.

    Returns
    -------
    matplotlib.figure.Figure
        A panel per decoding, a line per model, the test set in black.

    Raises
    ------
    InputError
        When the curve is missing.
    """
    return _density(table, labels, "stop_words_density", "stop words")


@styled
def symbols(table: pd.DataFrame, labels: Labels) -> Figure:
    """Draw the density over documents of the fraction of symbols (paper, Fig. 9).

    Parameters
    ----------
    table : pandas.DataFrame
        Schema ``curves``; takes ``symbols_density``: x fraction, y density.
    labels : Labels
        Names and order.

    Returns
    -------
    matplotlib.figure.Figure
        As `stop_words`.

    Raises
    ------
    InputError
        When the curve is missing.
    """
    return _density(table, labels, "symbols_density", "symbols")
