"""The perplexity of answers by the number of thoughts, beside no thought and the greedy one."""

from __future__ import annotations

from itertools import cycle
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from beyond_perplexity.errors import NothingToShowError
from beyond_perplexity.figures.bounds import TWO_SIDED_LINES, TWO_SIDED_TEXTS
from beyond_perplexity.figures.labels import NEUTRAL_COLOUR, PALETTE, Labels
from beyond_perplexity.figures.measure_names import parts_by
from beyond_perplexity.figures.style import handle, legend_below, panel_grid, styled

PROPOSAL_WORDS = {"own": "own thoughts", "answer": "with the answer in sight", "mixture": "mixture"}
_ALONE = {"no_thought": ("no thought", "--"), "greedy": ("the greedy thought", "-.")}
_FAR = 10.0  # times the lowest of a panel: from there on its axis is logarithmic
_WIDER = 1.25  # times K: where the bounds of a proposal stand, and of the next


def two_sided_rows(estimates: pd.DataFrame) -> pd.DataFrame:
    """Take the two-sided bounds of each model and proposal, where there are any."""
    chosen = estimates["bound"].isin(TWO_SIDED_LINES) & (estimates["measure"] == "perplexity")
    return estimates[chosen & np.isfinite(estimates["high"].astype(float))]


@styled
def perplexity_by_thoughts(
    curves: pd.DataFrame, estimates: pd.DataFrame, sums: pd.DataFrame, labels: Labels
) -> Figure:
    """Draw the mean over subsets of thoughts by their number, with a band of most, a panel a model;
    to the right stand bounds of all."""
    shown = curves[(curves["aggregation"] == "instance") & np.isfinite(curves["mean"])]
    if shown.empty:
        raise NothingToShowError("no number of thoughts gives every answer a probability")
    bounds, models = two_sided_rows(estimates), parts_by(sums, "model")
    ways = list(dict.fromkeys(pd.concat([sums["proposal"], shown["proposal"]])))
    colours = dict(zip(ways, cycle(PALETTE), strict=False))
    figure, axes = panel_grid(len(models), min(len(models), 3), 2.4)
    sizes, alone = sorted(set(shown["n_samples"])), dict[str, None]()
    for axis, (model, own) in zip(axes, models.items(), strict=True):
        for way, points in parts_by(shown[shown["model"] == model], "proposal").items():
            points, colour = points.sort_values("n_samples"), colours[way]
            x = points["n_samples"]
            axis.fill_between(x, points["low"], points["high"], color=colour, alpha=0.15, lw=0)
            axis.plot(x, points["mean"], color=colour, marker="o", markersize=3)
        ends = bounds[bounds["model"] == model].to_dict("records")
        for place, row in enumerate(ends, start=1):
            x, style = row["n_samples"] * _WIDER**place, TWO_SIDED_LINES[row["bound"]]
            look: Any = {"color": colours[row["proposal"]], "linestyle": style, "linewidth": 2}
            axis.plot([x, x], [row["low"], row["high"]], marker="_", **look)
        for name, (_, style) in _ALONE.items():
            for value in own[name][np.isfinite(own[name])].unique()[:1]:
                axis.axhline(value, color=NEUTRAL_COLOUR, linestyle=style, linewidth=1)
                alone[name] = None
        axis.set(title=labels.model(model), xlabel="Thoughts of each prompt", xscale="log")
        axis.set_xticks(sizes, [f"{size:,.0f}" for size in sizes])
        axis.minorticks_off()
        low, high = axis.dataLim.intervaly
        if low > 0 and high > _FAR * low:
            axis.set_yscale("log")
    axes[0].set_ylabel("Perplexity of answers")
    entries = [handle(PROPOSAL_WORDS.get(way, way), colours[way]) for way in ways]
    entries += [handle(_ALONE[name][0], NEUTRAL_COLOUR, None, _ALONE[name][1]) for name in alone]
    entries += [
        handle(f"two-sided bounds, {TWO_SIDED_TEXTS[label]}", NEUTRAL_COLOUR, "_", style)
        for label, style in TWO_SIDED_LINES.items()
        if label in set(bounds["bound"])
    ]
    legend_below(figure, entries)
    return figure
