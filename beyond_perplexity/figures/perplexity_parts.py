"""Where models differ: what each part adds to a difference, and bits by place in the document."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from beyond_perplexity.errors import NothingToShowError
from beyond_perplexity.figures import numbers, style
from beyond_perplexity.figures.labels import PALETTE, Labels, Looks

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
