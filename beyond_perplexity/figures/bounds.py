"""Upper bounds of one perplexity by every method, side by side."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from beyond_perplexity.errors import NothingToShowError
from beyond_perplexity.figures import style
from beyond_perplexity.figures.labels import Labels, proposal_colours, short_proposal
from beyond_perplexity.importance.bidirectional_gaps import GapRange, gap_ranges, withdraw_claims
from beyond_perplexity.importance.estimate_wording import finite_bounds, sampling_error
from beyond_perplexity.importance.estimator import STOCHASTIC, STRICT, TWO_SIDED, TWO_SIDED_UNSURE
from beyond_perplexity.importance.ways_to_draw import load_estimators

MARKS = {STRICT: "s", STOCHASTIC: "o"}  # the bounds that are drawn, from top to bottom
# The lines of those with two ends.
TWO_SIDED_LINES = {TWO_SIDED: "solid", TWO_SIDED_UNSURE: "dotted"}
TWO_SIDED_TEXTS = {TWO_SIDED: "claimed", TWO_SIDED_UNSURE: "without a claim"}


def _best(estimates: pd.DataFrame) -> pd.DataFrame:
    """Keep the lowest bound of each model, proposal and ``row``, and say how many it is of."""
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


def _two_sided(estimates: pd.DataFrame) -> pd.DataFrame:
    """Keep two-sided bounds that no temperature was chosen for; ``row`` has the row's label."""
    titles = {method: one.title for method, one in load_estimators().items()}
    held = estimates[
        estimates["bound"].isin(TWO_SIDED_LINES)
        & (estimates["measure"] == "perplexity")
        & np.isfinite(estimates["high"].astype(float))
        & (estimates["low"].astype(float) > 0)
    ]
    alone = held[held.groupby(["model", "proposal", "basis"])["low"].transform("size") == 1]
    return alone.assign(row=alone["method"].map(titles) + ": " + alone["basis"].map(titles))


@style.styled
def bounds(estimates: pd.DataFrame, gaps: pd.DataFrame | None, labels: Labels) -> Figure:
    """Draw the instance-level upper bounds of each model by method and proposal.

    Of several temperatures (and beams whose tail is sampled) the lowest is shown, which, so chosen,
    is no bound any more: its logarithm may lie below the true one's in expectation. Bars are two
    errors over the samples (`wording.sampling_error`). Two-sided bounds that no temperature was
    chosen for are lines, whose ends may lie outside of the panel; those that `gaps` refutes make no
    claim.
    """
    chosen, two_sided = _best(estimates), _two_sided(withdraw_claims(estimates, gaps))
    order = list(dict.fromkeys(estimates["model"]))
    models = [name for name in order if name in set(chosen["model"])]
    lines = list(dict.fromkeys([*chosen["row"], *two_sided["row"]]))
    colours = proposal_colours(estimates)
    figure, axes = style.panel_grid(len(models), len(models), 0.24 * len(lines), 1.3, sharey=True)
    for model, axis in zip(models, axes, strict=True):
        own = two_sided[two_sided["model"] == model]
        _draw(axis, chosen[chosen["model"] == model], lines, colours)
        _draw_two_sided(axis, own, lines, colours)
        axis.set(title=model, xlabel="Perplexity")
    style.name_rows(axes[0], lines)
    shown = [style.handle(*named) for named in colours.items()]
    several = (chosen.loc[chosen["bound"] == STOCHASTIC, "chosen_from"] > 1).any()
    lowest = " (the lowest over τ)" if several else ""
    kinds = {STRICT: "strict upper bound", STOCHASTIC: f"stochastic upper bound{lowest}"}
    held = {kind: text for kind, text in kinds.items() if kind in set(chosen["bound"])}
    shown += [style.handle(text, "0.3", MARKS[kind], "none") for kind, text in held.items()]
    shown += [
        style.handle(f"two-sided, {TWO_SIDED_TEXTS[label]}", "0.3", None, line)
        for label, line in TWO_SIDED_LINES.items()
        if label in set(two_sided["bound"])
    ]
    style.legend_below(figure, shown)
    return figure


def _draw(axis: Axes, rows: pd.DataFrame, lines: list[str], colours: dict[str, str]) -> None:
    proposals = list(dict.fromkeys(rows["proposal"]))
    points: list[style.AxisPoint] = []
    look: dict[str, Any] = {"markersize": 4, "linestyle": "none"}
    order = rows["proposal"].map(proposals.index).sort_values(kind="stable")
    for row in rows.loc[order.index].to_dict("records"):
        value, error = row["value"], 2 * (sampling_error(row)[0] or 0.0)
        height = lines.index(row["row"]) + _shift(proposals, row["proposal"])
        colour, mark = colours[short_proposal(row["model"], row["proposal"])], MARKS[row["bound"]]
        axis.errorbar(value, height, xerr=error, color=colour, marker=mark, **look)
        limits = (value - error, value, value + error)
        points.append(style.AxisPoint(limits, height, f"{value:,.0f}", colour))
    style.cut_outliers(axis, points)
    style.name_rows(axis, lines, shown=False)


def _draw_two_sided(
    axis: Axes, rows: pd.DataFrame, lines: list[str], colours: dict[str, str]
) -> None:
    limits = axis.get_xlim()
    proposals = list(dict.fromkeys(rows["proposal"]))
    for row in rows.to_dict("records"):
        height = lines.index(row["row"]) + _shift(proposals, row["proposal"])
        colour = colours[short_proposal(row["model"], row["proposal"])]
        look: Any = {"linestyle": TWO_SIDED_LINES[row["bound"]], "linewidth": 2, "marker": "|"}
        axis.plot([row["low"], row["high"]], [height] * 2, color=colour, **look)
    width = limits[1] - limits[0]
    ends = [value for name in ("low", "high") for value in rows[name]]
    axis.set_xlim(  # wide two-sided bounds are cut, or nothing else could be read
        max(min([limits[0], *ends]), limits[0] - width),
        min(max([limits[1], *ends]), limits[1] + width),
    )


def _shift(proposals: list[str], proposal: str) -> float:
    """Return how far from its line a proposal is drawn."""
    return 0.22 * (proposals.index(proposal) - (len(proposals) - 1) / 2)


LEAST_SHOWN = 1e-3  # nats per token: where the logarithmic axis begins
MOST_SHOWN = 1.0  # where it ends at the least
ROW_HEIGHT = 0.16


@style.styled
def true_gaps(gaps: pd.DataFrame, labels: Labels) -> Figure:
    """Draw what each setting may lack of log p, nats per token, a panel per model."""
    held = gaps[gaps["forward"].notna()]
    if held.empty:
        raise NothingToShowError("no simulated document was estimated")
    rows = held.to_dict("records")
    ranges = gap_ranges(rows)
    known = [found.most for found in ranges if np.isfinite(found.most)]
    limits = LEAST_SHOWN / 1.5, 2 * max([MOST_SHOWN, *known])
    colours = proposal_colours(held)
    panels: dict[str, list[tuple[dict[Any, Any], GapRange]]] = {}
    for row, found in zip(rows, ranges, strict=True):
        panels.setdefault(row["model"], []).append((row, found))
    height = ROW_HEIGHT * max(map(len, panels.values()))
    figure, axes = style.panel_grid(len(panels), len(panels), height, 1.2, sharex=True)
    for axis, (model, panel) in zip(axes, panels.items(), strict=True):
        _draw_bars(axis, panel, colours, limits)
        axis.set(title=model, xlabel="Missing of log p,\nnats per token")
    style.legend_below(figure, [style.handle(*named) for named in colours.items()])
    return figure


def _draw_bars(
    axis: Axes,
    panel: list[tuple[dict[Any, Any], GapRange]],
    colours: dict[str, str],
    limits: tuple[float, float],
) -> None:
    for place, (row, found) in enumerate(panel):
        ends = [found.least, found.most if np.isfinite(found.most) else limits[1] / 1.2]
        low, high = sorted(max(end, LEAST_SHOWN) for end in ends)
        colour = colours[short_proposal(row["model"], row["proposal"])]
        axis.plot([low, high], [place, place], color=colour, linewidth=2, solid_capstyle="butt")
        mark = ("o", (low * high) ** 0.5) if np.isfinite(found.most) else (">", high)
        axis.plot(mark[1], place, marker=mark[0], color=colour, markersize=4)
    axis.set(xscale="log", xlim=limits)
    axis.xaxis.set_minor_formatter(NullFormatter())
    names = [f"τ = {row['temperature']:g}, K = {row['n_samples']:,.0f}" for row, _ in panel]
    runs = [f" × {row['runs']:.0f} runs" if row["runs"] > 1 else "" for row, _ in panel]
    style.name_rows(axis, [*map("".join, zip(names, runs, strict=True))])
