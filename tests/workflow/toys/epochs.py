"""How long every model was trained."""

from __future__ import annotations

import pandas as pd

from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.report.layout import Column, Table


def epochs(table: pd.DataFrame, labels: Labels) -> Table:
    """List the epochs of each model; the table has schema ``training`` and column ``model``."""
    last = table.groupby("model", as_index=False)["epoch"].max()
    rows = [
        [labels.model(name), f"{epoch:g}"]
        for name, epoch in zip(last["model"], last["epoch"], strict=True)
    ]
    columns = [Column("Model", text=True), Column("Epochs")]
    return Table("epochs", "Epochs", "", columns, rows, last)
