"""Coreference in CoNLL-U: words in ten columns, mentions as ``Entity=`` in the last.

One word a line; rows ``3-4`` (several words written as one) and ``3.1`` (a word that is not there)
are no words. Documents begin at ``# newdoc``. Of the attribute ``Entity``, ``(e1-place`` begins a
mention of entity e1, ``e1)`` ends one and ``(e1-place-2)`` is one of a single word;
``# global.Entity = eid-etype-head`` names the parts, of which ``eid`` or ``GRP`` is the entity, by
default the first. Of a mention in several pieces, ``(e1[1/2]``, the first one is read.

The formats: the CoNLL-U of Universal Dependencies; the attribute as in CorefUD (Nedoluzhko et al.
2022) and GUM (Zeldes 2017).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from beyond_perplexity.corpus.annotated import (
    PLACEHOLDER,
    Annotated,
    document_name,
    single_word,
)
from beyond_perplexity.corpus.conll_rows import CONLLU_COLUMNS, find_layout
from beyond_perplexity.corpus.coreference import MARK_KINDS, Mark, OpenDocument
from beyond_perplexity.corpus.options import SourceOptions
from beyond_perplexity.corpus.readers import NumberedLine, Problems

FORM, MISC = 1, 9
COLUMNS = ["ID", "FORM", "LEMMA", "UPOS", "XPOS", "FEATS", "HEAD", "DEPREL", "DEPS", "MISC"]
_NO_WORD = re.compile(r"\d+[-.]\d+")
ENTITY_PARTS = ("eid", "GRP")  # what the part of an entity is called that identifies it

_COMMENT = re.compile(r"#\s*(newdoc|newpar|sent_id|text|global\.Entity)\b")
_NEW_DOCUMENT = re.compile(r"#\s*newdoc\b(?:\s*id\s*=\s*(?P<id>.*\S))?")
_PARTS = re.compile(r"#\s*global\.Entity\s*=\s*(?P<parts>\S+)")
_NAMES = re.compile(r"#\s*global\.columns\s*=(?P<names>.*)")
_ENTITY_MARK = re.compile(r"\(([^()]+)\)|\(([^()]+)|([^()]+)\)")
_PIECE = re.compile(r"(?P<entity>.+)\[(?P<piece>\d+)/\d+\]")


def looks_like_conllu(lines: Sequence[NumberedLine]) -> bool:
    """Tell CoNLL-U from other column formats by the first lines of a file.

    Parameters
    ----------
    lines : sequence of (int, str)

    Returns
    -------
    bool
        Whether no ``#begin document`` stands in them, no other columns are named, and rows or
        comments are those of CoNLL-U.
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
    """Split the attribute ``Entity`` of one word into its marks.

    Parameters
    ----------
    value : str
        Such as ``(e3-place-1(e4-person-2)`` or ``e3)``.
    part : int
        Which of the parts, between hyphens, identifies the entity.

    Returns
    -------
    list of (str, str)
        As `conll.parse_marks`, in the order of the attribute; ``e3[1/2]`` is kept as it is.

    Raises
    ------
    ValueError
        When it holds anything else.
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
    """Stream the documents of a CoNLL-U file.

    Parameters
    ----------
    path : pathlib.Path
        The file, for messages and as the name of a document that has none.
    lines : iterable of (int, str)
        All its lines with their numbers.
    source : SourceOptions
        Of the corpus.
    problems : Problems
        Where malformed input is reported.

    Raises
    ------
    InputError
        When a row or a mention is malformed, unless problems are skipped: then rows with too few or
        too many columns are left out, empty words become ``_``, and mentions without an end or a
        beginning are left out.
    """
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
        words = 0 if _NO_WORD.fullmatch(columns[0]) else 1
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
