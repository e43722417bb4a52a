"""Tables, by rows of ``tables.toml``, and pages for a reader; `tabulate` makes a table by its
name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from beyond_perplexity.figures import (
    Exhibit,
    make_exhibit,
    read_exhibits,
    with_data,
    without_titles,
)

if TYPE_CHECKING:
    from beyond_perplexity.figures.labels import Labels
    from beyond_perplexity.options import Rows
    from beyond_perplexity.report.layout import Table

TABLES: Rows[Exhibit] = read_exhibits(Path(__file__).with_name("tables.toml"))


def tabulate(name: str, given: Mapping[str, Any], labels: Labels) -> Table:
    """Make the table of a name, a key of `TABLES`, of what the files of each kind of input hold."""
    table: Table = make_exhibit("table", TABLES, name, given, labels)
    label = f"{table.name}-{labels.subject}" if labels.subject else table.name
    tidy = with_data(without_titles(table.tidy, given, labels), labels)
    table = replace(table, name=label, tidy=tidy)
    return table.with_published() if labels.published else table.without_published()
