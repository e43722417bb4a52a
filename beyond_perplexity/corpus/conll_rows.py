"""The rows of CoNLL files: which lines are rows, what separates columns, how many there must be.

A file has one layout, decided by most of the rows of its first document, so that a row that was cut
short is known as such and never read as one of another layout.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from beyond_perplexity.corpus.readers import NumberedLine

WIDE_COLUMNS = 7  # rows with so many columns are laid out like CoNLL-2012
CONLLU_COLUMNS = 10
WORD_WIDE, WORD_NARROW, WORD_CONLLU = 3, 1, 1

_PART_OF_WORD_NUMBER = re.compile(r"\d+[-.]\d+")


@dataclass(frozen=True)
class Layout:
    """How the rows of one file are laid out.

    Attributes
    ----------
    line : int
        Number of the first row, from 1.
    tabs : bool
        Whether tabs separate the columns; else blanks do, and no column is empty.
    wide : bool
        Whether rows have `WIDE_COLUMNS` or more, as in CoNLL-2012 and LitBank.
    conllu : bool
        Whether rows have the ten columns of CoNLL-U.
    numbered : bool
        Whether the first column is the number of the word, as in OntoGUM and CoNLL-U.
    word : int
        The column of the word, from 0.
    """

    line: int
    tabs: bool
    wide: bool
    conllu: bool
    numbered: bool
    word: int

    @property
    def has_trees(self) -> bool:
        """Whether tags and trees are where CoNLL-2012 has them."""
        return self.wide and not self.conllu

    def split(self, lines: Iterable[NumberedLine]) -> list[tuple[int, list[str]]]:
        """Return number and columns of those lines that are no comments."""
        return [
            (number, _columns(line, self.tabs))
            for number, line in lines
            if not (self.numbered and line.startswith("#")) and not is_comment(line, self.tabs)
        ]

    def is_no_word(self, columns: Sequence[str]) -> bool:
        """Whether a row is CoNLL-U's for several words (``3-4``) or for an ellipsis (``3.1``)."""
        return self.numbered and bool(_PART_OF_WORD_NUMBER.fullmatch(columns[0]))

    def expected_columns(self, rows: Iterable[tuple[int, Sequence[str]]]) -> range:
        """Say how many columns a row of a sentence may have.

        Parameters
        ----------
        rows : iterable of (int, sequence of str)
            Numbers and columns of all rows of the sentence.

        Returns
        -------
        range
            One number where blanks separate columns: that of most rows, as columns of
            CoNLL-2012 differ from sentence to sentence only.
        """
        if self.conllu:
            return range(CONLLU_COLUMNS, CONLLU_COLUMNS + 1)
        allowed = range(WIDE_COLUMNS, sys.maxsize) if self.wide else range(1, WIDE_COLUMNS)
        counts = Counter(len(columns) for _, columns in rows if len(columns) in allowed)
        if self.tabs or not counts:
            return allowed
        most = max(counts, key=lambda width: (counts[width], width))
        return range(most, most + 1)


def is_comment(line: str, tabs: bool) -> bool:
    """Tell a comment from a row whose first column begins with ``#``.

    Parameters
    ----------
    line : str
        Any line that is no ``#begin document`` or ``#end document``.
    tabs : bool
        Whether tabs separate the columns of rows; then a line with a tab is a row. Else a row is
        what has the columns of CoNLL-2012: name of the document, its part, number of the word.

    Returns
    -------
    bool
    """
    if not line.startswith("#"):
        return False
    if tabs:
        return "\t" not in line
    columns = line.split()
    row = len(columns) >= WIDE_COLUMNS and columns[0] != "#" and _has_two_numbers(columns)
    return not row


def find_layout(lines: Sequence[NumberedLine], word_column: int | None = None) -> Layout | None:
    """Find the layout that most rows have.

    Parameters
    ----------
    lines : sequence of (int, str)
        The lines of a document with their numbers, none of them blank.
    word_column : int, optional
        The column of the word, where it is given.

    Returns
    -------
    Layout or None
        None where all lines are comments.
    """
    tabs = _most("\t" in line for _, line in lines if "\t" in line or not line.startswith("#"))
    rows = [(number, _columns(line, tabs)) for number, line in lines if not is_comment(line, tabs)]
    if not rows:
        return None
    wide = _most(len(columns) >= WIDE_COLUMNS for _, columns in rows)
    conllu = tabs and _most(_is_conllu(columns) for _, columns in rows)
    first = _most(columns[0].isdecimal() for _, columns in rows)  # in CoNLL-2012 a document's name
    return Layout(
        line=rows[0][0],
        tabs=tabs,
        wide=wide,
        conllu=conllu,
        numbered=first and (conllu or not wide) and word_column != 0,
        word=(WORD_WIDE if wide else WORD_NARROW) if word_column is None else word_column,
    )


def column_of_form(comment: str) -> int | None:
    """Return the column of the word that a comment ``# global.columns = ID FORM ...`` names.

    Parameters
    ----------
    comment : str
        Any line.

    Returns
    -------
    int or None
        Counted from 0; `WORD_CONLLU` where the comment does not name it; None for other lines.
    """
    match = re.match(r"#\s*global\.columns\s*=(.*)", comment)
    if not match:
        return None
    names = match[1].split()
    return names.index("FORM") if "FORM" in names else WORD_CONLLU


def _columns(line: str, tabs: bool) -> list[str]:
    return line.split("\t") if tabs else line.split()


def _most(values: Iterable[bool]) -> bool:
    """Whether at least half of some values are true; not of none."""
    held = list(values)
    return bool(held) and 2 * sum(held) >= len(held)


def _has_two_numbers(columns: Sequence[str]) -> bool:
    """Whether the part of the document and the number of the word follow the first column."""
    return columns[1].isdecimal() and columns[2].isdecimal()


def _is_conllu(columns: Sequence[str]) -> bool:
    """Whether a row has ten columns, the number of the word first, and is not of CoNLL-2012.

    Words that are numbers have two numbers after the first as well; most words are not.
    """
    number = columns[0].isdecimal() or _PART_OF_WORD_NUMBER.fullmatch(columns[0])
    return len(columns) == CONLLU_COLUMNS and bool(number) and not _has_two_numbers(columns)
