"""Text of users, models and libraries where it is shown: as text alone, never as markup."""

from __future__ import annotations

import re
import sys
from html import escape
from unicodedata import bidirectional, category

LONGEST_MESSAGE = 2_000

_TURNS = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
# What a spreadsheet takes for the beginning of a formula.
_FORMULA = re.compile(r"\s*[=+\-@\t\r].", re.DOTALL)
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?|[+-]inf", re.ASCII)

# Control characters, line separators, marks that turn or isolate the direction of writing, and
# surrogates, which stand for bytes that are no text.
_STEERING = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def one_line(message: str) -> str:
    """Return a message as one line of bounded length that a terminal takes as text alone.

    Line ends become blanks, what acts on a terminal escapes; of a long message the middle is left
    out.
    """
    text = re.sub(r"\s*[\r\n]+\s*", " ", message.strip())
    if len(text) > LONGEST_MESSAGE:
        half = LONGEST_MESSAGE // 2
        text = f"{text[:half]} […] {text[-half:]}"
    return _STEERING.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def printable(text: str) -> str:
    """Replace what would act on a page or a terminal: control characters, and what turns a text.

    White space becomes blanks.
    """
    return "".join(
        " "
        if mark.isspace()
        else "\N{REPLACEMENT CHARACTER}"
        if category(mark) in ("Cc", "Cs") or bidirectional(mark) in _TURNS
        else mark
        for mark in text
    )


def escape_html(text: str) -> str:
    """Escape text so that HTML prints it as it is."""
    return escape(printable(text))


def escape_rst(text: str) -> str:
    """Escape text so that reStructuredText prints it as it is, on one line."""
    line = " ".join(printable(text).split())
    return "".join(mark if mark.isalnum() or mark == " " else f"\\{mark}" for mark in line)


def drawable(text: str) -> str:
    """Do as `printable` does for a figure, where line ends are lines."""
    return "\n".join(map(printable, text.split("\n")))


def safe_cell(cell: object) -> object:
    """Make a cell of a CSV file text alone, to a spreadsheet and to a terminal.

    An apostrophe comes before what a spreadsheet would take for a formula (OWASP 2024, CSV
    injection); numbers, and marks alone, such as ``-``, stay as they are.
    """
    if not isinstance(cell, str):
        return cell
    text = drawable(cell)
    guarded = _FORMULA.match(cell) and not _NUMBER.fullmatch(cell)
    return f"'{text}" if guarded else text


def say(text: str = "") -> None:
    """Print lines to standard output; what a terminal would obey is shown instead."""
    print(drawable(text))


def remark(text: str) -> None:
    """Print one line to standard error, beside results; as `say` does."""
    print(one_line(text), file=sys.stderr, flush=True)
