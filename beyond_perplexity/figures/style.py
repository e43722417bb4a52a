"""What all figures share: sizes, fonts, panels, lines, legends."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from textwrap import fill
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.text import Text
from matplotlib.ticker import LogFormatter

from beyond_perplexity.errors import InputError, NothingToShowError
from beyond_perplexity.figures.labels import EXTERNAL, Labels, Looks, is_reference, parse_source
from beyond_perplexity.foreign_text import drawable
from beyond_perplexity.storage.outputs import atomic_path

COLUMN_WIDTH = 3.3  # inches, one column of a two-column paper
PAGE_WIDTH = 6.8  # inches, both columns
MARKS_PER_LINE = 6
CENTRED: Any = {"ha": "center", "va": "center"}  # of texts

RC: Any = {
    "font.size": 8.0,
    "axes.titlesize": 8.5,
    "axes.labelsize": 8.0,
    "xtick.labelsize": 7.0,
    "ytick.labelsize": 7.0,
    "legend.fontsize": 7.5,
    "legend.title_fontsize": 7.0,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#E3E3E3",
    "grid.linewidth": 0.6,
    "axes.linewidth": 0.7,
    "lines.linewidth": 1.2,
    "lines.markersize": 3.5,
    "svg.hashsalt": "beyond-perplexity",
    "svg.fonttype": "path",
    "pdf.fonttype": 42,
    "figure.dpi": 100.0,
    "text.parse_math": False,  # no text of users is markup
}


@contextmanager
def package_style() -> Iterator[None]:
    """Switch matplotlib's settings to the package's for a while."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(RC)
        yield


styled = package_style()  # decorates the functions of figures


def literal(text: str) -> str:
    """Write a text of the user's so that it stays as it is inside the package's own markup."""
    return text.replace("$", r"\$")


def select(curves: pd.DataFrame, *names: str) -> pd.DataFrame:
    """Take the points of some curves, in the order of x within each source."""
    chosen = curves[curves["curve"].isin(names)]
    if chosen["y"].isna().all():
        held = ", ".join(sorted(set(curves["curve"][curves["y"].notna()]))) or "none"
        raise NothingToShowError(
            f"the curves have no {', '.join(map(repr, names))} (they have: {held})"
        )
    return chosen.sort_values(["source", "x"], kind="stable")


def panels(
    sources: Sequence[str],
    labels: Labels,
    *,
    xlabel: str,
    ylabels: Sequence[str],
    height: float = 2.1,
) -> tuple[Figure, dict[str, list[Axes]]]:
    """Lay out a column of panels per decoding, wrapped above four, and a row for each of `ylabels`,
    maybe mathematics (see `literal`), whose panels share their axes."""
    decodings = labels.sort_decodings({parse_source(name).decoding for name in sources} - {""})
    if not decodings:
        raise NothingToShowError("the table has no source but the reference")
    rows, n = len(ylabels), len(decodings)
    columns = n if rows > 1 or n <= 4 else 3
    lines = rows if rows > 1 else -(-n // columns)
    width = PAGE_WIDTH if columns > 1 else COLUMN_WIDTH * 1.25
    figure = Figure(figsize=(width, height * lines + 0.6), layout="constrained")
    sharey: Any = "row" if rows > 1 else True
    grid = figure.subplots(lines, columns, sharex=True, sharey=sharey, squeeze=False)
    if rows > 1:
        placed = {name: list(grid[:, place]) for place, name in enumerate(decodings)}
    else:
        placed = {name: [axis] for name, axis in zip(decodings, grid.flat, strict=False)}
        for axis in list(grid.flat)[n:]:
            axis.set_visible(False)
    for place, (name, column) in enumerate(placed.items()):
        if decodings != [EXTERNAL]:
            column[0].set_title(labels.decoding(name))
        if rows > 1 or place + columns >= n:
            column[-1].set_xlabel(xlabel)
            column[-1].tick_params(labelbottom=True)
        if place == 0 or (rows == 1 and place % columns == 0):
            for axis, ylabel in zip(column, ylabels, strict=True):
                axis.set_ylabel(ylabel, parse_math=True)
    return figure, placed


def single_panel(width: float, height: float) -> tuple[Figure, Axes]:
    """Lay out a figure of one panel, inches."""
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots()


def panel_grid(
    count: int,
    columns: int,
    height: float,
    rest: float = 0.6,
    width: float = PAGE_WIDTH,
    **shared: Any,
) -> tuple[Figure, list[Axes]]:
    """Lay out panels, so many a row, `height` inches each and the `rest` in all."""
    rows = -(-count // columns)
    figure = Figure(figsize=(width, height * rows + rest), layout="constrained")
    axes = list(figure.subplots(rows, columns, squeeze=False, **shared).flat)
    for axis in axes[count:]:
        axis.set_visible(False)
    return figure, axes[:count]


def row_of_panels(count: int, height: float, **shared: Any) -> tuple[Figure, list[Axes]]:
    """Lay out panels side by side, over a page or one column; `height` in inches."""
    width = PAGE_WIDTH if count > 1 else COLUMN_WIDTH * 1.25
    return panel_grid(count, count, height, 0, width, **shared)


def name_rows(axis: Axes, names: Sequence[str], *, shown: bool = True) -> None:
    """Give a panel a line for each name, from top to bottom; neighbours may show the names."""
    if shown:
        axis.set_yticks(range(len(names)), list(names))
    axis.set_ylim(len(names) - 0.5, -0.5)
    axis.grid(visible=False, axis="y")


def fill_cell(axis: Axes, line: int, column: int, colour: Any, **edge: Any) -> None:
    """Colour a cell of a matrix."""
    look = {"linewidth": 0, **edge}
    axis.add_patch(Rectangle((column - 0.5, line - 0.5), 1, 1, facecolor=colour, **look))


def name_columns_above(axis: Axes) -> None:
    """Put the names of a matrix' columns over it, and take its frame away."""
    axis.tick_params(top=True, labeltop=True, bottom=False, labelbottom=False, length=0)
    axis.grid(visible=False)
    axis.spines[:].set_visible(False)


def empty_figure(note: str) -> Figure:
    """Draw a note in the place of a figure that the data hold nothing for."""
    with package_style():
        figure, axis = single_panel(COLUMN_WIDTH * 1.25, 1.2)
        axis.set_axis_off()
        axis.text(0.5, 0.5, fill(note, 56), transform=axis.transAxes, **CENTRED)
    return figure


def draw_line(
    axis: Axes,
    points: pd.DataFrame,
    source: str,
    looks: Looks,
    *,
    band: bool = False,
) -> None:
    """Draw one source: its line (x, y) with a few marks, and a `band` from ``low`` to ``high``."""
    model, decoding = parse_source(source)
    colour = looks.colour(model)
    x, y = points["x"].to_numpy(), points["y"].to_numpy()
    human = is_reference(model)
    if band:
        low, high = points["low"].to_numpy(), points["high"].to_numpy()
        axis.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0)
    style = looks.reference_style(model) if human else looks.line_style(decoding)
    marks: Any = {"marker": None if human else looks.marker(model)}
    marks["markevery"] = max(1, len(x) // MARKS_PER_LINE)
    width, order = (1.6, 3) if human else (1.1, 2.5)
    axis.plot(x, y, color=colour, linestyle=style, linewidth=width, zorder=order, **marks)


def handle(label: str, colour: str, marker: str | None = None, line_style: Any = "-") -> Line2D:
    """Make an entry of a legend."""
    return Line2D([], [], color=colour, marker=marker, linestyle=line_style, label=label)


def model_handles(
    sources: Sequence[str], labels: Labels, looks: Looks, *, marks: bool = True
) -> list[Line2D]:
    """Make the legend's entries: the test set as it is read in each vocabulary, every model."""
    models = {parse_source(name).model for name in sources}
    humans = sorted(filter(is_reference, models))
    entries = [
        handle(labels.model(name), looks.colour(name), None, looks.reference_style(name))
        for name in humans
    ]
    for model in labels.sort_models(models.difference(humans)):
        marker = looks.marker(model) if marks else None
        entries.append(handle(labels.model(model), looks.colour(model), marker))
    return entries


def legend_below(figure: Figure, handles: Sequence[Line2D]) -> None:
    """Put one legend under all panels, outside of them, so that it covers no data."""
    longest = max(len(str(entry.get_label())) for entry in handles)
    width = 0.6 + 0.062 * longest  # inches of an entry: the line, and characters of 7.5 points
    columns = min(max(1, int(figure.get_figwidth() / width)), len(handles))
    look: Any = {"loc": "outside lower center", "columnspacing": 1.4, "handlelength": 2.4}
    figure.legend(handles=list(handles), ncols=columns, **look)


def draw_by_decoding(
    curves: pd.DataFrame,
    labels: Labels,
    *,
    xlabel: str,
    ylabel: str,
    prepare: Callable[[pd.DataFrame], pd.DataFrame] | None = None,
    band: bool = False,
) -> tuple[Figure, list[Axes], list[Line2D]]:
    """Draw a panel per decoding with a line per model and the test sets, the first with a `band`;
    the limits of the panels are set after all are drawn."""
    sources = labels.sort_sources(curves["source"])
    looks = Looks(labels, sources)
    first = next(filter(is_reference, sources), None)
    figure, placed = panels(sources, labels, xlabel=xlabel, ylabels=[ylabel])
    for decoding, (axis,) in placed.items():
        for name in sources:
            if parse_source(name).decoding in ("", decoding):
                points = curves[curves["source"] == name]
                points = points if prepare is None else prepare(points)
                draw_line(axis, points, name, looks, band=band and name == first)
    axes = [axis for (axis,) in placed.values()]
    return figure, axes, model_handles(sources, labels, looks)


def thin(points: pd.DataFrame, n: int = 250, *, log: bool = False) -> pd.DataFrame:
    """Keep about n points, what the eye can distinguish; with `log` evenly on such an axis."""
    if len(points) <= n:
        return points
    space = np.geomspace if log else np.linspace
    return points.iloc[np.unique(space(1, len(points), n).round().astype(int) - 1)]


def save(figure: Figure, paths: Sequence[str | Path]) -> None:
    """Write a figure atomically as svg, pdf or png; the same figure gives the same bytes."""
    undated = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}, ".png": {}}
    for path in map(Path, paths):
        if path.suffix not in undated:
            raise InputError(f"{path}: a figure's name ends in .svg, .pdf or .png")
    layout = figure.get_layout_engine()
    with package_style(), _texts_alone(figure), _powers_of_ten(figure):
        for path in map(Path, paths):
            how: Any = {"format": path.suffix[1:], "metadata": undated[path.suffix], "dpi": 200}
            with atomic_path(path) as temporary:
                figure.savefig(temporary, **how)
            # It takes as long as the drawing: that of the first file is for all.
            figure.set_layout_engine(None)
    if layout is not None:
        figure.set_layout_engine(layout)


@contextmanager
def _texts_alone(figure: Figure) -> Iterator[None]:
    """Replace what no file may hold, such as control characters, also in texts of later ticks."""
    plain = Text.set_text

    def set_text(text: Text, shown: Any) -> None:
        plain(text, None if shown is None else drawable(str(shown)))

    setattr(Text, "set_text", set_text)  # noqa: B010
    try:
        for text in figure.findobj(Text):
            text.set_text(text.get_text())
        yield
    finally:
        setattr(Text, "set_text", plain)  # noqa: B010


@contextmanager
def _powers_of_ten(figure: Figure) -> Iterator[None]:
    """Let the numbers of logarithmic axes be markup, also of ticks that drawing adds."""
    for panel in figure.axes:
        for axis in (panel.xaxis, panel.yaxis):
            if isinstance(axis.get_major_formatter(), LogFormatter):
                for tick in (*axis.majorTicks, *axis.minorTicks):
                    tick.label1.set_parse_math(True)
                    tick.label2.set_parse_math(True)
    with mpl.rc_context({"text.parse_math": True}):
        yield


FEWEST_NEAR = 3  # values that an axis is made for
FAR = 4.0  # times the range of the others that one must add to be cut off
EDGE_MARGIN = 0.12  # of the range, on either side


class AxisPoint(NamedTuple):
    """A point with limits (NaN: none) around its x, its y, and what is written where it is far."""

    x: tuple[float, float, float]
    y: float
    text: str
    colour: str


def range_without_outliers(values: Iterable[float]) -> tuple[float, float] | None:
    """Return the range of finite values (None: none) without up to a quarter, or one, at the end of
    the larger gap, where it is more than `FAR` times that of the rest."""
    ordered = sorted(value for value in values if math.isfinite(value))
    most = max(1, len(ordered) // 4)
    whole = ordered[-1] - ordered[0] if ordered else 0.0
    for left_out in range(1, most + 1):
        rest = len(ordered) - left_out
        if rest < FEWEST_NEAR:
            break
        starts = range(left_out + 1)
        start = min(starts, key=lambda place: ordered[place + rest - 1] - ordered[place])
        low, high = ordered[start], ordered[start + rest - 1]
        if high > low and whole > FAR * (high - low):
            return low, high
    return None


def cut_outliers(axis: Axes, points: Iterable[AxisPoint]) -> None:
    """Limit the x axis of a finished drawing to near values, and write the others at its edge."""
    held = [point for point in points if math.isfinite(point.x[1])]
    kept = range_without_outliers(point.x[1] for point in held)
    if kept is None:
        return
    near = [point for point in held if kept[0] <= point.x[1] <= kept[1]]
    ends = [end for point in near for end in point.x if math.isfinite(end)]
    margin = EDGE_MARGIN * (max(ends) - min(ends))
    axis.set_xlim(min(ends) - margin, max(ends) + margin)
    for point in held:
        if point in near:
            continue
        right = point.x[1] > kept[1]
        text, place = (f"{point.text} →", 0.99) if right else (f"← {point.text}", 0.01)
        look: Any = {"ha": "right" if right else "left", "va": "center", "fontsize": 7}
        across = axis.get_yaxis_transform()
        axis.text(place, point.y, text, transform=across, color=point.colour, **look)
