"""Every sample set: distances (the main figure), document lengths (5), vocabulary (2), words."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap, Normalize, PowerNorm
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator

from beyond_perplexity.errors import NothingToShowError
from beyond_perplexity.figures import measure_names, numbers, style
from beyond_perplexity.figures.labels import (
    PALETTE,
    Labels,
    Looks,
    is_reference,
    parse_source,
    reference_in,
)
from beyond_perplexity.figures.numbers import named_words
from beyond_perplexity.tendencies.definitions import TENDENCIES
from beyond_perplexity.verdicts import CANNOT_TELL, DIFFERS

# The distance of each tendency, in [0, 1], 0 for equal distributions.
EFFECTS = {
    (name, row.distance): f"{row.lines}\n({row.distance_name})"
    for name, row in TENDENCIES.items()
    if row.distance
}
FEW_SOURCES = 3  # sources: the numbers say it all, and a bar of colours would be squeezed
DARK = 0.66  # of the colour scale: above it the ink of a number is white
FARTHER = LinearSegmentedColormap.from_list("farther", ["#DCE9F6", "#6AAED6", "#0B4A8F"])
CLOSER, INSIDE, UNKNOWN = "#FAD7A8", "#FFFFFF", "#EDEDED"
INSIDE_DIFFERS = "#E4D7F0"  # the test of all documents finds what the baseline's size hides
BAR = "#7B4FA6"
_WIDE = 9  # columns that have room for a zero before the point
_BESIDE = 14  # columns at most beside which a bar of colours has room
EDGE = "#DADADA"

_Row = Mapping[Any, Any]


def _fill(row: _Row, largest: float) -> tuple[Any, str]:
    """Choose the colour of a cell, never white where its test differs, and the ink."""
    if math.isnan(row["baseline_low"] + row["baseline_high"]):
        return UNKNOWN, "#000000"
    place = numbers.beyond_baseline(row)
    if place <= 0:
        inside = INSIDE_DIFFERS if numbers.verdict(row) == DIFFERS else INSIDE
        return (CLOSER if place else inside), "#000000"
    darkness = math.sqrt(max(0.0, row["excess"]) / largest)
    return FARTHER(darkness), "#FFFFFF" if darkness > DARK else "#000000"


def _draw_cell(axis: Axes, column: int, line: int, text: str, fill: Any, ink: str) -> None:
    style.fill_cell(axis, line, column, fill, edgecolor=EDGE, linewidth=0.5)
    if fill == INSIDE_DIFFERS:  # who does not see violet sees a bar
        axis.plot([column - 0.46] * 2, [line - 0.36, line + 0.36], color=BAR, linewidth=2.2)
    axis.text(column, line, text, fontsize=7, color=ink, **style.CENTRED)


def _legend(figure: Figure, marks: set[str], fills: set[Any], band: str) -> None:
    said = f"Colour compares the distance with 95% of {band},\n"
    said += f"stars are the permutation test of all documents: {numbers.STAR_NOTE}."
    said += f" {numbers.WITHHELD} no verdict." if numbers.WITHHELD in marks else ""
    if numbers.UNCLEAR in marks:
        said += f" {numbers.UNCLEAR} {CANNOT_TELL}: too few permutations."
    entries = [
        Patch(facecolor=INSIDE, edgecolor="#999999", label="in the band, no star"),
        Patch(facecolor=FARTHER(0.5), label="farther"),
    ]
    rare = (
        (INSIDE_DIFFERS, "in the band, with a star", BAR),
        (CLOSER, "closer than human text", None),
        (UNKNOWN, "no baseline", None),
    )
    entries += [Patch(fc=fill, ec=edge, label=name) for fill, name, edge in rare if fill in fills]
    figure.legend(
        handles=entries, loc="outside lower center", ncols=3, title=said, handlelength=1.2
    )


def _draw_scale(figure: Figure, axis: Axes, largest: float, *, beside: bool) -> None:
    """Draw the bar of colours beside the cells, or below where these need the width."""
    place: Any = {"fraction": 0.022, "pad": 0.015}
    if not beside:
        place = {"location": "bottom", "fraction": 0.03, "aspect": 60, "pad": 0.03}
    scale = ScalarMappable(PowerNorm(0.5, 0, largest), FARTHER)
    bar = figure.colorbar(scale, ax=axis, **place)
    bar.set_label("Excess (square-root scale)")
    bar.outline.set_visible(False)


@style.styled
def effect_sizes(table: pd.DataFrame, labels: Labels) -> Figure:
    """Draw the distance of every source to the test set, coloured by its excess."""
    rows = numbers.effect_table(table)
    if rows.empty:
        raise NothingToShowError("the measures have no distance to the test set to draw")
    sources = labels.sort_sources(rows["source"])
    held = measure_names.by_key(rows, "source", "tendency", "measure")
    columns = [key for key in EFFECTS if any(found[1:] == key for found in held)]
    baselines = list(dict.fromkeys(rows["vocabulary"]))
    top, narrow = len(baselines), len(columns) > _WIDE
    beside = len(columns) <= _BESIDE
    height = (2.2 if narrow else 1.35) + 0.22 * (top + len(sources)) + 0.45 * (not beside)
    figure, axis = style.single_panel(style.PAGE_WIDTH, height)
    excess = rows["excess"].max()
    largest = max(0.1, 0.0 if pd.isna(excess) else float(excess))
    for column, key in enumerate(columns):
        for line, text in enumerate(numbers.baselines_of(rows, key).values()):
            short = text.replace("0.", ".") if narrow or "–" in text else text  # a range is long
            if narrow and "–" in short:
                short = f"≤{short.partition('–')[2]}"
            _draw_cell(axis, column, line, short, INSIDE, "#000000")
    marks, fills = set(), set()
    for line, source in enumerate(sources, start=top):
        for column, key in enumerate(columns):
            row = held.get((source, *key))
            if row is not None and not math.isnan(row["value"]):
                mark, (fill, ink) = numbers.verdict_mark(row), _fill(row, largest)
                shown = (numbers.shown_narrow if narrow else numbers.shown)(row["value"])
                _draw_cell(axis, column, line, shown + mark, fill, ink)
                marks.add(mark)
                fills.add(fill)
    axis.set(xlim=(-0.5, len(columns) - 0.5), ylim=(top + len(sources) - 0.5, -0.5))
    titles = [EFFECTS[key] for key in columns]
    if narrow:
        rows_of = [TENDENCIES[tendency] for tendency, _ in columns]
        titles = [f"{row.title} ({row.distance_name})" for row in rows_of]
    axis.set_xticks(range(len(columns)), titles, rotation=90 if narrow else 0)

    names = [labels.baseline + f", {n}" * (top > 1) for n in baselines]
    names += [labels.source(name) for name in sources]
    axis.set_yticks(range(len(names)), names)
    _finish(axis, sources, top)
    if len(sources) > FEW_SOURCES:
        _draw_scale(figure, axis, largest, beside=beside)
    _legend(figure, marks, fills, labels.band)
    return figure


def _finish(axis: Axes, sources: list[str], top: int) -> None:
    """Set the baselines and the models apart, and take the frame away."""
    style.name_columns_above(axis)
    models = [parse_source(name).model for name in sources]
    starts = [line for line in range(1, len(models)) if models[line] != models[line - 1]]
    for line in starts:
        axis.axhline(top + line - 0.5, color="#8A8A8A", linewidth=0.8)
    axis.axhline(top - 0.5, color="#000000", linewidth=1.2)


BOX_LEVELS = {"whislo": 0.05, "q1": 0.25, "med": 0.5, "q3": 0.75, "whishi": 0.95}


def _draw_box(axis: Axes, box: dict[str, float], place: int, colour: str) -> None:
    line, filled = {"color": colour, "linewidth": 1}, {"facecolor": colour + "59", "linewidth": 1}
    mean = {"marker": "D", "markersize": 3.2, "markeredgewidth": 0.7}
    mean |= {"markerfacecolor": "#FFFFFF", "markeredgecolor": "#000000"}
    look: Any = {"whiskerprops": line, "capprops": line, "meanprops": mean}
    look["boxprops"] = {**filled, "edgecolor": colour}
    look["medianprops"] = {"color": "#000000", "linewidth": 1.4}
    shape: Any = {"widths": 0.62, "orientation": "horizontal", "patch_artist": True}
    shape |= {"showmeans": True, "showfliers": False, "manage_ticks": False}
    drawn = axis.bxp([box], positions=[place], **shape, **look)
    for artist in chain.from_iterable(drawn.values()):
        artist.set_zorder(3)


@style.styled
def length(table: pd.DataFrame, labels: Labels) -> Figure:
    """Draw a box of document lengths per sample set under the test set's (paper, Fig. 5)."""
    curves = style.select(table, "length_quantiles")
    means = table[table["curve"] == "length_mean"].set_index("source")["y"].to_dict()
    boxes: dict[str, dict[str, float]] = {}
    for name in labels.sort_sources(curves["source"]):
        own = curves[curves["source"] == name]
        levels, values = own["x"].to_numpy(), own["y"].to_numpy()
        ends = {key: float(np.interp(level, levels, values)) for key, level in BOX_LEVELS.items()}
        box = {**ends, "mean": means.get(name, np.nan)}
        # A test set in another vocabulary may have the same lengths.
        if not (is_reference(name) and box in boxes.values()):
            boxes[name] = box
    sources = list(boxes)
    looks = Looks(labels, sources)
    figure, axis = style.single_panel(style.COLUMN_WIDTH * 1.4, 0.65 + 0.2 * len(sources))
    for place, name in enumerate(sources):
        box = boxes[name]
        _draw_box(axis, box, place, looks.colour(parse_source(name).model))
        if is_reference(name) and place == 0:
            axis.axvspan(box["q1"], box["q3"], color="#000000", alpha=0.07, linewidth=0)
    style.name_rows(axis, [labels.source(name) for name in sources])
    axis.set(xlim=(0, None), xlabel="Document length (tokens)")
    return figure


_MEASURES = {
    "types": "Types",
    "tokens": "Tokens",
    "novel_types": "Share of types\nnot in {reference}",
    "coverage": "Share of tokens\nof {reference} known",
}
UNIT_STEPS = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


def short_number(value: float, _place: object = None) -> str:
    """Write a number with a unit prefix: 57,450,000 as 57.4M."""
    for step, letter in UNIT_STEPS:
        if abs(value) >= step:
            return f"{value / step:.3g}{letter}"
    return f"{value:.3g}"


def _draw_bars(axis: Axes, values: dict[str, float], places: dict[str, int], looks: Looks) -> None:
    for name, value in values.items():
        colour = looks.colour(parse_source(name).model)
        axis.barh(places[name], value, height=0.68, color=colour, alpha=0.85)
        beside: Any = {"xytext": (2, 0), "textcoords": "offset points", "va": "center"}
        axis.annotate(short_number(value), (value, places[name]), fontsize=7, **beside)


@style.styled
def vocabulary(table: pd.DataFrame, labels: Labels) -> Figure:
    """Draw the types and tokens of every source, and what it shares with the test set."""
    rows = table[table["tendency"] == "vocabulary"]
    held = [name for name in _MEASURES if name in set(rows["measure"])]
    if not held:
        raise NothingToShowError("the measures have no tendency 'vocabulary' to draw")
    humans = {reference_in(name): name for name in rows["vocabulary"]}
    sources = labels.sort_sources([*humans, *rows["source"]])
    looks = Looks(labels, sources)
    places = {name: place for place, name in enumerate(sources)}
    figure, axes = style.panel_grid(len(held), len(held), 0.19 * len(sources), 0.75, sharey=True)
    for axis, measure in zip(axes, held, strict=True):
        chosen = rows[rows["measure"] == measure]
        known = chosen[chosen["value"].notna()]
        own = dict(zip(known["source"], known["value"], strict=True))
        totals = rows[rows["measure"] == f"{measure}_reference"]
        for human, read_in in humans.items():
            total = totals[totals["vocabulary"] == read_in]["value"].dropna()
            if len(total):
                own[human] = float(total.iloc[0])
        _draw_bars(axis, own, places, looks)
        axis.set_title(_MEASURES[measure].format(reference=labels.human()))
        axis.margins(x=0.28)
        axis.set_xlim(left=0)
        axis.xaxis.set_major_locator(MaxNLocator(3))
        axis.xaxis.set_major_formatter(FuncFormatter(short_number))
        style.name_rows(axis, [labels.source(name) for name in sources])
    return figure


_MOST = 15  # n-grams of either direction
_ROWS = 36  # of several sample sets
_LETTERS = 34
_OVER, _UNDER = PALETTE[0], PALETTE[3]
_COLOURS = "RdBu"  # also for red-green blindness: blue where the samples have more
_LETTER = 0.06  # inches, of a name


def _short(text: str) -> str:
    return text if len(text) <= _LETTERS else f"{text[: _LETTERS - 1]}…"


@style.styled
def words_and_phrases(table: pd.DataFrame, labels: Labels) -> Figure:
    """Draw the named n-grams: of one sample set with intervals, of several as a matrix."""
    if not (table["verdict"] == DIFFERS).any():
        raise NothingToShowError("no word or phrase is over- or under-used beyond chance")
    if table["source"].nunique() > 1:
        return _matrix(table, labels)
    rows = named_words(table, _MOST).sort_values("log_odds", ascending=False)
    figure = Figure(figsize=(style.PAGE_WIDTH, 1.1 + 0.17 * len(rows)), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=(3, 2))
    colours = np.where(rows["log_odds"] > 0, _OVER, _UNDER).tolist()
    left.hlines(range(len(rows)), rows["low"], rows["high"], colors=colours, linewidth=1.2)
    left.scatter(rows["log_odds"], range(len(rows)), s=14, color=colours, zorder=3)
    left.axvline(0, color="#000000", linewidth=0.8)
    left.set_xlabel("Log odds, with 95% intervals\nabove 0: more in the samples")
    _draw_shares(right, rows, colours)
    style.name_rows(left, [_short(name) for name in rows["ngram"]])
    marks = [
        style.handle("samples (more)", _OVER, "o", ""),
        style.handle("samples (less)", _UNDER, "o", ""),
        style.handle(labels.reference, "#000000", "D", ""),
    ]
    marks[-1].set_markerfacecolor("#FFFFFF")
    style.legend_below(figure, marks)
    return figure


def _draw_shares(axis: Axes, rows: pd.DataFrame, colours: list[str]) -> None:
    """Draw the share of the documents of either text that have each n-gram."""
    human, own = (100 * rows[f"document_share{ending}"] for ending in ("_reference", ""))
    places = range(len(rows))
    axis.hlines(places, human, own, colors="#B0B0B0", linewidth=0.9)
    axis.scatter(human, places, s=14, marker="D", color="#FFFFFF", edgecolor="#000000", zorder=3)
    axis.scatter(own, places, s=14, color=colours, zorder=4)
    axis.tick_params(axis="y", length=0)
    axis.margins(x=0.08)
    axis.set_xlabel("Documents that have it (%)")


def _matrix(table: pd.DataFrame, labels: Labels) -> Figure:
    """Draw the log odds of the n-grams that are named in most sample sets, a column each."""
    times = Counter(named_words(table, _MOST)["ngram"])
    farthest = table.assign(t=table["t"].abs()).groupby("ngram")["t"].max()
    chosen = sorted(times, key=lambda name: (-times[name], -farthest[name], name))[:_ROWS]
    sources = labels.sort_sources(table["source"])
    held = table[table["ngram"].isin(chosen)].set_index(["ngram", "source"])
    shown = held["log_odds"].where(held["verdict"] == DIFFERS).unstack()
    shown = shown.reindex(columns=sources)
    shown = shown.loc[shown.mean(axis=1).sort_values(ascending=False, kind="stable").index]
    values = shown.to_numpy(float)
    most = float(np.nanmax(np.abs(values)))
    names = [labels.source(name) for name in sources]
    longest = max(len(line) for name in names for line in name.split("\n"))
    height = 0.5 + _LETTER * longest + 0.18 * max(len(shown), 6)
    figure, axis = style.single_panel(style.PAGE_WIDTH, height)
    image = axis.imshow(values, cmap=_COLOURS, norm=Normalize(-most, most), aspect="auto")
    axis.set_yticks(range(len(shown)), [_short(name) for name in shown.index])
    axis.set_xticks(range(len(names)), names)
    style.name_columns_above(axis)
    for tick in axis.get_xticklabels():
        tick.set(rotation=90)
    bar = figure.colorbar(image, ax=axis, fraction=0.025, pad=0.015)
    bar.set_label("Log odds: blue, more in the samples; white, not named")
    bar.outline.set_visible(False)
    return figure
