"""Brackets as words of a tree in Penn brackets."""

from __future__ import annotations

import re

_ESCAPES = {
    "-LRB-": "(",
    "-RRB-": ")",
    "-LSB-": "[",
    "-RSB-": "]",
    "-LCB-": "{",
    "-RCB-": "}",
}
_ESCAPE = re.compile("|".join(_ESCAPES))


def unescape(word: str) -> str:
    """Return a leaf as it is in the text: ``-LRB-`` becomes ``(``, likewise the other brackets."""
    return _ESCAPE.sub(lambda match: _ESCAPES[match[0]], word) if "-" in word else word


def escape(word: str) -> str:
    """Return a word as a leaf: round brackets become ``-LRB-`` and ``-RRB-``."""
    return word.replace("(", "-LRB-").replace(")", "-RRB-")
