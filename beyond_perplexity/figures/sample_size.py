"""Measures and p-values against the number of documents: how many a conclusion needs."""

from __future__ import annotations

from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, NullLocator

from beyond_perplexity.errors import NothingToShowError
from beyond_perplexity.figures.labels import (
    NEUTRAL_COLOUR,
    Labels,
    Looks,
    colour_and_mark,
    parse_source,
)
from beyond_perplexity.figures.numbers import STAR_LEVELS
from beyond_perplexity.figures.style import (
    COLUMN_WIDTH,
    handle,
    legend_below,
    model_handles,
    panel_grid,
    styled,
)
from beyond_perplexity.figures.texts import short_number
from beyond_perplexity.tendencies.definitions import (
    OF_FAMILIES,
    TENDENCIES,
    tendencies_of,
)


class Panel(NamedTuple):
    """What a panel shows, and its title."""

    tendency: str
    measure: str
    title: str


def _document_panels(tendency: str) -> tuple[Panel, Panel]:
    row = TENDENCIES[tendency]
    unit = "tokens" if row.kind == "length" else "share"
    return (
        Panel(tendency, "mean_difference", f"{row.title}, difference ({unit})"),
        Panel(tendency, row.distance, f"{row.title}, {row.distance_name}"),
    )


PANELS = (
    Panel("rank_frequency", "zipf_s", "Zipf's s"),
    Panel("rank_frequency", "ks_empirical", "Rank-frequency, KS"),
    Panel("unigram", "tvd", "Unigrams, total variation"),
    Panel("unigram", "max_difference", "Unigrams, largest difference"),
    Panel("vocabulary", "novel_types", "Share of types that are new"),
    Panel("vocabulary", "coverage", "Share of tokens known"),
    Panel("type_token_unigrams", "heaps_alpha", "Heaps' α"),
    Panel("type_token_unigrams", "heaps_beta", "Heaps' β"),
    Panel("type_token_unigrams", "ks_empirical", "Types per length, KS"),
    Panel("type_token_bigrams", "heaps_alpha", "Heaps' α, bigrams"),
    Panel("type_token_bigrams", "heaps_beta", "Heaps' β, bigrams"),
    Panel("type_token_bigrams", "ks_empirical", "Bigram types per length, KS"),
    *chain.from_iterable(_document_panels(name) for name in tendencies_of("length", "share")),
    *(
        Panel(name, row.distance, f"{row.title}, {row.distance_name}")
        for name, row in OF_FAMILIES.items()
    ),
)
PANEL_COLUMNS = 3
HEIGHT = 1.25  # inches of a panel
MANY = 5  # sizes that have room for a label each
FEW_BANDS = 12  # sources whose bands can be distinguished
BASELINE_COLOUR = "#b8b8b8"
BASELINE_NAME = "Human against human"
BASELINE_STYLE = (0, (1, 1))


def _lines(
    axis: Axes, rows: pd.DataFrame, sources: list[str], looks: Looks, columns: tuple[str, str, str]
) -> None:
    alpha = 0.15 if len(sources) <= FEW_BANDS else 0.05
    for name in sources:
        points = rows[rows["source"] == name].sort_values("n")
        if points.empty:
            continue
        model, decoding = parse_source(name)
        n, colour = points["n"].to_numpy(), looks.colour(model)
        middle, low, high = (points[column].to_numpy(float) for column in columns)
        axis.fill_between(n, low, high, color=colour, alpha=alpha, linewidth=0)
        axis.plot(n, middle, color=colour, linestyle=looks.line_style(decoding), linewidth=0.9)


def _baseline(axis: Axes, rows: pd.DataFrame) -> bool:
    """Draw what two human texts of these sizes differ by; say whether there is such a baseline."""
    known = rows[rows["baseline"].notna()]
    if known.empty:
        return False
    ends = {"baseline": "mean", "baseline_low": "min", "baseline_high": "max"}
    by_size = known.groupby("n").agg(ends)
    n, (middle, low, high) = by_size.index.to_numpy(), by_size.to_numpy(float).T
    axis.fill_between(n, low, high, color=BASELINE_COLOUR, alpha=0.45, linewidth=0, zorder=0)
    axis.plot(n, middle, color=NEUTRAL_COLOUR, linestyle=BASELINE_STYLE, linewidth=0.9, zorder=1)
    return True


def _legend(sources: list[str], labels: Labels, looks: Looks, baselines: bool) -> list[Line2D]:
    entries = model_handles(sources, labels, looks, marks=False)
    decodings = labels.sort_decodings({parse_source(name).decoding for name in sources} - {""})
    for decoding in decodings:
        style = looks.line_style(decoding)
        entries.append(handle(labels.decoding(decoding), NEUTRAL_COLOUR, None, style))
    if baselines:
        entries.append(handle(BASELINE_NAME, NEUTRAL_COLOUR, None, BASELINE_STYLE))
    return entries


def _draw(
    table: pd.DataFrame, labels: Labels, columns: tuple[str, str, str]
) -> tuple[Figure, list[Axes]]:
    """Draw a panel for every measure that has a value in the first of the columns."""
    defined = table[table[columns[0]].notna()]
    held = set(zip(defined["tendency"], defined["measure"], strict=True))
    shown = [panel for panel in PANELS if panel[:2] in held]
    if not shown:
        raise NothingToShowError("the sample sizes have no measure to draw")
    sources = labels.sort_sources(defined["source"])
    looks = Looks(labels, sources)
    figure, axes = panel_grid(len(shown), PANEL_COLUMNS, HEIGHT, 0.9, sharex=True)
    for axis in axes:
        axis.set_autoscale_on(False)  # or each line would scale all panels anew
    baselines = False
    for place, (axis, panel) in enumerate(zip(axes, shown, strict=True)):
        axis.set_xscale("log")
        chosen = (defined["tendency"] == panel.tendency) & (defined["measure"] == panel.measure)
        if columns[0] == "value":
            baselines |= _baseline(axis, defined[chosen])
        _lines(axis, defined[chosen], sources, looks, columns)
        axis.set_title(panel.title)
        if place + PANEL_COLUMNS >= len(shown):
            axis.set_xlabel("Documents")
            axis.tick_params(labelbottom=True)
    for axis in axes:
        axis.autoscale()
    sizes = sorted(set(defined["n"]))
    axes[0].set_xticks(sizes[:: 1 if len(sizes) <= MANY else 2])  # of all panels, as they share it
    axes[0].xaxis.set_major_formatter(FuncFormatter(short_number))
    axes[0].xaxis.set_minor_locator(NullLocator())
    legend_below(figure, _legend(sources, labels, looks, baselines))
    return figure, axes


@styled
def sample_size(table: pd.DataFrame, labels: Labels) -> Figure:
    """Draw every measure against the number of documents, with its band over subsets."""
    return _draw(table, labels, ("value", "low", "high"))[0]


@styled
def p_values(table: pd.DataFrame, labels: Labels) -> Figure:
    """Draw the p-value of every test against the number of documents, with the stars' levels."""
    figure, axes = _draw(table, labels, ("p_value", "p_low", "p_high"))
    for axis in axes:
        axis.set(yscale="log", ylim=(None, 1.2))
        for level, _ in STAR_LEVELS:
            axis.axhline(level, color=NEUTRAL_COLOUR, linewidth=0.7, linestyle=":")
    return figure


# Beside the test of the whole distribution, which is solid.
DASHED = ("mean_difference", "max_difference")
SOLID, DASH = "-", "--"


@styled
def sensitivity(table: pd.DataFrame, labels: Labels) -> Figure:
    """Draw the minimum detectable effect (``relative``) against documents; below, its power."""
    found = table[table["relative"].notna()]
    if found.empty:
        raise NothingToShowError("the sensitivity has no shift to draw")
    figure, (axis, reached) = panel_grid(2, 1, 2.2, 0.6, COLUMN_WIDTH * 1.4, sharex=True)
    entries = []
    tendencies = [name for name in TENDENCIES if name in set(found["tendency"])]
    for place, tendency in enumerate(tendencies):
        colour, marker = colour_and_mark(place)
        look: dict[str, Any] = {"color": colour, "marker": marker, "linewidth": 1.1}
        entries.append(handle(TENDENCIES[tendency].title, colour, marker))
        for measure, rows in found[found["tendency"] == tendency].groupby("measure"):
            look["linestyle"] = DASH if measure in DASHED else SOLID
            points = rows.sort_values("n")
            axis.plot(points["n"], points["relative"], **look)
            reached.plot(points["n"], points["power_reached"], **look)
    grouped = bool(found["groups"].iloc[0])
    label = "Documents in each sample, the human one of whole groups"
    axis.set(xscale="log", yscale="log")
    reached.set_xlabel(label if grouped else "Documents in each of two samples")
    axis.set_ylabel(f"Minimum detectable effect\n(relative to the {labels.reference.lower()})")
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:g}%"))
    reached.set(ylim=(0, 1.02), ylabel="Power reached\nin the other half")
    reached.axhline(found["power"].iloc[0], color=NEUTRAL_COLOUR, linewidth=0.7, linestyle=":")
    axis.set_xticks(np.unique(found["n"]))
    axis.minorticks_off()
    entries.append(handle("KS, total variation", NEUTRAL_COLOUR, None, SOLID))
    entries.append(handle("Mean, largest difference", NEUTRAL_COLOUR, None, DASH))
    legend_below(figure, entries)
    return figure
