"""Training curves, and contrastive entropy by distortion, epoch and training (Figures 1 to 3)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, PercentFormatter

from beyond_perplexity.errors import NothingToShowError
from beyond_perplexity.figures import measure_names, style
from beyond_perplexity.figures.labels import NEUTRAL_COLOUR, Labels, Looks
from beyond_perplexity.schemas.contrastive import CONTRASTIVE_ENTROPY

_STYLES = {"train": ":", "valid": "-"}
_SPLIT_NAMES = {"train": "Training", "valid": "Validation"}


def _sources(models: Sequence[str]) -> list[str]:
    return [f"{model}/-" for model in models]


def _draw_epochs(
    rows: pd.DataFrame, column: str, labels: Labels, marked: Sequence[str]
) -> tuple[Figure, Axes]:
    """Draw a column against epochs, a line a model and split, with marks on some splits."""
    sources = _sources(labels.sort_models(rows["model"]))
    looks = Looks(labels, sources)
    figure, axis = style.single_panel(style.COLUMN_WIDTH * 1.25, 3.0)
    for (model, split), points in measure_names.parts_by(rows, "model", "split").items():
        ordered = points.sort_values("epoch", kind="stable")
        axis.plot(
            *(style.thin(ordered, 400)[name].to_numpy() for name in ("epoch", column)),
            color=looks.colour(model),
            linestyle=_STYLES.get(split, "--"),
            linewidth=1.4 if split == "valid" else 0.9,
            marker=looks.marker(model) if split in marked else None,
            markevery=max(1, len(ordered) // 12),
        )
    axis.set_xlabel("Epoch")
    splits = [name for name in _STYLES if name in set(rows["split"])]
    entries = [style.handle(_SPLIT_NAMES[x], NEUTRAL_COLOUR, None, _STYLES[x]) for x in splits]
    style.legend_below(figure, [*style.model_handles(sources, labels, looks), *entries])
    return figure, axis


@style.styled
def training(table: pd.DataFrame, labels: Labels) -> Figure:
    """Draw perplexity per token against epochs: a line per model and split."""
    finite = table[table["perplexity"].notna() & (table["perplexity"] < float("inf"))]
    if finite.empty:
        raise NothingToShowError("the training curves hold no finite perplexity to draw")
    figure, axis = _draw_epochs(finite, "perplexity", labels, ("valid",))
    axis.set(ylabel="Perplexity per token", yscale="log")
    return figure


_DISTORTION = "Distortion of the test text"
_WITHOUT_LIKELIHOOD = "no likelihood, scales of their own"


def _draw_curves(axis: Axes, rows: pd.DataFrame, labels: Labels, looks: Looks) -> None:
    """Draw contrastive entropy with its band against distortion, a line a model, all from 0."""
    for model in labels.sort_models(rows["model"]):
        own = rows[rows["model"] == model].sort_values("level", kind="stable")
        points = own.rename(columns={"level": "x", "value": "y"})[["x", "y", "low", "high"]]
        if not (points["x"] == 0).any():  # a text is no distortion of itself
            points = pd.concat([pd.DataFrame([dict.fromkeys(points, 0.0)]), points])
        style.draw_line(axis, points, f"{model}/-", looks, band=True)
    axis.set_xlabel(_DISTORTION)
    axis.xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axis.set_xlim(left=0)


@style.styled
def entropy_by_distortion(table: pd.DataFrame, labels: Labels) -> Figure:
    """Draw contrastive entropy of the test text against its distortion (the paper's Figure 1)."""
    rows = measure_names.pick_contrasts(table, CONTRASTIVE_ENTROPY)
    looks = Looks(labels, _sources(sorted(set(rows["model"]))))
    rows = rows[np.isfinite(rows["value"])]
    if rows.empty:  # of models that find the text impossible, as an unsmoothed n-gram model does
        raise NothingToShowError("no model has a finite contrastive entropy")
    known = rows["model"].isin(measure_names.normalized_models(table))
    units = measure_names.CONTRAST_UNITS.items()
    parts = [(unit, title, rows[known & (rows["unit"] == unit)]) for unit, title in units]
    title = f"{measure_names.CONTRAST_UNITS['sentence']}: {_WITHOUT_LIKELIHOOD}"
    parts.append(("sentence", title, rows[~known & (rows["unit"] == "sentence")]))
    drawn = [part for part in parts if len(part[2])]
    figure, axes = style.row_of_panels(len(drawn), 3.0)
    for axis, (unit, heading, held) in zip(axes, drawn, strict=True):
        _draw_curves(axis, held, labels, looks)
        axis.set_title(heading.capitalize(), wrap=True)
        axis.set_ylabel(f"$H_C$, nats a {unit}", parse_math=True)
    shown = {name for _, _, held in drawn for name in held["model"]}
    style.legend_below(figure, style.model_handles(_sources(sorted(shown)), labels, looks))
    return figure


@style.styled
def entropy_by_epoch(table: pd.DataFrame, labels: Labels) -> Figure:
    """Draw contrastive entropy against epochs, a line a model and split (the paper's Figure 2)."""
    measured = table[np.isfinite(table["contrastive_entropy"].astype(float))]
    if measured.empty:
        raise NothingToShowError("the training curves hold no contrastive entropy to draw")
    figure, axis = _draw_epochs(measured, "contrastive_entropy", labels, tuple(_SPLIT_NAMES))
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axis.set_ylabel("$H_C$, nats a sentence", parse_math=True)
    return figure


@style.styled
def entropy_by_margin(
    table: pd.DataFrame, models: measure_names.Descriptions, labels: Labels
) -> Figure:
    """Draw test contrastive entropy, a line a training distortion, a panel a size (Fig. 3)."""
    rows = measure_names.pick_contrasts(table, CONTRASTIVE_ENTROPY)
    margins = measure_names.training_margins(models)
    rows = rows[(rows["unit"] == "sentence") & rows["model"].isin(margins)]
    rows = rows[np.isfinite(rows["value"])]
    if rows.empty:
        raise NothingToShowError("the contrasts have no model that is trained against distortion")
    shown = labels.sort_models(rows["model"])
    looks = Looks(labels, _sources(sorted({*shown, *table["model"]})))
    sizes = sorted({margins[name].size for name in shown})
    figure, axes = style.row_of_panels(len(sizes), 3.0, sharey=True)
    for axis, size in zip(axes, sizes, strict=True):
        own = [name for name in shown if margins[name].size == size]
        _draw_curves(axis, rows[rows["model"].isin(own)], labels, looks)
        axis.set_title(f"Latent size {size}")
    axes[0].set_ylabel("$H_C$, nats a sentence", parse_math=True)
    entries: list[Line2D] = [
        style.handle(
            f"{labels.model(name)}: trained at {measure_names.shown_level(margins[name].margin)}",
            looks.colour(name),
            looks.marker(name),
        )
        for name in sorted(shown, key=lambda name: margins[name].margin)
    ]
    style.legend_below(figure, entries)
    return figure
