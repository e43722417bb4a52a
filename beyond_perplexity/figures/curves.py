"""Curves of texts: types by length (Figures 1, 3, 4, 7), ranks (6) and shares of tokens (8, 9)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from beyond_perplexity.figures.labels import (
    NEUTRAL_COLOUR,
    REFERENCE,
    Labels,
    Looks,
    Style,
    is_reference,
    parse_source,
)
from beyond_perplexity.figures.style import (
    COLUMN_WIDTH,
    draw_by_decoding,
    draw_line,
    handle,
    legend_below,
    literal,
    model_handles,
    panels,
    select,
    single_panel,
    styled,
    thin,
)
from beyond_perplexity.tendencies.definitions import SHARES, TENDENCIES, tendencies_of
from beyond_perplexity.tendencies.taylor import SEGMENT, has_few

CURVE = "type_token_unigrams"
KS_ROWS = {
    "ks_types_model": "$D_{{p_\\theta}}$\nto own Heaps fit",
    "ks_types_reference": "$D_{{\\hat{{p}}}}$\nto fit of {reference}",
    "ks_types_empirical": "$D_p$\nto {reference}",
}
EXTREMES = 2
LENGTH_BINS = 60
_SHUFFLED: Any = {"linestyle": (0, (4, 3)), "linewidth": 1.0, "zorder": 3}
ENOUGH = 20  # documents of a length: fewer have no 5th and 95th percentile
SMOOTHING = 15  # lengths
FROM_ZERO: Any = {"xlim": (0, None), "ylim": (0, None)}


def _bins(points: pd.DataFrame) -> pd.DataFrame:
    """Average neighbouring lengths, by documents; no band where a bin has too few of them."""
    weights = points["n"].to_numpy(float)
    middle = np.cumsum(weights) - weights / 2
    place = np.minimum((middle / weights.sum() * LENGTH_BINS).astype(int), LENGTH_BINS - 1)
    columns = points[["x", "y", "low", "high"]]
    total = pd.Series(weights).groupby(place).sum()
    weighted = columns.reset_index(drop=True).mul(weights, axis=0)
    means = weighted.groupby(place).sum(min_count=1).div(total, axis=0)
    means.loc[pd.Series(weights).groupby(place).mean() < ENOUGH, ["low", "high"]] = np.nan
    return means


def _choose(curves: pd.DataFrame, labels: Labels) -> list[str]:
    """Take the two sources closest to the test set and the two farthest."""
    every = labels.sort_sources(curves["source"])
    held = [name for name in every if not is_reference(name)]
    first = next(filter(is_reference, every), REFERENCE)
    reference = curves[curves["source"] == first].set_index("x")["y"]
    far = {}  # the mean relative error of the number of types over the lengths of both
    for name in held:
        own = curves[curves["source"] == name].set_index("x")["y"]
        shared = own.to_frame().join(reference.rename("true"), how="inner")
        far[name] = float(((shared["y"] - shared["true"]).abs() / shared["true"]).mean())
    ordered = sorted(held, key=far.__getitem__)
    chosen = {*ordered[:EXTREMES], *ordered[-EXTREMES:]}
    return [name for name in held if name in chosen]


@styled
def type_token_overview(table: pd.DataFrame, labels: Labels) -> Figure:
    """Draw mean types against length, with bands, of the nearest and farthest texts (Fig. 1)."""
    curves = select(table, CURVE)
    chosen = _choose(curves, labels)
    looks = Looks(labels, set(curves["source"]))
    figure, axis = single_panel(COLUMN_WIDTH * 1.25, 3.1)
    humans = [name for name in labels.sort_sources(curves["source"]) if is_reference(name)]
    entries = model_handles(humans, labels, looks)
    for place, name in enumerate([*humans, *chosen]):
        points = curves[curves["source"] == name]
        # A second band of the test set would lie on the first.
        draw_line(axis, _bins(points), name, looks, band=place == 0 or name in chosen)
    for name in chosen:
        model, decoding = parse_source(name)
        colour, style = looks.colour(model), looks.line_style(decoding)
        entries.append(handle(labels.source(name), colour, looks.marker(model), style))
    axis.set(xlabel="Document length (tokens)", ylabel="Types (distinct tokens)", **FROM_ZERO)
    legend_below(figure, entries)
    return figure


@styled
def type_token(table: pd.DataFrame, labels: Labels) -> Figure:
    """Draw mean types against length: a panel per decoding, a line per model (paper, Fig. 3)."""
    return _by_decoding(table, labels, CURVE, "Types (distinct tokens)")


@styled
def bigram_type_token(table: pd.DataFrame, labels: Labels) -> Figure:
    """Draw mean bigram types against length, which the paper's Table 4 fits and no figure shows."""
    return _by_decoding(table, labels, "type_token_bigrams", "Types (distinct bigrams)")


def _by_decoding(table: pd.DataFrame, labels: Labels, curve: str, ylabel: str) -> Figure:
    drawn, how = select(table, curve), {"xlabel": "Length (tokens)", "ylabel": ylabel}
    figure, axes, entries = draw_by_decoding(drawn, labels, **how, prepare=_bins, band=True)
    for axis in axes:
        axis.set(**FROM_ZERO)
    legend_below(figure, entries)
    return figure


@styled
def type_token_ks(table: pd.DataFrame, labels: Labels) -> Figure:
    """Draw the KS distance of the number of types at every length (paper, Fig. 4)."""
    drawn = select(table, *KS_ROWS)
    rows = [drawn[drawn["curve"] == curve] for curve in KS_ROWS]
    sources = labels.sort_sources({name for curves in rows for name in curves["source"]})
    looks = Looks(labels, sources)
    reference = literal(labels.human())
    titles = [title.format(reference=reference) for title in KS_ROWS.values()]
    figure, placed = panels(sources, labels, xlabel="Length (tokens)", ylabels=titles, height=1.45)
    for decoding, column in placed.items():
        for axis, curves in zip(column, rows, strict=True):
            if curves.empty:
                axis.text(0.5, 0.5, "no data", ha="center", transform=axis.transAxes)
            for name in sources:
                points = curves[curves["source"] == name]
                if points.empty or parse_source(name).decoding not in ("", decoding):
                    continue
                colour = looks.colour(parse_source(name).model)
                axis.plot(points["x"], points["y"], color=colour, alpha=0.2, linewidth=0.6)
                smooth = points["y"].rolling(SMOOTHING, center=True, min_periods=1).median()
                draw_line(axis, points.assign(y=smooth), name, looks)
    # The panels share their axes: a limit that is set too early cuts off what comes later.
    for axis in chain.from_iterable(placed.values()):
        axis.set(ylim=(0, 1.02), xlim=(0, None))
    legend_below(figure, model_handles(sources, labels, looks))
    return figure


FIT_STYLES: tuple[Style, ...] = ((0, (2, 2)), (0, (0.8, 1.6)))
FIT_COLOURS = (NEUTRAL_COLOUR, "#999999")


@styled
def rank_frequency(table: pd.DataFrame, labels: Labels) -> Figure:
    """Draw relative frequency against rank, both logarithmic, with the test set's Zipf fit."""
    curves = select(table, "rank_frequency")
    human = table["source"].map(is_reference)
    drawn = table[(table["curve"] == "zipf_fit") & human].sort_values("x")
    fits = [(name, drawn[drawn["source"] == name]) for name in labels.sort_sources(drawn["source"])]
    titles: Any = {"xlabel": "Rank of the type", "ylabel": "Relative frequency"}
    evenly = partial(thin, log=True)
    figure, axes, entries = draw_by_decoding(curves, labels, **titles, prepare=evenly)
    for axis in axes:
        axis.set(xscale="log", yscale="log")
        for place, (_, fit) in enumerate(fits):
            x, y = (thin(fit, log=True)[name] for name in ("x", "y"))
            colour, style = FIT_COLOURS[place % 2], FIT_STYLES[place % 2]
            axis.plot(x, y, color=colour, linestyle=style, linewidth=1, zorder=4)
    for place, (name, _) in enumerate(fits):
        title = f"Zipf fit, {labels.human(name)}"
        entries.append(handle(title, FIT_COLOURS[place % 2], None, FIT_STYLES[place % 2]))
    legend_below(figure, entries)
    return figure


VISIBLE = 0.005  # of the highest density: below it the axis is cut


def __getattr__(tendency: str) -> Callable[[pd.DataFrame, Labels], Figure]:
    """Return the figure of a share or a curve by the name of its tendency."""
    if tendency in SHARES:
        return partial(share_density, tendency=tendency)
    if tendency in tendencies_of("curve"):
        return partial(mean_curve, tendency=tendency)
    raise AttributeError(f"there is no density of '{tendency}'")


@styled
def share_density(table: pd.DataFrame, labels: Labels, tendency: str) -> Figure:
    """Draw the density over documents of the share of a class of tokens (paper, Figs. 8, 9)."""
    curves = select(table, f"{tendency}_density")
    share = f"Fraction of {TENDENCIES[tendency].noun}"
    titles: Any = {"xlabel": share, "ylabel": "Density over documents"}
    figure, axes, entries = draw_by_decoding(curves, labels, **titles)
    visible = curves[curves["y"] > VISIBLE * curves["y"].max()]
    right = min(1.0, float(visible["x"].max()) + 0.02)
    for axis in axes:
        axis.set(xlim=(0, right), ylim=(0, None))
    legend_below(figure, entries)
    return figure


@styled
def mean_curve(table: pd.DataFrame, labels: Labels, tendency: str) -> Figure:
    """Draw the mean curve of documents cut to one size, at places on a logarithmic axis."""
    row, curves = TENDENCIES[tendency], select(table, tendency)
    titles: Any = {"xlabel": row.note, "ylabel": row.title}
    figure, axes, entries = draw_by_decoding(curves, labels, **titles, band=True)
    for axis in axes:
        axis.set_xscale("log", base=2)
        axis.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
        axis.axhline(0, color=NEUTRAL_COLOUR, linewidth=0.7, zorder=0)
    legend_below(figure, entries)
    return figure


@styled
def taylor(table: pd.DataFrame, labels: Labels) -> Figure:
    """Draw mean and deviation of words' counts in segments, with the fitted power laws."""
    fits, clouds = select(table, "taylor_fit"), select(table, "taylor")
    shuffled = select(table, "taylor_shuffled")
    few = has_few(fits["n"].min(), shuffled["n"].max())
    xlabel = f"Mean count in {SEGMENT} words{', between documents' * bool(few)}"
    titles: Any = {"xlabel": xlabel, "ylabel": "Standard deviation"}
    figure, axes, entries = draw_by_decoding(
        fits, labels, **titles, prepare=lambda line: line.sort_values("x").iloc[[0, -1]]
    )
    sources = labels.sort_sources(fits["source"])
    looks = Looks(labels, sources)
    # Clouds of many models would hide each other.
    shown = sources if len(sources) == EXTREMES else list(filter(is_reference, sources))[:1]
    for axis in axes:
        for name in shown:
            own, colour = clouds[clouds["source"] == name], looks.colour(parse_source(name).model)
            axis.scatter(own["x"], own["y"], s=3, color=colour, alpha=0.3, linewidth=0, zorder=1)
            lines = [held[held["source"] == name].sort_values("x") for held in (fits, shuffled)]
            axis.plot(*lines[1][["x", "y"]].iloc[[0, -1]].to_numpy().T, color=colour, **_SHUFFLED)
            both = [np.ptp(np.log(line["y"])) / np.ptp(np.log(line["x"])) for line in lines]
            told, at = f"α {both[0]:.3f}, shuffled {both[1]:.3f}", 0.97 - 0.1 * shown.index(name)
            axis.text(0.03, at, told, color=colour, va="top", transform=axis.transAxes)
        axis.set(xscale="log", yscale="log")
    entries.append(
        axes[0].plot([], [], color=NEUTRAL_COLOUR, label="Words shuffled", **_SHUFFLED)[0]
    )
    legend_below(figure, entries)
    return figure
