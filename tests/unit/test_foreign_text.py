"""Text of users where it is shown: on a page, in a figure, a cell, a terminal it is text alone.

Oracles: parsers (Python's HTML and XML, docutils, pandas) give back the text; Unicode's categories.
"""

import ast
import html
import io
import re
import warnings
import xml.etree.ElementTree as ET
from pathlib import Path
from unicodedata import category

import docutils.core
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from matplotlib.figure import Figure

from beyond_perplexity import foreign_text
from beyond_perplexity.figures.style import package_style, save
from beyond_perplexity.report.latex import breakable_latex, escape_latex, to_latex
from beyond_perplexity.report.layout import Column, Table, csv_text, to_text
from beyond_perplexity.storage.fingerprint import ROOT
from tests.unit.hostile_tables import NASTY, hostile_table

HOSTILE = [
    *("\x1b]0;gone\x07", "\x9b31m", "\u202eevil", "a\nb\rc", "\x00", "\ud800", "\u2028"),
    *("=cmd|' /C calc'!A0", "+1+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1", " =1", "-", "-5", "@-@"),
    *("<script>x</script>", "&amp;", "'\"", "$x^{$", r"\input{/etc/passwd}", "%", "[1]", "*", "``"),
    *(".. raw:: html", "|x|_", "`a <b>`_", "**x**", "$\\frac{$"),
]
texts = st.one_of(st.sampled_from(HOSTILE), st.text(max_size=12))
examined = settings(max_examples=80, derandomize=True, deadline=None, database=None)


def acts(text: str) -> list[str]:
    return [mark for mark in text if category(mark) in ("Cc", "Cs", "Zl", "Zp")]


@examined
@given(texts)
def test_terminals_get_text_alone(text: str) -> None:
    assert not acts(foreign_text.printable(text))
    assert not acts(foreign_text.one_line(text))
    assert "\n" not in foreign_text.one_line(text)
    assert not [mark for mark in acts(foreign_text.drawable(text)) if mark != "\n"]


def test_a_message_keeps_both_ends_and_commands_say_it_in_lines(capsys) -> None:
    found = foreign_text.one_line("first" + "\x1b" * 10**6 + "last")
    assert found.startswith("first")
    assert found.endswith("last")
    assert len(found) < 5 * foreign_text.LONGEST_MESSAGE
    foreign_text.say("a\x1b[31m\nb")
    foreign_text.remark("c\nd\x07")
    assert capsys.readouterr() == ("a�[31m\nb\n", "c d\\x07\n")


@examined
@given(texts)
def test_html_gives_the_text_back(text: str) -> None:
    assert html.unescape(foreign_text.escape_html(text)) == foreign_text.printable(text)
    escaped = foreign_text.escape_html(text)
    element = ET.fromstring(f"<p title='{escaped}'>{escaped}</p>")
    assert element.get("title") == (element.text or "") == foreign_text.printable(text)


@examined
@given(texts.filter(str.strip))
def test_restructured_text_gives_the_text_back(text: str) -> None:
    shown = " ".join(foreign_text.printable(text).split())
    source = f"*{foreign_text.escape_rst('x')}* {foreign_text.escape_rst(text)}."
    page = docutils.core.publish_doctree(source, settings_overrides={"report_level": 2})
    assert page.astext() == f"x {shown}."


@examined
@given(texts)
def test_latex_has_no_command_of_the_user(text: str) -> None:
    """What is left without the escapes that we write has no special character."""
    found = escape_latex(text).replace("{}", "")  # a user's own braces are never bare
    marks = {mark: escape_latex(mark) for mark in foreign_text.printable(text)}
    escapes = {escaped for mark, escaped in marks.items() if escaped != mark}
    for ours in sorted(escapes, key=len, reverse=True):
        found = found.replace(ours.replace("{}", ""), "")
    assert not set(found) & set("\\&%$#_{}~^[*")


def test_a_row_that_begins_with_a_bracket_is_a_row_and_missing_commands_are_defined() -> None:
    r"""LaTeX takes ``\\`` and what follows, ``[`` or ``*``, even on the next line, as one."""
    column = Column("x", text=True)
    table = Table("t", "t", "", [column], [["a"], ["[1pt] b"], ["* c"]], pd.DataFrame())
    lines = to_latex(table).splitlines()
    assert not [line for line in lines if line.startswith(("[", "*"))]
    assert "\x1b" not in to_text(Table("t", "t", "", [column], [["\x1b[2J"]], pd.DataFrame()))
    column = Column("x", text=True)
    for cell, needed in (("中", True), ("é", False)):
        latex = to_latex(Table("t", "t", "", [column], [[cell]], pd.DataFrame()))
        assert latex.isascii()
        assert (r"\providecommand{\bpunicode}" in latex) == needed


@pytest.mark.parametrize(
    ("cell", "shown"),
    [
        ("=cmd|' /C calc'!A0", "'=cmd|' /C calc'!A0"),
        *(("@-@", "'@-@"), ("-1+1", "'-1+1"), ("\t=1", "' =1"), ("\r", " "), (" =1", "' =1")),
        *(("-", "-"), ("-5", "-5"), ("-1.5e-7", "-1.5e-7"), ("a=b", "a=b"), ("", ""), (-5, -5)),
        (None, None),
    ],
)
def test_no_cell_is_a_formula(cell: object, shown: object) -> None:
    assert foreign_text.safe_cell(cell) == shown


@examined
@given(st.lists(texts.filter(lambda text: "\ud800" not in text), min_size=1, max_size=3))
@example(["=1+1", "-5", ""])
def test_csv_comes_back_but_for_the_apostrophe(cells: list[str]) -> None:
    frame = pd.DataFrame({"=1+1": cells, "number": [-1.5] * len(cells)})
    text = csv_text(frame)
    back = pd.read_csv(io.StringIO(text), keep_default_na=False, dtype=str)
    assert (list(back.columns), set(back["number"])) == (["'=1+1", "number"], {"-1.5"})
    if not any(mark in cell for cell in cells for mark in "\r\n\x00"):
        assert back["'=1+1"].tolist() == [foreign_text.safe_cell(cell) for cell in cells]


@pytest.mark.parametrize("suffix", ["svg", "pdf", "png"])
def test_figures_of_any_names_are_files(suffix: str, tmp_path: Path) -> None:
    """Oracle: an XML parser reads the SVG; matplotlib writes the texts into its comments too."""
    with package_style(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")
        figure = Figure()
        panel = figure.subplots()
        panel.set_title("\n".join(HOSTILE[:3]))
        for text in HOSTILE:
            panel.plot([1, 2], label=text)
        panel.set_xticks(range(len(HOSTILE)), HOSTILE)
        panel.legend()
        save(figure, [tmp_path / f"a.{suffix}"])
    if suffix == "svg":
        ET.parse(tmp_path / "a.svg")


def test_nothing_is_printed_past_the_one_place() -> None:
    """`print` stands where text is made printable, and where numbers alone are printed."""
    allowed = {"foreign_text.py": 2, "errors.py": 1}
    found: dict[str, int] = {}
    for path in [*(ROOT / "beyond_perplexity").rglob("*.py"), *(ROOT / "scripts").glob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            printers = ("print", "sys.stdout.write")
            if isinstance(node, ast.Call) and ast.unparse(node.func) in printers:
                found[path.name] = found.get(path.name, 0) + 1
    assert found == allowed


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
    shown = foreign_text.printable(text).replace("\N{REPLACEMENT CHARACTER}", "?")
    assert read_latex(escape_latex(text)) == shown


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
        *(("τ", r"$\tau$"), ("Łódź", r"\L{}\'{o}d\'{z}"), ("ï", r"\"{\i}")),
        *(("中", r"\bpunicode{4E2D}"), ("Α", "A"), ("--", "-{}-")),
    ],
)
def test_letters_beyond_ascii_are_commands(text: str, latex: str) -> None:
    assert escape_latex(text) == latex


@pytest.mark.parametrize("seed", SEEDS)
def test_every_cell_stands_in_its_row_and_in_order(seed: int) -> None:
    """Oracle: the cells of the first column, escaped one by one, and the number of all."""
    table = hostile_table(seed)
    latex = to_latex(table)
    assert latex.isascii()
    assert latex.count(r"\label{") == 1
    sample_sets = re.findall(r"\\midrule\n(.*?)\\bottomrule", latex, re.S)
    lines = [line for sample_set in sample_sets for line in sample_set.splitlines()]
    parts, rest = divmod(len(lines), max(1, len(table.rows)))
    assert rest == 0
    for place, line in enumerate(lines[: len(table.rows)]):
        first = escape_latex(table.rows[place][0].rstrip("*"))
        assert line.removeprefix(r"\textit{").startswith(first)
    shown = sum(line.replace(r"\&", "").count("&") + 1 for line in lines)
    repeated = (parts - 1) * len(table.rows)  # of each column that names the row
    assert shown >= len(table.rows) * len(table.columns)
    assert not repeated or (shown - len(table.rows) * len(table.columns)) % repeated == 0


def test_latex_numbers_tables_alone_and_puts_out_floats_between() -> None:
    columns = [Column("x", text=True)]
    latex = to_latex(Table("t", "t", "", columns, [["y"]] * 1000, pd.DataFrame()))
    waiting = [part.count(r"\end{table*}") for part in latex.split(r"\clearpage")]
    assert max(waiting) == 12
    assert sum(waiting) > 12
    for title in ("Table 1: Parameters", "Tables I and II: parameters"):
        latex = to_latex(Table("t", title, "", [Column("x")], [["1"]], pd.DataFrame()))
        assert re.findall(r"\\caption{(.*)}", latex) == ["Parameters."]
