"""A table for a reader, as HTML, plain text and CSV; `report.latex` has it as LaTeX."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import pandas as pd

from beyond_perplexity.foreign_text import (
    escape_html,
    printable,
    safe_cell,
)

PUBLISHED_COLUMN = "published"
NOTHING_COLUMN = "nothing_to_show"  # the only one where there is nothing, with the reason
STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; padding: 0 1rem;
  max-width: 110rem; overflow-wrap: anywhere; }
p, dl, ul, caption .note { max-width: min(68rem, 90vw); }
caption .note { display: block; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: 1rem 0; }
caption { caption-side: top; text-align: left; padding-bottom: .6rem; }
th, td { padding: .25rem .7rem; text-align: right; white-space: nowrap; }
th { font-weight: 600; vertical-align: bottom; }
th.text, td.text { text-align: left; }
th.wraps, td.wraps { text-align: left; white-space: normal; overflow-wrap: anywhere; }
td.wraps { min-width: 13rem; }
th.group { text-align: center; border-bottom: 1px solid #9995; }
thead tr:last-child th { border-bottom: 2px solid currentColor; }
tbody tr:nth-child(even) { background: #8881; }
tbody tr.marked { background: #6AAED644; }
td.published, th.published { color: #777; font-style: italic; }
.wide { overflow-x: auto; }
.note { color: #777; font-size: .9em; }
.figures { display: grid; gap: 1.5rem; }
.figures { grid-template-columns: repeat(auto-fit, minmax(min(24rem, 100%), 1fr)); }
figure { margin: 0; }
figure.wide { grid-column: 1 / -1; }
figure img { background: #fff; max-width: 100%; border-radius: 4px; }
figure h3 { margin: 0 0 .3rem; }
dt { font-weight: 600; margin-top: .6rem; }
summary { cursor: pointer; }
"""


@dataclass(frozen=True)
class Column:
    """A column of a table."""

    title: str  # Its own heading
    group: str = ""  # Heading over it and its neighbours of the same group; empty for none
    text: bool = False  # Whether it holds text (left) rather than numbers (right)
    published: bool = False  # Whether its values are the paper's and not this run's
    wraps: bool = False  # Whether it holds passages, which are broken into lines


@dataclass(frozen=True)
class Table:
    """A table in full precision and as it is shown."""

    name: str  # Short name, fit for a LaTeX label
    title: str  # One line
    note: str  # What the columns mean, in plain words
    columns: Sequence[Column]  # The columns that are shown
    rows: Sequence[Sequence[str]]  # Rounded cells, as many in each row as there are columns
    # Every number in full precision, one a row; columns of published values begin with
    # `PUBLISHED_COLUMN`
    tidy: pd.DataFrame
    published_note: str = ""  # What is said of the published values where they are shown
    marked: Sequence[int] = ()  # Rows that a page gives a colour

    def with_published(self) -> Table:
        """Say of the published values what they are."""
        return replace(self, note=f"{self.note} {self.published_note}".strip(), published_note="")

    def without_published(self) -> Table:
        """Leave the published values out; what a paper says in words stays."""
        kept = [place for place, one in enumerate(self.columns) if not one.published or one.wraps]
        names = [str(name) for name in self.tidy.columns]
        return replace(
            self,
            columns=[self.columns[place] for place in kept],
            rows=[[row[place] for place in kept] for row in self.rows],
            tidy=self.tidy[[name for name in names if not name.startswith(PUBLISHED_COLUMN)]],
            published_note="",
        )


def neighbours(columns: Sequence[Column]) -> list[tuple[str, int]]:
    """List the headings of neighbouring columns with how many columns each spans."""
    runs = groupby(enumerate(columns), key=lambda pair: pair[1].group or pair[0])
    return [(name if isinstance(name, str) else "", len(list(run))) for name, run in runs]


def to_html_table(table: Table) -> str:
    """Write a table as an HTML ``table`` element with its caption."""
    lines = ["<div class='wide'><table>"]
    note = f"<span class='note'>{escape_html(table.note)}</span>" if table.note else ""
    lines.append(f"<caption><strong>{escape_html(table.title)}</strong>{note}</caption><thead>")
    if any(column.group for column in table.columns):
        cells = [
            f"<th class='group' colspan='{width}' scope='colgroup'>{escape_html(name)}</th>"
            if name
            else "<td></td>"
            for name, width in neighbours(table.columns)
        ]
        lines.append(f"<tr>{''.join(cells)}</tr>")
    titles = [
        f"<th{_classes(column)} scope='col'>{escape_html(column.title)}</th>"
        for column in table.columns
    ]
    lines.append(f"<tr>{''.join(titles)}</tr></thead><tbody>")
    for place, row in enumerate(table.rows):
        cells = [
            f"<td{_classes(column)}>{escape_html(cell)}</td>"
            for column, cell in zip(table.columns, row, strict=True)
        ]
        mark = " class='marked'" if place in table.marked else ""
        lines.append(f"<tr{mark}>{''.join(cells)}</tr>")
    lines.append("</tbody></table></div>")
    return "\n".join(lines)


def empty_table(name: str, title: str, reason: str) -> Table:
    """Make the table that stands where there is nothing to show, and says why."""
    rows = pd.DataFrame({NOTHING_COLUMN: [reason]})
    return Table(name, title, "", [Column("Nothing to show", wraps=True)], [[reason]], rows)


def _classes(column: Column) -> str:
    names = [name for name in ("text", "published", "wraps") if getattr(column, name)]
    direction = " dir='auto'" if column.wraps else ""
    return (f" class='{' '.join(names)}'" if names else "") + direction


def html_page(title: str, body: str) -> str:
    """Wrap a body into a page that needs no other file."""
    return (
        "<!DOCTYPE html>\n<html lang='en'>\n<head>\n<meta charset='utf-8'>\n"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>\n"
        f"<title>{escape_html(title)}</title>\n<style>{STYLE}</style>\n</head>\n"
        f"<body>\n{body}\n</body>\n</html>\n"
    )


def to_text(table: Table) -> str:
    """Write a table as aligned plain text, for a terminal; headings of groups are left out."""
    header = [column.title for column in table.columns]
    rows = [header, *([printable(cell) for cell in row] for row in table.rows)]
    widths = [max(len(row[place]) for row in rows) for place in range(len(header))]

    def line(row: Sequence[str]) -> str:
        cells = [
            cell.ljust(width) if column.text or column.wraps else cell.rjust(width)
            for column, cell, width in zip(table.columns, row, widths, strict=True)
        ]
        return "  ".join(cells).rstrip()

    ruler = "  ".join("-" * width for width in widths)
    return "\n".join([line(header), ruler, *(line(row) for row in rows[1:])])


def csv_text(frame: pd.DataFrame) -> str:
    """Write rows as CSV in full precision; no text of theirs is a formula to a spreadsheet."""
    texts = frame.select_dtypes(["object", "string", "category"]).columns
    safe = frame.assign(**{name: frame[name].map(safe_cell) for name in texts})
    return str(safe.rename(columns=safe_cell).to_csv(index=False, lineterminator="\n"))
