"""The rows of CoNLL files: which lines are rows, what separates columns, how many there must be.

A file has one layout, decided by most of the rows of its first document, so that a row that was cut
short is known as such and never read as one of another layout.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from beyond_perplexity.corpus.annotated import (
    MARK_KINDS,
    PLACEHOLDER,
    Annotated,
    Mark,
    OpenDocument,
    document_name,
    single_word,
)
from beyond_perplexity.corpus.extraction_options import SourceOptions
from beyond_perplexity.corpus.readers import NumberedLine, Problems

WIDE_COLUMNS = 7  # rows with so many columns are laid out like CoNLL-2012
CONLLU_COLUMNS = 10
WORD_WIDE, WORD_NARROW, WORD_CONLLU = 3, 1, 1

_PART_OF_WORD_NUMBER = re.compile(r"\d+[-.]\d+")


@dataclass(frozen=True)
class Layout:
    """How the rows of one file are laid out."""

    line: int  # number of the first row, from 1
    tabs: bool  # whether tabs separate the columns; else blanks do, and no column is empty
    wide: bool  # whether rows have `WIDE_COLUMNS` or more, as in CoNLL-2012 and LitBank
    conllu: bool  # whether rows have the ten columns of CoNLL-U
    numbered: bool  # whether the first column is the number of the word, as in OntoGUM and CoNLL-U
    word: int  # the column of the word, from 0

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
        """Say how many columns a row of a sentence may have."""
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

    Where tabs separate columns a line with a tab is a row; else one with the columns of CoNLL-2012:
    name of the document, its part, number of the word.
    """
    if not line.startswith("#"):
        return False
    if tabs:
        return "\t" not in line
    columns = line.split()
    row = len(columns) >= WIDE_COLUMNS and columns[0] != "#" and _has_two_numbers(columns)
    return not row


def find_layout(lines: Sequence[NumberedLine], word_column: int | None = None) -> Layout | None:
    """Find the layout that most rows have."""
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
    """Return the column of the word, from 0, that ``# global.columns = ID FORM ...`` names."""
    match = _NAMES.match(comment)
    if not match:
        return None
    names = match["names"].split()
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


FORM, MISC = 1, 9
COLUMNS = ["ID", "FORM", "LEMMA", "UPOS", "XPOS", "FEATS", "HEAD", "DEPREL", "DEPS", "MISC"]
ENTITY_PARTS = ("eid", "GRP")  # what the part of an entity is called that identifies it

_COMMENT = re.compile(r"#\s*(newdoc|newpar|sent_id|text|global\.Entity)\b")
_NEW_DOCUMENT = re.compile(r"#\s*newdoc\b(?:\s*id\s*=\s*(?P<id>.*\S))?")
_PARTS = re.compile(r"#\s*global\.Entity\s*=\s*(?P<parts>\S+)")
_NAMES = re.compile(r"#\s*global\.columns\s*=(?P<names>.*)")
_ENTITY_MARK = re.compile(r"\(([^()]+)\)|\(([^()]+)|([^()]+)\)")
_PIECE = re.compile(r"(?P<entity>.+)\[(?P<piece>\d+)/\d+\]")


def looks_like_conllu(lines: Sequence[NumberedLine]) -> bool:
    """Tell CoNLL-U by the first lines of a file.

    It has no ``#begin document``, names no other columns, and has its rows or comments.
    """
    texts = [line.rstrip("\r\n") for _, line in lines]
    if any(re.match(r"#\s*(begin|end) document\b", text) for text in texts):
        return False
    named = next(filter(None, map(_NAMES.match, texts)), None)
    if named:
        return named["names"].split() == COLUMNS
    layout = find_layout([(number, line) for number, line in lines if line.strip()])
    if layout and layout.conllu:
        return True
    rows = [text for text in texts if text.strip() and not text.startswith("#")]
    commented = any(map(_COMMENT.match, texts))
    return commented and all(row.count("\t") >= CONLLU_COLUMNS // 2 for row in rows)


def entity_marks(value: str, part: int = 0) -> list[Mark]:
    """Split the attribute ``Entity`` of a word into its marks.

    It is such as ``(e3-place-1(e4-person-2)``; the part, between hyphens, identifies the entity;
    ``e3[1/2]`` is kept as it is.
    """
    marks: list[Mark] = []
    position = 0
    while position < len(value):
        match = _ENTITY_MARK.match(value, position)
        if not match:
            raise ValueError(f"Entity={value!r} is no list of '(e1-person', '(e1-person)', 'e1)'")
        for kind, text in zip(MARK_KINDS, match.groups(), strict=True):
            if text:
                parts = text.split("-")
                entity = parts[part] if part < len(parts) else parts[0]
                if not entity or (part >= len(parts) > 1):
                    raise ValueError(f"Entity={value!r} has no part {part + 1}, the entity")
                marks.append((kind, entity))
        position = match.end()
    return marks


def read_conllu(
    path: Path, lines: Iterable[NumberedLine], source: SourceOptions, problems: Problems
) -> Iterator[Annotated]:
    """Stream the documents of a CoNLL-U file."""
    return _ConlluFile(path, source, problems).documents(lines)


class _ConlluFile:
    """What is known while a file is read."""

    def __init__(self, path: Path, source: SourceOptions, problems: Problems) -> None:
        self._path, self._source, self._problems = path, source, problems
        self._document: OpenDocument | None = None
        self._part = 0

    def documents(self, lines: Iterable[NumberedLine]) -> Iterator[Annotated]:
        words = 0  # of the sentence
        for number, raw in lines:
            line = raw.rstrip("\r\n")
            if not line.strip():
                words = self._end_sentence(words)
            elif not line.startswith("#"):
                words += self._read_row(number, line)
            elif new := _NEW_DOCUMENT.match(line):
                words = self._end_sentence(words)
                yield from self._close()
                name = new["id"] or document_name(self._path)
                self._document = OpenDocument(self._path, self._place(number), name)
            elif parts := _PARTS.match(line):
                names = parts["parts"].split("-")
                self._part = next((names.index(n) for n in ENTITY_PARTS if n in names), 0)
        self._end_sentence(words)
        yield from self._close()

    def _place(self, number: int) -> str:
        return f"{self._path}: line {number}"

    def _end_sentence(self, words: int) -> int:
        if self._document:
            self._document.sentence += words > 0
        return 0

    def _close(self) -> Iterator[Annotated]:
        if self._document:
            yield self._document.close(self._source, self._problems)
        self._document = None

    def _read_row(self, number: int, line: str) -> int:
        """Read a row; return how many words it is."""
        place = self._place(number)
        columns = line.split("\t")
        if len(columns) != CONLLU_COLUMNS:
            reason = "too few columns" if len(columns) < CONLLU_COLUMNS else "too many columns"
            detail = f"{len(columns)} columns between tabs, expected {CONLLU_COLUMNS}"
            self._problems.report(reason, place, detail)
            return 0
        document = self._document = self._document or OpenDocument(
            self._path, place, document_name(self._path)
        )
        words = 0 if _PART_OF_WORD_NUMBER.fullmatch(columns[0]) else 1
        if not words:
            self._problems.skips.add("row of several words or of none", place)
        elif not columns[0].isdecimal():
            detail = f"{columns[0]!r} is no number of a word"
            self._problems.report("malformed number of a word", place, detail)
        if words:
            if not columns[FORM].strip():
                detail = f"column {FORM} is empty; skipping writes {PLACEHOLDER!r}"
                self._problems.report("empty word", place, detail)
            document.tokens.append(single_word(columns[FORM]))
            document.lines.append(number)
        self._add_mentions(place, columns[MISC], words, document)
        return words

    def _add_mentions(self, place: str, misc: str, words: int, document: OpenDocument) -> None:
        for attribute in misc.split("|"):
            name, _, value = attribute.strip().partition("=")
            if name != "Entity":
                continue
            try:
                marks = self._first_pieces(entity_marks(value, self._part), document)
            except ValueError as error:
                self._problems.report("malformed coreference", place, str(error))
                continue
            document.add_marks(place, marks, self._problems, words=words)

    def _first_pieces(self, marks: list[Mark], document: OpenDocument) -> list[Mark]:
        """Leave out all pieces of a mention but the first."""
        kept: list[Mark] = []
        for kind, entity in marks:
            piece = _PIECE.fullmatch(entity)
            if not piece or int(piece["piece"]) == 1:
                kept.append((kind, piece["entity"] if piece else entity))
            elif kind != "end":
                document.counts["further pieces of mentions"] += 1
        return kept
