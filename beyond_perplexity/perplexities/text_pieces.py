"""A text cut into pieces, what kind each is of, and what the tokens of any tokenizer give to each.

TextPieces are words, numbers, punctuation, code and white space; they tile the bytes of the text. A
single blank belongs to the piece behind it. Kinds are told by letters alone, the same for every
model: a number has a digit, a name is capitalised inside a sentence, code is what stands between
two blanks with a mark that prose lacks (such as ``_``, ``{``, ``::``).

The bits of a token are shared out among pieces by its bytes that are no white space, or by all of
its bytes where it is white space alone: what all pieces get adds up to what all tokens have.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from functools import cache
from typing import NamedTuple

import numpy as np

from beyond_perplexity.models.token_scores import TokenScores

PIECE_KINDS = ("word", "name", "number", "punctuation", "code", "white space")
WORD, NAME, _NUMBER, _PUNCTUATION, _CODE, _SPACE = range(len(PIECE_KINDS))
_CHUNK = re.compile(r"(\s*)(\S+)|\s+$")
_MARKS = re.compile(r"[_{}<>=\\|~^`]|::|://|->|\(\)|\w\[")
_ENDS = re.compile(r"[.!?:…。！？][\"'”’»)\]]*$")
_OPENS = re.compile(r"[\"'“‘«„¿¡(\[]+")
_BLANKS = np.isin(np.arange(256), [*b" \t\n\r\v\f"])


class TextPieces(NamedTuple):
    """The pieces of a text, P of them."""

    ends: np.ndarray  # int64, (P,): byte of the UTF-8 at which each ends
    kinds: np.ndarray  # int64, (P,): places in `PIECE_KINDS`
    # In lower case, so that a word is one wherever it stands; empty for what is no word or name
    words: list[str]


@cache
def _inside() -> re.Pattern[str]:
    """Return what cuts a chunk; letters may have combining marks, which are no letters to `re`."""
    points = map(chr, range(sys.maxunicode + 1))
    marks = "".join(one for one in points if unicodedata.category(one)[0] == "M")
    letter = f"(?:[^\\W\\d_]|[{marks}])"
    return re.compile(
        rf"([^\W_]*\d[^\W_]*(?:[.,:/'-]\d[^\W_]*)*)|({letter}+(?:['’-]{letter}+)*)|(?:[^\w{marks}]|_)+"
    )


def cut_pieces(text: str) -> TextPieces:
    """Cut a text into pieces."""
    ends, kinds, words = list[int](), list[int](), list[str]()

    def add(end: int, kind: int, word: str = "") -> None:
        ends.append(end)
        kinds.append(kind)
        words.append(word.lower())

    begins = True  # a sentence
    for chunk in _CHUNK.finditer(text):
        blank, held = chunk.groups()
        if not held or blank not in ("", " "):
            add(chunk.start(2) if held else chunk.end(), _SPACE)
            begins = begins or "\n" in (blank or "")
        if not held:
            break
        if held != "<unk>" and len(held) > 1 and _MARKS.search(held):
            add(chunk.end(), _CODE)
            begins = False
            continue
        for part in _inside().finditer(text, chunk.start(2), chunk.end()):
            number, word = part.groups()
            if word:
                named = not begins and word[0].isupper() and not re.match(r"I\b", word)
                add(part.end(), NAME if named else WORD, word)
            else:
                add(part.end(), _NUMBER if number else _PUNCTUATION)
            mark = "" if number or word else part[0]
            begins = bool(_ENDS.search(mark)) or (begins and bool(_OPENS.fullmatch(mark)))
    places = np.array(ends, np.int64)
    if not text.isascii():
        places = np.cumsum([0, *(len(letter.encode()) for letter in text)])[places]
    return TextPieces(places, np.array(kinds, np.int64), words)


def share_out(scores: TokenScores, content: bytes, ends: np.ndarray) -> np.ndarray:
    """Return the bits of pieces, which end at bytes (P,), and of the end: float64, (P + 1,)."""
    bits = -scores.log_probs / np.log(2)
    n, size, found = len(bits) - scores.ended, len(content), np.zeros(len(ends) + 1)
    if scores.ended:
        found[-1] = bits[n]
    if not n:
        return found
    starts, bits = scores.starts[:n], bits[:n]
    lengths, begin = np.diff(np.append(starts, size)), int(starts[0])  # what is before has none
    token = np.repeat(np.arange(n), lengths)  # of each byte
    piece = np.repeat(np.arange(len(ends)), np.diff(ends, prepend=0))[begin:]
    weights = 1.0 - _BLANKS[np.frombuffer(content, np.uint8)[begin:]]
    whole = np.bincount(token, weights, n)
    weights[whole[token] == 0] = 1.0
    whole = np.where(whole > 0, whole, lengths)
    has = lengths > 0
    each = np.divide(bits, whole, out=np.zeros(n), where=has)  # bits of a byte that counts
    found[:-1] = np.bincount(piece, weights * each[token], len(ends))
    where = np.searchsorted(ends, np.minimum(starts[~has], size - 1), "right")
    np.add.at(found, np.where(size > 0, where, len(ends)), bits[~has])
    return found
