"""Symbols of a speller: the characters it has seen, the end of a word, and a way to all others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from beyond_perplexity.errors import InputError

# BEGIN is only ever a context: no word yields it.
BEGIN, END, ESCAPE = 0, 1, 2
N_MARKS = 3
BLANK = 0x20

# Of the lead bytes of UTF-8: the first code point of each, and the end of all. Surrogates
# (U+D800 to U+DFFF) are no characters; they lie under the lead byte ED.
_STARTS = np.array(
    [
        *range(0x80),
        *(value << 6 for value in range(2, 32)),
        0x800,
        *(value << 12 for value in range(1, 16)),
        0x10000,
        *(value << 18 for value in range(1, 5)),
        0x110000,
    ]
)
_SURROGATES = (0xD800, 0xE000)


def _leads(points: np.ndarray) -> np.ndarray:
    return np.searchsorted(_STARTS, points, "right") - 1


class Alphabet:
    """The characters of words, and what a character costs that none of them has.

    An escape is followed by the UTF-8 bytes of the character: the lead byte in proportion to one
    more than the number of seen characters that begin with it (scripts come in blocks), each other
    byte evenly among those that may follow, and the whole is renormalized to the characters that
    have not been seen. So the probabilities of all unseen characters sum to 1, and each is above 0.

    Parameters
    ----------
    words : sequence of str
        Without blanks.

    Attributes
    ----------
    size : int
        Number of symbols that can follow a context: characters, `END`, `ESCAPE`.
    """

    def __init__(self, words: Sequence[str]) -> None:
        self._points = np.unique(code_points(words)[0])
        seen = np.union1d(self._points, [BLANK])
        sizes = np.diff(_STARTS)
        sizes[_leads(np.array(_SURROGATES[:1]))] -= _SURROGATES[1] - _SURROGATES[0]
        weights = np.bincount(_leads(self._points), minlength=len(sizes)) + 1.0
        self._each = weights / weights.sum() / sizes
        self._unseen = 1.0 - float(self._each[_leads(seen)].sum())
        self.size = len(self._points) + 2

    def symbols(self, points: np.ndarray) -> np.ndarray:
        """Turn code points into symbols, int64; those never seen are `ESCAPE`."""
        if not len(self._points):
            return np.full(len(points), ESCAPE)
        place = np.minimum(np.searchsorted(self._points, points), len(self._points) - 1)
        return np.where(self._points[place] == points, place + N_MARKS, ESCAPE)

    def log_escape(self, points: np.ndarray) -> np.ndarray:
        """Return log p of each code point given that it was never seen, nats."""
        logs: np.ndarray = np.log(self._each[_leads(points)] / self._unseen)
        return logs


def code_points(words: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return the code points of all characters, int64, and the number of each word's characters.

    Raises
    ------
    InputError
        When something is no word: empty, with a blank, or no Unicode text.
    """
    lengths = np.fromiter(map(len, words), np.int64, len(words))
    text = "".join(words)
    if not lengths.all() or " " in text:
        raise InputError("a speller spells words: neither an empty one nor one with a blank")
    try:
        held = text.encode("utf-32-le")
    except UnicodeEncodeError as error:
        raise InputError(
            f"a word has half a surrogate pair, U+{ord(text[error.start]):04X}; clean the text"
        ) from error
    return np.frombuffer(held, np.uint32).astype(np.int64), lengths
