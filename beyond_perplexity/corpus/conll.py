"""Coreference in the column formats of CoNLL-2012 and its relatives (LitBank, OntoGUM).

One token a line in columns (see `conll_rows`), a blank line after a sentence, ``#begin document
(id); part N`` and ``#end document`` around a document. The last column
holds the coreference: ``(23`` begins a mention of entity 23, ``23)`` ends one, ``(8)`` is one
of a single token; several are joined by ``|`` or nothing; ``-`` or ``_`` stands for none.

The formats: Pradhan et al. 2012 (the CoNLL-2012 shared task), Bamman, Lewke and Mansoor 2020
(LitBank), Zhu, Pradhan and Zeldes 2021 (OntoGUM).
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from beyond_perplexity.corpus.annotated import (
    PLACEHOLDER,
    Annotated,
    AnnotatedReader,
    document_name,
    single_word,
)
from beyond_perplexity.corpus.brackets import escape
from beyond_perplexity.corpus.conll_rows import (
    WORD_CONLLU,
    Layout,
    column_of_form,
    find_layout,
    is_comment,
)
from beyond_perplexity.corpus.overlaps import Span, outermost
from beyond_perplexity.corpus.penn import TreeError, leaves, parse_tree
from beyond_perplexity.corpus.readers import NumberedLine, read_lines
from beyond_perplexity.errors import InputError

NO_MENTION = frozenset({"-", "_", "*", ""})
SOURCE = "gold"
TAG, PARSE = 4, 5  # columns of CoNLL-2012

_MARK = re.compile(r"\((\d+)\)|\((\d+)|(\d+)\)|\|")
_MARKER = re.compile(
    r"#\s*(?:(?P<begin>begin)|end) document\b\s*(?:\((?P<id>.*)\)(?:\s*;.*)?|(?P<name>.*))$"
)


@dataclass
class _Open:
    """A document that is being read."""

    place: str
    title: str
    sentences: list[list[NumberedLine]] = field(default_factory=lambda: [[]])
    tokens: list[str] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)  # of each token
    spans: list[Span] = field(default_factory=list)
    begun: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    bits: list[tuple[str, str]] = field(default_factory=list)  # of the sentence: parse, leaf
    sentence: int = 0
    trees: list[tuple[int, str]] = field(default_factory=list)


# ---- the column ----


def parse_marks(column: str) -> list[tuple[str, str]]:
    """Split one field of the coreference column into its marks.

    Parameters
    ----------
    column : str
        Such as ``(23|5)|(8)``.

    Returns
    -------
    list of (str, str)
        ``("single" | "begin" | "end", entity)``, in the order of the field.

    Raises
    ------
    ValueError
        When it holds anything else; entities are numbers.
    """
    if column in NO_MENTION:
        return []
    marks = []
    position = 0
    while position < len(column):
        match = _MARK.match(column, position)
        if not match:
            raise ValueError(f"{column!r} is no list of '(1', '1)', '(1)' and no '-' or '_'")
        kinds = zip(("single", "begin", "end"), match.groups(), strict=True)
        marks += [(kind, entity) for kind, entity in kinds if entity]
        position = match.end()
    return marks


# ---- entities ----


def merge_entities(spans: Sequence[Span]) -> list[Span]:
    """Make one entity of all entities that share a span.

    Parameters
    ----------
    spans : sequence of (int, int, str)
        Token span [start, end) and entity.

    Returns
    -------
    list of (int, int, str)
        Each span once, in the order of its start, longer ones first; the entity is one of those
        that were merged.
    """
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


def renumber(spans: Iterable[Span]) -> list[Span]:
    """Rename entities to ``"0"``, ``"1"``, ... by their first mention in the given order."""
    numbers: dict[str, str] = {}
    return [
        (start, end, numbers.setdefault(entity, str(len(numbers)))) for start, end, entity in spans
    ]


# ---- files ----


class Reader(AnnotatedReader):
    """Reads CoNLL files: every part of a document is a document of its own, with the same title.

    The word is in the fourth column where there are seven or more and in the second where there are
    fewer, unless ``word_column`` says otherwise. Trees are read from the sixth column where a
    sentence has brackets in it. All rows of a file must have the layout of its first document.
    """

    def read(self, path: Path) -> Iterator[Annotated]:
        """Stream the documents of one CoNLL file; see `AnnotatedReader.read`.

        Raises
        ------
        InputError
            When a line or a mention is malformed, unless ``on_error: skip``: then lines without
            words or with too few or too many columns are left out, empty words become ``_``, and
            mentions without an end or a beginning are left out. In any case for CoNLL-U, unless
            ``word_column`` is given.
        """
        layout: Layout | None = None
        for document in self._documents(path):
            layout = layout or self._find_layout(path, document)
            for sentence in document.sentences:
                if layout:
                    self._read_sentence(path, sentence, layout, document)
            yield self._close(path, document)

    def _documents(self, path: Path) -> Iterator[_Open]:
        """Cut a file into documents and these into the lines of sentences."""
        document: _Open | None = None
        number = 0
        for number, raw in read_lines(path, self.problems):
            line = raw.rstrip("\r\n")
            place = f"{path}: line {number}"
            if marker := _MARKER.match(line):
                if document:
                    if marker["begin"]:
                        detail = f"the one of {document.place} goes on"
                        self.problems.report("document without end", place, detail)
                    yield document
                name = marker["id"] or (marker["name"] or "").strip() or document_name(path)
                document = _Open(place, name) if marker["begin"] else None
                continue
            self._check_names_of_columns(place, line)
            if document:
                if line.strip():
                    document.sentences[-1].append((number, line))
                elif document.sentences[-1]:
                    document.sentences.append([])
            elif line.strip() and not is_comment(line, "\t" in line):
                detail = "no '#begin document' before it"
                self.problems.report("line outside a document", place, detail)
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
                self._read_token(path, number, fields, layout.word, document)
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
        self, path: Path, number: int, fields: list[str], column: int, document: _Open
    ) -> None:
        place = f"{path}: line {number}"
        if not fields[column].strip():
            detail = f"column {column} is empty; skipping writes {PLACEHOLDER!r}"
            self.problems.report("empty word", place, detail)
        try:
            marks = parse_marks(fields[-1].strip())
        except ValueError as error:
            self.problems.report("malformed coreference", place, str(error))
            marks = []
        document.tokens.append(single_word(fields[column]))
        document.lines.append(number)
        self._add_marks(place, marks, document)

    def _add_marks(self, place: str, marks: list[tuple[str, str]], document: _Open) -> None:
        here = len(document.tokens) - 1
        for kind, entity in marks:
            if kind == "single":
                document.spans.append((here, here + 1, entity))
            elif kind == "begin":
                document.begun[entity].append(here)
            elif document.begun[entity]:
                document.spans.append((document.begun[entity].pop(), here + 1, entity))
            else:
                detail = f"'{entity})' without '({entity}' before it"
                self.problems.report("mention without beginning", place, detail)

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

    def _close(self, path: Path, document: _Open) -> Annotated:
        for entity, starts in document.begun.items():
            for start in starts:
                place = f"{path}: line {document.lines[start]}"
                self.problems.report("mention without end", place, f"'({entity}' is never closed")
        counts = Counter({f"{SOURCE} found": len(document.spans)})
        spans = merge_entities(document.spans)
        counts["mentions that shared a span"] = len(document.spans) - len(spans)
        if self.source.mentions == "outermost":

            def place_of(token: int) -> str:
                return f"{path}: line {document.lines[token]}"

            spans = outermost(spans, place_of, self.source.crossing, self.problems, counts)
        mentions = [(start, end, entity, SOURCE) for start, end, entity in renumber(spans)]
        return Annotated(
            document.place, document.title, document.tokens, mentions, document.trees, counts
        )


def _conllu_error(place: str, seen: str, column: int) -> InputError:
    return InputError(
        f"{place}: this is CoNLL-U ({seen}), not CoNLL-2012; set source.word_column to the column "
        f"of the words, {column}, if the last column holds marks of coreference such as '(3'"
    )
