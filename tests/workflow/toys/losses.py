"""The last loss of every model."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.figures.style import COLUMN_WIDTH, single_panel, styled


@styled
def losses(table: pd.DataFrame, labels: Labels) -> Figure:
    """Draw a bar per model; the table has schema ``training`` and column ``model``."""
    last = table.groupby("model")["perplexity"].last()
    figure, axis = single_panel(COLUMN_WIDTH, 3.0)
    axis.bar([labels.model(str(name)) for name in last.index], last.to_numpy())
    return figure
