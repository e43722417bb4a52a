"""Vectors of documents in a file: of several texts, each in one or more readings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa

from beyond_perplexity.errors import InputError
from beyond_perplexity.schemas.tendencies import EMBEDDINGS
from beyond_perplexity.storage.shards import read_batches
from beyond_perplexity.tendencies.embedded_documents import EmbeddedText

HUMAN, FURTHER = "reference", "further"  # the sources that are human text
TextKey = tuple[str, str]  # source and vocabulary


def vectors_table(key: TextKey, text: EmbeddedText) -> pa.Table:
    """Write a text as rows of schema ``embeddings``."""
    n, width = text.vectors.shape
    flat = pa.array(text.vectors.astype(np.float32).ravel(), pa.float32())
    vectors = pa.ListArray.from_arrays(pa.array(np.arange(n + 1) * width, pa.int32()), flat)
    groups = pa.nulls(n, pa.int32()) if text.groups is None else pa.array(text.groups, pa.int32())
    held = {"documents": text.n_documents, "cut": text.cut, "left_out": text.left_out}
    columns = {
        "source": pa.array([key[0]] * n, pa.string()),
        "vocabulary": pa.array([key[1]] * n, pa.string()),
        "group": groups,
        "vector": vectors,
        **{name: pa.array([value] * n, pa.int64()) for name, value in held.items()},
    }
    return pa.table(columns, EMBEDDINGS)


def read_embeddings(path: str | Path) -> Mapping[TextKey, EmbeddedText]:
    """Read the texts of a file, by source and vocabulary.

    Raises
    ------
    InputError
        When the file has another schema, or vectors of different lengths.
    """
    batches = list(read_batches(path, EMBEDDINGS, EMBEDDINGS.names))
    table = pa.Table.from_batches(batches, EMBEDDINGS)
    keys = list(zip(table["source"].to_pylist(), table["vocabulary"].to_pylist(), strict=True))
    vectors = table["vector"].combine_chunks()
    lengths = set(np.diff(np.asarray(vectors.offsets)).tolist())
    if len(lengths) > 1:
        raise InputError(f"{path}: holds vectors of different lengths; embed all texts anew")
    flat = np.asarray(vectors.flatten(), np.float32).reshape(len(keys), -1)
    found = {}
    for key in dict.fromkeys(keys):
        rows = np.array([own == key for own in keys])
        part = table.filter(pa.array(rows)).slice(0)
        groups = part["group"]
        held = {name: int(part[name][0].as_py()) for name in ("documents", "cut", "left_out")}
        found[key] = EmbeddedText(
            flat[rows],
            None if groups.null_count else np.unique(np.asarray(groups), return_inverse=True)[1],
            held["documents"],
            held["cut"],
            held["left_out"],
        )
    return found
