"""One function per figure: tidy tables in, a matplotlib figure out.

`FIGURES` has the rows of ``figures.toml``, one for every figure of every paper; `draw_figure` draws
one by its name. A new figure is a function in a file of its own and a row there.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from beyond_perplexity.figures.exhibit import (
    Exhibit,
    make_exhibit,
    read_exhibits,
    with_drawable_texts,
)
from beyond_perplexity.tendencies.definitions import SHARES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from beyond_perplexity.figures.labels import Labels
    from beyond_perplexity.options import Rows

FIGURES: Rows[Exhibit] = {
    **read_exhibits(Path(__file__).with_name("figures.toml")),
    **{
        f"tendencies/{row.figure}": Exhibit(
            f"figures.curves:{name}",
            ("curves",),
            f"Share of {row.noun}",
            f"Share of {row.noun}{row.note and f', that is {row.note},'} in a document.",
        )
        for name, row in SHARES.items()
    },
}


def draw_figure(name: str, given: Mapping[str, Any], labels: Labels) -> Figure:
    """Draw the figure of a name, a key of `FIGURES`, of what files of each kind hold."""
    shown = with_drawable_texts(given)
    figure: Figure = make_exhibit("figure", FIGURES, name, shown, labels)
    return figure
