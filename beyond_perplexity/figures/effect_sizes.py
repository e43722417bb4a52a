"""The main figure: how far every body of text is from the test set, in every tendency."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from beyond_perplexity.errors import InputError
from beyond_perplexity.figures.labels import Labels, parse_source
from beyond_perplexity.figures.numbers import shown, stars
from beyond_perplexity.figures.style import PAGE_WIDTH, single_panel, styled
from beyond_perplexity.tendencies.rows import TENDENCIES

# The distance of each tendency, in [0, 1], 0 for equal distributions.
EFFECTS = {
    (name, row.distance): f"{row.lines}\n({row.distance_name})"
    for name, row in TENDENCIES.items()
    if row.distance
}
DARK = 0.6  # of the colour scale: above it the ink of a number is white
FEW_SOURCES = 3  # sources: the numbers say it all, and a bar of colours would be squeezed


def effect_table(table: pd.DataFrame) -> pd.DataFrame:
    """Take the rows that measure a distance to the test set: one per source and tendency."""
    chosen = [key in EFFECTS for key in zip(table["tendency"], table["measure"], strict=True)]
    return table[np.array(chosen, dtype=bool)]


def _wide(
    rows: pd.DataFrame, column: str, sources: list[str], keys: list[tuple[str, str]]
) -> np.ndarray:
    """Lay one column out by source and (tendency, measure); NaN where there is none."""
    wide = rows.pivot(index="source", columns=["tendency", "measure"], values=column)
    return wide.reindex(index=sources, columns=pd.MultiIndex.from_tuples(keys)).to_numpy(float)


def _write_numbers(axis: Axes, image: AxesImage, values: np.ndarray, p_values: np.ndarray) -> None:
    for (row, column), value in np.ndenumerate(values):
        if np.isnan(value):
            continue
        darkness = float(np.asarray(image.norm(value)))
        axis.text(
            column,
            row,
            shown(value) + stars(float(p_values[row, column])),
            ha="center",
            va="center",
            fontsize=7,
            color="#FFFFFF" if darkness > DARK else "#000000",
        )


@styled
def effect_sizes(table: pd.DataFrame, labels: Labels) -> Figure:
    """Draw the distance of every source to the test set as a heat map with stars.

    Parameters
    ----------
    table : pandas.DataFrame
        Schema ``tendencies``; takes the distances named in `EFFECTS`, as far as they are there.
    labels : Labels
        Names and order.

    Returns
    -------
    matplotlib.figure.Figure
        A row per source, a column per tendency; darker is farther. ** p < 0.005, * p < 0.05.

    Raises
    ------
    InputError
        When there is none of the distances.
    """
    rows = effect_table(table)
    if rows.empty:
        raise InputError("the measures have no distance to the test set to draw")
    sources = labels.sort_sources(rows["source"])
    held = set(zip(rows["tendency"], rows["measure"], strict=True))
    columns = [key for key in EFFECTS if key in held]
    values = _wide(rows, "value", sources, columns)
    p_values = _wide(rows, "p_value", sources, columns)
    figure, axis = single_panel(PAGE_WIDTH, 1.1 + 0.24 * len(sources))
    norm = PowerNorm(0.5, 0, max(0.1, float(np.nanmax(values))))
    image = axis.imshow(values, cmap="Blues", norm=norm, aspect="auto")
    _write_numbers(axis, image, values, p_values)
    axis.set_xticks(range(len(columns)), [EFFECTS[key] for key in columns])
    axis.set_yticks(range(len(sources)), [labels.source(name) for name in sources])
    axis.tick_params(top=True, labeltop=True, bottom=False, labelbottom=False, length=0)
    axis.grid(visible=False)
    axis.spines[:].set_visible(False)
    models = [parse_source(name).model for name in sources]
    for row in range(1, len(sources)):
        if models[row] != models[row - 1]:
            axis.axhline(row - 0.5, color="#FFFFFF", linewidth=2.5)
    if len(sources) > FEW_SOURCES:
        bar = figure.colorbar(image, ax=axis, fraction=0.025, pad=0.015)
        bar.set_label(f"Distance to {labels.reference.lower()}")
        bar.outline.set_visible(False)
    axis.set_xlabel("** p < 0.005   * p < 0.05 (permutation test over documents)", fontsize=7)
    return figure
