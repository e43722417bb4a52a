"""Training curves of all models."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from beyond_perplexity.errors import NothingToShowError
from beyond_perplexity.figures.labels import NEUTRAL_COLOUR, Labels, Looks
from beyond_perplexity.figures.style import (
    COLUMN_WIDTH,
    handle,
    legend_below,
    model_handles,
    single_panel,
    styled,
    thin,
)

_STYLES = {"train": ":", "valid": "-"}
_SPLIT_NAMES = {"train": "Training", "valid": "Validation"}


def draw_epochs(
    axis: Axes,
    table: pd.DataFrame,
    column: str,
    looks: Looks,
    marked: Sequence[str] = tuple(_SPLIT_NAMES),
) -> None:
    """Draw a column against epochs, a line per model and split; markers on the splits of a list."""
    for (model, split), points in table.groupby(["model", "split"], sort=False):
        ordered = points.sort_values("epoch", kind="stable")
        axis.plot(
            *(thin(ordered, 400)[name].to_numpy() for name in ("epoch", column)),
            color=looks.colour(str(model)),
            linestyle=_STYLES.get(str(split), "--"),
            linewidth=1.4 if split == "valid" else 0.9,
            marker=looks.marker(str(model)) if split in marked else None,
            markevery=max(1, len(ordered) // 12),
        )


def split_handles(table: pd.DataFrame) -> list[Line2D]:
    """Return what a legend says of the splits that a table has."""
    splits = [name for name in _STYLES if name in set(table["split"])]
    return [handle(_SPLIT_NAMES[name], NEUTRAL_COLOUR, None, _STYLES[name]) for name in splits]


@styled
def training(table: pd.DataFrame, labels: Labels) -> Figure:
    """Draw perplexity per token against epochs: a line per model and split."""
    finite = table[table["perplexity"].notna() & (table["perplexity"] < float("inf"))]
    if finite.empty:
        raise NothingToShowError("the training curves hold no finite perplexity to draw")
    models = labels.sort_models(finite["model"])
    sources = [f"{model}/-" for model in models]
    looks = Looks(labels, sources)
    figure, axis = single_panel(COLUMN_WIDTH * 1.25, 3.0)
    draw_epochs(axis, finite, "perplexity", looks, marked=("valid",))
    axis.set(xlabel="Epoch", ylabel="Perplexity per token", yscale="log")
    entries = [*model_handles(sources, labels, looks), *split_handles(finite)]
    legend_below(figure, entries)
    return figure
