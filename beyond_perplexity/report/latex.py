"""A table as LaTeX that goes into a paper as it is, in ASCII alone, and the files of a table.

adjustbox shrinks what is wider than the page. What would become too small to read is turned, and
then parted between its columns. pdfLaTeX stops at a character that its fonts lack, so every one
beyond ASCII is a command that plain LaTeX knows, or its code point, for LuaLaTeX and XeLaTeX.
"""

from __future__ import annotations

import re
import textwrap
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from unicodedata import name, normalize

from beyond_perplexity.foreign_text import printable
from beyond_perplexity.report import layout
from beyond_perplexity.storage.outputs import write_text

_PASSAGE = 36  # letters of a line of a column of passages, at least
_HEADING = 12  # letters of a line of a heading, at least
_ROOM = {False: 100, True: 160}  # letters of a row, upright and turned
_LINES = {False: 40, True: 24}  # of cells in one float
_MOST_FLOATS = 12  # of one table that wait for their page: older LaTeX has room for 18
_LONG_WORD = 20  # letters of a word that may be broken
_BREAKS = 8  # letters between its breaks
_NUMBERED = re.compile(r"Tables? [IVX\d]+( and [IVX\d]+)?: ")

# What a document defines to print a character that has no command by its code point.
_CODE_POINT = (
    r"\providecommand{\bpunicode}[1]"
    r'{\ifdefined\Umathchar\symbol{"#1}\else\texttt{U+#1}\fi}'
)

_WRITTEN = tomllib.loads(Path(__file__).with_name("latex.toml").read_text(encoding="utf-8"))
_MARKS, _ACCENTS, _LATIN = (_WRITTEN[name] for name in ("marks", "accents", "latin"))
_DOTLESS = {"i": r"\i", "j": r"\j"}
_GREEK = re.compile(
    "alpha|beta|gamma|delta|epsilon|zeta|eta|theta|iota|kappa|lambda|mu|nu|xi|pi|rho|sigma|tau|"
    "upsilon|phi|chi|psi|omega|Gamma|Delta|Theta|Lambda|Xi|Pi|Sigma|Upsilon|Phi|Psi|Omega"
)
# What would melt into another mark with itself after it.
_MELTING = set("-',?!")


def to_latex(table: layout.Table) -> str:
    """Write a table as LaTeX floats, in ASCII, for pdfLaTeX, LuaLaTeX and XeLaTeX.

    The first line names the packages that it needs. Titles lose the paper's own number, as LaTeX
    numbers tables itself. Many rows go on in further floats under the same number; the first has
    the caption and the label, the last the note.
    """
    turned = _row_letters(_letters(table)) > _ROOM[False]
    parts = [part for some in _beside(table, _ROOM[turned]) for part in _below(some, turned)]
    floats = [line for place in range(len(parts)) for line in _float(parts, place, turned)]
    defined = [_CODE_POINT] if any("\\bpunicode" in line for line in floats) else []
    packages = "adjustbox, booktabs, rotating" if turned else "adjustbox, booktabs"
    return "\n".join([rf"% needs \usepackage{{{packages}}}", *defined, *floats, ""])


def _letters(table: layout.Table, room: int = 0) -> list[int]:
    """Count the letters of the widest line of each column; passages share what is left of a row."""
    places = range(len(table.columns))
    cells = [max((len(row[place]) for row in table.rows), default=0) for place in places]
    words = [max(map(len, column.title.split()), default=0) for column in table.columns]
    wraps = [column.wraps for column in table.columns]
    taken = _row_letters([n for n, wrapped in zip(cells, wraps, strict=True) if not wrapped])
    share = max(_PASSAGE, (room - taken) // max(1, sum(wraps)))
    return [
        max(word, min(max(cell, _LONG_WORD), share) if wrapped else cell)
        for word, cell, wrapped in zip(words, cells, wraps, strict=True)
    ]


def _row_letters(letters: Sequence[int]) -> int:
    return sum(letters) + 2 * len(letters)


def _beside(table: layout.Table, room: int) -> Iterator[layout.Table]:
    """Part a table that is too wide between its columns; texts that name a row are repeated."""
    letters = _letters(table)
    keys: list[int] = []
    for place, column in enumerate(table.columns[:-1]):
        if not column.text or column.wraps or sum(letters[: place + 1]) > room / 2:
            break
        keys.append(place)
    chosen = list(keys)
    for place in range(len(keys), len(table.columns)):
        if len(chosen) > len(keys) and _row_letters([letters[p] for p in [*chosen, place]]) > room:
            yield table.chosen(chosen)
            chosen = list(keys)
        chosen.append(place)
    yield table.chosen(chosen)


def _below(table: layout.Table, turned: bool) -> Iterator[layout.Table]:
    """Deal the rows of a table out to floats of so many lines."""
    letters = _letters(table, _ROOM[turned])
    rows: list[Sequence[str]] = []
    left = _LINES[turned]
    for row in table.rows:
        high = max(-(-len(cell) // max(1, n)) for cell, n in zip(row, letters, strict=True))
        if high > left and rows:
            yield replace(table, rows=rows)
            rows, left = [], _LINES[turned]
        rows.append(row)
        left -= high
    yield replace(table, rows=rows)


def _float(parts: Sequence[layout.Table], place: int, turned: bool) -> Iterator[str]:
    """Write the lines of one float."""
    table = parts[place]
    environment = "sidewaystable*" if turned else "table*"
    plain = _NUMBERED.sub("", table.title, count=1)
    title = breakable_latex((plain[:1].upper() + plain[1:]).rstrip("."))
    yield rf"\begin{{{environment}}}"
    yield r"\centering"
    if place == 0:
        yield rf"\caption{{{title}.}}"
        yield rf"\label{{tab:{table.name}}}"
    else:
        yield r"\addtocounter{table}{-1}"
        yield rf"\caption[]{{{title} (continued).}}"
    page = r"\textwidth" if turned else r"\textheight"
    yield rf"\begin{{adjustbox}}{{max totalheight=0.8{page}}}"
    yield r"\begin{minipage}{\linewidth}\centering"
    yield rf"\begin{{adjustbox}}{{max width=\linewidth, max totalheight=0.6{page}}}"
    yield from _tabular(table, _letters(table, _ROOM[turned]))
    yield r"\end{adjustbox}"
    if table.note and place == len(parts) - 1:
        yield rf"\par\smallskip\footnotesize\raggedright {breakable_latex(table.note)}"
    yield r"\end{minipage}"
    yield r"\end{adjustbox}"
    yield rf"\end{{{environment}}}"
    if (place + 1) % _MOST_FLOATS == 0:
        yield r"\clearpage"


def _tabular(table: layout.Table, letters: Sequence[int]) -> Iterator[str]:
    sides = ["l" if column.text or column.wraps else "r" for column in table.columns]
    columns = list(zip(table.columns, letters, sides, strict=True))
    shapes = (rf"p{{{n / 2:g}em}}" if column.wraps else side for column, n, side in columns)
    yield rf"\begin{{tabular}}{{@{{}}{''.join(shapes)}@{{}}}}"
    yield r"\toprule"
    yield from _group_lines(table.columns)
    heads = (
        rf"\raggedright {breakable_latex(column.title)}"
        if column.wraps
        else _stacked(column.title, n, side)
        for column, n, side in columns
    )
    yield " & ".join(heads) + r" \tabularnewline"
    yield r"\midrule"
    for row in table.rows:
        cells = (_cell(column, cell) for column, cell in zip(table.columns, row, strict=True))
        yield " & ".join(cells) + r" \tabularnewline"
    yield r"\bottomrule"
    yield r"\end{tabular}"


def _group_lines(columns: Sequence[layout.Column]) -> Iterator[str]:
    """Write what stands over groups of columns, with the rules below."""
    spans, rules, place = [], [], 1
    for heading, number in layout.neighbours(columns):
        shown = _stacked(heading, _HEADING * number, "c")
        spans.append(rf"\multicolumn{{{number}}}{{c}}{{{shown}}}" if heading else "")
        if heading:
            rules.append(rf"\cmidrule(lr){{{place}-{place + number - 1}}}")
        place += number
    if rules:
        yield " & ".join(spans) + r" \tabularnewline"
        yield "".join(rules)


def _stacked(title: str, letters: int, side: str) -> str:
    """Write a heading, its lines above one another."""
    lines = textwrap.wrap(printable(title), max(letters, _HEADING)) or [""]
    shown = r" \\ ".join(map(escape_latex, lines))
    return shown if len(lines) == 1 else rf"\shortstack[{side}]{{{shown}}}"


def _cell(column: layout.Column, cell: str) -> str:
    number = cell.rstrip("*")
    stars = " ".join([r"\ast"] * (len(cell) - len(number)))
    text = (breakable_latex if column.wraps else escape_latex)(number)
    text += f"$^{{{stars}}}$" if stars else ""
    text = rf"\textit{{{text}}}" if column.published and text else text
    return rf"\raggedright {text}" if column.wraps else text


def write_table(table: layout.Table, csv: str | Path, latex: str | Path, html: str | Path) -> None:
    """Write a table's three files, each atomically; the CSV in full precision."""
    numbers = layout.csv_text(table.tidy)
    page = layout.html_page(table.title, layout.to_html_table(table))
    for path, text in ((csv, numbers), (latex, to_latex(table)), (html, page)):
        write_text(path, text)


# ---- text ----


def escape_latex(text: str) -> str:
    """Escape text so that LaTeX prints it as it is; ASCII on one line."""
    marks: list[str] = []  # as they are seen: an accent with its letter
    for mark in normalize("NFC", printable(text)):
        if mark in _ACCENTS and marks and len(marks[-1]) == 1 and marks[-1].isascii():
            marks[-1] += mark
        else:
            marks.append(mark)
    return "".join(
        _written(mark) + ("{}" if mark == following and mark in _MELTING else "")
        for mark, following in pairwise([*marks, ""])
    )


def _written(mark: str) -> str:
    if mark in _MARKS or mark.isascii():
        return _MARKS.get(mark, mark)
    parts = normalize("NFD", mark)
    letter, accents = parts[0], parts[1:]
    if not (accents and letter.isascii() and all(accent in _ACCENTS for accent in accents)):
        return _greek(mark) or rf"\bpunicode{{{ord(mark):04X}}}"
    shown = _DOTLESS.get(letter, _MARKS.get(letter, letter))
    for accent in accents:
        shown = rf"\{_ACCENTS[accent].strip()}{{{shown}}}"
    return shown


def _greek(mark: str) -> str:
    case, _, letter = name(mark, "").replace("LAMDA", "LAMBDA").partition(" LETTER ")
    command = {"GREEK SMALL": letter.lower(), "GREEK CAPITAL": letter.capitalize()}.get(case, "")
    return rf"$\{command}$" if _GREEK.fullmatch(command) else _LATIN.get(mark, "")


def breakable_latex(text: str) -> str:
    """Escape text, and let long words be broken."""
    written = " ".join(
        escape_latex(word)
        if len(word) <= _LONG_WORD
        else r"\allowbreak{}".join(map(escape_latex, textwrap.wrap(word, _BREAKS)))
        for word in printable(text).split(" ")
    )
    return written.replace(r"\bpunicode", r"\allowbreak{}\bpunicode")
