"""The documents of a body of text where they lie: which are read, and which belong together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from beyond_perplexity.errors import InputError
from beyond_perplexity.storage.shards import read_rows
from beyond_perplexity.tendencies.hashes import string_hashes
from beyond_perplexity.tendencies.tokens import draw_documents
from beyond_perplexity.tendencies.views import WHOLE_TEXT, TextView


def group_codes(batches: Iterable[pa.Array]) -> np.ndarray:
    """Give numbers to groups, in the order in which they come.

    Parameters
    ----------
    batches : iterable of pyarrow.StringArray
        The name of the group of every document; a document with an empty name is a group of its
        own.

    Returns
    -------
    numpy.ndarray of int32, shape (D,)
        Names are told apart by hashes of 64 bits, so that memory does not grow with their lengths.
    """
    hashes, named = [np.zeros(0, np.uint64)], [np.zeros(0, bool)]
    for names in batches:
        filled = pc.fill_null(names, "")
        hashes.append(string_hashes(filled))
        named.append(np.asarray(pc.not_equal(filled, "")))
    keys, known = np.concatenate(hashes), np.concatenate(named)
    _, first, inverse = np.unique(keys[known], return_index=True, return_inverse=True)
    own = np.arange(len(keys))  # a group is known by its first document
    own[known] = np.flatnonzero(known)[first[inverse]]
    _, codes = np.unique(own, return_inverse=True)
    return codes.astype(np.int32)


@dataclass(frozen=True)
class DocumentFiles:
    """Documents of some Parquet files.

    Attributes
    ----------
    paths : tuple of paths
        Files of kind ``documents`` or ``samples``, in order.
    split : str or None
        Only documents of this split.
    first : int or None
        Only so many documents, the first ones (which lie in random order); None: all.
    view : TextView
        Of these, documents of fewer tokens than it has as minimum are left out.
    group_column : str or None
        Column with the name of a document's group, such as ``title``; None: there are no groups.
    """

    paths: tuple[str | Path, ...]
    split: str | None = None
    first: int | None = None
    view: TextView = WHOLE_TEXT
    group_column: str | None = None

    def rows(self, *columns: str) -> Iterator[pa.RecordBatch]:
        """Stream columns of the documents, in batches of at least one."""
        wanted = list(dict.fromkeys(["text", *columns]))
        for batch in read_rows(self.paths, wanted, self.split, self.first):
            if self.view.minimum_tokens:
                batch = batch.filter(pa.array(self.view.admits(batch.column("text"))))
            if batch.num_rows:
                yield batch.select(list(columns))

    def texts(self) -> Iterator[pa.Array]:
        """Stream the texts in batches."""
        return (batch.column("text") for batch in self.rows("text"))

    def drawn(self, most: int, seed: int) -> Iterator[pa.Array]:
        """Stream the texts of a random subset of so many documents at most."""
        total = sum(batch.num_rows for batch in self.rows("text"))
        return draw_documents(self.texts(), total, min(most, total), 0, seed)

    def are_generated(self) -> bool:
        """Say whether a model of the run wrote them, so that it is known which are finished."""
        if "log_prob" not in pq.read_schema(self.paths[0]).names:
            return False
        first = next(self.rows("log_prob"), None)
        return first is not None and first.column("log_prob").null_count < first.num_rows

    def groups(self) -> np.ndarray | None:
        """Return the group of every document (int32, shape (D,)), or None where there are none.

        Raises
        ------
        InputError
            When all documents are of one group, which nothing can be said of.
        """
        if self.group_column is None:
            return None
        name = self.group_column
        codes = group_codes(batch.column(name) for batch in self.rows(name))
        if len(codes) and codes.max() == 0:
            raise InputError(
                f"{self.paths[0]}: column '{name}' holds one single group; leave --group-column "
                "out, or give texts of several"
            )
        return codes
