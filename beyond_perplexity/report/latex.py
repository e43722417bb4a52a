"""A table as LaTeX that goes into a paper as it is, and the files of a table."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from beyond_perplexity.report.latex_page import (
    COLUMN_GAP,
    FloatPage,
    TableBlock,
    TablePlan,
    plan_pages,
    slant_of,
)
from beyond_perplexity.report.latex_sheets import NOTE_LETTERS, TURNED, UPRIGHT, LetterSize
from beyond_perplexity.report.latex_text import CODE_POINT, breakable_latex, escape_latex
from beyond_perplexity.report.layout import Column, Table, csv_text, html_page, to_html_table
from beyond_perplexity.storage.outputs import write_text

_MOST_FLOATS = 12  # of one table that wait for their page: older LaTeX has room for 18
_CAPTION_WORD = 10.0  # em of a word that lines of a caption are not stretched for
_NUMBERED = re.compile(r"Tables? [IVX\d]+( and [IVX\d]+)?: ")


def to_latex(table: Table) -> str:
    r"""Write a table as LaTeX floats, in ASCII, for pdfLaTeX, LuaLaTeX and XeLaTeX.

    The document needs the package booktabs, and rotating where the first line says so. Titles that
    begin with the paper's own number lose it, as LaTeX numbers tables itself.

    Parameters
    ----------
    table : Table
        The table.

    Returns
    -------
    str
        ``table*`` environments (``sidewaystable*`` where the table is turned): one, or several
        under the same number where a page has no room for all of it, as `latex_page.plan_pages`
        has it. The first has the caption and the label, the last the note.
    """
    plan = plan_pages(table)
    packages = "booktabs, rotating" if plan.turned else "booktabs"
    floats = [line for place in range(len(plan.pages)) for line in _float(table, plan, place)]
    defined = [CODE_POINT] if any("\\bpunicode" in line for line in floats) else []
    return "\n".join([rf"% needs \usepackage{{{packages}}}", *defined, *floats, ""])


def _float(table: Table, plan: TablePlan, place: int) -> Iterator[str]:
    """Write the lines of one float."""
    environment = "sidewaystable*" if plan.turned else "table*"
    width = (TURNED if plan.turned else UPRIGHT).width
    title = breakable_latex(_title(table), _CAPTION_WORD)
    yield rf"\begin{{{environment}}}"
    yield r"\centering"
    yield r"\setlength{\emergencystretch}{3em}"
    if place == 0:
        yield rf"\caption{{{title}.}}"
        yield rf"\label{{tab:{table.name}}}"
    else:
        yield r"\addtocounter{table}{-1}"
        yield rf"\caption[]{{{title} (continued).}}"
    yield rf"\fontsize{{{plan.size.points:g}}}{{{plan.size.line:g}}}\selectfont"
    yield rf"\setlength{{\tabcolsep}}{{{COLUMN_GAP / 2:g}pt}}"
    yield from _page(table, plan.pages[place], plan.size)
    if table.note and place == len(plan.pages) - 1:
        yield r"\par\smallskip"
        yield rf"\fontsize{{{NOTE_LETTERS.points:g}}}{{{NOTE_LETTERS.line:g}}}\selectfont"
        note = breakable_latex(table.note, width / NOTE_LETTERS.em)
        yield rf"\parbox{{{width:g}pt}}{{\raggedright {note}}}"
    yield rf"\end{{{environment}}}"
    if (place + 1) % _MOST_FLOATS == 0:
        yield r"\clearpage"


def _title(table: Table) -> str:
    plain = _NUMBERED.sub("", table.title, count=1)
    return (plain[:1].upper() + plain[1:]).rstrip(".")


def _page(table: Table, page: FloatPage, size: LetterSize) -> Iterator[str]:
    for number, block in enumerate(page.blocks):
        if number:
            yield r"\par\medskip"
        yield from _tabular(table, block, size)


def _tabular(table: Table, block: TableBlock, size: LetterSize) -> Iterator[str]:
    fitted = block.fitted
    columns = [table.columns[place] for place in fitted.places]
    widths = fitted.widths
    shape = "".join(_shape(column, width) for column, width in zip(columns, widths, strict=True))
    yield rf"\begin{{tabular}}{{@{{}}{shape}@{{}}}}"
    yield r"\toprule"
    yield from _group_lines(block)
    heads = (
        _stacked(lines, "l" if column.text or column.wraps else "r")
        for lines, column in zip(fitted.heads, columns, strict=True)
    )
    yield " & ".join(heads) + r" \tabularnewline"
    yield r"\midrule"
    for row in table.rows[block.first : block.last]:
        cells = (
            _cell(column, row[place], width, size)
            for column, place, width in zip(columns, fitted.places, widths, strict=True)
        )
        yield " & ".join(cells) + r" \tabularnewline"
    yield r"\bottomrule"
    yield r"\end{tabular}"


def _group_lines(block: TableBlock) -> Iterator[str]:
    """Write what stands over groups of columns, with the rules below."""
    spans, rules, place = [], [], 1
    for lines, number in block.fitted.group_heads:
        if any(lines):
            spans.append(rf"\multicolumn{{{number}}}{{c}}{{{_stacked(lines, 'c')}}}")
            rules.append(rf"\cmidrule(lr){{{place}-{place + number - 1}}}")
        else:
            spans.append("")
        place += number
    if rules:
        yield " & ".join(spans) + r" \tabularnewline"
        yield "".join(rules)


def _shape(column: Column, width: float | None) -> str:
    if width is not None:
        return rf"p{{{width:.1f}pt}}"
    return "l" if column.text or column.wraps else "r"


def _stacked(lines: tuple[str, ...], side: str) -> str:
    """Write a heading, its lines above one another."""
    shown = r" \\ ".join(map(escape_latex, lines))
    return shown if len(lines) == 1 else rf"\shortstack[{side}]{{{shown}}}"


def _cell(column: Column, cell: str, width: float | None, size: LetterSize) -> str:
    number = cell.rstrip("*")
    stars = r"\ast " * (len(cell) - len(number))
    text = escape_latex(number)
    if width is not None:
        text = breakable_latex(number, width / size.em / slant_of(column))
    text += f"$^{{{stars.strip()}}}$" if stars else ""
    text = rf"\textit{{{text}}}" if column.published and text else text
    return text if width is None else rf"{_SIDES[column.text or column.wraps]} {text}".rstrip()


_SIDES = {True: r"\raggedright", False: r"\raggedleft"}


def write_table(table: Table, csv: str | Path, latex: str | Path, html: str | Path) -> None:
    """Write a table's three files, each atomically; the CSV in full precision."""
    numbers = csv_text(table.tidy)
    page = html_page(table.title, to_html_table(table))
    for path, text in ((csv, numbers), (latex, to_latex(table)), (html, page)):
        write_text(path, text)
