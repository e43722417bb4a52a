"""Training curves of all models."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from beyond_perplexity.errors import InputError
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

STYLES = {"train": ":", "valid": "-"}
SPLIT_NAMES = {"train": "Training", "valid": "Validation"}


@styled
def training(table: pd.DataFrame, labels: Labels) -> Figure:
    """Draw perplexity per token against epochs: a line per model and split.

    Parameters
    ----------
    table : pandas.DataFrame
        Schema ``training`` with one more column, ``model``.
    labels : Labels
        Names and order.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    InputError
        When the table has no finite perplexity.
    """
    finite = table[table["perplexity"].notna() & (table["perplexity"] < float("inf"))]
    if finite.empty:
        raise InputError("the training curves hold no finite perplexity to draw")
    models = labels.sort_models(finite["model"])
    sources = [f"{model}/-" for model in models]
    looks = Looks(labels, sources)
    figure, axis = single_panel(COLUMN_WIDTH * 1.25, 3.0)
    for (model, split), points in finite.groupby(["model", "split"], sort=False):
        ordered = points.sort_values("epoch", kind="stable")
        axis.plot(
            *(thin(ordered, 400)[column].to_numpy() for column in ("epoch", "perplexity")),
            color=looks.colour(str(model)),
            linestyle=STYLES.get(str(split), "--"),
            linewidth=1.4 if split == "valid" else 0.9,
            marker=looks.marker(str(model)) if split == "valid" else None,
            markevery=max(1, len(ordered) // 12),
        )
    axis.set(xlabel="Epoch", ylabel="Perplexity per token", yscale="log")
    splits = [name for name in STYLES if name in set(finite["split"])]
    entries = model_handles(sources, labels, looks)
    entries += [handle(SPLIT_NAMES[name], NEUTRAL_COLOUR, None, STYLES[name]) for name in splits]
    legend_below(figure, entries)
    return figure
