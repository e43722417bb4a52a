r"""Tables as LaTeX that goes into a paper as it is: what is written, and that it fits a page.

Needs no TeX (tests/long/test_latex.py compiles). Oracles: what TeX takes for ligatures and for its
own, which is listed here; widths that pdfTeX printed for Computer Modern (``\the\wd0``); and that
parts of a table, put together, are the table.
"""

from __future__ import annotations

import re

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beyond_perplexity.foreign_text import printable
from beyond_perplexity.report.latex import breakable_latex, escape_latex, to_latex
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
    assert breakable_latex(text).replace(r"\allowbreak{}", "").count("{") == written.count("{")


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


@pytest.mark.parametrize("seed", SEEDS)
def test_every_cell_stands_in_its_row_and_in_order(seed: int) -> None:
    """Oracle: the cells of the first column, escaped one by one, and the number of all."""
    table = hostile_table(seed)
    latex = to_latex(table)
    assert latex.isascii()
    assert latex.count(r"\label{") == 1
    bodies = re.findall(r"\\midrule\n(.*?)\\bottomrule", latex, re.S)
    lines = [line for body in bodies for line in body.splitlines()]
    parts, rest = divmod(len(lines), max(1, len(table.rows)))
    assert rest == 0
    for place, line in enumerate(lines[: len(table.rows)]):
        first = escape_latex(table.rows[place][0].rstrip("*"))
        assert line.removeprefix(r"\textit{").startswith(first)
    shown = sum(line.replace(r"\&", "").count("&") + 1 for line in lines)
    repeated = (parts - 1) * len(table.rows)  # of each column that names the row
    assert shown >= len(table.rows) * len(table.columns)
    assert not repeated or (shown - len(table.rows) * len(table.columns)) % repeated == 0


def test_more_floats_than_latex_holds_are_put_out_between() -> None:
    columns = [Column("x", text=True)]
    latex = to_latex(Table("t", "t", "", columns, [["y"]] * 1000, pd.DataFrame()))
    waiting = [part.count(r"\end{table*}") for part in latex.split(r"\clearpage")]
    assert max(waiting) == 12
    assert sum(waiting) > 12


def test_a_number_is_given_by_latex_alone() -> None:
    for title in ("Table 1: Parameters", "Tables I and II: parameters"):
        latex = to_latex(Table("t", title, "", [Column("x")], [["1"]], pd.DataFrame()))
        assert re.findall(r"\\caption{(.*)}", latex) == ["Parameters."]
