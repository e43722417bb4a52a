"""A table for a reader, and its three forms: LaTeX with booktabs, HTML, plain text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby
from pathlib import Path
from unicodedata import bidirectional, category

import pandas as pd

from beyond_perplexity.storage.outputs import atomic_path

_LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "\N{MINUS SIGN}": "$-$",
    "∞": r"$\infty$",
    "α": r"$\alpha$",
    "β": r"$\beta$",
    "±": r"$\pm$",
    "½": r"$\frac{1}{2}$",
    "Σ": r"$\Sigma$",
    "–": "--",
    "—": "---",
    "…": r"\ldots{}",
    "†": r"\textdagger{}",
    "◇": r"$\diamond$",
    "τ": r"$\tau$",
    "·": r"$\cdot$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
    "\N{REPLACEMENT CHARACTER}": "?",
}

_TURNS = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
LATEX_COLUMNS = 10  # that a page has room for
STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; padding: 0 1rem;
  max-width: 110rem; }
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
td.published, th.published { color: #777; font-style: italic; }
.wide { overflow-x: auto; }
.note { color: #777; font-size: .9em; }
.figures { display: grid; gap: 1.5rem; }
.figures { grid-template-columns: repeat(auto-fit, minmax(24rem, 1fr)); }
figure { margin: 0; }
figure.wide { grid-column: 1 / -1; }
figure img { background: #fff; max-width: 100%; border-radius: 4px; }
figure h3 { margin: 0 0 .3rem; }
dt { font-weight: 600; margin-top: .6rem; }
summary { cursor: pointer; }
"""


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes
    ----------
    title : str
        Its own heading.
    group : str
        Heading over it and its neighbours of the same group; empty for none.
    text : bool
        Whether it holds text (left) rather than numbers (right).
    published : bool
        Whether its values are the paper's and not this run's.
    wraps : bool
        Whether it holds passages, which are broken into lines.
    """

    title: str
    group: str = ""
    text: bool = False
    published: bool = False
    wraps: bool = False


@dataclass(frozen=True)
class Table:
    """A table in full precision and as it is shown.

    Attributes
    ----------
    name : str
        Short name, fit for a LaTeX label.
    title : str
        One line.
    note : str
        What the columns mean, in plain words.
    columns : sequence of Column
        The columns that are shown.
    rows : sequence of sequence of str
        Rounded cells, as many in each row as there are columns.
    tidy : pandas.DataFrame
        Every number in full precision, one a row.
    """

    name: str
    title: str
    note: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[str]]
    tidy: pd.DataFrame


def _groups(columns: Sequence[Column]) -> list[tuple[str, int]]:
    """List the headings of neighbouring columns with how many columns each spans."""
    runs = groupby(enumerate(columns), key=lambda pair: pair[1].group or pair[0])
    return [(name if isinstance(name, str) else "", len(list(run))) for name, run in runs]


def escape_latex(text: str) -> str:
    """Escape text so that LaTeX prints it as it is."""
    return "".join(_LATEX.get(letter, letter) for letter in printable(text))


def printable(text: str) -> str:
    """Replace what would act on a page or a terminal instead of being seen on it.

    These are control characters but for white space (a terminal obeys some, HTML forbids others)
    and those that turn the direction of the text after them. White space becomes blanks.
    """
    return "".join(
        " " if mark.isspace() else "\N{REPLACEMENT CHARACTER}" if _acts(mark) else mark
        for mark in text
    )


def _acts(mark: str) -> bool:
    return category(mark) in ("Cc", "Cs") or bidirectional(mark) in _TURNS


def escape_html(text: str) -> str:
    """Escape text so that HTML prints it as it is."""
    return escape(printable(text))


def escape_rst(text: str) -> str:
    """Escape text so that reStructuredText prints it as it is, on one line."""
    line = " ".join(printable(text).split())
    return "".join(
        letter if letter.isalnum() or letter == " " else f"\\{letter}" for letter in line
    )


def to_latex(table: Table) -> str:
    """Write a table as a LaTeX float; the document needs the packages booktabs and graphicx.

    A table of many columns is made as wide as the page.

    Parameters
    ----------
    table : Table
        The table.

    Returns
    -------
    str
        A ``table*`` environment with caption and label.
    """
    groups, wide = _groups(table.columns), len(table.columns) > LATEX_COLUMNS
    spans, rules, place = [], [], 1
    for name, width in groups:
        spans.append(rf"\multicolumn{{{width}}}{{c}}{{{escape_latex(name)}}}" if name else "")
        if name:
            rules.append(rf"\cmidrule(lr){{{place}-{place + width - 1}}}")
        place += width
    lines = [" & ".join(spans) + r" \\", "".join(rules)] if rules else []
    header = " & ".join(escape_latex(column.title) for column in table.columns)
    body = [
        " & ".join(_latex_cell(*pair) for pair in zip(table.columns, row, strict=True))
        for row in table.rows
    ]
    return "\n".join(
        [
            r"\begin{table*}",
            r"\centering",
            r"\small",
            rf"\caption{{{escape_latex(table.title)}. {escape_latex(table.note)}}}",
            rf"\label{{tab:{table.name}}}",
            *([r"\resizebox{\textwidth}{!}{%"] if wide else []),
            rf"\begin{{tabular}}{{{''.join(map(_latex_column, table.columns))}}}",
            r"\toprule",
            *lines,
            rf"{header} \\",
            r"\midrule",
            *(rf"{row} \\" for row in body),
            r"\bottomrule",
            r"\end{tabular}" + ("}" if wide else ""),
            r"\end{table*}",
            "",
        ]
    )


def _latex_column(column: Column) -> str:
    if column.wraps:
        return r"p{0.5\textwidth}"
    return "l" if column.text else "r"


def _latex_cell(column: Column, cell: str) -> str:
    number = cell.rstrip("*")
    stars = cell[len(number) :]
    text = escape_latex(number) + (
        f"$^{{{stars.replace('*', chr(92) + 'ast ').strip()}}}$" if stars else ""
    )
    return rf"\textit{{{text}}}" if column.published and text else text


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
            for name, width in _groups(table.columns)
        ]
        lines.append(f"<tr>{''.join(cells)}</tr>")
    titles = [
        f"<th{_classes(column)} scope='col'>{escape_html(column.title)}</th>"
        for column in table.columns
    ]
    lines.append(f"<tr>{''.join(titles)}</tr></thead><tbody>")
    for row in table.rows:
        cells = [
            f"<td{_classes(column)}>{escape_html(cell)}</td>"
            for column, cell in zip(table.columns, row, strict=True)
        ]
        lines.append(f"<tr>{''.join(cells)}</tr>")
    lines.append("</tbody></table></div>")
    return "\n".join(lines)


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


def write_table(table: Table, csv: str | Path, latex: str | Path, html: str | Path) -> None:
    """Write a table's three files, each atomically; the CSV in full precision."""
    numbers = table.tidy.to_csv(index=False, lineterminator="\n")
    page = html_page(table.title, to_html_table(table))
    for path, text in ((csv, numbers), (latex, to_latex(table)), (html, page)):
        with atomic_path(path) as temporary:
            temporary.write_text(text, encoding="utf-8")
