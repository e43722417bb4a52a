"""The gap of bounds to the best one against what they cost."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from beyond_perplexity.figures.importance import SETTING_KEYS
from beyond_perplexity.figures.labels import MARKERS, NEUTRAL_COLOUR, PALETTE, Labels
from beyond_perplexity.figures.style import PAGE_WIDTH, handle, legend_below, package_style
from beyond_perplexity.importance.equal_cost import bounds_with_costs
from beyond_perplexity.importance.estimator import STOCHASTIC
from beyond_perplexity.importance.estimator_registry import load_estimators

SMALLEST_GAP = 1e-3  # nats a token: what is nearer stands there
_DRAWN_AS_LINES = "importance_sampling"


def gap_by_cost(
    estimates: pd.DataFrame, curves: pd.DataFrame, costs: pd.DataFrame, labels: Labels
) -> Figure:
    """Draw the gap to the best bound of each model against seconds and against evaluations.

    Parameters
    ----------
    estimates : pandas.DataFrame
        Schema ``estimates``.
    curves : pandas.DataFrame
        Schema ``importance_curves``.
    costs : pandas.DataFrame
        Schema ``draw_costs``.
    labels : Labels
        Of no concern here: models and proposals go by their own names.

    Returns
    -------
    matplotlib.figure.Figure
        A row of two panels for each model.

    Raises
    ------
    InputError
        When there is no finite bound, or a job's costs are missing.
    """
    found = bounds_with_costs(estimates, costs)
    found = found[found["bound"] == STOCHASTIC]
    models = list(dict.fromkeys(found["model"]))
    names = list(dict.fromkeys(zip(found["model"], found["proposal"], strict=True)))
    shorts = list(dict.fromkeys(_short(*name) for name in names))
    colours = {name: PALETTE[shorts.index(_short(*name)) % len(PALETTE)] for name in names}
    methods = [name for name in load_estimators() if name in set(found["method"])]
    with package_style():
        figure = Figure(figsize=(PAGE_WIDTH, 2.2 * len(models) + 0.8), layout="constrained")
        grid = figure.subplots(len(models), 2, squeeze=False, sharey="row")
        for model, (left, right) in zip(models, grid, strict=True):
            own = found[found["model"] == model]
            _draw_panel(left, own, curves, colours, methods, "seconds")
            _draw_panel(right, own, curves, colours, methods, "evaluations")
            left.set_title(model)
            left.set_ylabel("Gap, nats a token")
            left.set_xlabel(f"Seconds of one {own['seconds_of'].iloc[0]}, an instance")
            right.set_xlabel("Evaluations of p and of q, an instance")
        first = {short: colours[name] for name in reversed(names) for short in [_short(*name)]}
        shown = [handle(short, first[short], None) for short in shorts]
        for place, name in enumerate(methods):
            mark = handle(load_estimators()[name].title, NEUTRAL_COLOUR, MARKERS[place])
            mark.set_linestyle("none")
            shown.append(mark)
        legend_below(figure, shown)
    return figure


def _short(model: str, proposal: str) -> str:
    return proposal.removeprefix(f"{model}-").replace("-", " ")


def _draw_panel(
    axis: Axes,
    own: pd.DataFrame,
    curves: pd.DataFrame,
    colours: dict[tuple[str, str], str],
    methods: list[str],
    cost: str,
) -> None:
    """Draw the bounds of a model: lines over K for plain samples, a mark for each as a whole."""
    for row in own.to_dict("records"):
        colour = colours[row["model"], row["proposal"]]
        spent = row["seconds"] if cost == "seconds" else _evaluated(row)
        marker = MARKERS[methods.index(row["method"])]
        gap = max(row["gap"], SMALLEST_GAP)
        axis.plot(spent, gap, marker, color=colour, markersize=4, linestyle="none")
        if row["method"] == _DRAWN_AS_LINES:
            x, y = _line(row, curves, spent)
            axis.plot(x, np.maximum(y, SMALLEST_GAP), color=colour, lw=0.8, alpha=0.7)
    axis.set_xscale("log")
    axis.set_yscale("log")
    for side in (axis.xaxis, axis.yaxis):  # the powers of ten are room enough for words
        side.set_minor_formatter(NullFormatter())
    low, high = axis.get_xlim()
    axis.set_xlim(10 ** math.floor(math.log10(low)), 10 ** math.ceil(math.log10(high)))
    axis.set_ylim(0.8 * SMALLEST_GAP, max(axis.get_ylim()[1], 20 * SMALLEST_GAP))


def _evaluated(row: dict[Any, Any]) -> int:
    return int(row["evaluations_p"] + row["evaluations_q"])


def _line(row: dict[Any, Any], curves: pd.DataFrame, spent: float) -> tuple[np.ndarray, np.ndarray]:
    """Return costs and gaps of ever more samples: costs in proportion to their number."""
    same = curves["aggregation"] == "instance"
    for name in SETTING_KEYS:
        same &= curves[name] == row[name]
    points = curves[same & np.isfinite(curves["mean"])].sort_values("n_samples")
    share = points["n_samples"].to_numpy() / row["n_samples"]
    # log p̂ / T of the best bound is that of this one plus the gap; ln of the mean over subsets.
    above = np.log(points["mean"].to_numpy() / row["value"]) + row["gap"]
    return share * spent, above
