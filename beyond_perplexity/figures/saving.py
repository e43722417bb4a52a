"""Figures as files: stable bytes, no character that a file cannot hold, one layout for all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import LogFormatter

from beyond_perplexity.errors import InputError
from beyond_perplexity.figures.style import package_style
from beyond_perplexity.foreign_text import drawable
from beyond_perplexity.storage.outputs import atomic_path


def save(figure: Figure, paths: Sequence[str | Path]) -> None:
    """Write a figure atomically as svg, pdf or png; the same figure gives the same bytes."""
    undated = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}, ".png": {}}
    for path in map(Path, paths):
        if path.suffix not in undated:
            raise InputError(f"{path}: a figure's name ends in .svg, .pdf or .png")
    with package_style(), _texts_alone(figure), _powers_of_ten(figure), _one_layout(figure):
        for path in map(Path, paths):
            how: dict[str, Any] = {
                "format": path.suffix[1:],
                "metadata": undated[path.suffix],
                "dpi": 200,
            }
            with atomic_path(path) as temporary:
                figure.savefig(temporary, **how)
            figure.set_layout_engine(None)


@contextmanager
def _one_layout(figure: Figure) -> Iterator[None]:
    """Let the layout, which takes as long as the drawing, be that of the first file for all."""
    layout = figure.get_layout_engine()
    try:
        yield
    finally:
        if layout is not None:
            figure.set_layout_engine(layout)


@contextmanager
def _texts_alone(figure: Figure) -> Iterator[None]:
    """Replace what no file of a figure may hold, such as control characters in names.

    Ticks get their texts anew whenever they are drawn, so what gives them is replaced, too.
    """
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
