"""Vocabulary statistics of every body of text: Figure 2 of the tendencies paper."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from beyond_perplexity.errors import NothingToShowError
from beyond_perplexity.figures.labels import Labels, Looks, parse_source, reference_in
from beyond_perplexity.figures.style import PAGE_WIDTH, styled

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
        axis.annotate(
            short_number(value),
            (value, places[name]),
            xytext=(2, 0),
            textcoords="offset points",
            va="center",
            fontsize=6.5,
        )


@styled
def vocabulary(table: pd.DataFrame, labels: Labels) -> Figure:
    """Draw the number of types and tokens of every source, and what it shares with the test set.

    A token of the test set is known to a source that has its type; the test set's own measures end
    in ``_reference``.
    """
    rows = table[table["tendency"] == "vocabulary"]
    held = [name for name in _MEASURES if name in set(rows["measure"])]
    if not held:
        raise NothingToShowError("the measures have no tendency 'vocabulary' to draw")
    humans = {reference_in(name): name for name in rows["vocabulary"]}
    sources = labels.sort_sources([*humans, *rows["source"]])
    looks = Looks(labels, sources)
    places = {name: place for place, name in enumerate(sources)}
    size = (PAGE_WIDTH, 0.75 + 0.19 * len(sources))
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(1, len(held), sharey=True, squeeze=False)[0]
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
        axis.grid(visible=False, axis="y")
    axes[0].set_yticks(list(places.values()), [labels.source(name) for name in sources])
    axes[0].set_ylim(len(sources) - 0.5, -0.5)
    return figure
