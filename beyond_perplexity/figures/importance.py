"""Figures 2, 3 and 4 of the importance sampling paper: sample size, and density of estimates."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullFormatter

from beyond_perplexity.errors import NothingToShowError
from beyond_perplexity.figures.labels import (
    MARKERS,
    NEUTRAL_COLOUR,
    Labels,
    colour_and_mark,
    proposal_colours,
    short_proposal,
)
from beyond_perplexity.figures.measure_names import parts_by
from beyond_perplexity.figures.style import PAGE_WIDTH, handle, legend_below, panel_grid, styled
from beyond_perplexity.importance.estimate_wording import bounds_with_costs
from beyond_perplexity.importance.estimator import STOCHASTIC
from beyond_perplexity.importance.ways_to_draw import load_estimators

AGGREGATIONS = ("instance", "corpus")
# Axes end at so many times the smallest perplexity, logarithmic ones of curves and linear ones.
HIGHEST_RATIO = 100
HIGHEST_LINEAR_RATIO = 3
SETTING_KEYS = ("model", "proposal", "temperature")
LEAST_FOR_DENSITY = 8
NOTE_SIZE = 7
NOTE_HEIGHT = 0.1  # of the highest density


class Settings:
    """Settings with labels, colours and marks: a model's proposal of most temperatures goes by
    these alone, others by name, so that different models' settings share colours."""

    def __init__(self, table: pd.DataFrame) -> None:
        found = list(dict.fromkeys(zip(*(table[name] for name in SETTING_KEYS), strict=True)))
        counts = Counter((model, proposal) for model, proposal, _ in found)
        main: dict[str, str] = {}
        for (model, proposal), count in counts.items():
            if count > counts.get((model, main.get(model, "")), 0):
                main[model] = proposal
        self._labels = {k: _label(*k, main=main[k[0]], alone=counts[k[:2]] == 1) for k in found}
        degrees = {self._labels[key]: key[2] for key in found}
        self.order = sorted(degrees, key=lambda n: (not n.startswith("τ"), degrees[n], n))

    def label(self, model: Any, proposal: Any, temperature: Any) -> str:
        """Return how a setting is called."""
        return self._labels[model, proposal, temperature]

    def colour(self, label: str) -> str:
        """Return the colour of a label."""
        return colour_and_mark(self.order.index(label))[0]

    def handles(self, *, marks: bool = True) -> list[Line2D]:
        """Make the entries of a legend."""
        return [
            handle(label, self.colour(label), self.marker(label) if marks else None)
            for label in self.order
        ]

    def marker(self, label: str) -> str:
        """Return the mark of a label."""
        return colour_and_mark(self.order.index(label))[1]


def _label(model: str, proposal: str, temperature: float, *, main: str, alone: bool) -> str:
    degrees = f"τ = {temperature:g}"
    if proposal == main:
        return degrees
    short = short_proposal(model, proposal)
    return short if alone else f"{short}, {degrees}"


def _limit(axis: Axes, values: pd.Series) -> None:
    """Cut off what is many times the smallest value; a logarithmic axis where much is left."""
    finite = values[np.isfinite(values)]
    if finite.empty:
        _note(axis, "no finite estimate", NEUTRAL_COLOUR, 0.96)
        return
    low, high = float(finite.min()), float(finite.max())
    if high > HIGHEST_RATIO * low:
        high = HIGHEST_RATIO * low
        _note(axis, f"cut at {high:,.0f}", NEUTRAL_COLOUR, 0.96)
    if high > 4 * low:
        axis.set(yscale="log", ylim=(low / 1.1, high * 1.1))
        return
    margin = 0.06 * (high - low) or 0.05 * low
    axis.set_ylim(low - margin, high + margin)


def _note(axis: Axes, text: str, colour: str, height: float) -> None:
    """Say at the right end of a panel what it does not show."""
    look: Any = {"ha": "right", "va": "top", "fontsize": NOTE_SIZE, "color": colour}
    axis.text(0.99, height, text, transform=axis.transAxes, **look)


def _draw_curves(axis: Axes, curves: pd.DataFrame, settings: Settings, *, band: bool) -> None:
    for key, group in curves.groupby(list(SETTING_KEYS)):
        points = group.sort_values("n_samples")
        label = settings.label(*key)
        colour, x = settings.colour(label), points["n_samples"]
        if band:
            axis.fill_between(x, points["low"], points["high"], color=colour, alpha=0.15, lw=0)
        axis.plot(x, points["mean"], color=colour, marker=settings.marker(label), markersize=3)
    axis.set_xscale("log")


def _curve_figure(
    settings: Settings, curves: dict[str, pd.DataFrame], ylabel: str, *, height: float, band: bool
) -> Figure:
    """Draw a panel of curves for each title."""
    figure, axes = panel_grid(len(curves), min(len(curves), 3), height)
    for axis, (title, own) in zip(axes, curves.items(), strict=True):
        _draw_curves(axis, own, settings, band=band)
        _limit(axis, own["mean"])
        axis.set(title=title, xlabel="Samples per instance")
    axes[0].set_ylabel(ylabel)
    legend_below(figure, settings.handles())
    return figure


def _require(table: pd.DataFrame, what: str) -> None:
    if table.empty:
        raise NothingToShowError(f"the table has no {what}")


@styled
def perplexity_by_samples(curves: pd.DataFrame, labels: Labels) -> Figure:
    """Draw perplexity, a mean over subsets, by number of samples (Logan et al. 2020, Fig. 2)."""
    instance = curves[curves["aggregation"] == "instance"]
    _require(instance[np.isfinite(instance["mean"])], "instance-level curves")
    title, models = "Perplexity (instance level)", parts_by(instance, "model")
    return _curve_figure(Settings(instance), models, title, height=2.4, band=False)


@styled
def aggregation(curves: pd.DataFrame, labels: Labels) -> Figure:
    """Draw curves of the model with most proposals at both levels (Logan et al. 2020, Fig. 3)."""
    _require(curves[np.isfinite(curves["mean"])], "curves")
    model = curves.groupby("model", sort=False)["proposal"].nunique().idxmax()
    chosen = curves[curves["model"] == model]
    levels = [level for level in AGGREGATIONS if level in set(chosen["aggregation"])]
    panels = {f"{model}, {level} level": chosen[chosen["aggregation"] == level] for level in levels}
    return _curve_figure(Settings(chosen), panels, "Perplexity", height=2.8, band=True)


@styled
def densities(replicates: pd.DataFrame, labels: Labels) -> Figure:
    """Draw the density of perplexities of disjoint sample blocks (Logan et al. 2020, Fig. 4)."""
    finite = np.isfinite(replicates["value"])
    chosen = replicates[(replicates["aggregation"] == "instance") & finite]
    _require(chosen, "replicates at instance level")
    settings, models = Settings(chosen), parts_by(chosen, "model")
    figure, axes = panel_grid(len(models), min(len(models), 3), 2.4)
    for axis, (model, rows) in zip(axes, models.items(), strict=True):
        _draw_densities(axis, rows, settings)
        sizes = ", ".join(map(str, sorted(set(rows["n_samples"]))))
        axis.set(title=model, xlabel=f"Perplexity ({sizes} samples)")
    axes[0].set_ylabel("Density, highest = 1")
    legend_below(figure, settings.handles(marks=False))
    return figure


def _draw_densities(axis: Axes, rows: pd.DataFrame, settings: Settings) -> None:
    from scipy.stats import gaussian_kde  # late: start-up

    limit = HIGHEST_LINEAR_RATIO * float(rows["value"].min())
    beyond: list[tuple[str, str]] = []
    for key, group in rows.groupby(list(SETTING_KEYS)):
        label = settings.label(*key)
        values = group["value"].to_numpy()
        colour = settings.colour(label)
        visible = values[values <= limit]
        if not len(visible):
            beyond.append((f"{label}: {np.median(values):,.0f} →", colour))
            continue
        axis.plot(visible, np.full(len(visible), -0.04), "|", color=colour, markersize=5)
        if len(visible) < LEAST_FOR_DENSITY or np.ptp(visible) == 0:
            continue
        margin = 2 * float(visible.std())
        x = np.linspace(visible.min() - margin, visible.max() + margin, 200)
        y = gaussian_kde(visible)(x)
        axis.plot(x, y / y.max(), color=colour)
    low, high = -0.1, 1.08 + NOTE_HEIGHT * len(beyond)
    for place, (text, colour) in enumerate(beyond):
        _note(axis, text, colour, 1 - NOTE_HEIGHT * place / (high - low))
    axis.set_ylim(low, high)
    axis.set_yticks([0, 0.5, 1])


SMALLEST_GAP = 1e-3  # nats a token: what is nearer stands there
_DRAWN_AS_LINES = "importance_sampling"


@styled
def gap_by_cost(
    estimates: pd.DataFrame, curves: pd.DataFrame, costs: pd.DataFrame, labels: Labels
) -> Figure:
    """Draw the gap to the best bound of each model against seconds and against evaluations."""
    found = bounds_with_costs(estimates, costs)
    found = found[found["bound"] == STOCHASTIC]
    models, colours = parts_by(found, "model"), proposal_colours(found)
    methods = [name for name in load_estimators() if name in set(found["method"])]
    figure = Figure(figsize=(PAGE_WIDTH, 2.2 * len(models) + 0.8), layout="constrained")
    grid = figure.subplots(len(models), 2, squeeze=False, sharey="row")
    for (model, own), (left, right) in zip(models.items(), grid, strict=True):
        _draw_panel(left, own, curves, colours, methods, "seconds")
        _draw_panel(right, own, curves, colours, methods, "evaluations")
        left.set(title=model, ylabel="Gap, nats a token")
        left.set_xlabel(f"Seconds of one {own['seconds_of'].iloc[0]}, an instance")
        right.set_xlabel("Evaluations of p and of q, an instance")
    shown = [handle(*named) for named in colours.items()]
    for marker, name in zip(MARKERS, methods, strict=False):
        shown.append(handle(load_estimators()[name].title, NEUTRAL_COLOUR, marker, "none"))
    legend_below(figure, shown)
    return figure


def _draw_panel(
    axis: Axes,
    own: pd.DataFrame,
    curves: pd.DataFrame,
    colours: dict[str, str],
    methods: list[str],
    cost: str,
) -> None:
    """Draw the bounds of a model: lines over K for plain samples, a mark for each as a whole."""
    for row in own.to_dict("records"):
        colour = colours[short_proposal(row["model"], row["proposal"])]
        spent = row["seconds"] if cost == "seconds" else row["evaluations_p"] + row["evaluations_q"]
        marker = MARKERS[methods.index(row["method"])]
        gap = max(row["gap"], SMALLEST_GAP)
        axis.plot(spent, gap, marker, color=colour, markersize=4, linestyle="none")
        if row["method"] == _DRAWN_AS_LINES:
            x, y = _line(row, curves, spent)
            axis.plot(x, np.maximum(y, SMALLEST_GAP), color=colour, lw=0.8, alpha=0.7)
    axis.set(xscale="log", yscale="log")
    for side in (axis.xaxis, axis.yaxis):  # the powers of ten are room enough for words
        side.set_minor_formatter(NullFormatter())
    low, high = axis.get_xlim()
    axis.set_xlim(10 ** math.floor(math.log10(low)), 10 ** math.ceil(math.log10(high)))
    axis.set_ylim(0.8 * SMALLEST_GAP, max(axis.get_ylim()[1], 20 * SMALLEST_GAP))


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
