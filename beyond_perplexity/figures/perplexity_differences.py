"""Bits per byte of every model, the differences of all pairs, and the parts of one difference."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from beyond_perplexity.errors import NothingToShowError
from beyond_perplexity.figures import measure_names, numbers, style
from beyond_perplexity.figures.labels import PALETTE, Labels, Looks

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
    """Draw bits per byte with their intervals, and beside them the differences of all pairs."""
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


_SHOWN = ("whole", "kind", "frequency", "repetition")
_MOST_PAIRS = 3  # that have a panel


def _pairs(parts: pd.DataFrame) -> list[tuple[Any, pd.DataFrame]]:
    return list(parts.groupby(["first", "second"], sort=False))[:_MOST_PAIRS]


@style.styled
def parts_of_difference(parts: pd.DataFrame, labels: Labels) -> Figure:
    """Draw what each part adds to the difference of two models, with its interval."""
    kept = parts[parts["split"].isin(_SHOWN)]
    names = list(dict.fromkeys(zip(kept["split"], kept["part"], strict=True)))
    pairs = _pairs(kept)
    height = 0.19 * len(names) + 1.0
    figure, axes = style.panel_grid(len(pairs), len(pairs), height, 0.3, sharey=True)
    for (pair, held), axis in zip(pairs, axes, strict=True):
        for _, row in held.iterrows():
            place = names.index((row["split"], row["part"]))
            colour = PALETTE[_SHOWN.index(row["split"])]
            look: Any = {"color": colour, "marker": "o", "markersize": 3.5, "linestyle": "none"}
            ends = (row["value"] - row["low"], row["high"] - row["value"])
            error = None if pd.isna(row["low"]) else np.maximum(0, np.array([ends]).T)
            axis.errorbar([row["value"]], [place], xerr=error, **look)
            text = numbers.stars(row["p_adjusted"])
            axis.annotate(
                text, (row["value"], place), (0, 1), textcoords="offset points", ha="center"
            )
        axis.axvline(0, color="#000000", linewidth=0.7)
        first, second = map(labels.model, pair)
        axis.set_title(f"{first} less {second}")
        axis.set_xlabel(f"Bits per byte of the text; left of 0 {first} is better")
        style.name_rows(axis, [part or "whole text" for _, part in names])
    entries = [style.handle(name, PALETTE[k], "o", "none") for k, name in enumerate(_SHOWN)]
    style.legend_below(figure, entries)
    return figure


@style.styled
def bits_by_position(parts: pd.DataFrame, labels: Labels) -> Figure:
    """Draw bits per byte of every model, and their differences, by the bytes that stand before."""
    kept = parts[parts["split"] == "position"]
    if kept.empty:
        raise NothingToShowError("the parts have no split by position")
    names = list(dict.fromkeys(parts.loc[parts["split"] == "position", "part"]))
    ticks = [name.removeprefix("bytes ").removeprefix("from ").split()[0] for name in names]
    size = parts.groupby(["first", "second"])["bytes"].transform("max")[kept.index]
    scale = size / kept["bytes"]  # from bits per byte of the text to those of the part
    models = labels.sort_models({*kept["first"], *kept["second"]})
    looks = Looks(labels, [f"{name}/own" for name in models])
    figure, (left, right) = style.row_of_panels(2, 2.9)
    for name in models:
        found: dict[str, float] = {}
        for side in ("second", "first"):
            own = kept[side] == name
            found |= zip(kept.loc[own, "part"], (kept[f"{side}_bits"] * scale)[own], strict=True)
        x = [names.index(part) for part in names if part in found]
        y = [found[part] for part in names if part in found]
        left.plot(x, y, color=looks.colour(name), marker=looks.marker(name), markersize=3.5)
    for place, (pair, held) in enumerate(_pairs(kept)):
        x, colour = [names.index(part) for part in held["part"]], PALETTE[2 + place]
        label = " less ".join(map(labels.model, pair))
        right.plot(x, held["within"], color=colour, marker="o", markersize=3.5, label=label)
        low, high = (held[f"within_{end}"].to_numpy(float) for end in ("low", "high"))
        right.fill_between(x, low, high, color=colour, alpha=0.2, linewidth=0)
    right.axhline(0, color="#000000", linewidth=0.7)
    right.legend(loc="best")
    for axis, label in ((left, "Bits per byte"), (right, "Difference, bits per byte")):
        axis.set_xticks(range(len(names)), ticks, rotation=45)
        axis.set_xlabel("Byte of the document, from")
        axis.set_ylabel(label)
    style.legend_below(figure, style.model_handles([f"{n}/own" for n in models], labels, looks))
    return figure
