"""Coreference in brackets: what begins and ends at each word becomes mentions of numbered entities.

A file has one layout of its rows, decided by most of those of its first document, so that a row cut
short is known as such and never read as one of another layout.
"""

from __future__ import annotations

import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from beyond_perplexity.corpus import readers

SOURCE = "gold"
NO_MENTION = frozenset({"-", "_", "*", ""})
WIDE_COLUMNS = 7  # rows with so many columns are laid out like CoNLL-2012
CONLLU_COLUMNS = 10
WORD_WIDE, WORD_NARROW, WORD_CONLLU = 3, 1, 1

Mark = tuple[str, str]  # what happens at a token, single, begin or end, and to which entity

_ENTITY = r"(?:\d+|[A-Za-z]+-\d+(?:-[^()|\s]+)?)"
_MARK = re.compile(rf"\(({_ENTITY})\)|\(({_ENTITY})|({_ENTITY})\)|\|")
_ENTITY_MARK = re.compile(r"\(([^()]+)\)|\(([^()]+)|([^()]+)\)")
_PIECE = re.compile(r"(?P<entity>.+)\[(?P<piece>\d+)/\d+\]")
_NUMBER = re.compile(r"\d+")
_PART_OF_WORD_NUMBER = re.compile(r"\d+[-.]\d+")


def _find_marks(text: str, pattern: re.Pattern[str]) -> list[Mark] | None:
    """Find the groups of a pattern, of single, begun and ended mentions; None: there is more."""
    found = list(pattern.finditer(text))
    if "".join(match[0] for match in found) != text:
        return None
    kinds = ("single", "begin", "end")
    return [mark for one in found for mark in zip(kinds, one.groups(), strict=True) if mark[1]]


def parse_marks(column: str) -> list[Mark]:
    """Split a field of the column, such as ``(23|5)|(8)``, into its marks; entities are numbers."""
    if column in NO_MENTION:
        return []
    marks = _find_marks(column, _MARK)
    if marks is None:
        raise ValueError(f"{column!r} is no list of '(1', '1)', '(1)' and no '-' or '_'")
    return [(kind, number[0]) for kind, text in marks if (number := _NUMBER.search(text))]


def entity_marks(value: str, part: int, counts: Counter[str]) -> list[Mark]:
    """Split the attribute ``Entity`` of a word, as ``(e3-place-1(e4-person-2)``, whose `part`
    identifies the entity; later pieces of a mention, as ``e3[2/2]``, are left out and counted."""
    found = _find_marks(value, _ENTITY_MARK)
    if found is None:
        raise ValueError(f"Entity={value!r} is no list of '(e1-person', '(e1-person)', 'e1)'")
    for place, (kind, text) in enumerate(found):
        parts = text.split("-")
        entity = parts[part] if part < len(parts) else parts[0]
        if not entity or (part >= len(parts) > 1):
            raise ValueError(f"Entity={value!r} has no part {part + 1}, the entity")
        found[place] = (kind, entity)
    kept: list[Mark] = []
    for kind, entity in found:
        piece = _PIECE.fullmatch(entity)
        if not piece or int(piece["piece"]) == 1:
            kept.append((kind, piece["entity"] if piece else entity))
        elif kind != "end":
            counts["further pieces of mentions"] += 1
    return kept


@dataclass
class OpenDocument:
    """A document that is being read."""

    reader: readers.AnnotatedReader
    path: Path
    first: int  # the line where it begins
    title: str
    tokens: list[str] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)  # of each token
    spans: list[readers.Span] = field(default_factory=list)
    begun: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    sentence: int = 0
    trees: list[tuple[int, str]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def report(self, reason: str, line: int, detail: str) -> None:
        """Report a problem of a line."""
        self.reader.problems.report(reason, f"{self.path}: line {line}", detail)

    def add_word(self, line: int, form: str, column: int) -> None:
        """Add the word that stands in a column."""
        if not form.strip():
            detail = f"column {column} is empty; skipping writes {readers.PLACEHOLDER!r}"
            self.report("empty word", line, detail)
        self.tokens.append(readers.single_word(form))
        self.lines.append(line)

    def add_marks(
        self, line: int, text: str, parse: Callable[[str], list[Mark]], words: int = 1
    ) -> None:
        """Open and close mentions at the last `words` tokens, one or none: at none they begin with
        the next token and end with the one before; one without a token is counted and left out."""
        end = len(self.tokens)
        try:
            marks = parse(text)
        except ValueError as error:
            self.report("malformed coreference", line, str(error))
            return
        for kind, entity in marks:
            if kind == "begin":
                self.begun[entity].append(end - words)
            elif kind == "end" and not self.begun[entity]:
                detail = f"'{entity})' without '({entity}' before it"
                self.report("mention without beginning", line, detail)
            else:
                start = end - words if kind == "single" else self.begun[entity].pop()
                if start < end:
                    self.spans.append((start, end, entity))
                else:
                    self.counts["mentions of no word"] += 1

    def close(self) -> readers.Annotated:
        """Return the document with its mentions, entities numbered by their first one."""
        source, problems = self.reader.source, self.reader.problems
        for entity, starts in self.begun.items():
            for start in starts:
                detail = f"'({entity}' is never closed"
                problems.report("mention without end", self._place(start), detail)
        counts = Counter({f"{SOURCE} found": len(self.spans)}) | self.counts
        spans = merge_entities(self.spans)
        counts["mentions that shared a span"] = len(self.spans) - len(spans)
        if source.mentions == "outermost":
            spans = readers.outermost(spans, self._place, source.crossing, problems, counts)
        mentions = [(start, end, entity, SOURCE) for start, end, entity in renumber(spans)]
        place = f"{self.path}: line {self.first}"
        return readers.Annotated(place, self.title, self.tokens, mentions, self.trees, counts)

    def _place(self, token: int) -> str:
        line = self.lines[min(token, len(self.lines) - 1)] if self.lines else self.first
        return f"{self.path}: line {line}"


def merge_entities(spans: Sequence[readers.Span]) -> list[readers.Span]:
    """Make one entity of all that share a span; each span once, by its start, longer ones first."""
    parent: dict[str, str] = {}

    def find(entity: str) -> str:
        while (above := parent.get(entity, entity)) != entity:
            parent[entity] = parent.get(above, above)  # half as far the next time
            entity = above
        return entity

    holder: dict[tuple[int, int], str] = {}
    for start, end, entity in spans:
        parent[find(entity)] = find(holder.setdefault((start, end), entity))
    ordered = sorted(holder.items(), key=lambda item: (item[0][0], -item[0][1]))
    return [(start, end, find(entity)) for (start, end), entity in ordered]


def renumber(spans: Iterable[readers.Span]) -> list[readers.Span]:
    """Rename entities to ``"0"``, ``"1"``, ... by their first mention in the given order."""
    numbers: dict[str, str] = {}
    return [(start, end, numbers.setdefault(one, str(len(numbers)))) for start, end, one in spans]


class Layout(NamedTuple):
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

    def split(self, lines: Iterable[readers.NumberedLine]) -> list[tuple[int, list[str]]]:
        """Return number and columns of those lines that are no comments."""
        return [
            (number, _columns(line, self.tabs))
            for number, line in lines
            if not (self.numbered and line.startswith("#")) and not is_comment(line, self.tabs)
        ]

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


def find_layout(
    lines: Sequence[readers.NumberedLine], word_column: int | None = None
) -> Layout | None:
    """Find the layout that most rows have; None where there are no rows."""
    tabs = _most("\t" in line for _, line in lines if "\t" in line or not line.startswith("#"))
    rows = [(number, _columns(line, tabs)) for number, line in lines if not is_comment(line, tabs)]
    if not rows:
        return None
    wide = _most(len(columns) >= WIDE_COLUMNS for _, columns in rows)
    conllu = tabs and _most(_is_conllu(columns) for _, columns in rows)
    first = _most(columns[0].isdecimal() for _, columns in rows)  # in CoNLL-2012 a document's name
    numbered = first and (conllu or not wide) and word_column != 0
    word = (WORD_WIDE if wide else WORD_NARROW) if word_column is None else word_column
    return Layout(rows[0][0], tabs, wide, conllu, numbered, word)


def is_comment(line: str, tabs: bool) -> bool:
    """Tell a comment from a row that begins with ``#``: a row has a tab where tabs separate
    columns, else the name, part and number of CoNLL-2012."""
    if not line.startswith("#"):
        return False
    if tabs:
        return "\t" not in line
    columns = line.split()
    return len(columns) < WIDE_COLUMNS or columns[0] == "#" or not _has_two_numbers(columns)


def is_part_of_words(number: str) -> bool:
    """Whether a row is CoNLL-U's for several words (``3-4``) or for an ellipsis (``3.1``)."""
    return bool(_PART_OF_WORD_NUMBER.fullmatch(number))


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
    """Whether a row has ten columns, the number of the word first, and not two numbers after the
    first, as CoNLL-2012 has, and words that are numbers, which most are not."""
    number = columns[0].isdecimal() or is_part_of_words(columns[0])
    return len(columns) == CONLLU_COLUMNS and number and not _has_two_numbers(columns)
