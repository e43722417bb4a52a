"""Coreference in the column formats of CoNLL-2012 and its relatives (LitBank, OntoGUM, GUM).

One token a line in columns (see `conll_rows`), a blank line after a sentence, ``#begin document
(id); part N`` and ``#end document`` around a document. The last column
holds the coreference: ``(23`` begins a mention of entity 23, ``23)`` ends one, ``(8)`` is one
of a single token; several are joined by ``|`` or nothing; ``-`` or ``_`` stands for none. GUM says
the kind of an entity before its number, and its name after it: ``(place-3-Mecca)``. Files without
``#begin document`` are read as CoNLL-U where they look like it (see `conllu`).

The formats: Pradhan et al. 2012 (the CoNLL-2012 shared task), Bamman, Lewke and Mansoor 2020
(LitBank), Zhu, Pradhan and Zeldes 2021 (OntoGUM), Zeldes 2017 (GUM).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path

from beyond_perplexity.corpus.annotated import (
    MARK_KINDS,
    NO_MENTION,
    PLACEHOLDER,
    Annotated,
    AnnotatedReader,
    Mark,
    OpenDocument,
    document_name,
    single_word,
)
from beyond_perplexity.corpus.conllu import (
    WORD_CONLLU,
    Layout,
    column_of_form,
    find_layout,
    is_comment,
    looks_like_conllu,
    read_conllu,
)
from beyond_perplexity.corpus.penn import TreeError, escape, leaves, parse_tree, unescape
from beyond_perplexity.corpus.readers import NumberedLine, read_lines
from beyond_perplexity.errors import InputError

TAG, PARSE = 4, 5  # columns of CoNLL-2012
FIRST_LINES = 200  # that tell what a file is
OUTSIDE = (
    "no '#begin document' before it: no coreference in columns, nor CoNLL-U, which has ten columns "
    "between tabs"
)

_ENTITY = r"(?:\d+|[A-Za-z]+-\d+(?:-[^()|\s]+)?)"
_MARK = re.compile(rf"\(({_ENTITY})\)|\(({_ENTITY})|({_ENTITY})\)|\|")
_NUMBER = re.compile(r"\d+")
_MARKER = re.compile(
    r"#\s*(?:(?P<begin>begin)|end) document\b\s*(?:\((?P<id>.*)\)(?:\s*;.*)?|(?P<name>.*))$"
)


@dataclass
class _Open(OpenDocument):
    """A document that is being read, with its lines."""

    sentences: list[list[NumberedLine]] = field(default_factory=lambda: [[]])
    bits: list[tuple[str, str]] = field(default_factory=list)  # of the sentence: parse, leaf


# ---- the column ----


def parse_marks(column: str) -> list[Mark]:
    """Split a field of the column, such as ``(23|5)|(8)``, into its marks; entities are numbers."""
    if column in NO_MENTION:
        return []
    marks: list[Mark] = []
    position = 0
    while position < len(column):
        match = _MARK.match(column, position)
        if not match:
            raise ValueError(f"{column!r} is no list of '(1', '1)', '(1)' and no '-' or '_'")
        for kind, entity in zip(MARK_KINDS, match.groups(), strict=True):
            if entity and (number := _NUMBER.search(entity)):
                marks.append((kind, number[0]))
        position = match.end()
    return marks


# ---- files ----


class Reader(AnnotatedReader):
    """Reads CoNLL files: every part of a document is a document of its own, with the same title.

    The word is in the fourth column where there are seven or more and in the second where there are
    fewer, unless ``word_column`` says otherwise. Trees are read from the sixth column where a
    sentence has brackets in it. All rows of a file must have the layout of its first document.
    """

    def read(self, path: Path) -> Iterator[Annotated]:
        """Stream the documents of one CoNLL file; see `AnnotatedReader.read`."""
        lines = read_lines(path, self.problems)
        if self.source.word_column is None:
            first = list(islice(lines, FIRST_LINES))
            lines = chain(first, lines)
            if looks_like_conllu(first):
                yield from read_conllu(path, lines, self.source, self.problems)
                return
        yield from self._read_columns(path, lines)

    def _read_columns(self, path: Path, lines: Iterator[NumberedLine]) -> Iterator[Annotated]:
        layout: Layout | None = None
        for document in self._documents(path, lines):
            layout = layout or self._find_layout(path, document)
            for sentence in document.sentences:
                if layout:
                    self._read_sentence(path, sentence, layout, document)
            yield document.close(self.source, self.problems)

    def _documents(self, path: Path, lines: Iterator[NumberedLine]) -> Iterator[_Open]:
        """Cut a file into documents and these into the lines of sentences."""
        document: _Open | None = None
        number = 0
        for number, raw in lines:
            line = raw.rstrip("\r\n")
            place = f"{path}: line {number}"
            if marker := _MARKER.match(line):
                if document:
                    if marker["begin"]:
                        detail = f"the one of {document.place} goes on"
                        self.problems.report("document without end", place, detail)
                    yield document
                name = marker["id"] or (marker["name"] or "").strip() or document_name(path)
                document = _Open(path, place, name) if marker["begin"] else None
                continue
            self._check_names_of_columns(place, line)
            if document:
                if line.strip():
                    document.sentences[-1].append((number, line))
                elif document.sentences[-1]:
                    document.sentences.append([])
            elif line.strip() and not is_comment(line, "\t" in line):
                self.problems.report("line outside a document", place, OUTSIDE)
        if document:
            detail = "no '#end document' before the end of the file"
            self.problems.report("document without end", f"{path}: line {number}", detail)
            yield document

    def _check_names_of_columns(self, place: str, line: str) -> None:
        column = column_of_form(line)
        if column is not None and self.source.word_column is None:
            raise _conllu_error(place, "it names its columns", column)

    def _find_layout(self, path: Path, document: _Open) -> Layout | None:
        lines = [line for sentence in document.sentences for line in sentence]
        layout = find_layout(lines, self.source.word_column)
        if layout and layout.conllu and self.source.word_column is None:
            seen = "ten columns, the first the number of the word"
            raise _conllu_error(f"{path}: line {layout.line}", seen, WORD_CONLLU)
        return layout

    def _read_sentence(
        self, path: Path, lines: list[NumberedLine], layout: Layout, document: _Open
    ) -> None:
        rows = layout.split(lines)
        expected = layout.expected_columns(rows)
        least = max(expected.start, layout.word + 2)  # the coreference comes after the word
        for number, fields in rows:
            place = f"{path}: line {number}"
            if len(fields) < least:
                detail = f"{len(fields)} columns, expected at least {least}"
                self.problems.report("too few columns", place, detail)
            elif len(fields) >= expected.stop:
                detail = f"{len(fields)} columns, expected at most {expected.stop - 1}"
                self.problems.report("too many columns", place, detail)
            elif layout.is_no_word(fields):
                self._leave_out(place, fields)
            else:
                self._read_token(path, number, fields, layout, document)
                word = escape(document.tokens[-1])
                bit = (fields[PARSE], f"({fields[TAG]} {word})") if layout.has_trees else ("", "")
                document.bits.append(bit)
        self._end_sentence(path, document)

    def _leave_out(self, place: str, fields: list[str]) -> None:
        """Count a row whose words have rows of their own, or that stands for no word."""
        if fields[-1].strip() not in NO_MENTION:
            detail = f"{fields[-1]!r} at the row {fields[0]!r}, which is no word"
            self.problems.report("malformed coreference", place, detail)
        self.problems.skips.add("row of several words or of none", place)

    def _read_token(
        self, path: Path, number: int, fields: list[str], layout: Layout, document: _Open
    ) -> None:
        place = f"{path}: line {number}"
        word = single_word(fields[layout.word])
        if not fields[layout.word].strip():
            detail = f"column {layout.word} is empty; skipping writes {PLACEHOLDER!r}"
            self.problems.report("empty word", place, detail)
        try:
            marks = parse_marks(fields[-1].strip())
        except ValueError as error:
            self.problems.report("malformed coreference", place, str(error))
            marks = []
        # the leaves of CoNLL-2012's trees; a tree and its text have the same words
        document.tokens.append(unescape(word) if layout.has_trees else word)
        document.lines.append(number)
        document.add_marks(place, marks, self.problems)

    def _end_sentence(self, path: Path, document: _Open) -> None:
        """Count a sentence, unless it has no words, and read its tree, if it has one."""
        bits, document.bits = document.bits, []
        if any("(" in bit for bit, _ in bits):
            try:
                tree = parse_tree("".join(bit.replace("*", leaf) for bit, leaf in bits))
                if len(leaves(tree)) != len(bits):
                    raise TreeError("words differ", "the tree has not the words of the sentence")
                document.trees.append((document.sentence, tree))
            except TreeError as error:
                place = f"{path}: line {document.lines[-len(bits)]}"
                self.problems.report(f"parse column: {error.reason}", place, error.detail)
        document.sentence += bool(bits)


def _conllu_error(place: str, seen: str, column: int) -> InputError:
    return InputError(
        f"{place}: this is CoNLL-U ({seen}), not CoNLL-2012; set source.word_column to the column "
        f"of the words, {column}, if the last column holds marks of coreference such as '(3'"
    )
