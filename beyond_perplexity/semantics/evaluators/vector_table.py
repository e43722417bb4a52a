"""What a table of word vectors is. D numbers a vector."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from beyond_perplexity.errors import InputError
from beyond_perplexity.semantics.aligned import Vectors
from beyond_perplexity.semantics.rows import NO_WORDS
from beyond_perplexity.storage.provenance import content_hash


class VectorTable(ABC):
    """Vectors by word. A word that is not there is looked up in lower case."""

    path: Path  # the file
    width: int  # D

    def find(self, words: Sequence[str]) -> Vectors:
        """Return the vectors of words, float32, (words, D); rows of NaN where there is none."""
        found = np.full((len(words), self.width), np.nan, np.float32)
        for place, word in enumerate(words):
            if word in NO_WORDS:
                continue
            vector = self.symbol(word)
            if vector is None and word != (lower := word.lower()):
                vector = self.symbol(lower)
            if vector is not None:
                found[place] = vector
        return found

    def find_exactly(self, words: Sequence[str]) -> Vectors:
        """Return the vectors of words as they are written, (words, D); NaN where there is none."""
        found = np.full((len(words), self.width), np.nan, np.float32)
        for place, word in enumerate(words):
            vector = self.symbol(word)
            if vector is not None:
                found[place] = vector
        return found

    def symbol(self, word: str) -> Vectors | None:
        """Return the vector, (D,), of a word or a mark such as ``</s>``; None: there is none."""
        vector = self._vector(word)
        if vector is not None and not np.isfinite(vector).all():
            raise InputError(
                f"{self.path}: the vector of {word!r:.80} has numbers that are NaN or infinite; "
                "fetch the file again"
            )
        return vector

    @property
    def sha256(self) -> str:
        """SHA-256 of the file."""
        return content_hash(self.path)

    @abstractmethod
    def _vector(self, word: str) -> Vectors | None:
        """Return the vector, (D,), of just this word, None where there is none."""
