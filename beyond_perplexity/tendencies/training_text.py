"""A training text that others are looked up in: how many of their tokens in a row stand there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beyond_perplexity.ngrams.suffix_array import BREAK, SuffixArray
from beyond_perplexity.tendencies.tokens import TokenBatch

MOST_TOKENS = 200_000_000  # that are read of a training text: 2.4 GB while it is read


@dataclass(frozen=True)
class TrainingText:
    """A text as read, its types (V,) and suffixes, and how much it holds.

    Documents are whole, however much is read of others. Memory: 8 bytes a token, 12 while it is
    read, and the types.
    """

    types: pa.Array
    suffixes: SuffixArray
    n_documents: int
    whole: bool  # whether all of it was read

    @classmethod
    def of(cls, batches: Iterable[TokenBatch]) -> TrainingText:
        """Read documents, batch after batch, until they hold `MOST_TOKENS`."""
        types, documents, tokens, whole = pa.array([], pa.string()), 0, 0, True

        def pieces() -> Iterator[np.ndarray]:
            nonlocal types, documents, tokens, whole
            for batch in batches:
                if tokens >= MOST_TOKENS:
                    whole = False
                    return
                tokens += len(batch.ids)
                new = batch.types.filter(pc.invert(pc.is_in(batch.types, value_set=types)))
                types = pa.concat_arrays([types, new])
                documents += len(batch.lengths)
                yield _with_breaks(_ids(batch.types, types)[batch.ids], batch.offsets)

        suffixes = SuffixArray.of(pieces())
        return cls(types, suffixes, documents, whole)

    @property
    def told(self) -> str:
        """How much it holds, in words."""
        tokens = len(self.suffixes.suffixes)
        held = f"{self.n_documents:,} documents and {tokens:,} tokens"
        return (
            f"a training text of {held}" if self.whole else f"the first {held} of a training text"
        )

    def longest_runs(self, batch: TokenBatch) -> np.ndarray:
        """Count, for each token, how many from it on stand there in a row: uint8, (T,).

        32 at most. Runs end with their document.
        """
        ids = _with_breaks(_ids(batch.types, self.types)[batch.ids], batch.offsets)
        return self.suffixes.longest_matches(ids)[_places(batch.offsets)]


def _ids(types: pa.Array, known: pa.Array) -> np.ndarray:
    """Return the places of types (V,) among known ones, `BREAK` for none: int32, (V,)."""
    found = pc.fill_null(pc.index_in(types, value_set=known), BREAK)
    return np.asarray(found, np.int32)


def _places(offsets: np.ndarray) -> np.ndarray:
    """Say where tokens are when a break ends each document: int64, (T,)."""
    documents = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    return np.arange(len(documents)) + documents


def _with_breaks(ids: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Put a break behind each document of ids (T,), offsets (D + 1,): int32, (T + D,)."""
    found = np.full(len(ids) + len(offsets) - 1, BREAK, np.int32)
    found[_places(offsets)] = ids
    return found
