"""The rank correlations of the measures of all papers, and the tree that they make."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from beyond_perplexity.errors import NothingToShowError
from beyond_perplexity.figures.correlation_matrix import (
    ShownCorrelation,
    cluster_measures,
    draw_correlations,
    draw_tree,
    either_way,
    matrix_figure,
)
from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.figures.measure_names import relation_titles
from beyond_perplexity.figures.style import package_style
from beyond_perplexity.relations.measures import OVER_ROWS, WITHIN_DECODINGS


def relation_matrix(measures: pd.DataFrame, correlations: pd.DataFrame, labels: Labels) -> Figure:
    """Draw the rank correlations of all measures with the tree of their clusters.

    Below the diagonal over all rows, above it within decodings.
    """
    titles = relation_titles(measures, labels)
    pairs = {(row["first"], row["second"]) for row in correlations.to_dict("records")}
    names = [key for key in titles if any(key in pair for pair in pairs)]
    if len(names) < 2:
        raise NothingToShowError("there are fewer than two measures to correlate")
    held = {
        scope: {
            (row["first"], row["second"]): ShownCorrelation(row["value"], row["low"], row["high"])
            for row in correlations[correlations["scope"] == scope].to_dict("records")
        }
        for scope in (OVER_ROWS, WITHIN_DECODINGS)
    }
    merges, order = cluster_measures(held[WITHIN_DECODINGS], names)
    sorted_names = [names[place] for place in order]
    below, above = (
        [[either_way(held[scope], one, two) for two in sorted_names] for one in sorted_names]
        for scope in (OVER_ROWS, WITHIN_DECODINGS)
    )
    with package_style():
        figure, (left, axis) = matrix_figure(len(names), tree=True)
        draw_correlations(axis, [titles[name] for name in sorted_names], below, above)
        draw_tree(left, merges, order)
        models = int(measures["model"].nunique())
        rows = len(measures[["model", "decoding"]].drop_duplicates())
        few = "few models: intervals are wide. " if models < 10 else ""
        axis.set_xlabel(
            f"Spearman's correlation; more is better in all. {models} models, {rows} rows, "
            f"{few}\nBelow the diagonal: over all rows; above: over models within decodings. "
            "Coloured where\nthe 95% interval, which counts models and not rows, leaves 0 out",
            fontsize=7,
        )
    return figure
