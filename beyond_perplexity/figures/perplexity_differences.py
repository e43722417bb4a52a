"""Bits per byte of every model, and the differences of all pairs with their intervals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from beyond_perplexity.figures import measure_names, numbers, style
from beyond_perplexity.figures.labels import Labels, Looks

_MANY = 9  # models: from here on cells have no room for intervals
_VERY_MANY = 13  # from here on cells have room for stars alone
_MOST = 30  # more are not drawn, nor more than fit into the height of a page
_HEIGHT = 9.4  # inches, of a page
_COLOURS = "RdBu_r"  # also for red-green blindness: blue where the row's model is better, −1 to 1
# Parts of the scale: the largest difference, the least that is seen, and where ink becomes white.
_LARGEST, _FAINT, _DARK = 0.85, 0.15, 0.7

_SCALE = "Darker is larger, by the square root of the difference"


def _cell(row: pd.Series, *, exact: bool) -> str:
    """Write a difference and half its interval, with the first digit of that and one more."""
    if not math.isfinite(row["value"]):  # of two impossible texts, or of one
        return numbers.shown(row["value"])
    half = (row["high"] - row["low"]) / 2
    digits = int(np.clip(1 - math.floor(math.log10(half)), 2, 4)) if half > 0 else 3
    digits = digits if exact else min(digits, 2 if abs(row["value"]) >= 1 else 3)
    text = f"{row['value']:+.{digits}f}".replace("-", numbers.MINUS)
    marks = numbers.stars(row["p_adjusted"])
    if not exact:  # little room
        return f"{text.replace('0.', '.', 1)}\n{marks}".strip()
    return text + marks + (f"\n±{half:.{digits}f}" if half > 0 else "")


def _draw_own(axis: Axes, own: pd.DataFrame, order: list[str], labels: Labels) -> None:
    """Draw bits per byte with their intervals, a line a model."""
    looks = Looks(labels, [f"{name}/own" for name in order])
    points = []
    for name, value, low, high in own[["first", "value", "low", "high"]].itertuples(index=False):
        place, colour = order.index(name), looks.colour(name)
        points.append(style.AxisPoint((low, value, high), place, f"{value:.2f}", colour))
        if not math.isfinite(value):
            across = axis.get_yaxis_transform()
            axis.text(0.97, place, "∞", transform=across, ha="right", va="center", fontsize=9)
            continue
        error = None if pd.isna(low) else [[value - low], [high - value]]
        look: Any = {"marker": looks.marker(name), "markersize": 4, "linestyle": "none"}
        axis.errorbar([value], [place], xerr=error, color=colour, **look)
    style.name_rows(axis, [labels.model(name) for name in order])
    axis.set_xlabel("Bits per byte")
    axis.margins(x=0.15)
    style.cut_outliers(axis, points)
    if not np.isfinite(own["value"]).any():
        axis.set_xticks([])


def _draw_matrix(axis: Axes, pairs: pd.DataFrame, order: list[str], labels: Labels) -> None:
    """Draw row less column, coloured where a difference was found."""
    found = pairs["p_adjusted"] < numbers.STAR_LEVELS[-1][0]
    most = float(pairs["value"].abs().max()) or 1.0
    columns = [name for name in order if name in set(pairs["first"])]
    few, full = len(columns) < _MANY, len(columns) >= _VERY_MANY
    letters = 7 if few or full else 5.5
    shades = np.full((len(order), len(columns)), np.nan)
    for (_, row), coloured in zip(pairs.iterrows(), found, strict=True):
        place = order.index(row["first"]), columns.index(row["second"])
        size = max(_FAINT, _LARGEST * math.sqrt(abs(row["value"]) / most))
        shade = math.copysign(size, row["value"]) if coloured else np.nan
        shades[place] = shade
        text = numbers.stars(row["p_adjusted"]) if full else _cell(row, exact=few)
        ink = "#FFFFFF" if abs(shade) > _DARK else "#000000"
        axis.text(*place[::-1], text, fontsize=letters, color=ink, **style.CENTRED)
    axis.imshow(shades, cmap=_COLOURS, norm=Normalize(-1, 1), aspect="auto")
    axis.set_xticks(range(len(columns)), [labels.model(name) for name in columns])
    style.name_columns_above(axis)
    axis.tick_params(axis="y", labelleft=False)
    for tick in axis.get_xticklabels():
        tick.set(rotation=60 if full else 30, ha="left", rotation_mode="anchor")
    half = ", ± half the 95% interval" if few else "; the table has the numbers" if full else ""
    axis.set_xlabel(f"Row less column{half}\n{numbers.STAR_NOTE}\n{_SCALE}", fontsize=7)


@style.styled
def perplexity_differences(table: pd.DataFrame, labels: Labels) -> Figure:
    """Draw bits per byte with their intervals, and beside them the differences of all pairs.

    A row for each text: blue where the model of the row is better, white where no difference is
    found. Of models beyond what a page holds those of the most bits are left out.
    """
    texts = list(dict.fromkeys(table["scored_text"]))
    counts = [table.loc[table["scored_text"] == text, "first"].nunique() for text in texts]
    row = 0.3 if max(counts) < _VERY_MANY else 0.2
    most = min(_MOST, int((_HEIGHT / len(texts) - 0.9) / row))
    heights = [0.9 + row * min(most, max(2, count)) for count in counts]
    figure = Figure(figsize=(style.PAGE_WIDTH, sum(heights)), layout="constrained")
    ratios = {"width_ratios": [1.9, style.PAGE_WIDTH - 1.9], "height_ratios": heights}
    grid = figure.subplots(len(texts), 2, squeeze=False, gridspec_kw=ratios)
    for text, (left, right) in zip(texts, grid, strict=True):
        held = table[table["scored_text"] == text]
        own, pairs = held[held["second"].isna()], held[held["second"].notna()]
        every = list(own.sort_values(["value", "first"])["first"])
        order = every[:most]
        own = own[own["first"].isin(order)]
        pairs = pairs[pairs["first"].isin(order) & pairs["second"].isin(order)]
        _draw_own(left, own, order, labels)
        if further := len(every) - len(order):
            left.set_xlabel(
                f"Bits per byte\n{further} more models, of more\nbits, are in the table"
            )
        left.set_title(f"{text} text" if text else "")
        right.set_visible(len(pairs) > 0)
        if len(pairs):
            right.sharey(left)
            _draw_matrix(right, measure_names.both_ways(pairs), order, labels)
    return figure
