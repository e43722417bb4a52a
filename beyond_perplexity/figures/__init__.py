"""One function per figure: a tidy table in, a matplotlib figure out.

`FIGURES` names every figure with the kind of table it draws (a key of `schemas.SCHEMAS`) and the
function that draws it; `draw` looks a figure up by its name. A further kind of table has its flag
in `FLAGS`, and its files in `workflow.Run.figure_inputs`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from beyond_perplexity.errors import InputError
from beyond_perplexity.tendencies.rows import SHARES

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from beyond_perplexity.figures.labels import Labels


class FigureEntry(NamedTuple):
    """Where a figure is drawn, from what, and what to call it."""

    kind: str
    module: str
    function: str
    title: str


FIGURES: dict[str, FigureEntry] = {
    "main": FigureEntry(
        "tendencies", "effect_sizes", "effect_sizes", "Distance to the test set in every tendency"
    ),
    "figure_1": FigureEntry(
        "curves", "type_token", "type_token_overview", "Types against document length"
    ),
    "figure_2": FigureEntry(
        "tendencies", "vocabulary", "vocabulary", "Vocabulary of every body of text"
    ),
    "figure_3": FigureEntry(
        "curves", "type_token", "type_token", "Types against document length, by decoding"
    ),
    "figure_4": FigureEntry(
        "curves", "type_token", "type_token_ks", "Distance of the number of types, by length"
    ),
    "figure_5": FigureEntry("curves", "length", "length", "Document lengths"),
    "figure_6": FigureEntry("curves", "rank_frequency", "rank_frequency", "Rank and frequency"),
    "figure_7": FigureEntry(
        "curves", "type_token", "bigram_type_token", "Bigram types against document length"
    ),
    **{
        row.figure: FigureEntry("curves", "densities", name, f"Share of {row.noun}")
        for name, row in SHARES.items()
    },
    "sample_size": FigureEntry(
        "sample_size", "sample_size", "sample_size", "Measures against the number of documents"
    ),
    "sample_size_p_values": FigureEntry(
        "sample_size", "sample_size", "p_values", "P-values against the number of documents"
    ),
    "sensitivity": FigureEntry(
        "sensitivity", "sensitivity", "sensitivity", "Smallest shift that documents detect"
    ),
    "training": FigureEntry("training", "training", "training", "Training curves"),
}
# Kind of table -> flag of `scripts.plot_tendencies` that its files are given with.
FLAGS = {
    "tendencies": "--measures",
    "curves": "--curves",
    "sample_size": "--sample-size",
    "sensitivity": "--sensitivity",
    "training": "--training",
}


def draw(name: str, table: pd.DataFrame, labels: Labels) -> Figure:
    """Draw the figure of a name.

    Parameters
    ----------
    name : str
        A key of `FIGURES`.
    table : pandas.DataFrame
        Rows of the schema that the figure draws (`FIGURES[name].kind`).
    labels : Labels
        How models and decodings are called and in which order they stand.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    InputError
        When there is no such figure, or the table lacks what the figure shows.
    """
    if name not in FIGURES:
        raise InputError(f"there is no figure '{name}'; the figures are {', '.join(FIGURES)}")
    entry = FIGURES[name]
    module = import_module(f"beyond_perplexity.figures.{entry.module}")
    figure: Figure = getattr(module, entry.function)(table, labels)
    return figure
