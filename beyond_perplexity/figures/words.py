"""The words and phrases that samples over- and under-use, by their log odds."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from beyond_perplexity.errors import NothingToShowError
from beyond_perplexity.figures import style
from beyond_perplexity.figures.labels import PALETTE, Labels
from beyond_perplexity.figures.numbers import named_words
from beyond_perplexity.verdicts import DIFFERS

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
