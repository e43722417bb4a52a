"""The deviations of an audit, each beside its tolerance."""

from __future__ import annotations

import math

import pandas as pd
from matplotlib.figure import Figure

from beyond_perplexity.figures.style import COLUMN_WIDTH, single_panel, styled

_LEAST, _MOST = 1e-8, 1e8  # of the tolerance: what is drawn at the edges
_SOUND, _FAILED = "#0072B2", "#D55E00"


@styled
def draw_deviations(table: pd.DataFrame) -> Figure:
    """Draw each deviation of an audit by its tolerance; what is no number stands at the edge."""
    figure, axis = single_panel(COLUMN_WIDTH, 0.6 + 0.17 * len(table))
    columns = (table[name].tolist() for name in ("sound", "worst", "tolerance"))
    for place, (sound, worst, tolerance) in enumerate(zip(*columns, strict=True)):
        colour = _SOUND if sound else _FAILED
        axis.plot(_multiple(worst, tolerance), place, "o" if sound else "X", c=colour)
    axis.axvline(1, color="#777777", linewidth=0.8)
    axis.set_xscale("log")
    axis.set_xlim(_LEAST / 3, _MOST * 3)
    axis.set_yticks(range(len(table)), list(table["check"]))
    axis.set_ylim(len(table) - 0.5, -0.5)
    axis.set_xlabel("Deviation / tolerance (failed checks are right of 1)")
    return figure


def _multiple(worst: float, tolerance: float) -> float:
    """Return a deviation as a multiple of its tolerance, within what is drawn."""
    if math.isnan(worst):
        return _MOST
    if not tolerance:
        return _MOST if worst else _LEAST
    return min(max(worst / tolerance, _LEAST), _MOST)
