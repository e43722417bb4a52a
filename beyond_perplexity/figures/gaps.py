"""What each setting lacks of log p on documents that the models generated."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from beyond_perplexity.errors import NothingToShowError
from beyond_perplexity.figures.labels import PALETTE, Labels
from beyond_perplexity.figures.style import PAGE_WIDTH, handle, legend_below, package_style
from beyond_perplexity.importance.bidirectional_gaps import GapRange, gap_ranges

LEAST_SHOWN = 1e-3  # nats per token: where the logarithmic axis begins
MOST_SHOWN = 1.0  # where it ends at the least
ROW_HEIGHT = 0.16


def true_gaps(gaps: pd.DataFrame, labels: Labels) -> Figure:
    """Draw from where to where the gap of each setting may be.

    Parameters
    ----------
    gaps : pandas.DataFrame
        Schema ``importance_gaps``, of all models and proposals.
    labels : Labels
        Of no concern here: models and proposals go by their own names.

    Returns
    -------
    matplotlib.figure.Figure
        A panel per model; per setting what it may lack of log p, nats per token: a bar between what
        is known from either side, a point where the two agree, an arrow where there is no most.

    Raises
    ------
    NothingToShowError
        When the table has no estimate.
    """
    held = gaps[gaps["forward"].notna()]
    if held.empty:
        raise NothingToShowError("no simulated document was estimated")
    rows = held.to_dict("records")
    ranges = gap_ranges(rows)
    known = [found.most for found in ranges if np.isfinite(found.most)]
    limits = LEAST_SHOWN / 1.5, 2 * max([MOST_SHOWN, *known])
    models = list(dict.fromkeys(row["model"] for row in rows))
    proposals = list(dict.fromkeys(_short(row) for row in rows))
    colours = {name: PALETTE[place % len(PALETTE)] for place, name in enumerate(proposals)}
    panels = [
        [pair for pair in zip(rows, ranges, strict=True) if pair[0]["model"] == model]
        for model in models
    ]
    with package_style():
        height = ROW_HEIGHT * max(map(len, panels)) + 1.2
        figure = Figure(figsize=(PAGE_WIDTH, height), layout="constrained")
        grid = figure.subplots(1, len(models), squeeze=False, sharex=True)[0]
        for model, panel, axis in zip(models, panels, grid, strict=True):
            _draw_bars(axis, panel, colours, limits)
            axis.set_title(model)
            axis.set_xlabel("Missing of log p,\nnats per token")
        legend_below(figure, [handle(name, colours[name], None) for name in proposals])
    return figure


def _short(row: Any) -> str:
    """Name a proposal without its model."""
    return str(row["proposal"]).removeprefix(f"{row['model']}-").replace("-", " ")


def _draw_bars(
    axis: Axes,
    panel: list[tuple[dict[Any, Any], GapRange]],
    colours: dict[str, str],
    limits: tuple[float, float],
) -> None:
    for place, (row, found) in enumerate(panel):
        ends = [found.least, found.most if np.isfinite(found.most) else limits[1] / 1.2]
        low, high = sorted(max(end, LEAST_SHOWN) for end in ends)
        colour = colours[_short(row)]
        axis.plot([low, high], [place, place], color=colour, linewidth=2, solid_capstyle="butt")
        mark = ("o", (low * high) ** 0.5) if np.isfinite(found.most) else (">", high)
        axis.plot(mark[1], place, marker=mark[0], color=colour, markersize=4)
    axis.set_xscale("log")
    axis.set_xlim(limits)
    axis.xaxis.set_minor_formatter(NullFormatter())
    axis.set_yticks(range(len(panel)), [_setting_label(row) for row, _ in panel])
    axis.set_ylim(len(panel) - 0.5, -0.5)
    axis.grid(axis="y", visible=False)


def _setting_label(row: Any) -> str:
    runs = f" × {row['runs']:.0f} runs" if row["runs"] > 1 else ""
    return f"τ = {row['temperature']:g}, K = {row['n_samples']:,.0f}{runs}"
