"""Automatic shallow trees: the phrases of TextBlob's chunker over the tokens of a document.

A sentence ends after a run of ``.``, ``!`` and ``?`` tokens and of the quotes and brackets that
close there. Under the root ``S`` stand words and phrases (NP, VP, PP, ADJP, ADVP); a preposition
and what it governs are one ``PP``, at whose edges other phrases are cut. Nothing is tokenized
again: the leaves of a tree are the tokens of its sentence.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import cast

from beyond_perplexity.corpus.penn import escape, leaves

SENTENCE_LABEL = "S"
SENTENCE_ENDS = frozenset(".!?")
_CLOSING = frozenset({*")]}”’»", "''", "-RRB-", "-RSB-", "-RCB-"})
# What stands right behind a quote that closes, and right before one that opens.
_BEHIND, _BEFORE = frozenset(",.;:?!)]"), frozenset("([")

# Word, tag, phrase (``B-NP``, ``I-NP``, ``O``), prepositional phrase (``B-PNP``, ...).
Tagged = tuple[str, str, str, str]


@cache
def _chunker() -> Callable[[list[str]], list[Tagged]]:
    """Load TextBlob's parser for English once per process."""
    with warnings.catch_warnings():
        # its lexicon is read from files that are left to the garbage collector
        warnings.simplefilter("ignore", ResourceWarning)
        from textblob.en import parser

        parser.find_tags(["the"])
    return lambda tokens: cast("list[Tagged]", parser.find_chunks(parser.find_tags(tokens)))


def sentences(tokens: Sequence[str]) -> Iterator[list[str]]:
    """Cut a document after every run of tokens that end a sentence, and what closes there."""
    closing = _closing_quotes(tokens)
    start, ended = 0, False
    for position, token in enumerate(tokens):
        if ended and not (token in SENTENCE_ENDS or token in _CLOSING or position in closing):
            # a possessive is the same token, so that only those of this sentence are counted
            single = token == "'" and (
                tokens[start:position].count("'") % 2 or position + 1 == len(tokens)
            )
            if not single:
                yield list(tokens[start:position])
                start, ended = position, False
        ended = ended or token in SENTENCE_ENDS
    if start < len(tokens):
        yield list(tokens[start:])


def _closing_quotes(tokens: Sequence[str]) -> set[int]:
    """Return the positions of ``"`` that close: every other one unless neighbours say more."""
    quotes = [position for position, token in enumerate(tokens) if token == '"']
    found, opened = set(), False
    for position in quotes:
        before, behind = tokens[position - 1 : position], tokens[position + 1 : position + 2]
        if not behind or behind[0] in _BEHIND:
            opened = True
        elif not before or before[0] in _BEFORE:
            opened = False
        elif position == quotes[-1] and before[0] in SENTENCE_ENDS:  # nothing would close it
            opened = True
        if opened:
            found.add(position)
        opened = not opened
    return found


def parse_sentence(tokens: Sequence[str]) -> str:
    """Give the shallow tree of one sentence."""
    tagged = _chunker()(list(tokens))
    parts = []
    for run in _runs(tagged, 3):
        inside = " ".join(_phrases(run))
        parts.append(f"(PP {inside})" if run[0][3] != "O" else inside)
    return f"({SENTENCE_LABEL} {' '.join(parts)})"


def _runs(tagged: Sequence[Tagged], column: int) -> Iterator[list[Tagged]]:
    """Cut where a phrase of one column begins or ends."""
    run: list[Tagged] = []
    for item in tagged:
        mark, _, label = item[column].partition("-")
        # a phrase may begin with I- where another rule has taken its first word
        if run and (mark == "B" or run[-1][column].partition("-")[2] != label):
            yield run
            run = []
        run.append(item)
    if run:
        yield run


def _phrases(tagged: Sequence[Tagged]) -> Iterator[str]:
    for run in _runs(tagged, 2):
        words = " ".join(f"({escape(tag)} {escape(word)})" for word, tag, *_ in run)
        _, _, label = run[0][2].partition("-")
        # inside a prepositional phrase the preposition is its head and no phrase of its own
        flat = not label or (label == "PP" and run[0][3] != "O")
        yield words if flat else f"({label} {words})"


def parse_document(
    tokens: Sequence[str], maximum_tokens: int
) -> tuple[list[tuple[int, str]], dict[str, int]]:
    """Give the shallow trees of a document."""
    trees, long, odd = [], 0, 0
    for number, sentence in enumerate(sentences(tokens)):
        if len(sentence) > maximum_tokens:
            long += 1
            continue
        tree = parse_sentence(sentence)
        if leaves(tree) == sentence:
            trees.append((number, tree))
        else:  # a token that looks like an escaped bracket
            odd += 1
    left_out = {"sentence longer than trees.maximum_tokens": long, "sentence with '-LRB-'": odd}
    return trees, left_out
