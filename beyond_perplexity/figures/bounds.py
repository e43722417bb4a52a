"""Upper bounds of one perplexity by every method, side by side."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from beyond_perplexity.errors import NothingToShowError
from beyond_perplexity.figures.labels import PALETTE, Labels
from beyond_perplexity.figures.outliers import AxisPoint, cut_outliers
from beyond_perplexity.figures.style import PAGE_WIDTH, handle, legend_below, package_style
from beyond_perplexity.importance.bound_claims import finite_bounds, withdraw_claims
from beyond_perplexity.importance.estimate_wording import sampling_error
from beyond_perplexity.importance.estimator import (
    STOCHASTIC,
    STRICT,
    TWO_SIDED,
    TWO_SIDED_UNSURE,
)
from beyond_perplexity.importance.estimator_registry import load_estimators

MARKS = {STRICT: "s", STOCHASTIC: "o"}  # the bounds that are drawn, from top to bottom
BRACKETS = {TWO_SIDED: "solid", TWO_SIDED_UNSURE: "dotted"}  # the lines of those with two ends


def _best(estimates: pd.DataFrame) -> pd.DataFrame:
    """Keep the lowest bound of each model, proposal and row of the figure.

    Columns are added: ``row``, the row's label, and ``chosen_from``, how many bounds it is of.
    """
    titles = {method: one.title for method, one in load_estimators().items()}
    instance = finite_bounds(estimates, MARKS)
    if instance.empty:
        raise NothingToShowError("the table has no finite bound")
    # Each size of a beam has a strict bound; of several stochastic ones the lowest is shown.
    size = instance["beam_size"].where(instance["bound"] == STRICT)
    instance = instance.assign(
        row=instance["method"].map(titles)
        + size.map(", k = {:.0f}".format).where(size.notna(), ""),
        kind=instance["bound"].map(list(MARKS).index),
        place=instance["method"].map(list(titles).index),
        size=size.fillna(0.0),
    ).sort_values(["kind", "place", "size", "value"], kind="stable")
    keys = ["model", "proposal", "row"]
    instance["chosen_from"] = instance.groupby(keys)["value"].transform("size")
    return instance.drop_duplicates(keys)


def _brackets(estimates: pd.DataFrame) -> pd.DataFrame:
    """Keep the brackets that no temperature was chosen for; column ``row`` has the row's label."""
    titles = {method: one.title for method, one in load_estimators().items()}
    held = estimates[
        estimates["bound"].isin(BRACKETS)
        & (estimates["measure"] == "perplexity")
        & np.isfinite(estimates["high"].astype(float))
        & (estimates["low"].astype(float) > 0)
    ]
    keys = ["model", "proposal", "basis"]
    alone = held[held.groupby(keys)["low"].transform("size") == 1]
    basis = alone["basis"].map(titles)
    return alone.assign(row=alone["method"].map(titles) + ": " + basis)


def bounds(estimates: pd.DataFrame, gaps: pd.DataFrame | None, labels: Labels) -> Figure:
    """Draw the instance-level upper bounds of each model by method and proposal.

    Parameters
    ----------
    estimates : pandas.DataFrame
        Schema ``estimates``. Of several temperatures (and sizes of the beam whose tail is
        sampled) the lowest is shown. Chosen by the numbers it is shown among, the lowest of several
        stochastic bounds is no such bound any more: its logarithm may lie below the true one's in
        expectation, by up to the errors of those that it is chosen from.
    gaps : pandas.DataFrame or None
        Schema ``importance_gaps``: brackets that it refutes make no claim.
    labels : Labels
        Of no concern here: models and proposals go by their own names.

    Returns
    -------
    matplotlib.figure.Figure
        A panel per model, a line per method, a mark per proposal; two errors over the samples
        on both sides where they are known (`wording.sampling_error`). Brackets that no temperature
        was chosen for are lines between their ends, which may lie outside of the panel.

    Raises
    ------
    NothingToShowError
        When the table has no finite bound.
    """
    chosen, brackets = _best(estimates), _brackets(withdraw_claims(estimates, gaps))
    order = list(dict.fromkeys(estimates["model"]))
    models = [name for name in order if name in set(chosen["model"])]
    lines = list(dict.fromkeys([*chosen["row"], *brackets["row"]]))
    names = list(dict.fromkeys(_short(*key) for key in _keys(estimates)))
    colours = {name: PALETTE[place % len(PALETTE)] for place, name in enumerate(names)}
    with package_style():
        height = 0.24 * len(lines) + 1.3
        figure = Figure(figsize=(PAGE_WIDTH, height), layout="constrained")
        grid = figure.subplots(1, len(models), squeeze=False, sharey=True)[0]
        for model, axis in zip(models, grid, strict=True):
            own = brackets[brackets["model"] == model]
            _draw(axis, chosen[chosen["model"] == model], lines, colours)
            _draw_brackets(axis, own, lines, colours)
            axis.set_title(model)
            axis.set_xlabel("Perplexity")
        grid[0].set_yticks(range(len(lines)), lines)
        grid[0].set_ylim(len(lines) - 0.5, -0.5)
        shown = [handle(name, colours[name], None) for name in names]
        several = (chosen.loc[chosen["bound"] == STOCHASTIC, "chosen_from"] > 1).any()
        lowest = " (the lowest over τ)" if several else ""
        kinds = {STRICT: "strict upper bound", STOCHASTIC: f"stochastic upper bound{lowest}"}
        shown += [_mark(text, MARKS[kind]) for kind, text in kinds.items()]
        shown += [
            handle(f"bracket, {label}", "0.3", None, line)
            for label, line in BRACKETS.items()
            if label in set(brackets["bound"])
        ]
        legend_below(figure, shown)
    return figure


def _keys(table: pd.DataFrame) -> list[tuple[str, str]]:
    return list(zip(table["model"], table["proposal"], strict=True))


def _short(model: str, proposal: str) -> str:
    """Name a proposal without its model."""
    return proposal.removeprefix(f"{model}-").replace("-", " ")


def _mark(label: str, marker: str) -> Line2D:
    entry = handle(label, "0.3", marker)
    entry.set_linestyle("none")
    return entry


def _draw(axis: Axes, rows: pd.DataFrame, lines: list[str], colours: dict[str, str]) -> None:
    proposals = list(dict.fromkeys(rows["proposal"]))
    for (model, proposal), group in rows.groupby(["model", "proposal"], sort=False):
        shift = _shift(proposals, str(proposal))
        for row in group.to_dict("records"):
            axis.errorbar(
                row["value"],
                lines.index(row["row"]) + shift,
                xerr=2 * (sampling_error(row)[0] or 0.0),
                color=colours[_short(str(model), str(proposal))],
                marker=MARKS[row["bound"]],
                markersize=4,
                linestyle="none",
            )
    shifts = (_shift(proposals, proposal) for proposal in rows["proposal"])
    cut_outliers(
        axis,
        [
            AxisPoint(
                _with_error(row),
                lines.index(row["row"]) + shift,
                f"{row['value']:,.0f}",
                colours[_short(row["model"], row["proposal"])],
            )
            for row, shift in zip(rows.to_dict("records"), shifts, strict=True)
        ],
    )
    axis.grid(axis="y", visible=False)


def _with_error(row: dict[Any, Any]) -> tuple[float, float, float]:
    error = 2 * (sampling_error(row)[0] or 0.0)
    return row["value"] - error, row["value"], row["value"] + error


def _draw_brackets(
    axis: Axes, rows: pd.DataFrame, lines: list[str], colours: dict[str, str]
) -> None:
    limits = axis.get_xlim()
    proposals = list(dict.fromkeys(rows["proposal"]))
    for row in rows.to_dict("records"):
        shift = _shift(proposals, row["proposal"])
        axis.plot(
            [row["low"], row["high"]],
            [lines.index(row["row"]) + shift] * 2,
            color=colours[_short(row["model"], row["proposal"])],
            linestyle=BRACKETS[row["bound"]],
            linewidth=2,
            marker="|",
        )
    width = limits[1] - limits[0]
    ends = [value for name in ("low", "high") for value in rows[name]]
    axis.set_xlim(  # wide brackets are cut, or nothing else could be read
        max(min([limits[0], *ends]), limits[0] - width),
        min(max([limits[1], *ends]), limits[1] + width),
    )


def _shift(proposals: list[str], proposal: str) -> float:
    """Return how far from its line a proposal is drawn."""
    return 0.22 * (proposals.index(proposal) - (len(proposals) - 1) / 2)
