"""Figures 1 to 3 of the semantic evaluation paper: correlations of measures, scaled similarity."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from beyond_perplexity.figures import measure_names
from beyond_perplexity.figures.correlation_matrix import (
    Scatter,
    ShownCorrelations,
    cluster_measures,
    correlations_of,
    draw_correlations,
    draw_scatters,
    either_way,
    matrix_figure,
)
from beyond_perplexity.figures.labels import Labels, Looks
from beyond_perplexity.figures.style import (
    CENTRED,
    COLUMN_WIDTH,
    handle,
    legend_below,
    single_panel,
    styled,
)
from beyond_perplexity.schemas.semantics import WORDS_EVALUATOR
from beyond_perplexity.semantics.measures import CROSS_ENTROPY, MeasureOptions
from beyond_perplexity.semantics.word_cosines import exponential_scaling, scaled_cosine

_OVER = {"models": "models", "sentences": "sentences (mean of the models)"}


def _names(rows: pd.DataFrame, place: str) -> list[measure_names.MeasureName]:
    return [*zip(rows[f"{place}_evaluator"], rows[f"{place}_measure"], strict=True)]


def _held(rows: pd.DataFrame, method: str) -> ShownCorrelations:
    """Return the correlations of a method by their two measures."""
    own = rows[rows["method"] == method]
    return correlations_of(own, _names(own, "first"), _names(own, "second"))


def _draw_over(table: pd.DataFrame, labels: Labels, over: str) -> Figure:
    """Draw a matrix for each split, all in the order of the tree of the split that is shown."""
    rows = table[table["over"] == over]
    shown = rows[rows["split"] == measure_names.shown_split(rows["split"])]
    found = measure_names.sort_measures(_names(shown, "first") + _names(shown, "second"))
    names = [name for name in found if name[1] not in measure_names.SHORT_OF]
    _, order = cluster_measures(_held(shown, "spearman"), names)
    titles = {names[place]: measure_names.measure_title(names[place], labels) for place in order}
    splits = measure_names.sort_splits(rows["split"])
    figure, axes = matrix_figure(len(titles), below=len(splits))
    for axis, split in zip(axes, splits, strict=True):
        own = rows[rows["split"] == split]
        draw_correlations(axis, titles, _held(own, "pearson"), _held(own, "spearman"))
        axis.set_xlabel(
            f"Over {int(own['n'].max()):,} {_OVER[over]} of the "
            f"{measure_names.SPLIT_TITLES.get(split, split)} split.\n"
            "Below the diagonal: Pearson; above: Spearman. Grey on white:\n"
            "the 95% interval holds 0, or there is none",
            fontsize=7,
        )
    return figure


def _draw_few(semantics: pd.DataFrame, rows: pd.DataFrame, labels: Labels) -> Figure:
    """Draw each measure against cross-entropy, with a mark for each model and split."""
    splits = measure_names.sort_splits(rows["split"])
    found = [_held(rows[rows["split"] == split], "spearman") for split in splits]
    every = measure_names.sort_measures(_names(rows, "first") + _names(rows, "second"))
    names = [name for name in every if name[1] not in measure_names.SHORT_OF]
    base = next((n for n in names if n == (WORDS_EVALUATOR, CROSS_ENTROPY)), names[0])
    values = pd.concat(measure_names.pick_predicted(semantics, split) for split in splits)
    values = values[np.isfinite(values["value"])].set_index(["model", "split"])
    parts = measure_names.parts_by(values, "name").items()
    held: dict[Any, Any] = {name: rows["value"].to_dict() for name, rows in parts}
    scatters = []
    for name in (name for name in names if name != base):
        x, y = held.get(base, {}), held.get(name, {})
        points = [(*place, x[place], y[place]) for place in x if place in y]
        rho, n = [either_way(one, base, name) for one in found], len({m for m, *_ in points})
        scatters.append(Scatter(measure_names.measure_title(name, labels), rho, str(n), points))
    kinds = {split: f"{measure_names.SPLIT_TITLES.get(split, split)} split" for split in splits}
    title = measure_names.measure_title(base, labels)
    xlabel = f"Across: {title}. ρ: Spearman's, {' / '.join(kinds.values())}"
    return draw_scatters(scatters, labels, xlabel, kinds)


@styled
def correlations_over_models(
    semantics: pd.DataFrame, correlations: pd.DataFrame, labels: Labels
) -> Figure:
    """Draw correlations over models (paper, Figs. 1, 2): a matrix a split, of few scatters."""
    rows = correlations[correlations["over"] == "models"]
    if rows["n"].max() < measure_names.FEW_MODELS:
        return _draw_few(semantics, rows, labels)
    return _draw_over(correlations, labels, "models")


@styled
def correlations_over_sentences(table: pd.DataFrame, labels: Labels) -> Figure:
    """Draw the correlations of measures over sentences; see `correlations_over_models`."""
    return _draw_over(table, labels, "sentences")


@styled
def scaling_curve(table: pd.DataFrame, labels: Labels) -> Figure:
    """Draw what equations 12 and 13 do to similarities (paper, Fig. 3), and where models are."""
    constants = MeasureOptions()
    figure, axis = single_panel(COLUMN_WIDTH * 1.25, 3.3)
    x = np.linspace(0, 1, 201)
    curves = (
        (x, "identity", "#8A8A8A", ":"),
        (exponential_scaling(x), "equation 12: 1 − (1 − s)·2^s", "#000000", "--"),
        (
            scaled_cosine(x, constants.temperature, constants.bias),
            f"equation 13, τ = {constants.temperature:g}, b = {constants.bias:g}",
            "#000000",
            "-",
        ),
    )
    entries = []
    for y, title, colour, style in curves:
        axis.plot(x, y, color=colour, linestyle=style)
        entries.append(handle(title, colour, None, style))
    _mark_paper(axis, constants)
    rows = measure_names.pick_predicted(table, measure_names.shown_split(table["split"]))
    rows = rows[rows["measure"] == "aligned_cosine"].dropna(subset="value")
    rows = rows[rows["evaluator"] == rows["evaluator"].iloc[0]] if len(rows) else rows
    looks = Looks(labels, [f"{name}/-" for name in rows["model"]])
    values = dict(zip(rows["model"], rows["value"], strict=True))
    for model in labels.sort_models(values):
        at = scaled_cosine(values[model], constants.temperature, constants.bias)
        axis.plot(values[model], at, marker=looks.marker(model), color=looks.colour(model), ms=5)
        title = f"{labels.model(model)}: mean cosine"
        entries.append(handle(title, looks.colour(model), looks.marker(model), "none"))
    axis.set(xlabel="Similarity s", ylabel="Scaled similarity", xlim=(0, 1), ylim=(0, 1.02))
    legend_below(figure, entries)
    return figure


def _mark_paper(axis: Axes, constants: MeasureOptions) -> None:
    """Mark what the paper reads off its curve, and what its equation gives there."""
    at = float(scaled_cosine(0.82, constants.temperature, constants.bias))
    axis.plot([0.82, 0.82], [at, 0.8], color="#D55E00", linewidth=0.8)
    axis.plot(0.82, 0.8, marker="x", color="#D55E00", ms=5)
    text = f"the paper's text:\n.82 becomes .8;\nits equation: {at:.2f}"
    axis.annotate(text, (0.82, 0.8), (0.44, 0.83), fontsize=7, color="#D55E00", **CENTRED)
