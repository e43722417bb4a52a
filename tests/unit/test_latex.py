r"""Tables as LaTeX that goes into a paper as it is: what is written, and that it fits a page.

Needs no TeX (tests/long/test_latex.py compiles). Oracles: what TeX takes for ligatures and for its
own, which is listed here; widths that pdfTeX printed for Computer Modern (``\the\wd0``); and that
parts of a table, put together, are the table.
"""

from __future__ import annotations

import re
from collections import Counter

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beyond_perplexity.foreign_text import printable
from beyond_perplexity.report.latex import to_latex
from beyond_perplexity.report.latex_page import (
    COLUMN_GAP,
    Extents,
    TableBlock,
    TablePlan,
    plan_pages,
)
from beyond_perplexity.report.latex_sheets import LETTER_SIZES, TURNED, UPRIGHT
from beyond_perplexity.report.latex_text import (
    breakable_latex,
    cell_width,
    escape_latex,
    latex_width,
)
from beyond_perplexity.report.layout import Column, Table
from tests.unit.hostile_tables import NASTY, hostile_table

# What plain LaTeX prints for the commands of ASCII, by its manual.
COMMANDS = {
    r"\textbackslash{}": "\\",
    r"\textasciitilde{}": "~",
    r"\textasciicircum{}": "^",
    r"\textasciigrave{}": "`",
    r"\texttt{\char34}": '"',
    r"\textbar{}": "|",
    r"\textless{}": "<",
    r"\textgreater{}": ">",
    **{rf"\{mark}": mark for mark in "&%$#_{}"},
    "{[}": "[",
    "{*}": "*",
    "{}": "",
}
# Pairs that fonts of TeX replace by another mark.
LIGATURES = ("--", "''", ",,", "``", "?`", "!`", "<<", ">>")
SEEDS = range(30)


def read_latex(text: str) -> str:
    """Print ASCII as LaTeX does; a ligature is an error."""
    found, place = "", 0
    assert not any(pair in text for pair in LIGATURES), text
    while place < len(text):
        command = next((one for one in COMMANDS if text.startswith(one, place)), None)
        if command is None:
            assert text[place] not in "\\{}$&#^_%~", text
        found += text[place] if command is None else COMMANDS[command]
        place += len(command or " ")
    return found


@settings(deadline=None, max_examples=300)
@given(st.text(st.characters(max_codepoint=126), max_size=12))
def test_ascii_is_printed_as_it_is(text: str) -> None:
    assert read_latex(escape_latex(text)) == printable(text).replace(
        "\N{REPLACEMENT CHARACTER}", "?"
    )


@settings(deadline=None, max_examples=300)
@given(st.one_of(st.sampled_from(NASTY), st.text(max_size=12)))
def test_whatever_is_written_is_ascii(text: str) -> None:
    written = escape_latex(text)
    assert written.isascii()
    assert written.isprintable()
    assert written.count("$") % 2 == written.count(r"\$") % 2
    assert breakable_latex(text, 1.0).replace(r"\allowbreak{}", "").count("{") == written.count("{")


@pytest.mark.parametrize(
    ("text", "latex"),
    [
        ("k̂ > 0.7", r"\^{k} \textgreater{} 0.7"),
        ("τ", r"$\tau$"),
        ("Łódź", r"\L{}\'{o}d\'{z}"),
        ("ï", r"\"{\i}"),
        ("中", r"\bpunicode{4E2D}"),
        ("Α", "A"),
        ("--", "-{}-"),
    ],
)
def test_letters_beyond_ascii_are_commands(text: str, latex: str) -> None:
    assert escape_latex(text) == latex


def test_what_has_no_command_is_defined_in_the_file() -> None:
    column = Column("x", text=True)
    for cell, needed in (("中", True), ("é", False)):
        latex = to_latex(Table("t", "t", "", [column], [[cell]], pd.DataFrame()))
        assert latex.isascii()
        assert (r"\providecommand{\bpunicode}" in latex) == needed


@pytest.mark.parametrize(
    ("text", "points"),
    [
        ("0123456789", 50.00015),
        ("Perplexity of the test split", 115.0002),
        ("Transformer", 53.47232),
        ("0.063 {[}0.053, 0.073]", 83.33356),
    ],
)
def test_widths_are_those_of_tex(text: str, points: float) -> None:
    """Kerning, which is left out, makes words narrower by a hundredth or two."""
    width = 10 * latex_width(text.replace("{[}", "["))
    assert points <= width * 1.001 < points * 1.03


def width_of(table: Table, block: TableBlock, plan: TablePlan) -> float:
    """Return how wide a tabular comes out, points."""
    em, total, fitted = plan.size.em, 0.0, block.fitted
    for place, width, head in zip(fitted.places, fitted.widths, fitted.heads, strict=True):
        cells = [cell_width(row[place]) for row in table.rows]
        own = em * max([*cells, *map(latex_width, head)], default=0.0)
        total += own if width is None else width
    return total + COLUMN_GAP * (len(fitted.places) - 1)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_table_fits_its_page(seed: int) -> None:
    table = hostile_table(seed)
    plan = plan_pages(table)
    sheet = TURNED if plan.turned else UPRIGHT
    assert plan.size in LETTER_SIZES
    for page in plan.pages:
        height = 0.0
        for block in page.blocks:
            assert width_of(table, block, plan) <= sheet.width + 0.01
            lines = block.fitted.head_lines() + sum(block.fitted.heights[block.first : block.last])
            height += lines * plan.size.line
        assert height <= sheet.height + plan.too_high
    assert plan.too_high <= 250  # a passage of sixty long words in the narrowest column


@pytest.mark.parametrize("seed", SEEDS)
def test_parts_put_together_are_the_table(seed: int) -> None:
    """Every cell stands once, but for those of the columns that name the row."""
    table = hostile_table(seed)
    blocks = [block for page in plan_pages(table).pages for block in page.blocks]
    seen = Counter(
        (row, place)
        for block in blocks
        for row in range(block.first, block.last)
        for place in block.fitted.places
    )
    assert len(seen) == len(table.rows) * len(table.columns)
    parts = {block.fitted.places for block in blocks}
    keys = set.intersection(*map(set, parts))
    assert {place for (_, place), n in seen.items() if n > 1} <= keys
    latex = to_latex(table)
    assert latex.isascii()
    assert latex.count(r"\begin{tabular}") == len(blocks)
    assert latex.count(r"\label{") == 1


def test_more_floats_than_latex_holds_are_put_out_between() -> None:
    columns = [Column("x", text=True)]
    latex = to_latex(Table("t", "t", "", columns, [["y"]] * 1000, pd.DataFrame()))
    waiting = [part.count(r"\end{table*}") for part in latex.split(r"\clearpage")]
    assert max(waiting) == 12
    assert sum(waiting) > 12


def test_italics_are_given_more_room() -> None:
    def width(published: bool) -> float:
        return Extents(
            Table(
                "t",
                "t",
                "",
                [Column("x", published=published)],
                [["93.254 [0.1, 0.2]"]],
                pd.DataFrame(),
            )
        ).cells[0]

    # cmti10: a digit 0.5111, a bracket 0.3067 em; cmr10: 0.5 and 0.2778 em
    assert 1.03 * width(False) < width(True) < 1.1 * width(False)


def test_a_number_is_given_by_latex_alone() -> None:
    for title in ("Table 1: Parameters", "Tables I and II: parameters"):
        latex = to_latex(Table("t", title, "", [Column("x")], [["1"]], pd.DataFrame()))
        assert re.findall(r"\\caption{(.*)}", latex) == ["Parameters."]
