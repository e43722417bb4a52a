"""Coreference in the columns of CoNLL-2012 and its relatives (LitBank, OntoGUM, GUM), and CoNLL-U.

One token a line in columns (see `coreference.Layout`), a blank line after a sentence, ``#begin
document (id); part N`` and ``#end document`` around a document. In the last column ``(23`` begins a
mention of entity 23, ``23)`` ends one, ``(8)`` is one of a single token; several are joined by
``|`` or nothing; ``-`` or ``_`` stands for none. GUM writes kind, number and name:
``(place-3-Mecca)``. Files without ``#begin document`` that look like CoNLL-U have mentions in its
last column.

Pradhan et al. 2012 (the CoNLL-2012 shared task), Bamman, Lewke and Mansoor 2020 (LitBank), Zhu,
Pradhan and Zeldes 2021 (OntoGUM), Zeldes 2017 (GUM).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain, islice
from pathlib import Path

from beyond_perplexity.corpus.coreference import (
    CONLLU_COLUMNS,
    NO_MENTION,
    WORD_CONLLU,
    Layout,
    OpenDocument,
    entity_marks,
    find_layout,
    is_comment,
    is_part_of_words,
    parse_marks,
)
from beyond_perplexity.corpus.penn import TreeError, escape, leaves, parse_tree, unescape
from beyond_perplexity.corpus.readers import (
    Annotated,
    AnnotatedReader,
    NumberedLine,
    document_name,
    read_lines,
)
from beyond_perplexity.errors import InputError

TAG, PARSE = 4, 5  # columns of CoNLL-2012
FORM, MISC = 1, 9  # of CoNLL-U
COLUMNS = ["ID", "FORM", "LEMMA", "UPOS", "XPOS", "FEATS", "HEAD", "DEPREL", "DEPS", "MISC"]
ENTITY_PARTS = ("eid", "GRP")  # what the part of an entity is called that identifies it
FIRST_LINES = 200  # that tell what a file is
OUTSIDE = (
    "no '#begin document' before it: no coreference in columns, nor CoNLL-U, which has ten columns "
    "between tabs"
)

_MARKER = re.compile(
    r"#\s*(?:(?P<begin>begin)|end) document\b\s*(?:\((?P<id>.*)\)(?:\s*;.*)?|(?P<name>.*))$"
)
_COMMENT = re.compile(r"#\s*(newdoc|newpar|sent_id|text|global\.Entity)\b")
_NEW_DOCUMENT = re.compile(r"#\s*newdoc\b(?:\s*id\s*=\s*(?P<id>.*\S))?")
_PARTS = re.compile(r"#\s*global\.Entity\s*=\s*(?P<parts>\S+)")
_NAMES = re.compile(r"#\s*global\.columns\s*=(?P<names>.*)")

_Sentences = list[list[NumberedLine]]


class Reader(AnnotatedReader):
    """Reads CoNLL files: every part of a document is a document of its own, with the same title.

    The word is in the fourth column of seven or more and in the second of fewer, unless
    ``word_column`` says otherwise; trees in the sixth where a sentence has brackets there.
    """

    def read(self, path: Path) -> Iterator[Annotated]:
        """Stream the documents of one CoNLL file; see `AnnotatedReader.read`."""
        held = read_lines(path, self.problems)
        lines = ((number, line.rstrip("\r\n")) for number, line in held)
        first = list(islice(lines, FIRST_LINES))
        conllu = self.source.word_column is None and looks_like_conllu(first)
        read = self._read_conllu if conllu else self._read_columns
        for document in read(path, chain(first, lines)):
            yield document.close()

    # ---- columns ----

    def _read_columns(self, path: Path, lines: Iterator[NumberedLine]) -> Iterator[OpenDocument]:
        layout: Layout | None = None
        for document, sentences in self._documents(path, lines):
            layout = layout or self._find_layout(path, sentences)
            for sentence in sentences:
                if layout:
                    self._read_sentence(sentence, layout, document)
            yield document

    def _documents(
        self, path: Path, lines: Iterator[NumberedLine]
    ) -> Iterator[tuple[OpenDocument, _Sentences]]:
        """Cut a file into documents and these into the lines of sentences."""
        document: OpenDocument | None = None
        sentences: _Sentences = [[]]
        number = 0
        for number, line in lines:
            if marker := _MARKER.match(line):
                if document:
                    if marker["begin"]:
                        detail = f"the one of {path}: line {document.first} goes on"
                        document.report("document without end", number, detail)
                    yield document, sentences
                name = marker["id"] or (marker["name"] or "").strip() or document_name(path)
                document = OpenDocument(self, path, number, name) if marker["begin"] else None
                sentences = [[]]
            elif self.source.word_column is None and (names := _NAMES.match(line)):
                held = names["names"].split()
                column = held.index("FORM") if "FORM" in held else WORD_CONLLU
                raise _conllu_error(f"{path}: line {number}", "it names its columns", column)
            elif document and line.strip():
                sentences[-1].append((number, line))
            elif document and sentences[-1]:
                sentences.append([])
            elif line.strip() and not is_comment(line, "\t" in line):
                self.problems.report("line outside a document", f"{path}: line {number}", OUTSIDE)
        if document:
            detail = "no '#end document' before the end of the file"
            document.report("document without end", number, detail)
            yield document, sentences

    def _find_layout(self, path: Path, sentences: _Sentences) -> Layout | None:
        layout = find_layout(list(chain(*sentences)), self.source.word_column)
        if layout and layout.conllu and self.source.word_column is None:
            seen = "ten columns, the first the number of the word"
            raise _conllu_error(f"{path}: line {layout.line}", seen, WORD_CONLLU)
        return layout

    def _read_sentence(
        self, lines: list[NumberedLine], layout: Layout, document: OpenDocument
    ) -> None:
        rows = layout.split(lines)
        expected = layout.expected_columns(rows)
        least = max(expected.start, layout.word + 2)  # the coreference comes after the word
        bits: list[tuple[str, str]] = []  # parse, leaf
        for number, fields in rows:
            if len(fields) < least:
                detail = f"{len(fields)} columns, expected at least {least}"
                document.report("too few columns", number, detail)
            elif len(fields) >= expected.stop:
                detail = f"{len(fields)} columns, expected at most {expected.stop - 1}"
                document.report("too many columns", number, detail)
            elif layout.numbered and is_part_of_words(fields[0]):
                self._leave_out(document, number, fields)
            else:
                form = fields[layout.word]
                # the leaves of CoNLL-2012's trees; a tree and its text have the same words
                form = unescape(form) if layout.has_trees else form
                document.add_word(number, form, layout.word)
                document.add_marks(number, fields[-1].strip(), parse_marks)
                if layout.has_trees:
                    bits.append((fields[PARSE], f"({fields[TAG]} {escape(document.tokens[-1])})"))
        self._add_tree(document, bits)
        document.sentence += bool(bits)

    def _leave_out(self, document: OpenDocument, number: int, fields: list[str]) -> None:
        """Count a row whose words have rows of their own, or that stands for no word."""
        if fields[-1].strip() not in NO_MENTION:
            detail = f"{fields[-1]!r} at the row {fields[0]!r}, which is no word"
            document.report("malformed coreference", number, detail)
        place = f"{document.path}: line {number}"
        self.problems.skips.add("row of several words or of none", place)

    def _add_tree(self, document: OpenDocument, bits: list[tuple[str, str]]) -> None:
        """Read the tree of a sentence, if it has one."""
        if not any("(" in bit for bit, _ in bits):
            return
        try:
            tree = parse_tree("".join(bit.replace("*", leaf) for bit, leaf in bits))
            if len(leaves(tree)) != len(bits):
                raise TreeError("words differ", "the tree has not the words of the sentence")
            document.trees.append((document.sentence, tree))
        except TreeError as error:
            line = document.lines[-len(bits)]
            document.report(f"parse column: {error.reason}", line, error.detail)

    # ---- CoNLL-U ----

    def _read_conllu(self, path: Path, lines: Iterator[NumberedLine]) -> Iterator[OpenDocument]:
        document: OpenDocument | None = None
        part = 0  # of what is said of an entity, that identifies it
        for number, line in lines:
            if new := _NEW_DOCUMENT.match(line):
                if document:
                    yield document
                document = OpenDocument(self, path, number, new["id"] or document_name(path))
            elif parts := _PARTS.match(line):
                names = parts["parts"].split("-")
                part = next((names.index(n) for n in ENTITY_PARTS if n in names), 0)
            elif line.strip() and not line.startswith("#"):
                columns = line.split("\t")
                if len(columns) == CONLLU_COLUMNS:
                    document = document or OpenDocument(self, path, number, document_name(path))
                    self._read_row(number, columns, part, document)
                    continue
                few = "too few columns" if len(columns) < CONLLU_COLUMNS else "too many columns"
                detail = f"{len(columns)} columns between tabs, expected {CONLLU_COLUMNS}"
                self.problems.report(few, f"{path}: line {number}", detail)
        if document:
            yield document

    def _read_row(self, number: int, columns: list[str], part: int, document: OpenDocument) -> None:
        words = 0 if is_part_of_words(columns[0]) else 1
        if not words:
            place = f"{document.path}: line {number}"
            self.problems.skips.add("row of several words or of none", place)
        elif not columns[0].isdecimal():
            detail = f"{columns[0]!r} is no number of a word"
            document.report("malformed number of a word", number, detail)
        if words:
            document.add_word(number, columns[FORM], FORM)
        for attribute in columns[MISC].split("|"):
            name, _, value = attribute.strip().partition("=")
            if name == "Entity":
                parse = partial(entity_marks, part=part, counts=document.counts)
                document.add_marks(number, value, parse, words)


def looks_like_conllu(lines: Sequence[NumberedLine]) -> bool:
    """Tell CoNLL-U by the first lines of a file."""
    texts = [line for _, line in lines]
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


def _conllu_error(place: str, seen: str, column: int) -> InputError:
    return InputError(
        f"{place}: this is CoNLL-U ({seen}), not CoNLL-2012; set source.word_column to the column "
        f"of the words, {column}, if the last column holds marks of coreference such as '(3'"
    )
