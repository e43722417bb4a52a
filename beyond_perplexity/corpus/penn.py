"""Constituency trees in Penn brackets: the reader of treebanks and the form of the table of trees.

A tree in ``trees.parquet`` is one line, one blank before every child: ``(S (NP (DT the) (NN cat))
(VP (VBZ sits)))``.

* The outer empty bracket, ``ROOT``, ``TOP`` or ``S1`` is gone; a sentence that is one tagged word
  and nothing else gets a phrase ``X`` around it, so that every root is a phrase.
* Function labels are gone (``NP-SBJ``, ``NP=2`` are ``NP``), so are empty elements (``-NONE-``) and
  the phrases that have no word without them.
* Round brackets in words are ``-LRB-`` and ``-RRB-``, but ``(`` and ``)`` in ``documents.text``,
  as `leaves` gives them.

The format is that of the Penn Treebank (Marcus, Santorini and Marcinkiewicz 1993).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from beyond_perplexity.corpus import readers
from beyond_perplexity.storage.inputs import brief_repr

MAXIMUM_CHARACTERS = 100_000
MAXIMUM_DEPTH = 250
WRAPPERS = frozenset({"", "ROOT", "TOP", "S1"})
BARE_PHRASE = "X"

_PART = re.compile(r"[()]|[^ \t\r\n\f\v()]+")
_LEAF = re.compile(r" ([^ ()]+)\)")
_CATEGORY = re.compile(r"[^-=]+")


class TreeError(ValueError):
    """A tree that cannot be read: a reason that is counted, and a detail."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason} ({detail})")
        self.reason = reason
        self.detail = detail


def leaves(tree: str) -> list[str]:
    """List the words of a tree of the table, as they are in ``documents.text``."""
    return [unescape(word) for word in _LEAF.findall(tree)]


def replace_leaves(tree: str, words: Sequence[str]) -> str:
    """Put other words into a tree of the table."""
    new = iter(words)
    return _LEAF.sub(lambda _: f" {escape(next(new))})", tree)


@dataclass
class _Open:
    """A bracket that is not closed yet."""

    label: str
    wrapper: bool
    words: list[str] = field(default_factory=list)
    children: list[str] = field(default_factory=list)
    removed: int = 0


def category(label: str) -> str:
    """Return ``NP`` of ``NP-SBJ-1`` and ``NP=2``; labels such as ``-LRB-`` are kept."""
    match = _CATEGORY.match(label)
    return match[0] if match else label


def parse_tree(text: str) -> str:
    """Bring one tree into the form of the table."""
    stack: list[_Open] = []
    root: str | None = None
    parts = _PART.findall(text)
    for index, part in enumerate(parts):
        if root is not None:
            reason = "unbalanced brackets" if part == ")" else "several roots"
            more = "" if part == ")" else "; each tree begins a line, also where files are joined"
            raise TreeError(reason, f"{brief_repr(part)} after the end of the tree{more}")
        if part == "(":
            stack.append(_open(parts, index, stack))
        elif part == ")":
            root = _close(stack)
        elif not stack:
            raise TreeError("text outside the trees", brief_repr(part))
        elif parts[index - 1] != "(":  # what follows a bracket is its label
            stack[-1].words.append(part)
    if root is None:
        raise TreeError("unbalanced brackets", f"{len(stack)} not closed")
    return root


def _open(parts: Sequence[str], index: int, stack: Sequence[_Open]) -> _Open:
    if len(stack) >= MAXIMUM_DEPTH:
        raise TreeError("tree too deep", f"more than {MAXIMUM_DEPTH} levels")
    following = parts[index + 1] if index + 1 < len(parts) else ""
    label = "" if following in ("(", ")", "") else readers.single_word(following)
    wrapper = label in WRAPPERS and (not stack or stack[-1].wrapper)
    if not label and not wrapper:
        raise TreeError("bracket without a label", "inside the tree")
    return _Open(label, wrapper)


def _close(stack: list[_Open]) -> str | None:
    """Close the innermost bracket; return the whole tree when it was the last one."""
    if not stack:
        raise TreeError("unbalanced brackets", "')' without '('")
    node = stack.pop()
    done = _finish(node)
    if not stack:
        if done is None:
            raise TreeError("tree without words", "nothing but empty elements")
        tagged = done.count("(") == 1
        return f"({BARE_PHRASE} {done})" if tagged else done
    if done is None:
        stack[-1].removed += 1
    else:
        stack[-1].children.append(done)
    return None


def _finish(node: _Open) -> str | None:
    """Write a closed bracket; None for an empty element or a phrase that is left without words."""
    if node.words:
        if node.wrapper or node.children or node.removed or len(node.words) > 1:
            where = f"{brief_repr(node.words[0])} in ({node.label:.80}"
            raise TreeError("word without a tag", where)
        if node.label == "-NONE-":
            return None
        word = readers.single_word(unescape(node.words[0]))
        return f"({escape(category(node.label))} {escape(word)})"
    if not node.children:
        if not node.removed:
            raise TreeError("tree without words", f"({node.label:.80}) is empty")
        return None
    if node.wrapper:
        if len(node.children) > 1:
            raise TreeError("several roots", f"{len(node.children)} in ({node.label:.80}")
        return node.children[0]
    return f"({category(node.label)} {' '.join(node.children)})"


class Reader(readers.AnnotatedReader):
    """Reads treebank files, each a document, or with ``document: tree`` each tree, which begins on
    a line of its own; sentences are the trees, the text their leaves."""

    def read(self, path: Path) -> Iterator[readers.Annotated]:
        """Stream the documents of one treebank file; see `AnnotatedReader.read`."""
        name = readers.document_name(path)
        whole = readers.Annotated(str(path), name, [])
        found = 0
        for lines in self._blocks(path, readers.read_lines(path, self.problems)):
            place = f"{path}: line {lines[0][0]}"
            try:
                tree = parse_tree("\n".join(line for _, line in lines))
            except TreeError as error:
                self.problems.report(error.reason, place, error.detail)
                continue
            found += 1
            if self.source.document == "tree":
                yield readers.Annotated(place, f"{name}:{found}", leaves(tree), trees=[(0, tree)])
            else:
                whole.trees.append((len(whole.trees), tree))
                whole.tokens += leaves(tree)
        if not found:
            self.problems.report("no trees", str(path), "nothing in brackets is left")
        if whole.tokens:
            yield whole

    def _blocks(
        self, path: Path, lines: Iterator[readers.NumberedLine]
    ) -> Iterator[list[readers.NumberedLine]]:
        """Cut a file where as many brackets have been closed as opened at the end of a line."""
        again: list[readers.NumberedLine] = []  # in reverse order
        held: list[readers.NumberedLine] = []
        depth = size = 0
        while True:
            item = again.pop() if again else next(lines, None)
            if item is None or size > MAXIMUM_CHARACTERS:
                again += [item] if item else []
                again += reversed(self._give_up(path, held, depth))
                held, depth, size = [], 0, 0
                if not again:
                    return
                continue
            number, line = item
            if not held and not line.lstrip().startswith("("):
                if line.strip():
                    place = f"{path}: line {number}"
                    self.problems.report("text outside the trees", place, repr(line.strip()[:40]))
                continue
            held.append(item)
            depth += line.count("(") - line.count(")")
            size += len(line)
            if depth <= 0:
                yield held
                held, depth, size = [], 0, 0

    def _give_up(
        self, path: Path, held: list[readers.NumberedLine], depth: int
    ) -> list[readers.NumberedLine]:
        """Report a tree that does not end; return its lines from the next first bracket on."""
        if held:
            detail = f"{depth} not closed by line {held[-1][0]}"
            self.problems.report("unbalanced brackets", f"{path}: line {held[0][0]}", detail)
        starts = (at for at, (_, line) in enumerate(held) if at and line.startswith("("))
        return held[next(starts, len(held)) :]


_CODES = ("-LRB-", "-RRB-", "-LSB-", "-RSB-", "-LCB-", "-RCB-")
_ESCAPES = dict(zip(_CODES, "()[]{}", strict=True))
_ESCAPE = re.compile("|".join(_ESCAPES))


def unescape(word: str) -> str:
    """Return a leaf as it is in the text: ``-LRB-`` becomes ``(``, likewise the other brackets."""
    return _ESCAPE.sub(lambda match: _ESCAPES[match[0]], word) if "-" in word else word


def escape(word: str) -> str:
    """Return a word as a leaf: round brackets become ``-LRB-`` and ``-RRB-``."""
    return word.replace("(", "-LRB-").replace(")", "-RRB-")
