"""The documents of a body of text where they lie: which are read, and which belong together."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beyond_perplexity.errors import InputError
from beyond_perplexity.storage.shards import (
    RECORD_KEY,
    ParquetInput,
    count_documents,
    read_record,
    read_rows,
)
from beyond_perplexity.tendencies.tokens import draw_documents, string_hashes
from beyond_perplexity.tendencies.views import WHOLE_TEXT, TextView


class GroupNumbers:
    """Numbers of groups, in the order in which they come; names are added batch after batch.

    Names are told apart by hashes of 64 bits, so that memory does not grow with their lengths. A
    document with an empty name is a group of its own.
    """

    def __init__(self) -> None:
        self._hashes = [np.zeros(0, np.uint64)]
        self._named = [np.zeros(0, bool)]

    def add(self, names: pa.Array) -> None:
        """Add the names (string, shape (D,)) of the groups of documents; null is empty."""
        filled = pc.fill_null(names, "")
        self._hashes.append(string_hashes(filled))
        self._named.append(np.asarray(pc.not_equal(filled, "")))

    def codes(self) -> np.ndarray:
        """Return the group of every document from 0 on: int32, shape (D,)."""
        keys, named = np.concatenate(self._hashes), np.concatenate(self._named)
        _, first, inverse = np.unique(keys[named], return_index=True, return_inverse=True)
        own = np.arange(len(keys))  # a group is known by its first document
        own[named] = np.flatnonzero(named)[first[inverse]]
        return np.unique(own, return_inverse=True)[1].astype(np.int32)


def found_groups(numbers: GroupNumbers, place: str) -> np.ndarray | None:
    """Return the group of every document (int32, shape (D,)); None where none has two documents.

    Raises
    ------
    InputError
        When all documents are of one group, which nothing can be said of; `place` says where.
    """
    codes = numbers.codes()
    n_groups = int(codes.max(initial=-1)) + 1
    if n_groups == 1 < len(codes):
        raise InputError(
            f"{place} holds one single group; leave --group-column out or name another one: "
            "nothing can be said of how groups differ"
        )
    return codes if n_groups < len(codes) else None


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
        with ParquetInput(self.paths[0]) as file:
            names, footer = file.schema_arrow.names, file.metadata.metadata or {}
        if "log_prob" not in names:
            return False
        first = next(self.rows("log_prob"), None)
        if first is None or first.column("log_prob").null_count < first.num_rows:
            return first is not None
        # Of models with latent variables log p is not known; but in which precision they ran is.
        return RECORD_KEY in footer and "precision" in read_record(self.paths[0])

    def groups(self) -> np.ndarray | None:
        """Return the group of every document; None without a column.

        None as well where the column tells nothing: where no two documents share a group, or all
        are of a single one (a file without pages that was given one title).
        """
        numbers = self.group_numbers()
        if numbers is None:
            return None
        codes = numbers.codes()
        n_groups = int(codes.max(initial=-1)) + 1
        return codes if 1 < n_groups < len(codes) else None

    def note_on_groups(self, groups: np.ndarray | None) -> str:
        """Say that documents are the units though a column should name groups; else nothing."""
        if groups is not None or self.group_column is None:
            return ""
        return (
            f"note: {self.paths[0]}: column '{self.group_column}' names no groups of documents "
            "(empty, one single one, or one each): documents are taken for independent"
        )

    def group_numbers(self) -> GroupNumbers | None:
        """Read the groups of the documents, one group alone as well; None without a column."""
        if self.group_column is None:
            return None
        numbers = GroupNumbers()
        for batch in self.rows(self.group_column):
            numbers.add(batch.column(self.group_column))
        return numbers

    def other_split(self, split: str, *, as_thin: bool = False) -> DocumentFiles:
        """Return the documents of another split of the same files.

        Parameters
        ----------
        split : str
            Its name.
        as_thin : bool
            Take the same share of them that `first` takes of this split, so that groups lose as
            many of their documents; else all.
        """
        first = None
        if as_thin and self.first is not None:
            held = count_documents(self.paths, self.split)
            if self.first < held:
                first = math.ceil(self.first * count_documents(self.paths, split) / held)
        return replace(self, split=split, first=first)
