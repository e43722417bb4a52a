"""Words of texts as numbers: rows of a table of vectors, and words that have none.

N texts, T words in all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from beyond_perplexity.semantics.rows import NO_WORDS

# Of what is no word: matches nothing, nor itself. Words without a vector are −2, −3, …
NO_WORD = -1

Ids = NDArray[np.int64]


class TextIds(NamedTuple):
    """N texts, as ids of their words one text after the other."""

    # int64, (T,): the row of each word in a table of vectors; `NO_WORD` for what is no word; −2 − k
    # for the k-th word without a vector, which is like itself (cosine 1) and nothing else (cosine
    # 0)
    ids: Ids
    starts: Ids  # int64, (N + 1,): where each text begins, and the last one ends

    @property
    def lengths(self) -> Ids:
        """Words of each text, (N,)."""
        return np.diff(self.starts)

    def text(self, index: int) -> Ids:
        """Return the ids of one text."""
        return self.ids[self.starts[index] : self.starts[index + 1]]


class WordIndex:
    """Gives words their ids: both texts of a pair are read by the same one.

    What is no word has no vector, whatever `rows` says. `without` has the ids of words without a
    vector, as they appear.
    """

    def __init__(self, rows: Mapping[str, int]) -> None:
        self._rows = {**rows, **dict.fromkeys(NO_WORDS, NO_WORD)}
        self.without: dict[str, int] = {}

    def read(self, texts: Sequence[str]) -> TextIds:
        """Return the ids of texts whose words are separated by blanks."""
        split = [text.split() for text in texts]
        lengths = np.fromiter(map(len, split), np.int64, len(split))
        words = list(chain.from_iterable(split))
        found = list(map(self._rows.get, words))
        if None in found:
            number = self.without.setdefault
            found = [
                number(word, -2 - len(self.without)) if row is None else row
                for word, row in zip(words, found, strict=True)
            ]
        starts = np.concatenate([[0], np.cumsum(lengths)])
        return TextIds(np.asarray(found, np.int64), starts)
